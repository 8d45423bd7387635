"""Ways to a colder temperature that lost: kept because the paper's own ablations compare them."""

import equinox as eqx
import jax
import jax.numpy as jnp

from tempering.diffusion import Denoiser
from tempering.diffusion.precondition import temperature_input
from tempering.guidance.extrapolate import COORDINATES
from tempering.types import Array, Denoise, Float

__all__ = ["Rescaled", "Taylor"]


class Rescaled(eqx.Module):
    """x + (T1 / T) (D(x; sigma, T1) - x): the coldest model's score times the ratio of temperatures.

    Exact as sigma tends to 0, wrong at every other noise level.
    """

    model: Denoise
    ratio: Float[Array, ""]

    def __call__(self, x_noisy: Float[Array, " dim"], sigma: Float[Array, ""]) -> Float[Array, " dim"]:
        """The rescaled denoiser of one point."""
        return x_noisy + self.ratio * (self.model(x_noisy, sigma) - x_noisy)


class Taylor(eqx.Module):
    """D(T1) + (f(T) - f(T1)) dD/df at T1: a first-order Taylor step of a network that is told the temperature.

    The derivative is that of the network's input c_temperature = ln(T) / 2; f is T or log T.
    """

    model: Denoiser
    step: Float[Array, ""]

    @classmethod
    def towards(cls, model: Denoiser, beta: Float[Array, ""], beta_next: Float[Array, ""], coordinate: str) -> "Taylor":
        """The step from one inverse temperature to the next, in units of c_temperature."""
        f = COORDINATES[coordinate]
        slope = jax.grad(lambda c_temperature: f(jnp.exp(2.0 * c_temperature)))(temperature_input(beta))
        return cls(model, (f(1.0 / beta_next) - f(1.0 / beta)) / slope)

    def __call__(self, x_noisy: Float[Array, " dim"], sigma: Float[Array, ""]) -> Float[Array, " dim"]:
        """The extrapolated denoiser of one point."""

        def at(c_temperature: Array) -> Array:
            model = eqx.tree_at(lambda model: model.c_temperature, self.model, c_temperature)
            return model(x_noisy, sigma)

        value, slope = jax.jvp(at, (self.model.c_temperature,), (jnp.ones_like(self.model.c_temperature),))
        return value + self.step * slope
