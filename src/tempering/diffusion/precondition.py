"""A network made into a denoiser by EDM preconditioning (Table 1, Karras et al. 2022)."""

from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp

from tempering.types import Array, Float

__all__ = ["Denoiser", "output_scale", "temperature_input"]


def temperature_input(beta: Float[Array, "*model"] | float) -> Float[Array, "*model"]:
    """c_temperature = ln(T) / 2: 0 at T = 1, some units at the hottest."""
    return -0.5 * jnp.log(jnp.asarray(beta, jnp.float32))


def output_scale(sigma: Float[Array, ""], sigma_data: Float[Array, " dim"]) -> Float[Array, " dim"]:
    """c_out = sigma sigma_data / sqrt(sigma^2 + sigma_data^2): the error left after the best linear denoiser."""
    return sigma * sigma_data / jnp.sqrt(sigma**2 + sigma_data**2)


class Denoiser(eqx.Module):
    """D(x; sigma) = location + c_skip (x - location) + c_out F(c_in (x - location), ln(sigma) / 4, c_temperature).

    A network on a mixture (`networks.mixture`) has the mixture's denoiser in place of the first two terms.

    `sigma_data` is one number for each coordinate, so that coordinates of unlike scale are all seen at unit scale; the
    noise stays isotropic. `location`, `sigma_data` and `c_temperature` belong to the level, not to the optimiser.
    """

    network: Callable[..., Array]
    location: Float[Array, "*model dim"]
    sigma_data: Float[Array, "*model dim"]
    c_temperature: Float[Array, "*model"]

    def __call__(self, x_noisy: Float[Array, " dim"], sigma: Float[Array, ""]) -> Float[Array, " dim"]:
        """E[x0 | x_noisy] at noise level sigma."""
        total = sigma**2 + self.sigma_data**2
        c_skip = self.sigma_data**2 / total
        c_in = 1.0 / jnp.sqrt(total)
        c_noise = jnp.log(sigma) / 4.0
        centred = x_noisy - self.location
        units = (c_in[0],) if hasattr(self.network, "geometry") else ()  # of particles: one scale for all coordinates
        raw = self.network(c_in * centred, c_noise, self.c_temperature, *units)
        mixture = getattr(self.network, "mixture", None)
        known = self.location + c_skip * centred if mixture is None else mixture.denoise(x_noisy, sigma)
        return known + output_scale(sigma, self.sigma_data) * raw
