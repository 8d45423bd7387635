"""A triangular chart from weighted points. A pure function: it evaluates no target."""

import jax.numpy as jnp
import numpy as np

from tempering.errors import SettingsError
from tempering.shape.order import best_order, pair_gains
from tempering.shape.tails import STRAIGHT, fit_bend, misfit, straightened
from tempering.shape.terms import NUM_FOLDS, Conditional, Term, choose_terms
from tempering.transforms.triangular import Triangular, products_of
from tempering.types import Array, Float

__all__ = ["fit_triangular"]

_LEAST_POINTS = 30
"""Effective points a dimension, below which weights are flattened: fewer do not fix the widths of a normal."""
_MOST_POINTS = 3000
"""That a fit looks at; more take time and change little."""
_NUM_ORDERED = 1000
"""Points that the order is chosen from."""


def fit_triangular(
    points: Float[Array, "point dim"] | np.ndarray,
    log_weights: Float[Array, " point"] | np.ndarray,
    *,
    is_bent: bool = True,
) -> Triangular:
    """The chart in whose coordinates the weighted points are as normal as a chart can make them.

    Where few points have weight, weights are raised to the largest power that leaves 30 effective points a dimension:
    the chart is then of a wider density, and the next draws know more.

    Args:
        log_weights: up to a constant; -inf for a point that does not count.
        is_bent: whether skew and tails of the residuals are fitted too. Not of points that do not reach as far as the
            density does: the chart would take the end of what was seen for the density's own. Whole coordinates are
            bent where points are likelier for it, which those of a funnel or a valley are not.

    Raises:
        SettingsError: if fewer than two points have weight.
    """
    x, log_w = np.asarray(points, np.float64), np.asarray(log_weights, np.float64)
    is_usable = np.isfinite(log_w) & np.all(np.isfinite(x), axis=1)
    if np.sum(is_usable) < 2:
        raise SettingsError(
            f"{np.sum(is_usable)} of {len(log_w)} points are finite and have weight; a chart needs 2, better hundreds"
        )
    rng = np.random.default_rng(0)  # folds and thinning: the same points give the same chart
    x, weights = _thinned(rng, x[is_usable], _flattened(log_w[is_usable], _LEAST_POINTS * float(x.shape[1])))
    centre = weights @ x / np.sum(weights)
    width = np.sqrt(weights @ (x - centre) ** 2 / np.sum(weights))
    width = np.where(width > 1e-12 * (1.0 + np.abs(centre)), width, 1.0)  # a coordinate that does not vary
    u = (x - centre) / width
    folds = rng.integers(0, NUM_FOLDS, len(u))
    chart, log_likelihood = _fitted(u, centre, width, np.zeros((2, u.shape[1])), weights, folds, is_bent=is_bent)
    bends = np.array([fit_bend(column, weights) for column in u.T]).T
    if not np.any(bends):
        return chart
    straight, log_slopes = straightened(u, bends)
    shift, *own, log_width = bends
    other, its = _fitted(
        *(straight, centre + width * np.exp(log_width) * shift, width * np.exp(log_width), np.array(own)),
        *(weights, folds),
        is_bent=is_bent,
    )
    return other if its - weights @ np.sum(log_slopes, axis=1) > log_likelihood else chart


def _fitted(
    u: np.ndarray,
    centre: np.ndarray,
    width: np.ndarray,
    own: np.ndarray,
    weights: np.ndarray,
    folds: np.ndarray,
    *,
    is_bent: bool,
) -> tuple[Triangular, float]:
    """The chart of points that are straight already, and their log likelihood in it, in units of u.

    Args:
        own: skews and log tails that made them straight.
    """
    order = best_order(pair_gains(*_evened(u, weights)))
    first, second = products_of(u.shape[1])
    pairs = [(int(j), int(k)) for j, k in zip(first, second, strict=True)]
    parts = []
    for place, index in enumerate(order):
        before = order[:place]
        known = [pair for pair in pairs if set(pair) <= set(before)]
        parts.append(choose_terms(u, index, before, known, weights, folds))
    standard = [part.fitted.residuals * np.exp(-part.fitted.log_scales) for part in parts]
    bends = np.array([fit_bend(values, weights) if is_bent else STRAIGHT for values in standard])
    losses = [
        weights @ part.fitted.log_scales + misfit(bend, values, weights)
        for part, bend, values in zip(parts, bends, standard, strict=True)
    ]
    return _assembled(order, centre, width, parts, pairs, bends, own), -float(np.sum(losses))


def _flattened(log_weights: np.ndarray, least: float) -> np.ndarray:
    """w^a with the largest a <= 1 that leaves `least` effective points, or half of all; their sum is that number."""
    log_weights = log_weights - np.max(log_weights)
    least = min(least, 0.5 * len(log_weights))

    def powered(power: float) -> tuple[np.ndarray, float]:
        weights = np.exp(power * log_weights)
        size = np.sum(weights) ** 2 / np.sum(weights**2)
        return weights / np.sum(weights) * size, float(size)

    weights, size = powered(1.0)
    low, high = 0.0, 1.0
    for _ in range(0 if size >= least else 30):
        middle = 0.5 * (low + high)
        weights, size = powered(middle)
        low, high = (middle, high) if size >= least else (low, middle)
    return weights


def _thinned(rng: np.random.Generator, x: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """At most about `_MOST_POINTS`, of the same sum: heavy points stay, light ones are drawn and weigh more."""
    total = np.sum(weights)
    keep = np.minimum(1.0, _MOST_POINTS * weights / total) if len(x) > _MOST_POINTS else np.ones(len(x))
    chosen = (rng.random(len(x)) < keep) & (weights > 1e-9 * np.max(weights))
    weights = weights[chosen] / keep[chosen]
    return x[chosen], weights * total / np.sum(weights)


def _evened(points: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """At most `_NUM_ORDERED` points of equal weight, by systematic resampling."""
    num = min(_NUM_ORDERED, len(points))
    ends = np.cumsum(weights)
    rows = np.searchsorted(ends / ends[-1], (np.arange(num) + 0.5) / num)
    return points[np.minimum(rows, len(points) - 1)], np.full(num, min(ends[-1], num) / num)


def _assembled(
    order: list[int],
    centre: np.ndarray,
    width: np.ndarray,
    parts: list[Conditional],
    pairs: list[Term],
    bends: np.ndarray,
    own: np.ndarray,
) -> Triangular:
    """The arrays of the chart from the terms of every coordinate, and how residuals and coordinates are bent."""
    dim, column = len(order), {pair: number for number, pair in enumerate(pairs)}
    mean, mean_linear, mean_products = np.zeros(dim), np.zeros((dim, dim)), np.zeros((dim, len(pairs)))
    log_scale, scale_linear = np.zeros(dim), np.zeros((dim, dim))
    for row, part in enumerate(parts):
        fitted = part.fitted
        for term, coefficient in zip(part.mean_terms, fitted.mean, strict=True):
            if len(term) == 2:
                mean_products[row, column[term]] = coefficient
            elif term:
                mean_linear[row, term[0]] = coefficient
            else:
                mean[row] = coefficient
        for term, coefficient in zip(part.scale_terms, fitted.log_scale, strict=True):
            if term:
                scale_linear[row, term[0]] = coefficient
            else:
                log_scale[row] = coefficient
    log_scale += bends[:, 3]
    arrays = [centre, width, mean, mean_linear, mean_products, log_scale, scale_linear, *bends.T[:3], *own]
    return Triangular(jnp.asarray(order, jnp.int32), *(jnp.asarray(array, jnp.float32) for array in arrays))
