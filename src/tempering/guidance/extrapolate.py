"""Denoisers at hotter levels to a denoiser at the next colder one. Denoisers combine linearly, as scores do."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp

from tempering.compilation import quick
from tempering.diffusion import Denoiser
from tempering.types import Array, Denoise, Float

__all__ = ["COORDINATES", "Guided", "GuidedByOne", "extrapolation_weights"]

COORDINATES = {
    "T": lambda temperature: temperature,
    "log_T": jnp.log,
}
"""What guidance may be linear in."""


@quick
def extrapolation_weights(
    temperature: Float[Array, ""], nodes: Float[Array, " node"], coordinate: str
) -> Float[Array, " node"]:
    """Lagrange's weights of the polynomial through `nodes`, at `temperature`, coldest first.

    For two nodes (1 + w, -w) with w = (f(T1) - f(T)) / (f(T2) - f(T1)), f the coordinate: the paper's w for f(T) = T.
    With three nodes in a geometric ladder and log T as the coordinate they are (3, -3, 1): the bias is of higher order,
    and errors of the models are multiplied by more.
    """
    f = COORDINATES[coordinate]
    places, place = f(nodes), f(temperature)
    num = nodes.shape[0]
    is_own = jnp.eye(num, dtype=bool)
    ratios = (place - places[None, :]) / jnp.where(is_own, 1.0, places[:, None] - places[None, :])
    return jnp.prod(jnp.where(is_own, 1.0, ratios), axis=1)


class Guided(eqx.Module):
    """sum_k w_k D(x; sigma, T_k), coldest first, with weights that sum to 1: temperature guidance by finite difference.

    For two models (1 + w) D(T1) - w D(T2), the paper's equation. Biased for every target but trivial ones (linear in T
    from 3 and 2 to 1.5, a unit Gaussian comes out with standard deviation 2^(3/4) 3^(-1/4) = 1.278 where
    sqrt(1.5) = 1.225 is right); importance weights remove the bias.
    """

    models: tuple[Denoise, ...]
    weights: Float[Array, " node"]

    def __call__(self, x_noisy: Float[Array, " dim"], sigma: Float[Array, ""]) -> Float[Array, " dim"]:
        """The guided denoiser of one point."""
        return _combined(jnp.stack([model(x_noisy, sigma) for model in self.models]), self.weights)


def _combined(denoised: Float[Array, "node dim"], weights: Float[Array, " node"]) -> Float[Array, " dim"]:
    # As differences from the coldest: weights of size 3 would cancel badly otherwise.
    return denoised[0] + jnp.tensordot(weights[1:], denoised[1:] - denoised[:1], axes=1)


class GuidedByOne(eqx.Module):
    """`Guided` with one network that is told the temperature: asked for all levels at once."""

    network: Callable[..., Array]
    location: Float[Array, "node dim"]
    sigma_data: Float[Array, "node dim"]
    c_temperature: Float[Array, " node"]
    weights: Float[Array, " node"]

    @classmethod
    @eqx.filter_jit
    def of(cls, models: tuple[Denoiser, ...], weights: Float[Array, " node"]) -> "GuidedByOne":
        """Of denoisers that differ by their level alone; the first one's network is taken."""
        location = jnp.stack([model.location for model in models])
        sigma_data = jnp.stack([model.sigma_data for model in models])
        c_temperature = jnp.stack([model.c_temperature for model in models])
        return cls(models[0].network, location, sigma_data, c_temperature, weights)

    def __call__(self, x_noisy: Float[Array, " dim"], sigma: Float[Array, ""]) -> Float[Array, " dim"]:
        """The guided denoiser of one point."""
        ask = lambda *level: Denoiser(self.network, *level)(x_noisy, sigma)  # noqa: E731
        return _combined(jax.vmap(ask)(self.location, self.sigma_data, self.c_temperature), self.weights)
