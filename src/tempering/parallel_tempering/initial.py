"""The initial parallel tempering: starting points, burn-in, draws of every level, and what they cost."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering.compilation import quick, rounded_up
from tempering.kernels import ChainState, Kernel
from tempering.parallel_tempering.pilot.relax import settled
from tempering.parallel_tempering.run import Rules, run
from tempering.parallel_tempering.state import Tally, TemperingState
from tempering.runs.ledger import Ledger
from tempering.settings import Exploration, Initial
from tempering.targets.base import Target
from tempering.types import Array, Float, Key

__all__ = ["InitialDraws", "StartFn", "initial_draws", "normal_start", "planned_evaluations", "rows_start"]

StartFn = Callable[[Key, int], Float[Array, "chain dim"]]
"""Starting points for a number of chains."""

_LEAST_NORMALS = 256


class InitialDraws(eqx.Module):
    """Draws of axes (level, draw, chain), the frozen step sizes, the tally, and how many starts were replaced."""

    draws: ChainState
    step_size: Float[Array, " level"]
    tally: Tally
    num_replaced: int


def normal_start(dim: int, scale: float) -> StartFn:
    """Independent normals around the origin."""
    # The first rows of more are those of fewer, so that one program serves most numbers of chains.
    made = lambda key, num: np.asarray(_normals(key, rounded_up(num, _LEAST_NORMALS), dim))[:num]  # noqa: E731
    return lambda key, num: jax.device_put(np.float32(scale) * made(key, num))


@quick
def _normals(key: Key, num: int, dim: int) -> Float[Array, "row dim"]:
    return jax.random.normal(key, (num, dim))


def rows_start(rows: Float[Array, "row dim"]) -> StartFn:
    """Rows of a given array: each once while they last, at random beyond that."""
    return lambda key, num: _some_rows(key, rows, num)


@quick
def _some_rows(key: Key, rows: Float[Array, "row dim"], num: int) -> Float[Array, "chain dim"]:
    more = jax.random.randint(key, (max(0, num - rows.shape[0]),), 0, rows.shape[0])
    return rows[jnp.concatenate([jnp.arange(min(num, rows.shape[0])), more])]


def planned_evaluations(initial: Initial, num_levels: int, kernel: Kernel) -> int:
    """What the initial PT costs, unless chains start in walls: one evaluation to start a chain, then its steps."""
    steps = initial.burn_in + initial.num_draws * initial.thin
    return num_levels * initial.num_chains * (1 + steps * kernel.evaluations_per_step)


def initial_draws(
    key: Key,
    target: Target,
    kernel: Kernel,
    start_fn: StartFn,
    betas: Float[Array, " level"],
    initial: Initial,
    exploration: Exploration,
    *,
    ledger: Ledger,
    on_block: Callable[[int, TemperingState], None] = lambda done, state: None,
) -> InitialDraws:
    """Run parallel tempering at `betas` from fresh starting points, every level from points of its own."""
    key_positions, key_start, key_run = jax.random.split(key, 3)
    num_levels = betas.shape[0]
    positions = start_fn(key_positions, num_levels * initial.num_chains)
    positions = positions.reshape((num_levels, initial.num_chains, -1))
    state, num_replaced = settled(key_start, target, kernel, positions, betas, ledger, "initial_pt")
    rules = Rules.of(kernel.optimal_acceptance, exploration.swap_interval, initial.burn_in, exploration.swap_scheme)
    state, draws = run(
        key_run,
        target,
        kernel,
        state,
        betas,
        rules,
        burn_in=initial.burn_in,
        num_draws=initial.num_draws,
        thin=initial.thin,
        ledger=ledger,
        stage="initial_pt",
        on_block=on_block,
    )
    return InitialDraws(draws, jnp.exp(state.step_sizes.log_step_size), state.tally, num_replaced)
