"""The Metropolis-adjusted Langevin algorithm at a fixed beta (Roberts and Tweedie 1996)."""

import equinox as eqx
import jax
import jax.numpy as jnp

from tempering.kernels.base import ChainState, Kernel, KernelInfo, accept_or_stay, init
from tempering.targets.base import Target
from tempering.types import Array, Float, Key

__all__ = ["MALA"]


class MALA(Kernel):
    """x' = x + h g(x) + sqrt(2 h) noise, corrected by Metropolis-Hastings; h is `step_size`, g the gradient at beta.

    The optimal acceptance 0.574 is that of Roberts and Rosenthal (1998) for long product targets.
    """

    evaluations_per_step: int = eqx.field(static=True, default=1)
    optimal_acceptance: float = eqx.field(static=True, default=0.574)
    scale_power: float = eqx.field(static=True, default=2.0)

    def step(
        self, key: Key, state: ChainState, target: Target, *, beta: Float[Array, ""], step_size: Float[Array, ""]
    ) -> tuple[ChainState, KernelInfo]:
        """One transition; one evaluation."""
        key_noise, key_accept = jax.random.split(key)
        noise = jax.random.normal(key_noise, state.position.shape, state.position.dtype)
        drift = step_size * state.tempered_grad(beta)
        proposal = init(state.position + drift + jnp.sqrt(2.0 * step_size) * noise, target)
        # log q(x | x') - log q(x' | x): the forward residual is sqrt(2h) * noise by construction, which is exact
        # where recomputing it from the positions would lose digits.
        backward = state.position - proposal.position - step_size * proposal.tempered_grad(beta)
        log_q_ratio = 0.5 * jnp.sum(noise**2) - jnp.sum(backward**2) / (4.0 * step_size)
        log_ratio = proposal.tempered(beta) - state.tempered(beta) + log_q_ratio
        return accept_or_stay(jax.random.uniform(key_accept), state, proposal, log_ratio)
