r"""The variance-preserving process (Ho et al. 2020; Song et al. 2021), in coordinates of the variance-exploding one.

Both noise a sample as x_t = s(t) (x + sigma(t) eps). Variance exploding has s = 1 and sigma as its clock. Variance
preserving has, with u the unit of length and beta(t) = beta_min + t (beta_max - beta_min),

    sigma(t) = u sqrt(exp(B(t)) - 1),    B(t) = beta_min t + (beta_max - beta_min) t^2 / 2,    s(t) = exp(-B(t) / 2),

so that data of variance u^2 keep it at every time t in [0, 1]. One is a change of variables of the other: y = s x. What
differs is the clock: when training and solvers look, and in which variables a step is straight. Everything outside a
step is in x, so that denoisers, guidance, priors and densities are those of the variance-exploding process.
"""

import math

import equinox as eqx
import jax.numpy as jnp

from tempering.types import Array, Denoise, Float

__all__ = ["VariancePreserving"]

_TIME_POWER = 2.0
"""Times are even in their square root, in training and on the grid (DDIM's quadratic schedule, Song et al. 2021). Even
times step over the modes of MoG-40: with its exact denoiser and 32 Heun steps their draws have an effective share of
0.85, these 0.998, and those of the variance-exploding grid 0.999 (docs/decisions/0024-processes.md)."""


class VariancePreserving(eqx.Module):
    """The clock of the process: time in [0, 1] for sigma, and the velocity of its probability flow.

    Args:
        unit: u, the standard deviation that is preserved.
        beta_min, beta_max: the rate at which variance is exchanged for noise, at t = 0 and at t = 1.
    """

    unit: Float[Array, "*model"]
    beta_min: float = eqx.field(static=True)
    beta_max: float = eqx.field(static=True)

    @staticmethod
    def reach(beta_min: float, beta_max: float) -> float:
        """sigma(1) / u: how many units of noise the process ends with."""
        return math.sqrt(math.expm1(0.5 * (beta_min + beta_max)))

    @classmethod
    def ending_at(cls, sigma_max: Float[Array, "*model"], beta_min: float, beta_max: float) -> "VariancePreserving":
        """The process with sigma(1) = sigma_max."""
        return cls(sigma_max / cls.reach(beta_min, beta_max), beta_min, beta_max)

    def sigma_at(self, time: Float[Array, "*node"]) -> Float[Array, "*node"]:
        """sigma(t)."""
        return self.unit * jnp.sqrt(jnp.expm1(time * (self.beta_min + 0.5 * (self.beta_max - self.beta_min) * time)))

    def time_at(self, sigma: Float[Array, "*node"]) -> Float[Array, "*node"]:
        """t of a noise level: the root of B(t) = log(1 + (sigma / u)^2), written without cancellation."""
        growth = jnp.log1p((sigma / self.unit) ** 2)
        slope = self.beta_max - self.beta_min
        return 2.0 * growth / (self.beta_min + jnp.sqrt(self.beta_min**2 + 2.0 * slope * growth))

    def scale_at(self, sigma: Float[Array, ""]) -> Float[Array, ""]:
        """s(t) of a noise level."""
        return 1.0 / jnp.sqrt(1.0 + (sigma / self.unit) ** 2)

    def sigma_between(
        self, low: Float[Array, ""], high: Float[Array, ""], fraction: Float[Array, "*node"]
    ) -> Float[Array, "*node"]:
        """The noise level a fraction of the way up from `low` to `high`, evenly in the clock that both ends share."""
        begin, end = (self.time_at(sigma) ** (1.0 / _TIME_POWER) for sigma in (low, high))
        return self.sigma_at((begin + fraction * (end - begin)) ** _TIME_POWER)

    def step(
        self,
        denoise: Denoise,
        x: Float[Array, " dim"],
        sigma: Float[Array, ""],
        sigma_next: Float[Array, ""],
        *,
        is_second_order: bool,
    ) -> tuple[Float[Array, " dim"], Float[Array, " dim"]]:
        """A step of Euler's or Heun's method in y = s x and t, from x to x; and D(x; sigma)."""
        here, there = self.scale_at(sigma), self.scale_at(sigma_next)
        length = self.time_at(sigma_next) - self.time_at(sigma)
        y, denoised = here * x, denoise(x, sigma)
        first = self._velocity(x, sigma, denoised)
        moved = y + length * first
        if is_second_order:
            ahead = moved / there
            second = self._velocity(ahead, sigma_next, denoise(ahead, sigma_next))
            moved = y + 0.5 * length * (first + second)
        return moved / there, denoised

    def stretch(self, sigma: Float[Array, ""], sigma_next: Float[Array, ""]) -> Float[Array, ""]:
        """By how much a step stretches x where y stands still."""
        return self.scale_at(sigma) / self.scale_at(sigma_next)

    def _velocity(self, x: Array, sigma: Array, denoised: Array) -> Array:
        """dy / dt = -(beta / 2) (y + u^2 score of y); with v = sigma / u, s beta / (2 v^2) (x - (1 + v^2) D)."""
        square, time = (sigma / self.unit) ** 2, self.time_at(sigma)
        rate = 0.5 * (self.beta_min + (self.beta_max - self.beta_min) * time)
        return self.scale_at(sigma) * rate / square * ((x - denoised) - square * denoised)
