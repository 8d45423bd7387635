"""The lines of Algorithm 1 between exploring and learning, one function each. They know one level, and no loop.

Every stage takes the run and the levels so far. What it measures goes into the record of the level that is being made.
"""

from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tempering.buffer import Buffer, Levels, in_units, out_of_units, reweighted
from tempering.diffusion import DiffusionModel
from tempering.guidance.choose import choose
from tempering.kernels.step_size import rescale
from tempering.methods.budget import is_adaptive, levels_left
from tempering.methods.finish import checked_log_z
from tempering.methods.run import Run, keeps_levels
from tempering.parallel_tempering import ladder
from tempering.refinement import refine as refine_pairs
from tempering.runs.records import finite_or_none
from tempering.sampler.diagnosis import coverage
from tempering.sampler.diagnosis.thresholds import FEW_OF_LEVEL
from tempering.targets import Scaled
from tempering.targets.cost import points_per_gradient
from tempering.types import Array, Float
from tempering.weights.ess import effective_size
from tempering.weights.resample import keep_usable, resampled
from tempering.weights.truncate import truncated
from tempering.weights.weigh import Weighted
from tempering.weights.weigh import weigh as weigh_points

__all__ = [
    "LEVELS_SHARE",
    "Draws",
    "draw",
    "guide",
    "next_temperature",
    "refine",
    "resample",
    "reweigh",
    "truncate",
    "weigh",
]


LEVELS_SHARE = 0.6
"""Of a time limit, after which the next level is the last, and drawn from in few draws."""
_MORE_BEFORE = 4.0
"""Effective samples of the level before over those of the draws, from which the former take their place."""


class Draws(NamedTuple):
    """Draws of a model, with its log density at each."""

    model: DiffusionModel
    position: Float[Array, "particle dim"]
    log_prob: Float[Array, " particle"]


def next_temperature(run: Run, levels: Levels) -> float:
    """The next temperature: that of the ladder, or as cold as the coldest buffer can be reweighted to."""
    done, last, buffer = levels.num_done, levels.temperature, levels.buffers[-1]
    if run.journal.ledger.clock.ends("the levels", LEVELS_SHARE):
        return 1.0
    if not is_adaptive(run.settings):
        return run.start.temperatures[done]
    aim = ladder.next_temperature(buffer.states().log_ratio, buffer.weight, last)
    # No more levels than there are evaluations for: then they are spaced evenly instead.
    left = levels_left(run.settings, run.target, run.journal.ledger, run.start.num_kept)
    return min(aim, last ** (1.0 - 1.0 / max(1, min(run.plan.most_levels - done, left))))


def guide(run: Run, levels: Levels) -> DiffusionModel:
    """The model of the next level, from those of hotter ones: the way that promises most."""
    level, temperature = levels.num_done, levels.temperatures[-1]
    record = run.open(level, temperature)
    run.tell("choosing a proposal", level, 0, 1, temperature=temperature)
    record.proposal, model, promises = choose(run.key_of(level, "guide"), levels, run.settings, run.ways)
    record.predicted_ess_fraction = promises.get(record.proposal)
    return model


def draw(run: Run, levels: Levels, model: DiffusionModel) -> Draws:
    """Samples of the next level by the probability-flow ODE, with their densities."""
    level, sampling = levels.num_done, run.settings.sampling
    record, num = run.record(level), _num_draws(run, levels)
    x, log_q = model.draw(
        run.key_of(level, "draw"),
        num,
        sampling,
        with_density=True,
        is_quasi_random=sampling.is_quasi_random,
        on_chunk=lambda done: run.tell("guided sampling", level, done, num, temperature=record.temperature),
    )
    record.num_draws = num
    return Draws(model, x, log_q)


def _num_draws(run: Run, levels: Levels) -> int:
    """Samples of the next level. Where the budget sets the sizes, the last level has all that is left of it."""
    settings, ledger = run.settings, run.journal.ledger
    if ledger.clock.ends("the draws of the last level", LEVELS_SHARE):
        return min(_planned_draws(run, levels), 2 * settings.sampling.chunk_size)
    return _planned_draws(run, levels)


def _planned_draws(run: Run, levels: Levels) -> int:
    settings, ledger = run.settings, run.journal.ledger
    if levels.temperatures[-1] > 1.0:
        return settings.level_size or settings.buffer_size
    if settings.is_sized_by_budget and ledger.budget is not None:
        left = (ledger.budget - ledger.total) // points_per_gradient(run.target)
        return left - settings.num_final_draws - run.start.num_kept
    return settings.last_buffer_size or settings.buffer_size


def weigh(run: Run, levels: Levels, draws: Draws) -> Weighted:
    """Importance weights of the draws, one evaluation each, and what they say of the model they come from.

    Where the draws are of no use the samples of the level before take their place, weighted for this one.
    """
    level, sampling, record = levels.num_done, run.settings.sampling, run.record(levels.num_done)
    model, x, log_q = draws
    if not bool(jnp.any(jnp.isfinite(log_q) & jnp.all(jnp.isfinite(x), axis=1))):
        record.ess_fraction = 0.0
        return _carried(run, levels, f"none of {x.shape[0]:,} draws of the model was finite")
    weighted = weigh_points(run.target, x, log_q, levels.beta(0), ledger=run.journal.ledger, stage="importance_weights")
    record.ess_fraction, record.num_nonfinite = weighted.ess_fraction, weighted.num_nonfinite
    record.pareto_k, log_z = finite_or_none(weighted.pareto_k), weighted.log_z
    record.unseen = finite_or_none(weighted.unseen)
    if record.temperature <= 1.0:  # only here does anybody rely on it
        key = run.key_of(level, "draw")
        log_z = checked_log_z(key, model, sampling, weighted, is_quasi_random=sampling.is_quasi_random)
    record.log_z, record.log_z_error = (finite_or_none(value) for value in log_z)
    key, above = jax.random.fold_in(run.key_of(level, "guide"), 1), ((levels.buffers[-1], levels.beta(1)),)
    log_prob = lambda key, x: model.log_prob(key, x, sampling)  # noqa: E731
    seen = coverage(key, log_prob, above, weighted.log_weights, levels.beta(0))
    record.hidden_share, record.hidden_error, record.num_hidden = seen.hidden_share, seen.hidden_error, seen.num_hidden
    return _rescued(run, levels, weighted)


def _rescued(run: Run, levels: Levels, weighted: Weighted) -> Weighted:
    """The draws, or the samples of the level before where only a handful of draws count and far more of those."""
    num = weighted.log_weights.shape[0]
    size = weighted.ess_fraction * num
    if size >= FEW_OF_LEVEL:
        return weighted
    before = levels.anticipated()
    if size > 0.0 and effective_size(before.weight) < _MORE_BEFORE * size:
        return weighted
    words = f"only {size:.0f} of {num:,} draws of the model count" if size else f"none of {num:,} draws has a density"
    return _carried(run, levels, words)


def _carried(run: Run, levels: Levels, why: str) -> Weighted:
    """The samples of the level before, weighted for the next one; the record says why."""
    there = levels.anticipated()
    run.record(levels.num_done).note_rescue(f"{why}: samples of the level above were reweighted", is_lasting=True)
    return Weighted(there.states(), there.log_weight, num_nonfinite=0)


def reweigh(run: Run, levels: Levels) -> Weighted:
    """The samples of the level before, weighted for the next one by log densities that are paid for."""
    record = run.open(levels.num_done, levels.temperatures[-1])
    there = reweighted(levels.buffers[-1], levels.beta(1), levels.beta(0))
    weighted = Weighted(there.states(), there.log_weight, num_nonfinite=0)
    record.proposal, record.ess_fraction = "reweighted", weighted.ess_fraction
    record.pareto_k, record.unseen = finite_or_none(weighted.pareto_k), finite_or_none(weighted.unseen)
    return weighted


def _is_corrected(run: Run, levels: Levels) -> bool:
    """Whether the samples of the next level are corrected by their weights."""
    which = run.settings.resampling.levels
    return which == "all" or (which == "but_last" and levels.temperatures[-1] > 1.0)


def truncate(run: Run, levels: Levels, weighted: Weighted) -> Weighted:
    """The same draws with their largest weights truncated."""
    if not _is_corrected(run, levels):
        return weighted
    weighted = truncated(weighted, run.settings.resampling)
    run.record(levels.num_done).truncated_ess_fraction = weighted.ess_fraction
    return weighted


def resample(run: Run, levels: Levels, weighted: Weighted) -> Buffer:
    """Samples of the next level: resampled by weight, or with their weights, or as drawn where nothing is corrected."""
    key = run.key_of(levels.num_done, "resample")
    if not _is_corrected(run, levels):
        return keep_usable(key, weighted)
    return resampled(key, weighted, run.settings.resampling)


@keeps_levels
def refine(run: Run, levels: Levels, samples: Buffer) -> Levels:
    """One level more: local parallel tempering between the two coldest levels, where the settings ask for it."""
    level, settings, record = levels.num_done, run.settings, run.record(levels.num_done)
    refinement = settings.refinement_at(record.temperature)
    hot, step_size = levels.buffers[-1], _step_sizes(run, levels)
    if refinement.num_steps > 0:
        units, kernel = run.start.units, run.kernel
        hot, samples, step_size, tally = refine_pairs(
            run.key_of(level, "refine"),
            Scaled(run.target, units),
            kernel,
            in_units(hot, units),
            in_units(samples, units),
            _last_two(levels),
            step_size,
            refinement,
            swap_interval=settings.exploration.swap_interval,
            swap_scheme=settings.exploration.swap_scheme,
            target_acceptance=kernel.optimal_acceptance,
            resampling_scheme=settings.resampling.scheme,
            ledger=run.journal.ledger,
            on_block=lambda done, state: run.tell(
                "refinement",
                level,
                done,
                refinement.num_steps,
                temperature=record.temperature,
                ess_fraction=record.ess_fraction,
                acceptance=float(state.tally.acceptance_rate[1]),
            ),
        )
        hot, samples = out_of_units(hot, units), out_of_units(samples, units)
        record.acceptance, record.swap_rate = (
            finite_or_none(rate) for rate in (tally.acceptance_rate[1], tally.swap_rate[0])
        )
        record.round_trips, record.step_size = int(tally.round_trips), finite_or_none(step_size[1])
        record.num_nonfinite += int(tally.num_nonfinite.sum())
    return replace(levels, buffers=(*levels.buffers[:-1], hot, samples), step_size=step_size)


def _last_two(levels: Levels) -> Float[Array, " two"]:
    """The inverse temperatures of the coldest level and of the one to reach."""
    return ladder.betas_of(levels.temperatures[-2:])


def _step_sizes(run: Run, levels: Levels) -> Float[Array, " two"]:
    """Step sizes of both levels, from that of the coldest, which the temperatures rescale."""
    temperatures, kernel = 1 / _last_two(levels), run.kernel
    known = jnp.asarray(levels.step_size[1])
    return jax.vmap(lambda new: rescale(known, new, temperatures[0], kernel.scale_power))(temperatures)
