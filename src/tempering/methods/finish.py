"""The end of every method: the sampler of the last level, weighed, with log Z and what its weights have to say."""

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering.atlas.optima import Optima
from tempering.buffer import Levels
from tempering.compilation import rounded_up
from tempering.devices.keys import folded
from tempering.diffusion import DiffusionModel
from tempering.diffusion.solve import is_exact
from tempering.methods.explore_modes import MODES
from tempering.methods.model import model_of
from tempering.methods.optima import modes_of, most_to_uncover, uncovered
from tempering.methods.run import Run
from tempering.methods.second_look import look_again
from tempering.priors.cube import CubeChart, is_at_end
from tempering.runs.clock import Clock
from tempering.runs.records import LevelRecord, finite_or_none
from tempering.sampler import Sampler
from tempering.sampler.diagnosis import coverage
from tempering.sampler.diagnosis.coverage import Evidence, LogProbFn, witnesses
from tempering.sampler.paid import FIT, Paid, plain_buffer
from tempering.settings import Sampling
from tempering.settings.defaults import LARGEST_EXACT
from tempering.transforms import Chart
from tempering.transforms.triangular import Composed
from tempering.types import Key
from tempering.weights.ess import normalised
from tempering.weights.log_z import pooled_log_z, recalibrated_log_z
from tempering.weights.pareto import RELIABLE_K
from tempering.weights.weigh import Weighted, weigh

__all__ = ["checked_log_z", "determinants", "finish", "judging", "with_final_weights"]

_LARGEST_CHECKED, _NUM_CHECKED = 128, 256
"""Dimensions up to which estimated determinants are checked against exact ones, and on how many draws. In the 162 of
LJ-55 a step of all draws would take 95 GB, and as long as 440 without determinants."""
_FINITE_K = 0.5
"""Pareto k up to which weights have a finite variance."""
_NO_NETWORK = (
    "the final model's draws were not finite: a normal distribution of the last samples' moments took its place"
)


def finish(run: Run, levels: Levels, title: str, key: Key) -> Sampler:
    """The sampler of the last level, weighed on `settings.num_final_draws` draws where that is not 0.

    log Z is then that of the final draws, pooled with the last level's guided draws where determinants there were exact
    or checked (`checked_log_z`) and the weights have a finite variance (Pareto k at most 0.5), and so a trustworthy
    error. The final draws are new, so that given the model their estimate does not depend on the level's.

    Args:
        title: the name of the method.
        key: of the final draws.
    """
    settings, beta, journal = run.settings, jax.device_put(np.float32(1.0)), run.journal
    model, sampling = model_of(run, levels, levels.networks[-1]), settings.sampling
    sampling = judging(sampling, run.target.dim)
    records = journal.ordered()
    num_starts = settings.initial.num_chains * sum(record.ess_fraction is None for record in records)
    sampler = Sampler(
        model=model,
        target=run.target,
        method=title,
        network=settings.network,
        sampling=sampling,
        levels=records,
        ledger=journal.ledger,
        log_z=records[-1].log_z,
        log_z_error=records[-1].log_z_error,
        checks=dataclasses.replace(run.start.checks, num_starts=num_starts, **_time(journal.ledger.clock)),
        chart=run.target.chart,
        structure=run.target.structure,
        settings=settings,
        modes=modes_of(run),
    )
    num, last = settings.num_final_draws, len(records) - 1
    if num == 0:
        sampler.paid = Paid(plain_buffer(levels.buffers[-1]), (), _optima(run))
        return sampler
    tell = lambda done: run.tell("final weights", last, done, num)  # noqa: E731
    draw = lambda key, num: model.draw(key, num, sampling, with_density=True, on_chunk=tell)  # noqa: E731
    run.ahead.wait(("draws", settings.network, min(sampling.chunk_size, rounded_up(num))))
    draws, log_q = draw(key, num)
    if 2 * int(np.sum(np.all(np.isfinite(np.asarray(draws)), axis=1))) < num:
        model = model_of(run, levels, _untrained(run, levels))  # the best linear denoiser, or the mixture's
        sampler = dataclasses.replace(sampler, model=model)
        records[-1].note_rescue(_NO_NETWORK, is_lasting=True)
        draws, log_q = draw(key, num)
    weighted = weigh(run.target, draws, log_q, beta, ledger=journal.ledger, stage="final_weights")
    held_back = most_to_uncover(run)
    sampler, weighted = look_again(key, sampler, weighted, draw, run.target, journal.ledger, held_back)
    # Buffers that know the density without this model show what it does not cover.
    known = tuple(zip(levels.buffers, levels.betas, strict=True))
    evidence, others = known[:-1] or known, _guided_log_z(run, records[-1], weighted)
    uncovered_fn = lambda key, log_prob, weighted: uncovered(run, key, log_prob, weighted)  # noqa: E731
    finished = with_final_weights(sampler, key, weighted, others, evidence, uncovered_fn)
    finished.paid = Paid(
        plain_buffer(levels.buffers[-1]),
        tuple(map(plain_buffer, witnesses(folded(key, num + 1), evidence, beta))),
        _optima(run),
    )
    finished.paid.note(FIT, weighted)
    return finished


def _untrained(run: Run, levels: Levels) -> eqx.Module:
    """The network before training, on the mixture of the trained one where it has any."""
    trained: Any = levels.networks[-1]
    if not hasattr(trained, "mixture"):
        return run.networks[-1]
    return eqx.tree_at(lambda own: own.mixture, run.networks[-1], trained.mixture)


def _time(clock: Clock) -> dict[str, Any]:
    """What a time limit has done, as checks."""
    return {"time_limit": clock.limit, "hurried": ", ".join(clock.hurried) or None}


def judging(sampling: Sampling, dim: int) -> Sampling:
    """The settings of draws that a finished sampler is judged by: with exact determinants, if they can be had."""
    if sampling.divergence == "automatic" and dim <= LARGEST_EXACT:
        return dataclasses.replace(sampling, divergence="exact")
    return sampling


def with_final_weights(
    sampler: Sampler,
    key: Key,
    weighted: Weighted,
    others: list[tuple[float | None, float | None]],
    evidence: Evidence,
    uncovered_fn: Callable[[Key, LogProbFn, Weighted], dict[str, Any]],
) -> Sampler:
    """The sampler with log Z and all that its weighted draws have to say.

    Args:
        key: the one that the draws were made with.
        others: estimates of log Z that these draws are pooled with.
        evidence: samples that show what the model does not cover.
        uncovered_fn: what the model lacks of the optima that were found, as checks.
    """
    model, sampling, num = sampler.model, sampler.sampling, weighted.log_weights.shape[0]
    own = checked_log_z(key, model, sampling, weighted)
    # A few heavy draws have no error to be pooled by: log Z rests on the others alone, if there are any.
    is_usable = float(weighted.pareto_k) <= RELIABLE_K or not others
    log_z, error = (finite_or_none(value) for value in pooled_log_z([own] * is_usable + others))
    last = sampler.levels[-1]
    last.num_nonfinite += weighted.num_nonfinite
    if last.lost_mass is not None:
        last.lost_mass = max(last.lost_mass, weighted.num_nonfinite / num)
    log_prob = lambda key, x: model.log_prob(key, x, sampling)  # noqa: E731
    seen = coverage(folded(key, num), log_prob, evidence, weighted.log_weights, jax.device_put(np.float32(1.0)))
    return dataclasses.replace(
        sampler,
        log_z=log_z,
        log_z_error=error,
        ess_fraction=weighted.ess_fraction,
        pareto_k=finite_or_none(weighted.pareto_k),
        checks=dataclasses.replace(
            sampler.checks,
            num_final_draws=num,
            log_z_final=finite_or_none(own[0]),
            log_z_final_error=finite_or_none(own[1]),
            determinants=determinants(sampling, weighted.states.position.shape[1]),
            cube_end=_mass_at_end(sampler.chart, weighted),
            **dataclasses.asdict(seen),
            **uncovered_fn(folded(key, 1), log_prob, weighted),
        ),
    )


def _mass_at_end(chart: Chart | None, weighted: Weighted) -> float | None:
    """The mass where a prior transform cannot tell points of the cube apart; None without a transform."""
    cube, y = chart, weighted.states.position
    if isinstance(chart, Composed):
        cube, y = chart.outer, jax.vmap(chart.inner.embed)(y)
    if not isinstance(cube, CubeChart):
        return None
    return finite_or_none(jnp.sum(jnp.where(jax.vmap(is_at_end)(y), normalised(weighted.log_weights), 0.0)))


def _optima(run: Run) -> Optima | None:
    """What the atlas of the run has found, to search on from; none in learned coordinates, which are not theirs."""
    found = run.start.found
    if found is None or found.is_shaped:
        return None
    optima = Optima(run.target.dim)
    arrays = (found.position, found.log_density, found.covariance, found.hits)
    optima.position, optima.log_density, optima.covariance, hits = (np.asarray(array, np.float64) for array in arrays)
    optima.precision, optima.hits = np.linalg.inv(optima.covariance), hits.astype(int)
    optima.is_peak, optima.slope = np.ones(len(hits), bool), np.zeros_like(optima.position)
    return optima


def _guided_log_z(run: Run, last: LevelRecord, final: Weighted) -> list[tuple[float | None, float | None]]:
    """The last level's own estimate, where its error can be trusted; or where the final draws' cannot at all."""
    dim, k = run.target.dim, last.pareto_k
    is_known = last.proposal == MODES or determinants(run.settings.sampling, dim) != "unchecked"
    most = _FINITE_K if float(final.pareto_k) <= RELIABLE_K else RELIABLE_K
    return [(last.log_z, last.log_z_error)] if k is not None and k <= most and is_known else []


def determinants(sampling: Sampling, dim: int) -> Literal["exact", "checked", "unchecked"]:
    """How the densities of draws in `dim` dimensions are known."""
    if is_exact(sampling, dim):
        return "exact"
    return "checked" if dim <= _LARGEST_CHECKED else "unchecked"


def checked_log_z(
    key: Key, model: DiffusionModel, sampling: Sampling, weighted: Weighted, *, is_quasi_random: bool = False
) -> tuple[float, float]:
    """log Z of weighted draws at T = 1; determinants that probes estimated are checked on some of the same draws.

    Args:
        key: the one that the draws were made with; `is_quasi_random` likewise.
    """
    num, dim = weighted.states.position.shape
    if determinants(sampling, dim) != "checked":
        return weighted.log_z
    first = min(num, _NUM_CHECKED)
    exactly = dataclasses.replace(sampling, divergence="exact", chunk_size=min(sampling.chunk_size, first))
    _, log_q = model.draw(key, num, exactly, with_density=True, is_quasi_random=is_quasi_random, rows=jnp.arange(first))
    # beta is 1 here, so that log w = log density - log q.
    log_weights = weighted.log_weights[:first]
    exact = weighted.states.log_density[:first] - log_q
    exact = jnp.where(jnp.isneginf(log_weights), -jnp.inf, exact)
    return recalibrated_log_z(weighted.log_z, log_weights, exact)
