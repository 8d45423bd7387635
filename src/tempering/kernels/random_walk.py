"""Random-walk Metropolis at a fixed beta (Metropolis et al. 1953): the kernel that needs no gradient."""

import equinox as eqx
import jax

from tempering.kernels.base import ChainState, Kernel, KernelInfo, accept_or_stay, init
from tempering.targets.base import Target
from tempering.types import Array, Float, Key

__all__ = ["RandomWalk"]


class RandomWalk(Kernel):
    """x' = x + h noise, accepted with min(1, p_beta(x') / p_beta(x)); h is `step_size`.

    The optimal acceptance is 0.44 in one dimension and falls to 0.234 in many (Roberts, Gelman and Gilks 1997);
    `of_dim` takes 0.234 from five dimensions on, as those authors advise, and lies between below.
    """

    evaluations_per_step: int = eqx.field(static=True, default=1)
    optimal_acceptance: float = eqx.field(static=True, default=0.234)
    scale_power: float = eqx.field(static=True, default=1.0)

    @classmethod
    def of_dim(cls, dim: int) -> "RandomWalk":
        """With the optimal acceptance of the dimension."""
        return cls(optimal_acceptance=0.234 + 0.206 * max(0.0, (5 - dim) / 4))

    def step(
        self, key: Key, state: ChainState, target: Target, *, beta: Float[Array, ""], step_size: Float[Array, ""]
    ) -> tuple[ChainState, KernelInfo]:
        """One transition; one evaluation."""
        key_noise, key_accept = jax.random.split(key)
        noise = jax.random.normal(key_noise, state.position.shape, state.position.dtype)
        proposal = init(state.position + step_size * noise, target)
        log_ratio = proposal.tempered(beta) - state.tempered(beta)
        return accept_or_stay(jax.random.uniform(key_accept), state, proposal, log_ratio)
