"""Widths of a flat top: where second derivatives nearly vanish they promise a width at which there is nothing left.

exp(-x^8) has no curvature at its top, and a finite one beside it: a width of thousands in place of one. Two values tell
such a top, and a few more along the axes how wide it is.
"""

import dataclasses

import numpy as np

from tempering.atlas.optima import Shape
from tempering.runs.ledger import Ledger
from tempering.targets.base import Target
from tempering.targets.cost import points_per_gradient, spend
from tempering.targets.rows import evaluate_rows

__all__ = ["with_measured_widths"]

_FAR_TOO_LOW = 1000.0
"""Nats below the top, one width away, where half a nat is promised. A curved valley is some tens lower."""
_FALL, _NUM_HALVINGS = 1.0, 24
"""Nats that the density may fall within a width that is measured, and halvings of the promised one that are tried."""


def with_measured_widths(target: Target, shape: Shape, ledger: Ledger, limit: int) -> Shape:
    """The shape of an optimum, with widths that were measured where those by second derivatives are far too large.

    Two evaluations, and `2 dim` for every halving where they tell of a flat top; none where that would pass `limit`.
    """
    dim, each = target.dim, points_per_gradient(target)
    if ledger.total + (2 + 2 * dim * _NUM_HALVINGS) * each > limit:
        return shape
    squares, axes = np.linalg.eigh(shape.covariance)
    widths = np.sqrt(np.maximum(squares, 1e-30))
    ray = axes @ (widths / np.sqrt(dim))
    if np.min(_falls(target, shape, np.stack([ray, -ray]), ledger)) < _FAR_TOO_LOW:
        return shape
    factors = 0.5 ** np.arange(_NUM_HALVINGS)
    steps = factors[:, None, None] * (axes * widths).T[None]  # halving, axis, dim
    falls = np.stack([_falls(target, shape, (sign * steps).reshape((-1, dim)), ledger) for sign in (1.0, -1.0)])
    is_within = np.max(falls.reshape((2, _NUM_HALVINGS, dim)), axis=0) < _FALL
    first = np.where(np.any(is_within, axis=0), np.argmax(is_within, axis=0), _NUM_HALVINGS - 1)
    measured = widths * factors[first]
    covariance, precision = (axes * measured**2) @ axes.T, (axes / measured**2) @ axes.T
    return dataclasses.replace(shape, covariance=covariance, precision=precision)


def _falls(target: Target, shape: Shape, steps: np.ndarray, ledger: Ledger) -> np.ndarray:
    """Nats that the density is lower after these steps from the top; infinite where it is none."""
    spend(ledger, "atlas", target, len(steps))
    values = evaluate_rows(target, shape.top + steps)[0].astype(np.float64)
    return np.where(np.isfinite(values), shape.height - values, np.inf)
