"""Algorithm 1, line 1: parallel tempering at the hottest levels, pooled into one buffer per level, with records."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tempering.buffer import Buffer, Levels, from_states, subsample
from tempering.compilation import quick
from tempering.diffusion.calibrate import largest_sigma
from tempering.kernels import ChainState
from tempering.methods.explore_modes import explore_modes
from tempering.methods.run import Run, finds_levels
from tempering.parallel_tempering import betas_of, stepping_stone
from tempering.parallel_tempering.initial import initial_draws, planned_evaluations
from tempering.parallel_tempering.mixing import drift, split_rhat, virial
from tempering.runs.records import LevelRecord, finite_or_none
from tempering.targets import Scaled, Units
from tempering.targets.cost import has_gradient, points_per_gradient
from tempering.types import Array, Float, Int, Key

__all__ = ["explore"]

_LEAST_DRAWS = 4
"""Of a chain: its halves need two each to have a variance."""


@finds_levels
def explore(run: Run, temperatures: tuple[float, ...], keep: int) -> Levels:
    """Run the initial parallel tempering at `temperatures` and pool `settings.buffer_size` samples of every level.

    Args:
        keep: how many of the coldest levels to go on with; the noise range is that of the hottest of them.

    Where modes are known, the levels are drawn from them instead.
    """
    if run.start.way is not None:
        return explore_modes(run, temperatures, keep)
    target, settings, units, initial = run.target, run.settings, run.start.units, run.settings.initial
    key_run, key_pool = jax.random.split(run.key_of(1, "explore"))
    betas = betas_of(temperatures)

    def on_block(done, state):
        acceptance = float(np.mean(np.asarray(state.tally.acceptance_rate)))
        run.tell("initial PT", 0, done, initial.num_steps, temperature=temperatures[0], acceptance=acceptance)

    result = initial_draws(
        key_run,
        Scaled(target, units),
        run.kernel,
        lambda key, num: units.inward(run.start.start_fn(key, num)),
        betas,
        initial,
        settings.exploration,
        ledger=run.journal.ledger,
        on_block=on_block,
    )
    num_levels = len(temperatures)
    cost = planned_evaluations(initial, num_levels, run.kernel) // num_levels * points_per_gradient(target)
    tally = result.tally
    acceptance, swap_rate = np.asarray(tally.acceptance_rate), np.asarray(tally.swap_rate)
    num_nonfinite, step_size = np.asarray(tally.num_nonfinite), np.asarray(result.step_size)
    buffers = []
    for level, temperature in enumerate(temperatures):
        index = jnp.asarray(level, jnp.int32)
        draws, buffer = _pooled(key_pool, result.draws, units, index, settings.buffer_size)
        buffers.append(buffer)
        run.journal.levels[level] = LevelRecord(
            level,
            temperature,
            acceptance=finite_or_none(acceptance[level]),
            swap_rate=finite_or_none(swap_rate[level - 1]) if level else None,
            round_trips=int(tally.round_trips),
            step_size=finite_or_none(step_size[level]),
            num_nonfinite=int(num_nonfinite[level]),
            num_replaced=result.num_replaced if level == 0 else 0,
            evaluations={"initial_pt": cost},
            **_stationarity(target, draws, units, jnp.asarray(np.asarray(betas)[level])),
        )
    log_z_ratio, error = stepping_stone(result.draws.log_ratio, betas)
    coldest = run.record(num_levels - 1)
    coldest.log_z_ratio, coldest.log_z_ratio_error = finite_or_none(log_z_ratio), finite_or_none(error)
    kept = tuple(buffers[-keep:])
    sigma_max = largest_sigma(settings.noise, kept[0])
    return Levels(temperatures[-keep:], kept, result.step_size[-2:], sigma_max, run.networks, has_gradient(target))


@quick
def _pooled(key: Key, draws: ChainState, units: Units, level: Int[Array, ""], size: int) -> tuple[ChainState, Buffer]:
    """The draws of one level, a traced number, and a buffer of `size` of them in the target's own units."""
    own = jax.tree.map(lambda leaf: leaf[level], draws)
    everything = from_states(own.out_of_units(units), "initial_pt")
    return own, subsample(jax.random.fold_in(key, level), everything, size)


def _stationarity(target, draws: ChainState, units: Units, beta: Float[Array, ""]) -> dict[str, Any]:
    """Whether the chains of a level have forgotten their start and stay where they are; nothing from too few draws."""
    if draws.position.shape[0] < _LEAST_DRAWS or draws.position.shape[1] < 2:
        return {}
    numbers = _mixing(target, draws, units, beta, has_gradients=has_gradient(target))
    return {name: finite_or_none(value) for name, value in numbers.items()}


@quick
def _mixing(
    target, draws: ChainState, units: Units, beta: Float[Array, ""], *, has_gradients: bool
) -> dict[str, Float[Array, ""]]:
    """What `parallel_tempering.mixing` measures, by the names of a record."""
    features = draws.position
    if target.geometry is not None:  # what symmetry leaves alone
        features = jax.vmap(jax.vmap(lambda position: target.invariants(units.outward(position))))(features)
    shift, growth = drift(features)
    numbers = {"rhat": jnp.max(split_rhat(features)), "drift": shift, "spread_growth": growth}
    if has_gradients:
        numbers["virial"], numbers["virial_error"] = virial(draws.position, draws.tempered_grad(beta))
    return numbers
