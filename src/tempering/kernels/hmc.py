"""Hamiltonian Monte Carlo at a fixed beta with unit mass (Duane et al. 1987)."""

import equinox as eqx
import jax
import jax.numpy as jnp

from tempering.kernels.base import ChainState, Kernel, KernelInfo, accept_or_stay, init
from tempering.targets.base import Target
from tempering.types import Array, Float, Key

__all__ = ["HMC"]


class HMC(Kernel):
    """`num_leapfrog` leapfrog steps of size `step_size` on the potential -log p_beta, then Metropolis.

    The optimal acceptance 0.8 follows common practice for short trajectories; 0.651 is the asymptotic optimum
    (Beskos et al. 2013) and costs more rejections than it saves here.
    """

    num_leapfrog: int = eqx.field(static=True, default=8)
    optimal_acceptance: float = eqx.field(static=True, default=0.8)
    scale_power: float = eqx.field(static=True, default=1.0)

    @property
    def evaluations_per_step(self) -> int:
        """One evaluation a leapfrog step: the first half kick uses the stored gradient."""
        return self.num_leapfrog

    def step(
        self, key: Key, state: ChainState, target: Target, *, beta: Float[Array, ""], step_size: Float[Array, ""]
    ) -> tuple[ChainState, KernelInfo]:
        """One transition; `num_leapfrog` evaluations."""
        key_momentum, key_accept = jax.random.split(key)
        momentum = jax.random.normal(key_momentum, state.position.shape, state.position.dtype)

        def leapfrog(carry: tuple[ChainState, Array], _) -> tuple[tuple[ChainState, Array], None]:
            here, velocity = carry
            velocity = velocity + 0.5 * step_size * here.tempered_grad(beta)
            there = init(here.position + step_size * velocity, target)
            velocity = velocity + 0.5 * step_size * there.tempered_grad(beta)
            return (there, velocity), None

        (proposal, final_momentum), _ = jax.lax.scan(leapfrog, (state, momentum), length=self.num_leapfrog)
        kinetic_change = 0.5 * (jnp.sum(final_momentum**2) - jnp.sum(momentum**2))
        log_ratio = proposal.tempered(beta) - state.tempered(beta) - kinetic_change
        return accept_or_stay(jax.random.uniform(key_accept), state, proposal, log_ratio)
