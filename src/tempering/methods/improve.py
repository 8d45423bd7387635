"""Going on with a sampler instead of starting over: search, draw, weigh, pool, learn, weigh.

Consumes a sampler and what was paid for it (`sampler.paid`); produces a new sampler. Searches look for modes that the
model does not cover. Draws come from the model and, where it lacks modes, from these; all that is known goes into one
weighted set, which the network is trained on from where it is. A model that became worse gives way to the one before.
"""

import dataclasses
import functools
from contextlib import nullcontext
from typing import cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering._compat import collected_seldom
from tempering.adapters import reporting
from tempering.adapters.hosting import hosted
from tempering.atlas.mixture import drawn_of
from tempering.atlas.survey import Survey
from tempering.buffer import Buffer
from tempering.diffusion import Denoiser, DiffusionModel
from tempering.diffusion.calibrate import dataset_of, largest_sigma, stack, unstack
from tempering.errors import DensityError
from tempering.methods.finish import determinants, with_final_weights
from tempering.methods.going import Going, Known, Modes, begin_again
from tempering.methods.learn import fit_soundly, note_fit
from tempering.methods.missing_modes import missing_modes, modes_at, search, searched_checks, uncovered_at
from tempering.methods.model import model_of_buffer
from tempering.methods.pooling import Pool, balanced, joined_buffer, share_of_modes, together
from tempering.methods.second_look import look_again
from tempering.runs.points import has_points
from tempering.runs.records import Checks, finite_or_none
from tempering.runs.watching import followed
from tempering.sampler import Sampler
from tempering.sampler.paid import FIT, Paid, usable, weighted_buffer
from tempering.settings import Resampling, as_whole, require_count, require_flag, require_seed
from tempering.targets.cost import has_gradient
from tempering.types import Key, OnEvent
from tempering.weights.ess import NUM_JUDGED, predicted_ess_fraction
from tempering.weights.log_z import log_z_with_tail
from tempering.weights.resample import indices_by_weight
from tempering.weights.truncate import truncated
from tempering.weights.weigh import Weighted, weigh

__all__ = ["go_on", "improve"]

_ENOUGH_DRAWS = 500
"""Weighted draws of the model from which its log Z is known well enough to say what it lacks."""
_LEAST_OF_MODES, _MOST_OF_MODES = 0.2, 0.8
"""Of the new draws, where modes are missing."""
_RELIABLE = 0.5
"""Pareto k up to which an estimate of log Z has an error that can be pooled by."""
_IMPROVED = "improved-"
"""Begins the names of draws that an improvement made of the model from before, which it kept."""
_KEPT = "training did not make the model better: the one from before was kept"


def improve(sampler: Sampler, budget: int, *, seed: int = 0, progress: bool = True) -> Sampler:
    """What `Sampler.improve` does; arguments and refusals as there."""
    budget = as_whole(budget)
    require_count("budget", budget)
    require_seed("seed", seed)
    require_flag("progress", progress)
    kept = sampler.folder if sampler.folder is not None and has_points(sampler.folder) else None
    with (
        nullcontext() if sampler.target is None else hosted(sampler.target, kept, int(budget)) as hosts,
        followed(progress, callback=None, hosts=hosts) as (on_event, watch),
    ):
        improved = go_on(sampler, int(budget), jax.random.key(int(seed)), on_event)
    before, now = sampler.seconds, watch.stop()
    improved.host = sampler.host if hosts is None else hosts.joined(sampler.host)
    improved.seconds = {stage: round(before.get(stage, 0.0) + now.get(stage, 0.0), 3) for stage in before | now}
    return improved


def go_on(sampler: Sampler, budget: int, key: Key, on_event: OnEvent) -> Sampler:
    """The same with a key and an observer."""
    if sampler.target is None:
        raise DensityError("improving needs the density, which is not stored: load with tp.load(folder, log_density)")
    going = begin_again(sampler, budget, key, on_event)
    with collected_seldom(), reporting(going.target):
        known = _draw_first(going)
        surveyed = search(going, known)
        modes = missing_modes(going, known, surveyed)
        pool = _draw(going, known, modes)
        samples = _pooled(going, pool, modes)
        model = _learn(going, samples)
        return _finish(going, model, samples, surveyed, modes)


Sampler.improver = staticmethod(improve)


def _draw_first(going: Going) -> Known:
    """The draws of the model that were weighed before; some more where these are few."""
    buffers = list(going.sampler.paid.draws.values())
    log_models = [np.asarray(own.log_density, np.float64) - np.asarray(own.log_weight, np.float64) for own in buffers]
    missing = min(_ENOUGH_DRAWS, going.plan["draw"] // 4) - sum(own.size for own in buffers)
    if missing > 0:
        x, log_q = going.draw(going.keys["first"], missing, going.sampler.model, "drawing")
        weighted = weigh(going.target, x, log_q, jnp.ones(()), ledger=going.ledger, stage="importance_weights")
        going.plan["draw"] -= missing
        going.fresh["first"] = weighted
        buffers.append(weighted_buffer(weighted))
        log_models.append(np.asarray(log_q, np.float64))
    draws, log_model = joined_buffer(buffers), np.concatenate(log_models)
    return Known(draws, log_model, log_z_with_tail(draws.log_weight)[0])


def _draw(going: Going, known: Known, modes: Modes) -> Pool:
    """New draws of the model, and of modes that it lacks, weighed together with the draws from before."""
    num = going.plan["draw"]
    of_modes = 0 if modes is None else int(np.clip(modes[1], _LEAST_OF_MODES, _MOST_OF_MODES) * num)
    going.plan["of_modes"] = of_modes
    key_model, key_modes, key_density = jax.random.split(going.keys["draw"], 3)
    x, log_q = going.draw(key_model, num - of_modes, going.sampler.model, "drawing")
    log_model = np.asarray(log_q, np.float64)
    if modes is not None:
        at_modes = jax.device_put(drawn_of(key_modes, modes[0], of_modes))
        x, log_model = jnp.concatenate([x, at_modes]), np.append(log_model, going.log_model(key_density, at_modes))
    # Weights come below: here only what has no density of its own loses its weight.
    log_known = jnp.where(jnp.all(jnp.isfinite(x), axis=1), 0.0, jnp.nan)
    weighted = weigh(going.target, x, log_known, jnp.ones(()), ledger=going.ledger, stage="importance_weights")
    new = weighted_buffer(weighted)
    together_with = joined_buffer([known.draws, new])
    pool = balanced(together_with, np.append(known.log_model, log_model), of_modes, modes and modes[0])
    own = slice(0, num - of_modes)
    states = jax.tree.map(lambda leaf: leaf[own], weighted.states)
    log_weights = jnp.where(jnp.isfinite(log_q), weighted.log_weights[own] - log_q, -jnp.inf)
    going.fresh["draw"] = Weighted(states, log_weights, 0)
    _note_draws(going, pool, num, weighted.num_nonfinite)
    return pool


def _note_draws(going: Going, pool: Pool, num: int, num_nonfinite: int) -> None:
    """Write down what the weights of all draws say."""
    record, weighted = going.record, _weighted(pool.buffer)
    weighted.require_weight()
    record.ess_fraction, record.num_draws = weighted.ess_fraction, pool.buffer.size
    record.pareto_k, record.num_nonfinite = finite_or_none(weighted.pareto_k), num_nonfinite
    record.unseen = finite_or_none(weighted.unseen)
    spent = going.ledger.points.get("importance_weights", 0)
    before = going.sampler.ledger.points.get("importance_weights", 0)
    record.evaluations = {"importance_weights": spent - before}
    if determinants(going.sampler.sampling, going.target.dim) == "exact":
        record.log_z, record.log_z_error = (finite_or_none(number) for number in weighted.log_z)


def _weighted(buffer: Buffer) -> Weighted:
    return Weighted(buffer.states(), buffer.log_weight, 0)


def _pooled(going: Going, pool: Pool, modes: Modes) -> Buffer:
    """All that is known of the density as one weighted set: draws, and samples of the last level."""
    key_density, key_order = jax.random.split(going.keys["pool"])
    cut = truncated(_weighted(pool.buffer), getattr(going.settings, "resampling", Resampling()))
    going.record.truncated_ess_fraction = cut.ess_fraction
    pool = Pool(eqx.tree_at(lambda tree: tree.log_weight, pool.buffer, cut.log_weights), pool.of_modes)
    level = going.sampler.paid.level
    level = None if level is None else usable(level)
    of_modes = np.zeros(0 if level is None else level.size)
    if level is not None and modes is not None:
        log_model = going.log_model(key_density, level.position)
        of_modes = share_of_modes(level, log_model, going.plan["of_modes"], pool.buffer.size, modes[0])
    return together(key_order, pool, level, of_modes)


def _learn(going: Going, samples: Buffer) -> DiffusionModel:
    """The network trained on all samples from where it is; the model from before where that is no better."""
    before, settings, record = going.sampler.model, going.settings, going.record
    noise, training, has_gradients = settings.noise, settings.training, has_gradient(going.target)
    sigma_max = jnp.maximum(before.levels.sigma_max, largest_sigma(noise, samples))
    data = dataset_of(
        noise,
        (samples,),
        jnp.ones((1,)),
        sigma_max,
        use_gradients=training.use_gradients and has_gradients,
        has_gradients=has_gradients,
    )
    tell = lambda step, loss: going.tell("training", step, training.num_steps, loss=loss)  # noqa: E731
    keys = jax.random.split(going.keys["learn"], 1)
    network = cast(Denoiser, before.denoise).network
    fitted, info = fit_soundly(keys, stack(network), stack(data), training, training.num_steps, record, on_check=tell)
    note_fit(record, info, 0)
    after = model_of_buffer(noise, samples, sigma_max, unstack(fitted, 1)[0], has_gradients=has_gradients)
    promises = [_promise(going, model, samples) for model in (before, after)]
    record.predicted_ess_fraction = promises[1]
    if promises[1] >= promises[0]:
        return after
    record.note_rescue(_KEPT, is_lasting=False)
    return before


def _promise(going: Going, model: DiffusionModel, samples: Buffer) -> float:
    """The effective share that a model's weights will have, from samples of the density."""
    key_pick, key_density = jax.random.split(going.keys["judge"])
    rows = indices_by_weight(key_pick, samples.log_weight, NUM_JUDGED, "systematic")
    log_q = model.log_prob(key_density, samples.position[rows], going.sampler.sampling)
    even = jnp.full((NUM_JUDGED,), -jnp.log(float(NUM_JUDGED)))
    return float(predicted_ess_fraction(samples.log_density[rows] - log_q, even))


def _finish(going: Going, model: DiffusionModel, samples: Buffer, surveyed: Survey | None, modes: Modes) -> Sampler:
    """The new sampler, weighed, with all that is known now."""
    old, record, num = going.sampler, going.record, going.plan["final"]
    optima = old.paid.optima if surveyed is None else surveyed.optima
    sampler = dataclasses.replace(
        old,
        model=model,
        levels=[*old.levels, record],
        ledger=going.ledger,
        log_z=record.log_z if record.log_z is not None else old.log_z,
        log_z_error=record.log_z_error if record.log_z is not None else old.log_z_error,
        checks=_checks(old, surveyed, is_new=model is not old.model),
        modes=old.modes if surveyed is None else modes_at(optima, old.chart),
        settings=going.settings,
        folder=None,
    )
    paid = Paid(samples, old.paid.witnesses, optima)
    if model is old.model:
        paid.weights, paid.draws = (_renamed(own, going.ledger.total) for own in (old.paid.weights, old.paid.draws))
        for name, weighted in going.fresh.items():
            paid.note(f"{_IMPROVED}{name}-{going.ledger.total}", weighted)
        # No draw twice: the samples hold them all, and those at new modes besides.
        paid.level, paid.draws = (old.paid.level, paid.draws) if modes is None else (samples, {})
    if num > 0:
        draw = lambda key, num: going.draw(key, num, model, "final weights")  # noqa: E731
        x, log_q = draw(going.keys["final"], num)
        weighted = weigh(going.target, x, log_q, jnp.ones(()), ledger=going.ledger, stage="final_weights")
        sampler, weighted = look_again(going.keys["final"], sampler, weighted, draw, going.target, going.ledger)
        evidence = tuple((own, jnp.ones(())) for own in (*old.paid.witnesses, samples))
        others = _other_estimates(going, modes)
        uncovered_fn = functools.partial(uncovered_at, optima)
        sampler = with_final_weights(sampler, going.keys["final"], weighted, others, evidence, uncovered_fn)
        paid.note(FIT, weighted)
    sampler.paid = paid
    return sampler


def _checks(old: Sampler, surveyed: Survey | None, *, is_new: bool) -> Checks:
    """Those of before with the searches of now; of the first draws of a new model nothing is known yet."""
    checks = searched_checks(old, surveyed)
    return dataclasses.replace(checks, num_first_draws=None, unseen_first=None) if is_new else checks


def _renamed(own: dict, total: int) -> dict:
    """Draws of a fit under another name, so that new ones can take theirs."""
    return {(f"{FIT}-{total}" if name == FIT else name): draws for name, draws in own.items()}


def _other_estimates(going: Going, modes: Modes) -> list[tuple[float | None, float | None]]:
    """Estimates of log Z that the final draws are pooled with: trustworthy ones that lack no mode that is known now."""
    record, old = going.record, going.sampler
    last = old.levels[-1] if old.levels else None
    found = [(record.log_z, record.log_z_error, record.pareto_k)]
    if modes is None and record.log_z is None:
        found.append((old.log_z, old.log_z_error, old.pareto_k))
    elif modes is None and last is not None and not _is_of_kept_draws(old):
        found.append((last.log_z, last.log_z_error, last.pareto_k))
    return [(log_z, error) for log_z, error, k in found if k is not None and k <= _RELIABLE]


def _is_of_kept_draws(old: Sampler) -> bool:
    """Whether the last estimate is of draws that are weighed again now: those of a model that was improved and kept."""
    return any(name.startswith((_IMPROVED, f"{FIT}-")) for name in old.paid.draws)
