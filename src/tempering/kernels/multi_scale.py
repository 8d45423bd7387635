"""MALA whose step size is drawn again each time, over decades: for densities that no one step size suits."""

import equinox as eqx
import jax
import jax.numpy as jnp

from tempering.kernels.base import ChainState, Kernel, KernelInfo
from tempering.kernels.mala import MALA
from tempering.targets.base import Target
from tempering.types import Array, Float, Key

__all__ = ["MultiScaleMALA"]


class MultiScaleMALA(Kernel):
    """One step of MALA with h = `step_size` times e^{-r U}, U uniform in [0, 1] and r `log_range`.

    The draw does not look at the state, so that every step is one of a mixture of kernels that leave the density
    invariant. In the neck of a funnel the small steps move, in its mouth the large ones. `step_size` is the largest.
    """

    evaluations_per_step: int = eqx.field(static=True, default=1)
    optimal_acceptance: float = eqx.field(static=True, default=0.574)
    scale_power: float = eqx.field(static=True, default=2.0)
    log_range: float = eqx.field(static=True, default=7.0)

    def step(
        self, key: Key, state: ChainState, target: Target, *, beta: Float[Array, ""], step_size: Float[Array, ""]
    ) -> tuple[ChainState, KernelInfo]:
        """One transition; one evaluation."""
        key_size, key_step = jax.random.split(key)
        smaller = step_size * jnp.exp(-self.log_range * jax.random.uniform(key_size))
        return MALA().step(key_step, state, target, beta=beta, step_size=smaller)
