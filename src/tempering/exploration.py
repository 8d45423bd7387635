"""The first samples of a run: parallel tempering over the given levels, pooled into one buffer a level, with records.

Shared by every method that starts from parallel tempering.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from tempering.buffer import Buffer, from_states, subsample
from tempering.checkpoint import Progress
from tempering.kernels import ChainState, Kernel
from tempering.parallel_tempering import betas_of, stepping_stone
from tempering.parallel_tempering.initial import StartFn, initial_draws, planned_evaluations
from tempering.parallel_tempering.mixing import drift, split_rhat, virial
from tempering.preparation import Teller
from tempering.records import LevelRecord, finite_or_none
from tempering.settings import MethodSettings
from tempering.targets import Scaled, Units
from tempering.targets.cost import has_gradient, points_per_gradient
from tempering.types import Array, Float, Key

__all__ = ["Explored", "explore"]


_LEAST_DRAWS = 4
"""Of a chain: its halves need two each to have a variance."""


class Explored(eqx.Module):
    """Buffers of the levels explored, hottest first, and their frozen step sizes."""

    buffers: tuple[Buffer, ...]
    step_size: Float[Array, " level"]


def explore(
    key: Key,
    target,
    kernel: Kernel,
    start_fn: StartFn,
    units: Units,
    temperatures: tuple[float, ...],
    settings: MethodSettings,
    progress: Progress,
    tell: Teller,
) -> Explored:
    """Run the initial PT at `temperatures` and pool `settings.buffer_size` samples of every level.

    Args:
        units: in which kernels see the coordinates; step sizes are in these units.
    """
    key_run, key_pool = jax.random.split(key)
    betas = betas_of(temperatures)
    initial = settings.initial

    def on_block(done, state):
        acceptance = float(jnp.mean(state.tally.acceptance_rate))
        tell("initial PT", 0, done, initial.num_steps, temperature=temperatures[0], acceptance=acceptance)

    result = initial_draws(
        key_run,
        Scaled(target, units),
        kernel,
        lambda key, num: units.inward(start_fn(key, num)),
        betas,
        initial,
        settings.exploration,
        ledger=progress.ledger,
        on_block=on_block,
    )
    cost = planned_evaluations(initial, len(temperatures), kernel) // len(temperatures) * points_per_gradient(target)
    tally = result.tally
    buffers = []
    for level, temperature in enumerate(temperatures):
        draws = jax.tree.map(lambda leaf, level=level: leaf[level], result.draws)
        pooled = from_states(draws.out_of_units(units), "initial_pt")
        buffers.append(subsample(jax.random.fold_in(key_pool, level), pooled, settings.buffer_size))
        progress.levels[level] = LevelRecord(
            level,
            temperature,
            acceptance=finite_or_none(tally.acceptance_rate[level]),
            swap_rate=finite_or_none(tally.swap_rate[level - 1]) if level else None,
            round_trips=int(tally.round_trips),
            step_size=finite_or_none(result.step_size[level]),
            num_nonfinite=int(tally.num_nonfinite[level]),
            num_replaced=result.num_replaced if level == 0 else 0,
            evaluations={"initial_pt": cost},
            **_stationarity(target, draws, units, betas[level]),
        )
    log_z_ratio, error = stepping_stone(result.draws.log_ratio, betas)
    coldest = progress.levels[len(temperatures) - 1]
    coldest.log_z_ratio, coldest.log_z_ratio_error = finite_or_none(log_z_ratio), finite_or_none(error)
    return Explored(tuple(buffers), result.step_size)


def _stationarity(target, draws: ChainState, units: Units, beta: Float[Array, ""]) -> dict[str, Any]:
    """Whether the chains of a level have forgotten their start and stay where they are; nothing from too few draws."""
    if draws.position.shape[0] < _LEAST_DRAWS or draws.position.shape[1] < 2:
        return {}
    features = draws.position
    if getattr(target, "geometry", None) is not None:  # what symmetry leaves alone
        features = _invariants(target, draws.position, units)
    shift, growth = drift(features)
    numbers = {"rhat": jnp.max(split_rhat(features)), "drift": shift, "spread_growth": growth}
    if has_gradient(target):
        numbers["virial"], numbers["virial_error"] = virial(draws.position, draws.tempered_grad(beta))
    return {name: finite_or_none(value) for name, value in numbers.items()}


@eqx.filter_jit
def _invariants(target, positions: Array, units: Units) -> Array:
    return jax.vmap(jax.vmap(lambda position: target.invariants(units.outward(position))))(positions)
