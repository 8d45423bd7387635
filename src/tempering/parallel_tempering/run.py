"""MANY betas: chains at every level, kernel steps and swaps.

Consumes a target, a kernel and starting points; produces thinned draws of every level with their log densities and
gradients, and a tally. Step sizes adapt only while `step < adapt_until`; what is kept is kept after that.
All per-level quantities are arrays and the module-level functions are jitted once for all betas.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering.adapters.pace import at_own_pace, may_run_ahead
from tempering.compilation import quick
from tempering.devices import by_row, on_devices
from tempering.errors import DensityError
from tempering.kernels import ChainState, Kernel, StepSizes, init
from tempering.kernels.step_size import adapt, guess, guess_from_spread
from tempering.parallel_tempering.state import Replicas, Tally, TemperingState, track
from tempering.parallel_tempering.swap import even_odd, sweep
from tempering.runs.ledger import Ledger
from tempering.targets.base import Target
from tempering.targets.cost import has_gradient, spend
from tempering.types import Array, Float, Int, Key

__all__ = ["Rules", "advance", "block_size", "collect", "evenly", "run", "start"]

_SWAPS = {"even_odd": even_odd, "sweep": sweep}


class Rules(eqx.Module):
    """What does not change along a run.

    Args:
        target_acceptance: what step sizes adapt towards.
        swap_interval: kernel steps between swap rounds.
        adapt_until: the first step at which step sizes are frozen.
        swap_scheme: a name of `swap`.
    """

    target_acceptance: Float[Array, ""]
    swap_interval: Int[Array, ""]
    adapt_until: Int[Array, ""]
    swap_scheme: str = eqx.field(static=True)

    @classmethod
    def of(cls, target_acceptance: float, swap_interval: int, adapt_until: int, swap_scheme: str) -> "Rules":
        """From plain numbers."""
        return cls(
            jax.device_put(np.float32(target_acceptance)),
            jax.device_put(np.int32(swap_interval)),
            jax.device_put(np.int32(adapt_until)),
            swap_scheme,
        )


def _explore(key: Key, target: Target, kernel: Kernel, state: TemperingState, betas: Float[Array, " level"]):
    """One kernel step of every chain at every level, each with a key of its own."""
    num_levels, num_chains = state.chain.log_density.shape

    def one(key, chain, beta, step_size):
        return kernel.step(key, chain, target, beta=beta, step_size=step_size)

    def flat(leaf: Array) -> Array:
        return jnp.swapaxes(leaf, 0, 1).reshape((-1, *leaf.shape[2:]))

    def by_level(leaf: Array) -> Array:
        return jnp.swapaxes(leaf.reshape((num_chains, num_levels, *leaf.shape[1:])), 0, 1)

    # A chain's keys come from its own index, so they do not depend on how many chains run beside it.
    keys = jax.vmap(lambda chain_key: jax.random.split(chain_key, num_levels))(jax.random.split(key, num_chains))
    step_size = jnp.exp(state.step_sizes.log_step_size)
    # One batch axis, not two: a density with a matrix product takes XLA twice as long under two vmaps on CPU
    # (benchmarks/bench_pt.py).
    of_level = lambda values: jnp.tile(values, num_chains)  # noqa: E731
    stepped = by_row(one)(keys.reshape(-1), jax.tree.map(flat, state.chain), of_level(betas), of_level(step_size))
    return jax.tree.map(by_level, stepped)


def _exchange(key: Key, state: TemperingState, betas: Float[Array, " level"], round_index: Array, scheme: str):
    """One swap round of every ladder, applied to chains and replicas alike."""
    keys = jax.random.split(key, state.chain.log_density.shape[1])
    swap = jax.vmap(_SWAPS[scheme], in_axes=(0, 1, None, None), out_axes=(1, 0, 0))
    permutation, is_tried, is_swapped = swap(keys, state.chain.log_ratio, betas, round_index)

    def permute(leaf: Array) -> Array:
        indices = permutation.reshape(permutation.shape + (1,) * (leaf.ndim - 2))
        return jnp.take_along_axis(leaf, indices, axis=0)

    chain, replicas = jax.tree.map(permute, (state.chain, state.replicas))
    replicas, num_returned = track(replicas)
    return chain, replicas, jnp.sum(is_tried, axis=0), jnp.sum(is_swapped, axis=0), num_returned


def _step(
    key: Key, target: Target, kernel: Kernel, state: TemperingState, betas: Array, rules: Rules
) -> TemperingState:
    """Explore, adapt, and swap when it is time."""
    key_explore, key_swap = jax.random.split(jax.random.fold_in(key, state.step))
    chain, info = _explore(key_explore, target, kernel, state, betas)
    acceptance = jnp.mean(info.acceptance_probability, axis=1)
    step_sizes = adapt(state.step_sizes, acceptance, rules.target_acceptance, state.step < rules.adapt_until)
    tally = eqx.tree_at(
        lambda tally: (tally.num_steps, tally.acceptance, tally.num_nonfinite),
        state.tally,
        (
            state.tally.num_steps + 1,
            state.tally.acceptance + acceptance,
            state.tally.num_nonfinite + jnp.sum(info.is_nonfinite, axis=1).astype(jnp.int32),
        ),
    )
    state = TemperingState(chain, step_sizes, state.replicas, tally, state.step + 1)

    def with_swap(state: TemperingState) -> TemperingState:
        round_index = state.step // rules.swap_interval - 1  # from 0, so that a single round tries the hottest pair
        chain, replicas, tried, made, returned = _exchange(key_swap, state, betas, round_index, rules.swap_scheme)
        tally = eqx.tree_at(
            lambda tally: (tally.swaps_tried, tally.swaps_made, tally.round_trips),
            state.tally,
            (
                state.tally.swaps_tried + tried.astype(jnp.float32),
                state.tally.swaps_made + made.astype(jnp.float32),
                state.tally.round_trips + returned,
            ),
        )
        return TemperingState(chain, state.step_sizes, replicas, tally, state.step)

    # No evaluation happens inside the branch, so the ledger does not depend on it.
    return jax.lax.cond(state.step % rules.swap_interval == 0, with_swap, lambda state: state, state)


@on_devices
def collect(
    key: Key,
    target: Target,
    kernel: Kernel,
    state: TemperingState,
    betas: Array,
    rules: Rules,
    thin: Int[Array, " draw"],
) -> tuple[TemperingState, ChainState]:
    """States of every chain, each so many steps after the one before: the last state, and draws (draw, level, chain).

    The steps are traced, so that one program serves every spacing (`evenly`), and `advance` too.
    """

    def keep_one(carry: TemperingState, num_steps: Array) -> tuple[TemperingState, ChainState]:
        body = lambda _, inner: _step(key, target, kernel, inner, betas, rules)  # noqa: E731
        carry = jax.lax.fori_loop(0, num_steps, body, carry)
        return carry, carry.chain

    return jax.lax.scan(keep_one, state, thin)


def evenly(thin: int, num_draws: int) -> Int[Array, " draw"]:
    """For `collect`: so many draws, `thin` steps apart."""
    return jax.device_put(np.full(num_draws, thin, np.int32))  # by NumPy: nothing to compile


def advance(
    key: Key,
    target: Target,
    kernel: Kernel,
    state: TemperingState,
    betas: Array,
    rules: Rules,
    num_steps: int,
    num_draws: int = 1,
) -> TemperingState:
    """`num_steps` steps, keeping only the last state, by the program that `collect` has for `num_draws`."""
    all_first = jax.device_put(np.eye(1, num_draws, dtype=np.int32)[0] * np.int32(num_steps))
    return _collected(key, target, kernel, state, betas, rules, all_first)[0]


def _collected(
    key: Key,
    target: Target,
    kernel: Kernel,
    state: TemperingState,
    betas: Array,
    rules: Rules,
    thin: Int[Array, " draw"],
) -> tuple[TemperingState, ChainState]:
    """`collect`. Where workers of the host evaluate, and step sizes are frozen, no ladder waits for another.

    While step sizes adapt, a step needs the acceptance of all chains. After that ladders are independent, and so are
    the levels of a ladder between two swaps.
    """
    args = (key, target, kernel, state, betas, rules, thin)
    if not may_run_ahead(target) or int(state.step) < int(rules.adapt_until):
        return collect(*args)
    num_levels, num_chains = state.chain.log_density.shape
    first, interval, cost = int(state.step), int(rules.swap_interval), kernel.evaluations_per_step

    def mixed(visit: int) -> int:
        step, part = divmod(visit, cost)
        return num_levels if step and not part and (first + step) % interval == 0 else 1

    num_visits = int(np.sum(np.asarray(thin))) * cost
    return at_own_pace(
        collect, args, target=target, num_rows=num_levels * num_chains, num_visits=num_visits, mixed=mixed
    )


@on_devices
def _evaluate_starts(target: Target, positions: Float[Array, "level chain dim"]) -> ChainState:
    return by_row(lambda position: init(position, target), num_axes=2)(positions)


def start(
    key: Key,
    target: Target,
    kernel: Kernel,
    positions: Float[Array, "level chain dim"],
    betas: Array,
    ledger: Ledger,
    stage: str,
) -> tuple[TemperingState, int]:
    """Evaluate the starting points and set up the state: level x chain evaluations.

    Points where the density or its gradient is not finite cannot start a chain; they are replaced by finite starting
    points of the same level, and their number is returned so that it can be shown.

    Raises:
        DensityError: if no starting point is finite, or no point has a gradient.
    """
    num_levels, num_chains, _ = positions.shape
    spend(ledger, stage, target, num_levels * num_chains)
    chain = _evaluate_starts(target, positions)
    is_good, num_bad, spread, largest = _usability(chain)
    num_bad = int(num_bad)
    is_flat = has_gradient(target) and float(largest) == 0
    _refuse_unusable(chain, num_bad, num_levels * num_chains, is_varying=float(spread) > 0, is_flat=is_flat)
    if num_bad:
        chain = _replace_bad(key, chain, is_good)
    return _first_state(chain, betas, kernel.scale_power, has_gradients=has_gradient(target)), num_bad


@quick
def _first_state(chain: ChainState, betas: Array, scale_power: float, *, has_gradients: bool) -> TemperingState:
    """Chains before their first step, with step sizes guessed from where they stand.

    The guess rests on the gradients of all starting points at every beta, by which `guess` multiplies itself.
    """
    num_levels, num_chains = chain.log_density.shape
    flat = jax.tree.map(lambda leaf: leaf.reshape((-1, *leaf.shape[2:])), chain)
    if not has_gradients:
        first = guess_from_spread(flat.position, betas, scale_power)
    elif chain.reference is None:
        first = guess(flat.log_density_grad, betas, scale_power)
    else:
        one = betas[:1] / betas[:1]
        first = jnp.concatenate([guess(flat.tempered_grad(beta), one, scale_power) for beta in betas])
    step_sizes, zero = StepSizes.at(first), jnp.zeros((), jnp.int32)
    return TemperingState(chain, step_sizes, Replicas.start(num_levels, num_chains), Tally.zero(num_levels), zero)


@quick
def _usability(chain: ChainState) -> tuple[Array, Array, Array, Array]:
    """Which points can start a chain, how many cannot; of the former the range of log densities and steepest slope."""
    is_good = jnp.isfinite(chain.log_density) & jnp.all(jnp.isfinite(chain.log_density_grad), axis=-1)
    highest = jnp.max(jnp.where(is_good, chain.log_density, -jnp.inf))
    lowest = jnp.min(jnp.where(is_good, chain.log_density, jnp.inf))
    largest = jnp.max(jnp.where(is_good[..., None], jnp.abs(chain.log_density_grad), 0.0))
    return is_good, jnp.sum(~is_good), highest - lowest, largest


def _refuse_unusable(chain: ChainState, num_bad: int, num_points: int, *, is_varying: bool, is_flat: bool) -> None:
    if num_bad == num_points:
        num_nan = int(jnp.sum(jnp.isnan(chain.log_density)))
        num_outside = int(jnp.sum(jnp.isneginf(chain.log_density)))
        num_above = int(jnp.sum(jnp.isposinf(chain.log_density)))
        raise DensityError(
            f"log_density is usable at none of the {num_points} starting points ({num_nan} NaN, {num_outside} -inf, "
            f"{num_above} +inf, the rest without a finite gradient); it must be finite, with a finite gradient, on its "
            "support: pass `init=` points inside the support, a fitting `scale=`, or fix the density"
        )
    if is_flat and is_varying:
        raise DensityError(
            "log_density has no gradient: it varies over the starting points, yet jax.grad is 0 at every one; write it "
            "in differentiable JAX (no rounding, integer casts or stop_gradient)"
        )


def _replace_bad(key: Key, chain: ChainState, is_good: Array) -> ChainState:
    levels, chains = jnp.arange(is_good.shape[0]), jnp.arange(is_good.shape[1])
    # A level without any good point of its own takes from the hottest level that has one.
    has_any = jnp.any(is_good, axis=1)
    source_level = jnp.where(has_any, levels, jnp.argmax(has_any))
    logits = jnp.where(is_good[source_level], 0.0, -jnp.inf)
    choice = jax.random.categorical(key, logits[:, None, :], axis=-1, shape=is_good.shape)
    column = jnp.where(is_good, chains[None], choice)
    row = jnp.where(is_good, levels[:, None], source_level[:, None])
    return jax.tree.map(lambda leaf: leaf[row, column], chain)


def block_size(num_draws: int) -> int:
    """The largest divisor of `num_draws` that still gives about ten blocks, so that one compilation serves all."""
    return next(size for size in range(max(1, num_draws // 10), 0, -1) if num_draws % size == 0)


def run(
    key: Key,
    target: Target,
    kernel: Kernel,
    state: TemperingState,
    betas: Array,
    rules: Rules,
    *,
    burn_in: int,
    num_draws: int,
    thin: int,
    ledger: Ledger,
    stage: str,
    block: int | None = None,
    on_block: Callable[[int, TemperingState], None] = lambda done, state: None,
) -> tuple[TemperingState, ChainState]:
    """Burn in, forget the tally, then keep `num_draws` states of every chain.

    Args:
        block: draws at a time, a divisor of `num_draws`: runs with the same one share a program. None takes
            `block_size`.
        on_block: called with the steps done so far and the state, some twenty times in a run.

    Returns:
        The last state, whose tally covers the kept part, and draws of axes (level, draw, chain).
    """
    num_levels, num_chains = state.chain.log_density.shape
    cost_of_step, block = num_levels * num_chains * kernel.evaluations_per_step, block or block_size(num_draws)
    if num_draws % block:
        raise ValueError(f"{num_draws} draws are not made in blocks of {block}")
    for done, size in _pieces(burn_in, max(1, burn_in // 10)):
        spend(ledger, stage, target, size * cost_of_step)
        # By the program that draws: one of their own would be traced, lowered and loaded, too.
        state = advance(key, target, kernel, state, betas, rules, size, block)
        on_block(done + size, state)
    state = eqx.tree_at(lambda state: state.tally, state, state.tally.cleared())
    blocks = []
    for done, size in _pieces(num_draws, block):
        spend(ledger, stage, target, size * thin * cost_of_step)
        state, draws = _collected(key, target, kernel, state, betas, rules, evenly(thin, block))
        blocks.append(draws)
        on_block(burn_in + (done + size) * thin, state)
    return state, _joined(blocks)


@quick
def _joined(blocks: list[ChainState]) -> ChainState:
    """Draws of all blocks, by level."""
    return jax.tree.map(lambda *leaves: jnp.swapaxes(jnp.concatenate(leaves), 0, 1), *blocks)


def _pieces(total: int, size: int) -> list[tuple[int, int]]:
    """(done so far, size of the next piece) over `total`."""
    return [(done, min(size, total - done)) for done in range(0, total, size)]
