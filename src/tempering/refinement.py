"""A short parallel tempering over pairs of buffers, from particles whose densities are already known.

Consumes the buffers of the previous and the new level, weighted or not; produces both, refined. Either a chain from
every sample, whose last states, or several of each, replace the buffers; or a subset of chains, whose thinned states
join them, where the samples that were there keep their weights. Adaptation of step sizes ends before the first state
that is kept.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp

from tempering.buffer import Buffer, concatenate, from_states, subsample
from tempering.compilation import quick
from tempering.kernels import Kernel, StepSizes
from tempering.parallel_tempering.run import Rules, run
from tempering.parallel_tempering.state import Replicas, Tally, TemperingState
from tempering.runs.ledger import Ledger
from tempering.settings import Refinement
from tempering.types import Array, Float, Key
from tempering.weights.resample import evened

__all__ = ["join", "planned_evaluations", "refine"]


def planned_evaluations(refinement: Refinement, buffer_size: int, kernel: Kernel) -> int:
    """What one refinement costs: two levels of every refined pair, no evaluation to start."""
    chains = buffer_size if refinement.num_chains is None else refinement.num_chains
    return 2 * chains * refinement.num_made * kernel.evaluations_per_step


@quick
def join(buffer: Buffer, refined: Buffer) -> Buffer:
    """Both, where every refined state weighs sum(w^2) / sum(w), with w the weights of the buffer.

    All m refined states together then weigh as much against the buffer as m does against its effective sample size
    sum(w)^2 / sum(w^2): the best combination of two independent estimates whose variances go as the inverse of these
    numbers. A buffer of even weights is only concatenated, as in the paper. The states of a chain, which begins at one
    of the samples, are not quite independent: `thin` brings them near it. Where the weights are exact any share is
    right on average, and this one decides the variance only.

    Args:
        refined: states of even weight.
    """
    largest = jnp.max(buffer.log_weight)
    weight = jnp.exp(buffer.log_weight - largest)
    # The largest is divided out first, and even weights give log 1: those of the buffer to the bit.
    log_weight = jnp.log(jnp.sum(weight**2) / jnp.sum(weight)) + largest
    even = jnp.full((refined.size,), log_weight)
    return concatenate(buffer, eqx.tree_at(lambda tree: tree.log_weight, refined, even))


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
    resampling_scheme: str,
    ledger: Ledger,
    on_block: Callable[[int, TemperingState], None] = lambda done, state: None,
) -> tuple[Buffer, Buffer, Float[Array, " two"], Tally]:
    """Refine both buffers by PT between random pairs.

    Args:
        hot: samples of the hotter level; chains start from them in proportion to their weights.
        cold: the same of the colder level.
        betas: of the two levels, the hotter first.
        step_size: of the two levels, where adaptation begins.
        resampling_scheme: of starts from weighted samples.

    Returns:
        The hot buffer, the cold buffer, the adapted step sizes and the tally of the frozen part.
    """
    key_even_hot, key_even_cold, key = jax.random.split(key, 3)
    key_hot, key_cold, key_run, key_join = jax.random.split(key, 4)
    num_chains = cold.size if refinement.num_chains is None else refinement.num_chains
    pairs = jax.tree.map(
        lambda a, b: jnp.stack([a, b]),
        subsample(key_hot, evened(key_even_hot, hot, resampling_scheme), num_chains).states(),
        subsample(key_cold, evened(key_even_cold, cold, resampling_scheme), num_chains).states(),
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
        burn_in=refinement.num_made - refinement.num_kept * refinement.interval,
        num_draws=refinement.num_kept,
        thin=refinement.interval,
        ledger=ledger,
        stage="refinement",
        on_block=on_block,
    )
    # The hotter level has as many samples as chains; only the colder one keeps several states of each.
    first_hot = 0 if refinement.num_chains is not None else refinement.num_kept - 1
    new_hot = from_states(jax.tree.map(lambda leaf: leaf[0, first_hot:], draws), "refined")
    new_cold = from_states(jax.tree.map(lambda leaf: leaf[1], draws), "refined")
    if refinement.num_chains is not None:
        # The cold buffer grows by the joined states; the hot one, which has grown before, keeps the same size.
        new_cold = join(cold, new_cold)
        joined = join(hot, new_hot)
        new_hot = subsample(key_join, joined, min(joined.size, new_cold.size))
    return new_hot, new_cold, jnp.exp(state.step_sizes.log_step_size), state.tally
