"""Optima at walls: where a density is largest at the edge of its support, and falls from it like an exponential.

A user who writes -inf outside of a box, or below zero, makes walls. A search is held up there by a slope that points
outwards, and second derivatives say nothing of how fast the density falls on the way in. The slope does.
"""

import numpy as np

from tempering.atlas.optima import Shape
from tempering.runs.ledger import Ledger
from tempering.targets.base import Target
from tempering.targets.cost import points_per_gradient, spend
from tempering.targets.rows import evaluate_rows

__all__ = ["at_walls"]

_DIGITS = 1e-5
"""The shortest step outwards that must leave the support, over the coordinate."""
_NEAR = 0.3
"""Nats that the density may still rise up to the wall."""
_RISE = 0.1
"""Nats that coordinates without a wall may still promise."""
_LONGEST = 1e-6
"""The smallest curvature of these over the largest: below, there is a ridge and no optimum."""


def at_walls(
    target: Target,
    position: np.ndarray,
    log_density: float,
    gradient: np.ndarray,
    hessian: np.ndarray,
    reach: np.ndarray,
    ledger: Ledger,
    limit: int,
) -> tuple[Shape | None, np.ndarray | None]:
    """The optimum at walls where a search is held up, or the way on along them; neither where there is no wall.

    A wall belongs to one coordinate, and the way on leaves that coordinate as it is. An evaluation for every coordinate
    tells; none is made where that would pass `limit`.

    Args:
        reach: how far along each coordinate a step has left the support; infinite where the search rests on a wall.
    """
    dim = len(position)
    if ledger.total + dim * points_per_gradient(target) > limit or not np.all(np.isfinite(gradient)):
        return None, None
    near = np.minimum(np.abs(reach), _NEAR / np.maximum(np.abs(gradient), 1e-30))
    step = np.sign(gradient) * np.maximum(near, _DIGITS * np.maximum(1.0, np.abs(position)))
    spend(ledger, "atlas", target, dim)
    beyond = evaluate_rows(target, np.asarray(position + np.diag(step), np.float32))[0]
    is_wall = np.isneginf(beyond) & (gradient != 0.0)
    if not np.any(is_wall):
        return None, None
    is_free, onward = ~is_wall, np.zeros(dim)
    precision = np.diag(np.where(is_wall, gradient**2, 0.0))
    if np.any(is_free):
        block = -0.5 * (hessian + hessian.T)[np.ix_(is_free, is_free)]
        values = np.linalg.eigvalsh(block)
        is_peak = bool(values[0] > _LONGEST * abs(values[-1]))
        slope = gradient[is_free]
        # Where there is no summit to aim at, by a nat: a density that ends at more walls rises evenly towards them.
        onward[is_free] = np.linalg.solve(block, slope) if is_peak else slope / max(float(slope @ slope), 1e-30)
        if not is_peak or 0.5 * float(gradient[is_free] @ onward[is_free]) > _RISE:
            return None, onward
        precision[np.ix_(is_free, is_free)] = block
    own = (np.asarray(position, np.float64), log_density)
    slope = np.where(is_wall, gradient, 0.0)
    return Shape(*own, 0.0, True, precision, np.linalg.inv(precision), onward, slope=slope), None
