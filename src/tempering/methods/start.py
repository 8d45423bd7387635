"""Where chains start: a user's own points, in the user's coordinates, made into starting points of the target.

Consumes an array, a tree or a function of them; produces points in the coordinates that a method works in.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tempering.errors import SettingsError, what_is
from tempering.parallel_tempering.initial import StartFn, normal_start, rows_start
from tempering.runs.ledger import Ledger
from tempering.targets.base import Target
from tempering.targets.cost import points_per_gradient, spend
from tempering.targets.rows import evaluate_rows
from tempering.types import Array, Float, Key

__all__ = ["inhabited", "own_start", "rows_of"]

_TRIED_SHARE, _MOST_TRIED, _BATCH = 0.05, 10_000, 250
"""Of the evaluations that are left, for starting points with a density; how many at the most, and at a time."""


def own_start(init: Any, target: Any, scale: float, *, prefers_own: bool = False) -> StartFn:
    """Starting points in the coordinates of the target.

    Args:
        init: None for normals of width `scale` around the origin; or the user's points, in the user's coordinates, or a
            function (key, num) that gives them.
        prefers_own: without `init`, draws of the target's reference in place of normals, or the target's own points,
            such as the conformation of a molecule, where it has any.

    Raises:
        SettingsError: if they are of another shape or structure, not finite, or outside the support.
    """
    if init is None:
        reference = target.reference if prefers_own else None
        own = target.init if prefers_own else None
        if reference is not None:
            return reference.sample
        return normal_start(target.dim, scale) if own is None else rows_start(jnp.asarray(own))
    if not callable(init):
        return rows_start(_inward(rows_of(init, target), target))

    def start_fn(key, num: int):
        try:
            points = init(key, num)
        except Exception as error:
            raise SettingsError(f"init(key, {num}) raised {type(error).__name__}: {error}; fix it") from error
        rows = rows_of(points, target, f"init(key, {num})", num)
        return _inward(rows, target)

    return start_fn


def inhabited(
    key: Key, target: Target, start_fn: StartFn, ledger: Ledger, wanted: int = 64
) -> Float[Array, "point dim"]:
    """Starting points where the density is finite, of as many as it takes, or as a part of the budget allows.

    For densities that are zero on nearly all of where chains would start: a prior may be a hundred times as wide as
    the support of its likelihood.
    """
    each, kept, num_kept = points_per_gradient(target), [], 0
    left = _MOST_TRIED * each if ledger.budget is None else ledger.budget - ledger.total
    for batch in range(int(min(_TRIED_SHARE * left / each, _MOST_TRIED)) // _BATCH):
        points = start_fn(jax.random.fold_in(key, batch), _BATCH)
        spend(ledger, "pilot", target, _BATCH)
        value, gradient = evaluate_rows(target, np.asarray(points))
        is_good = np.isfinite(value) & np.all(np.isfinite(gradient), axis=1)
        kept.append(np.asarray(points)[is_good])
        num_kept += len(kept[-1])
        if num_kept >= wanted:
            break
    return jnp.asarray(np.concatenate(kept) if kept else np.zeros((0, target.dim)), jnp.float32)


def rows_of(init: Any, target: Any, what: str = "init", num: int | None = None) -> np.ndarray:
    """Starting points as rows of the user's coordinates.

    Args:
        what: how a refusal calls them.
        num: how many there must be, where it is known.

    Raises:
        SettingsError: if they are of another shape or structure, or not finite.
    """
    chart, structure = target.chart, target.structure
    dim = target.dim if chart is None else chart.full_dim
    try:
        if structure is None and np.iscomplexobj(init):
            raise TypeError("points must be real numbers, not complex ones")
        rows = np.asarray(init, np.float32) if structure is None else structure.flatten(init, what)
    except SettingsError:
        raise
    except (TypeError, ValueError) as error:
        raise SettingsError(f"{what} is {what_is(init)} that is not an array of numbers; give (n, {dim})") from error
    if num is not None and rows.shape != (num, dim):
        raise SettingsError(f"{what} returned shape {rows.shape}; it must return ({num}, {dim})")
    if rows.ndim != 2 or rows.shape[1] != dim or rows.shape[0] == 0:
        raise SettingsError(f"{what} has shape {rows.shape}; it must be finite, of shape (n, {dim}) with n at least 1")
    is_finite = np.isfinite(rows)
    if not (np.any(np.all(is_finite, axis=1)) if num is not None else np.all(is_finite)):  # a function may miss, seldom
        raise SettingsError(f"{what} of shape {rows.shape} must be finite")
    return rows


def _inward(rows: np.ndarray, target: Any) -> Float[Array, "chain dim"]:
    """Rows in inner coordinates; those of a chart must lie within its support."""
    points, chart = jnp.asarray(rows), target.chart
    if chart is None:
        return points
    is_inside = np.asarray(jax.vmap(chart.contains)(points))
    if not np.all(is_inside):
        first = int(np.argmin(is_inside))
        raise SettingsError(
            f"init has {np.sum(~is_inside)} of {len(rows)} points outside the support ({chart}), the first in row "
            f"{first}: {np.array2string(rows[first], precision=4, threshold=8)}; give points inside, off the boundary"
        )
    return jax.vmap(chart.restrict)(points)
