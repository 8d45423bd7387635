"""Kernels with one fault each, for the tests that must notice. Each one, with no fault set, is the real kernel.

The faults are numbers and not code, so that one compilation serves a kernel and all its saboteurs. A gradient that is
un-tempered *throughout* is no fault: the Metropolis step still corrects any drift, and any volume-preserving reversible
map. It becomes one when forward and backward disagree, which is what is sabotaged here.
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from tempering.kernels import HMC, MALA, Kernel
from tempering.kernels.base import accept_or_stay, init

__all__ = ["FAULTS", "Faults", "FaultyHMC", "FaultyMALA"]


class Faults(eqx.Module):
    """Every number is 1 in a right kernel."""

    proposal_tempering: jax.Array  # 0: the gradient that makes the proposal is not tempered
    correction: jax.Array  # 0: every proposal is accepted
    proposal_ratio_sign: jax.Array  # -1: the ratio of proposal densities (or kinetic energies) is upside down
    acceptance_tempering: jax.Array  # 0: the density ratio is that of T = 1

    @classmethod
    def of(cls, **faults: float) -> "Faults":
        """No fault but the ones named."""
        right = {"proposal_tempering": 1.0, "correction": 1.0, "proposal_ratio_sign": 1.0, "acceptance_tempering": 1.0}
        return cls(**{name: jnp.asarray(value) for name, value in (right | faults).items()})


FAULTS = {
    "un-tempered gradient": Faults.of(proposal_tempering=0.0),
    "no Metropolis correction": Faults.of(correction=0.0),
    "wrong sign of the proposal ratio": Faults.of(proposal_ratio_sign=-1.0),
    "beta forgotten in the acceptance": Faults.of(acceptance_tempering=0.0),
}


def _tempered(beta, power):
    return beta * power + (1.0 - power)


class FaultyMALA(Kernel):
    """MALA, but for its faults."""

    faults: Faults
    evaluations_per_step: int = eqx.field(static=True, default=1)
    optimal_acceptance: float = eqx.field(static=True, default=MALA().optimal_acceptance)
    scale_power: float = eqx.field(static=True, default=2.0)

    def step(self, key, state, target, *, beta, step_size):
        """One transition."""
        key_noise, key_accept = jax.random.split(key)
        noise = jax.random.normal(key_noise, state.position.shape)
        drift = step_size * _tempered(beta, self.faults.proposal_tempering) * state.log_density_grad
        proposal = init(state.position + drift + jnp.sqrt(2.0 * step_size) * noise, target)
        forward = proposal.position - state.position - step_size * beta * state.log_density_grad
        backward = state.position - proposal.position - step_size * beta * proposal.log_density_grad
        log_q_ratio = (jnp.sum(forward**2) - jnp.sum(backward**2)) / (4.0 * step_size)
        change = _tempered(beta, self.faults.acceptance_tempering) * (proposal.log_density - state.log_density)
        log_ratio = self.faults.correction * (change + self.faults.proposal_ratio_sign * log_q_ratio)
        return accept_or_stay(jax.random.uniform(key_accept), state, proposal, log_ratio)


class FaultyHMC(Kernel):
    """HMC, but for its faults; only the first half kick of a leapfrog step loses its tempering."""

    faults: Faults
    num_leapfrog: int = eqx.field(static=True)
    evaluations_per_step: int = eqx.field(static=True, default=1)
    optimal_acceptance: float = eqx.field(static=True, default=HMC().optimal_acceptance)
    scale_power: float = eqx.field(static=True, default=1.0)

    def step(self, key, state, target, *, beta, step_size):
        """One transition."""
        key_momentum, key_accept = jax.random.split(key)
        start = jax.random.normal(key_momentum, state.position.shape)
        here, momentum = state, start
        for _ in range(self.num_leapfrog):
            first = _tempered(beta, self.faults.proposal_tempering)
            momentum = momentum + 0.5 * step_size * first * here.log_density_grad
            here = init(here.position + step_size * momentum, target)
            momentum = momentum + 0.5 * step_size * beta * here.log_density_grad
        kinetic_change = 0.5 * (jnp.sum(momentum**2) - jnp.sum(start**2))
        change = _tempered(beta, self.faults.acceptance_tempering) * (here.log_density - state.log_density)
        log_ratio = self.faults.correction * (change - self.faults.proposal_ratio_sign * kinetic_change)
        return accept_or_stay(jax.random.uniform(key_accept), state, here, log_ratio)
