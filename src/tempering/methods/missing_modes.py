"""Searches for modes that a model does not cover, and which of them it lacks."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tempering.atlas.adapt import first_guess
from tempering.atlas.optima import Optima
from tempering.atlas.survey import Survey, missing_chance, survey
from tempering.methods.going import Going, Known, Modes
from tempering.runs.records import Checks, Mode, finite_or_none
from tempering.sampler import Sampler
from tempering.sampler.diagnosis.coverage import LogProbFn
from tempering.sampler.paid import OF_OPTIMA, usable
from tempering.targets.cost import points_per_gradient
from tempering.transforms import Chart, embed_rows
from tempering.types import Key
from tempering.weights.hidden import HIDDEN_MARGIN, HIDDEN_RATIO, hidden_limit
from tempering.weights.weigh import Weighted

__all__ = ["missing_modes", "modes_at", "search", "searched_checks", "uncovered_at"]

_MATTERS = 1e-4
"""Mass of a missing mode, by Laplace's approximation, from which it is drawn from."""
_TOLD = 1e-3
"""Local weight from which an optimum that the final model lacks is told of."""
_WIDEST = 5.0
"""Searches start from samples moved by up to so many of their spreads."""


def search(going: Going, known: Known) -> Survey | None:
    """More searches uphill, from other starts; what they leave of their evaluations goes into draws."""
    affordable, each = going.plan["search"], points_per_gradient(going.target)
    if affordable == 0:
        return None
    before, paid = going.ledger.total, going.sampler.paid
    seed = int(jax.random.randint(going.keys["search"], (), 0, 2**31 - 1))
    surveyed = survey(
        seed,
        going.target,
        going.ledger,
        affordable * each,
        scale=going.settings.initial.scale,
        own_fn=_starts(going, known),
        optima=None if paid.optima is None else _copy(paid.optima),
        on_look=lambda done, total: going.tell("searching for modes", going.ledger.total - before, affordable * each),
    )
    going.plan["draw"] += affordable - (going.ledger.total - before) // each
    return surveyed


def _copy(optima: Optima) -> Optima:
    """With hits of its own, which a survey counts in place."""
    copied = dataclasses.replace(optima)
    for name in OF_OPTIMA:
        setattr(copied, name, np.array(getattr(optima, name)))
    return copied


def _starts(going: Going, known: Known):
    """Starts of searches: samples that the model does not cover, where there are any; else all, moved far and near."""
    paid = going.sampler.paid
    buffers = [*paid.witnesses, *([] if paid.level is None else [paid.level])]
    rows = np.concatenate([np.asarray(own.position) for own in map(usable, buffers or [known.draws])])
    for witness in map(usable, paid.witnesses):
        ratio = np.asarray(witness.log_density) - going.log_model(going.keys["search"], witness.position) - known.log_z
        is_hidden = ~(ratio <= HIDDEN_RATIO + HIDDEN_MARGIN)
        rows = np.asarray(witness.position)[is_hidden] if np.sum(is_hidden) > 2 else rows
    width = np.maximum(np.std(rows, axis=0), 1e-6)

    def own_fn(rng: np.random.Generator, num: int) -> tuple[np.ndarray, np.ndarray]:
        factors = np.exp(rng.uniform(np.log(0.1), np.log(_WIDEST), num))
        moved = factors[:, None] * width * rng.normal(size=(num, rows.shape[1]))
        return rows[rng.integers(len(rows), size=num)] + moved, factors * float(np.mean(width))

    return own_fn


def missing_modes(going: Going, known: Known, surveyed: Survey | None) -> Modes:
    """Modes that matter and that the model does not cover, and their mass over that of all; None without any."""
    if surveyed is None or len(surveyed.optima) == 0:
        return None
    optima = surveyed.optima
    log_q = going.log_model(going.keys["modes"], jnp.asarray(optima.position, jnp.float32))
    log_z = known.log_z
    is_missing = ~(optima.log_density - log_q - log_z <= HIDDEN_RATIO + HIDDEN_MARGIN) & optima.is_peak
    log_mass = optima.log_mass()
    log_all = np.logaddexp(log_z, np.logaddexp.reduce(log_mass[is_missing], initial=-np.inf))
    is_missing &= log_mass - log_all > np.log(_MATTERS)
    if not np.any(is_missing):
        return None
    chosen = Optima(optima.dim)
    for name in OF_OPTIMA:
        setattr(chosen, name, getattr(optima, name)[is_missing])
    return first_guess(chosen), float(np.exp(np.logaddexp.reduce(log_mass[is_missing]) - log_all))


def searched_checks(sampler: Sampler, surveyed: Survey | None) -> Checks:
    """The checks with the searches of before, whose optima are known, and of now together."""
    checks = sampler.checks
    if surveyed is None:
        return checks
    before = sampler.paid.optima is not None
    num = surveyed.num_searches + (checks.atlas_num_searches or 0.0 if before else 0.0)
    optima = surveyed.optima
    return dataclasses.replace(
        checks,
        num_optima=len(optima),
        atlas_num_searches=num,
        atlas_num_lost=surveyed.num_lost + (checks.atlas_num_lost or 0.0 if before else 0.0),
        atlas_missing=missing_chance(optima.hits, optima.local_weight(), int(num)),
    )


def modes_at(optima: Optima | None, chart: Chart | None) -> tuple[Mode, ...]:
    """The optima in the user's coordinates, the largest local weight first."""
    if optima is None or len(optima) == 0:
        return ()
    places = jnp.asarray(optima.position, jnp.float32)
    places = places if chart is None else embed_rows(chart, places)
    numbers = (np.asarray(array).tolist() for array in (places, optima.log_density, optima.local_weight(), optima.hits))
    modes = [Mode(tuple(place), value, weight, int(hits)) for place, value, weight, hits in zip(*numbers, strict=True)]
    return tuple(sorted(modes, key=lambda mode: -mode.weight))


def uncovered_at(optima: Optima | None, key: Key, log_prob_fn: LogProbFn, weighted: Weighted) -> dict[str, Any]:
    """Local weight and number of optima where the final model has practically nothing."""
    if optima is None or len(optima) == 0:
        return {}
    log_q = np.asarray(log_prob_fn(key, jnp.asarray(optima.position, jnp.float32)))
    log_z, _ = weighted.log_z
    limit = hidden_limit(np.asarray(weighted.log_weights, np.float64) - log_z)
    weight = optima.local_weight()
    is_hidden = ~(optima.log_density - log_q - log_z <= limit) & (weight >= _TOLD)
    return {"uncovered": finite_or_none(np.sum(weight[is_hidden])), "num_uncovered": int(np.sum(is_hidden))}
