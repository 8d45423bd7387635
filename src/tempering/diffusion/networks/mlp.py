"""MLPs on the point and the noise level: the paper's plain one, and a residual one."""

import equinox as eqx
import jax
import jax.numpy as jnp

from tempering.diffusion.networks.embedding import Embedding
from tempering.diffusion.networks.linear import Linear
from tempering.settings import Network
from tempering.types import Array, Float, Key

__all__ = ["MLP", "CoordinateBranch", "ResidualMLP"]


class MLP(eqx.Module):
    """The paper's network: `depth` linear layers with SiLU between them on the concatenation of x and the features."""

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


class _Block(eqx.Module):
    """h + W2 silu((1 + scale) W1 silu(h) + shift), with W2 starting at zero: the block starts as the identity."""

    inner: Linear
    outer: Linear
    modulation: Linear

    def __init__(self, key: Key, width: int, num_features: int):
        key_inner, key_outer, key_modulation = jax.random.split(key, 3)
        self.inner = Linear(width, width, key=key_inner)
        self.outer = Linear(width, width, key=key_outer).zeroed()
        self.modulation = Linear(num_features, 2 * width, key=key_modulation)

    def __call__(self, hidden: Float[Array, " width"], features: Float[Array, " feature"]) -> Float[Array, " width"]:
        shift, scale = jnp.split(self.modulation(features), 2)
        inner = self.inner(jax.nn.silu(hidden))
        return hidden + self.outer(jax.nn.silu((1.0 + scale) * inner + shift))


class CoordinateBranch(eqx.Module):
    """One small network for each coordinate, of that coordinate and the features: the mean-field part of a denoiser.

    A dense network spends most of its training on telling coordinates apart. On Many-Well-32 at T = 8, whose
    coordinates are independent, it had barely left the best linear denoiser after 1,500 steps; with this branch the
    weights of the model had an effective share of 0.2.
    """

    entry: Float[Array, "*model dim width"]
    modulation: Linear
    inner: Float[Array, "*model dim width width"]
    inner_bias: Float[Array, "*model dim width"]
    exit: Float[Array, "*model dim width"]

    def __init__(self, key: Key, dim: int, width: int, num_features: int):
        key_entry, key_modulation, key_inner = jax.random.split(key, 3)
        self.entry = jax.random.normal(key_entry, (dim, width))
        self.modulation = Linear(num_features, dim * width, key=key_modulation)
        self.inner = jax.random.normal(key_inner, (dim, width, width)) * width**-0.5
        self.inner_bias = jnp.zeros((dim, width))
        self.exit = jnp.zeros((dim, width))

    def __call__(self, x: Float[Array, " dim"], features: Float[Array, " feature"]) -> Float[Array, " dim"]:
        """What each coordinate alone says; nothing before training."""
        shift = self.modulation(features).reshape(self.entry.shape)
        hidden = jax.nn.silu(x[:, None] * self.entry + shift)
        hidden = jax.nn.silu(jnp.einsum("ij,ijk->ik", hidden, self.inner) + self.inner_bias)
        return jnp.sum(hidden * self.exit, axis=1)


class ResidualMLP(eqx.Module):
    """An input layer, `depth` residual blocks, an output layer that starts at zero: the best linear denoiser.

    Beside it, where asked for, the branch that sees every coordinate alone.
    """

    embedding: Embedding
    entry: Linear
    blocks: tuple[_Block, ...]
    exit: Linear
    coordinates: CoordinateBranch | None

    def __init__(self, key: Key, dim: int, network: Network):
        self.embedding = Embedding(network.is_shared)
        num_features = self.embedding.size
        key_entry, key_exit, key_coordinates, *keys = jax.random.split(key, 3 + network.depth)
        self.entry = Linear(dim + num_features, network.width, key=key_entry)
        self.blocks = tuple(_Block(block_key, network.width, num_features) for block_key in keys)
        self.exit = Linear(network.width, dim, key=key_exit).zeroed()
        width = network.coordinate_width
        self.coordinates = CoordinateBranch(key_coordinates, dim, width, num_features) if width else None

    def __call__(
        self, x: Float[Array, " dim"], c_noise: Float[Array, ""], c_temperature: Float[Array, ""]
    ) -> Float[Array, " dim"]:
        """The raw network output of one point."""
        features = self.embedding(c_noise, c_temperature)
        hidden = self.entry(jnp.concatenate([x, features]))
        for block in self.blocks:
            hidden = block(hidden, features)
        output = self.exit(jax.nn.silu(hidden))
        return output if self.coordinates is None else output + self.coordinates(x, features)
