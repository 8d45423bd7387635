"""The paper's network: a plain MLP on the point and the noise level."""

import equinox as eqx
import jax
import jax.numpy as jnp

from tempering.diffusion.networks.embedding import Embedding
from tempering.diffusion.networks.linear import Linear
from tempering.settings import Network
from tempering.types import Array, Float, Key

__all__ = ["MLP"]


class MLP(eqx.Module):
    """`depth` linear layers with SiLU between them on the concatenation of x and the features."""

    layers: tuple[Linear, ...]
    embedding: Embedding

    def __init__(self, key: Key, dim: int, network: Network):
        self.embedding = Embedding(network.is_shared)
        sizes = [dim + self.embedding.size] + [network.width] * (network.depth - 1) + [dim]
        keys = jax.random.split(key, network.depth)
        self.layers = tuple(
            Linear(size_in, size_out, key=layer_key)
            for size_in, size_out, layer_key in zip(sizes, sizes[1:], keys, strict=False)
        )

    def __call__(
        self, x: Float[Array, " dim"], c_noise: Float[Array, ""], c_temperature: Float[Array, ""]
    ) -> Float[Array, " dim"]:
        """The raw network output of one point."""
        hidden = jnp.concatenate([x, self.embedding(c_noise, c_temperature)])
        for layer in self.layers[:-1]:
            hidden = jax.nn.silu(layer(hidden))
        return self.layers[-1](hidden)
