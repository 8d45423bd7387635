"""The optima of the atlas at the end of a run: told to the user, and held against the final model."""

from typing import Any

import jax
import numpy as np

from tempering.atlas.mixture import drawn_of, log_densities, mixture_of
from tempering.atlas.optima import laplace_log_mass
from tempering.devices.keys import folded, split
from tempering.methods.atlas import Found
from tempering.methods.from_modes import optima_in
from tempering.methods.run import Run
from tempering.runs.records import Mode, finite_or_none
from tempering.sampler.diagnosis.coverage import LogProbFn
from tempering.targets.cost import points_per_gradient, spend
from tempering.targets.rows import evaluate_rows
from tempering.targets.shaped import Shaped
from tempering.transforms import embed_rows
from tempering.types import Array, Float, Key
from tempering.weights.ess import NUM_JUDGED
from tempering.weights.hidden import hidden_limit
from tempering.weights.weigh import Weighted

__all__ = ["modes_of", "most_to_uncover", "uncovered"]

_MATTERS = 1e-3
"""Local weight, or Laplace's mass over Z, from which an optimum is looked at."""
_NU, _WIDENING = 8.0, 1.15


def modes_of(run: Run) -> tuple[Mode, ...]:
    """The optima that were found, the largest local weight first, in the user's coordinates."""
    found, target = run.start.found, run.target
    chart = (target.target if isinstance(target, Shaped) else target).chart
    if found is None or len(found.log_density) == 0:
        return ()
    places = found.position if chart is None else embed_rows(chart, found.position)
    numbers = (np.asarray(array).tolist() for array in (places, found.log_density, found.weight, found.hits))
    modes = [Mode(tuple(place), value, weight, int(hits)) for place, value, weight, hits in zip(*numbers, strict=True)]
    return tuple(sorted(modes, key=lambda mode: -mode.weight))


def most_to_uncover(run: Run) -> int:
    """The most evaluations that `uncovered` spends."""
    is_known = run.start.found is not None and len(run.start.found.log_density) > 0
    return NUM_JUDGED * points_per_gradient(run.target) * is_known


def uncovered(run: Run, key: Key, log_prob_fn: LogProbFn, weighted: Weighted) -> dict[str, Any]:
    """The mass about optima where the final model has practically nothing, and how many optima these are.

    An optimum is under suspicion if the model's density there is far too low. Laplace's weight of it may be wrong, on a
    ridge for one: so draws about those under suspicion tell the mass, as many as one batch, where they are affordable.
    Where they are not, Laplace's mass over Z does: a funnel's only optimum may hold next to nothing.
    """
    found = run.start.found
    if found is None or len(found.log_density) == 0:
        return {}
    key_optima, key_draw, key_draws = split(key, 3)
    position, log_density = optima_in(found)
    log_z, _ = weighted.log_z
    limit = log_z + hidden_limit(np.asarray(weighted.log_weights) - log_z)
    log_mass = laplace_log_mass(*map(np.asarray, (found.log_density, found.covariance, found.num_walls)))
    # Beside a flat ridge, whose second derivatives promise any mass, an optimum of half of Z looks like nothing.
    matters = (np.asarray(found.weight) >= _MATTERS) | (log_mass - log_z >= np.log(_MATTERS))
    ratios = np.asarray(log_density) - _log_q(log_prob_fn, key_optima, position)
    is_hidden = ~(ratios <= limit) & matters
    if not np.any(is_hidden):
        return {"uncovered": 0.0, "num_uncovered": 0}
    num = int(np.sum(is_hidden))
    ledger, cost = run.journal.ledger, most_to_uncover(run)
    if ledger.budget is not None and ledger.total + cost > ledger.budget:
        mass = np.sum(np.exp(np.minimum(log_mass[is_hidden] - log_z, 0.0)))
        return {"uncovered": finite_or_none(min(1.0, float(mass))), "num_uncovered": num}
    spend(ledger, "final_weights", run.target, NUM_JUDGED)
    weight, place, width = (np.asarray(array)[is_hidden] for array in (found.weight, found.centre, found.covariance))
    about = mixture_of(weight, place, width, _NU, _WIDENING)
    draws = drawn_of(key_draw, about, NUM_JUDGED)
    inner, log_r = _inward(found, draws, log_densities(about, draws))
    value = evaluate_rows(run.target, inner)[0]
    is_beyond = ~(value - np.asarray(log_prob_fn(key_draws, jax.device_put(inner))) <= limit) & np.isfinite(value)
    mass = np.mean(np.where(is_beyond, np.exp(np.minimum(value - log_r - log_z, 50.0)), 0.0))
    return {"uncovered": finite_or_none(min(1.0, float(mass))), "num_uncovered": num}


def _log_q(log_prob_fn: LogProbFn, key: Key, position: Float[Array, "optimum dim"]) -> np.ndarray:
    """Of the model at the optima, in batches of the size that is compiled already."""
    num, dim = position.shape
    batches = np.resize(np.asarray(position), (-(-num // NUM_JUDGED), NUM_JUDGED, dim))
    found = [log_prob_fn(folded(key, index), jax.device_put(batch)) for index, batch in enumerate(batches)]
    return np.concatenate([np.asarray(own) for own in found])[:num]


def _inward(found: Found, draws: np.ndarray, log_r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Draws and their log densities in the coordinates that the run works in."""
    if not found.is_shaped:
        return draws, log_r
    inner = jax.vmap(found.learned.restrict)(jax.device_put(draws))
    return np.asarray(inner), log_r + np.asarray(jax.vmap(found.learned.log_volume)(inner))
