"""Denoisers at two hotter levels to a denoiser at the next colder one. Linear, so denoisers combine as scores do."""

import equinox as eqx
import jax.numpy as jnp

from tempering.types import Array, Denoise, Float

__all__ = ["Guided", "guidance_weight"]

_COORDINATES = {
    "T": lambda temperature: temperature,
    "log_T": jnp.log,
    "inverse_T": lambda temperature: 1.0 / temperature,
}


def guidance_weight(
    temperature: Float[Array, ""], cold: Float[Array, ""], hot: Float[Array, ""], coordinate: str
) -> Float[Array, ""]:
    """w = (f(T1) - f(T)) / (f(T2) - f(T1)) with f the coordinate: the paper's w for f(T) = T.

    Args:
        temperature: T, the level to reach; below `cold` for extrapolation.
        cold: T1, the colder of the two models.
        hot: T2, the hotter.
        coordinate: T, log_T or inverse_T.
    """
    f = _COORDINATES[coordinate]
    return (f(cold) - f(temperature)) / (f(hot) - f(cold))


class Guided(eqx.Module):
    """(1 + w) D(x; sigma, T1) - w D(x; sigma, T2): temperature guidance by finite difference.

    Biased for every target but trivial ones (linear in T from 3 and 2 to 1.5, a unit Gaussian comes out with standard
    deviation 2^(3/4) 3^(-1/4) = 1.278 where sqrt(1.5) = 1.225 is right); importance weights remove the bias.
    """

    cold: Denoise
    hot: Denoise
    weight: Float[Array, ""]

    def __call__(self, x_noisy: Float[Array, " dim"], sigma: Float[Array, ""]) -> Float[Array, " dim"]:
        """The guided denoiser of one point."""
        cold, hot = self.cold(x_noisy, sigma), self.hot(x_noisy, sigma)
        return cold + self.weight * (cold - hot)
