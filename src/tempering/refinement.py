"""A short parallel tempering over pairs of buffers, from particles whose densities are already known.

Consumes the buffers of the previous and the new level; produces both, refined. Every sample, or a subset of chains
whose thinned states join the buffer. Adaptation of step sizes ends before the first state that is kept.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from tempering.buffer import Buffer, concatenate, from_states, subsample
from tempering.kernels import Kernel, StepSizes
from tempering.ledger import Ledger
from tempering.parallel_tempering.run import Rules, run
from tempering.parallel_tempering.state import Replicas, Tally, TemperingState
from tempering.settings import Refinement
from tempering.types import Array, Float, Key

__all__ = ["planned_evaluations", "refine"]


def planned_evaluations(refinement: Refinement, buffer_size: int, kernel: Kernel) -> int:
    """What one refinement costs: two levels of every refined pair, no evaluation to start."""
    chains = buffer_size if refinement.num_chains is None else refinement.num_chains
    if refinement.num_steps == 0:
        return 0
    kept = refinement.num_adapting + _num_draws(refinement) * _thin(refinement)
    return 2 * chains * kept * kernel.evaluations_per_step


def _num_draws(refinement: Refinement) -> int:
    return 1 if refinement.num_chains is None else refinement.num_kept


def _thin(refinement: Refinement) -> int:
    return refinement.num_steps - refinement.num_adapting if refinement.num_chains is None else refinement.thin


def refine(
    key: Key,
    target,
    kernel: Kernel,
    hot: Buffer,
    cold: Buffer,
    betas: Float[Array, " two"],
    step_size: Float[Array, " two"],
    refinement: Refinement,
    *,
    swap_interval: int,
    swap_scheme: str,
    target_acceptance: float,
    ledger: Ledger,
    on_block: Callable[[int, TemperingState], None] = lambda done, state: None,
) -> tuple[Buffer, Buffer, Float[Array, " two"], Tally]:
    """Refine both buffers by PT between random pairs.

    Returns:
        The hot buffer, the cold buffer, the adapted step sizes and the tally of the frozen part.
    """
    key_hot, key_cold, key_run, key_join = jax.random.split(key, 4)
    num_chains = cold.size if refinement.num_chains is None else refinement.num_chains
    pairs = jax.tree.map(
        lambda a, b: jnp.stack([a, b]),
        subsample(key_hot, hot, num_chains).states(),
        subsample(key_cold, cold, num_chains).states(),
    )
    zero = jnp.zeros((), jnp.int32)
    state = TemperingState(pairs, StepSizes.at(step_size), Replicas.start(2, num_chains), Tally.zero(2), zero)
    # A refinement shorter than the interval still swaps once: that is what pairs are for.
    interval = min(swap_interval, refinement.num_steps)
    rules = Rules.of(target_acceptance, interval, refinement.num_adapting, swap_scheme)
    state, draws = run(
        key_run,
        target,
        kernel,
        state,
        betas,
        rules,
        burn_in=refinement.num_adapting,
        num_draws=_num_draws(refinement),
        thin=_thin(refinement),
        ledger=ledger,
        stage="refinement",
        on_block=on_block,
    )
    new_hot, new_cold = (from_states(jax.tree.map(lambda leaf, k=k: leaf[k], draws), "refined") for k in (0, 1))
    if refinement.num_chains is not None:
        # The cold buffer grows by the joined states; the hot one, which has grown before, keeps the same size.
        new_cold = concatenate(cold, new_cold)
        joined = concatenate(hot, new_hot)
        new_hot = subsample(key_join, joined, min(joined.size, new_cold.size))
    return new_hot, new_cold, jnp.exp(state.step_sizes.log_step_size), state.tally
