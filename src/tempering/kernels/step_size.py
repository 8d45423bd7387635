"""Step sizes, one a temperature, adapted towards a target acceptance and then frozen.

Robbins-Monro on the logarithm: log h += gain_t (mean acceptance - target) with gain_t = 2 / sqrt(1 + t). The mean
runs over all chains of a temperature. A frozen state is one whose step index has passed `adapt_until`.
"""

import equinox as eqx
import jax.numpy as jnp

from tempering.compilation import quick
from tempering.types import Array, Bool, Float, Int

__all__ = ["StepSizes", "adapt", "guess", "guess_from_spread", "rescale"]


class StepSizes(eqx.Module):
    """The adaptation's own state: log step size by level and the number of updates made."""

    log_step_size: Float[Array, " level"]
    num_updates: Int[Array, ""]

    @classmethod
    def at(cls, step_size: Float[Array, " level"]) -> "StepSizes":
        """Start adapting from given step sizes."""
        return cls(jnp.log(step_size), jnp.zeros((), jnp.int32))


@quick
def guess(
    log_density_grad: Float[Array, "chain dim"], betas: Float[Array, " level"], scale_power: float
) -> Float[Array, " level"]:
    """A first step size for every level from gradients already paid for.

    With s_k^2 = dim / E|beta_k g|^2, the variance of a Gaussian with such gradients, MALA wants about
    h = 0.8 s^2 dim^(-1/3) (half the optimal l^2 = 1.65^2) and HMC its square root.
    """
    dim = log_density_grad.shape[-1]
    # The median over chains: one starting point at a cliff must not decide for all.
    square = jnp.median(jnp.sum(log_density_grad**2, axis=-1))
    variance = dim / (betas**2 * jnp.maximum(square, 1e-12))
    return (0.8 * variance * dim ** (-1.0 / 3.0)) ** (scale_power / 2.0)


@quick
def guess_from_spread(
    positions: Float[Array, "chain dim"], betas: Float[Array, " level"], scale_power: float
) -> Float[Array, " level"]:
    """A first step size for every level where there are no gradients, from the spread of the starting points.

    h = 2.38 s_k / sqrt(dim), the optimum of a random walk on a Gaussian (Roberts, Gelman and Gilks 1997), with s_k the
    spread at the hottest level, which the points are taken to have, and smaller in colder ones as sqrt(T).
    """
    dim = positions.shape[-1]
    # The narrowest coordinate limits the steps; one that does not vary says nothing.
    std = jnp.std(positions, axis=0)
    widest = jnp.max(std)
    narrowest = jnp.min(jnp.where(std > 1e-3 * widest, std, widest))
    spread = jnp.where(widest > 0, narrowest, 1.0) * jnp.sqrt(betas[0] / betas)
    return (2.38 * spread / dim**0.5) ** scale_power


def adapt(
    step_sizes: StepSizes,
    acceptance: Float[Array, " level"],
    target_acceptance: Float[Array, ""],
    is_adapting: Bool[Array, ""],
) -> StepSizes:
    """One Robbins-Monro update, or none once `is_adapting` is false."""
    gain = jnp.where(is_adapting, 2.0 / jnp.sqrt(1.0 + step_sizes.num_updates.astype(jnp.float32)), 0.0)
    # 5 nats at the most below or above are reached within a burn-in of 20 steps; the clip only guards overflow.
    log_step_size = jnp.clip(step_sizes.log_step_size + gain * (acceptance - target_acceptance), -40.0, 40.0)
    return StepSizes(log_step_size, step_sizes.num_updates + is_adapting.astype(jnp.int32))


@quick
def rescale(
    step_size: Float[Array, "*level"], temperature: Float[Array, ""], previous: Float[Array, ""], scale_power: float
) -> Float[Array, "*level"]:
    """A step size for a new temperature: lengths inside a mode scale with sqrt(T)."""
    return step_size * (temperature / previous) ** (scale_power / 2.0)
