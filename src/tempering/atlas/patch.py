"""Components where a reference has too little: at its heaviest draws, as wide as the density is there.

A mode may have a shoulder, or stand in the middle of a wider one: mass without an optimum of its own. A reference made
of optima reaches it by its tails alone, with a few draws of large weight; or only chains do. Second derivatives at such
a point show what lies there, as they do at an optimum.
"""

import copy

import numpy as np

from tempering.atlas.curvature import is_twice_differentiable, second_derivatives
from tempering.atlas.optima import Optima, Shape
from tempering.runs.ledger import Ledger
from tempering.targets.base import Target
from tempering.targets.cost import points_per_gradient, spend
from tempering.targets.rows import evaluate_rows

__all__ = ["HEAVY", "cost_of_patches", "has_much_heavy", "with_patches"]

HEAVY = 4.0
"""Weight of a draw, over the mean, from which there is too little of the reference."""
_MUCH_HEAVY = 0.03
"""Share of the mass in heavy draws, above which components are added there although their tail looks light: at the ends
of a curved valley weights rise a little, and what lies past the last draw is not among them."""
MOST_PATCHES, MOST_IN_ALL = 4, 64
"""At one time, and together with the optima."""
_APART = 9.0
"""Squared distance from a patch, in its own widths, up to which heavy points belong to it."""
_FLAT = 1e-4
"""Curvatures below this part of the largest count as this part: a patch is at most a hundred times as long as wide."""
_STEEPEST = 20.0
"""Rise to the top of the parabola at a point, in nats, up to which the patch is moved there."""
_LARGEST = 4.0
"""Mass of a patch over all that is known: second derivatives that nearly vanish promise any."""


def has_much_heavy(log_heaviness: np.ndarray) -> bool:
    """Whether draws of a reference say that it has too little where they are, and probably past them.

    Args:
        log_heaviness: of draws of the reference: log p - log q - log Z.
    """
    weights = np.exp(np.minimum(log_heaviness, 50.0))
    return bool(np.sum(weights[log_heaviness > np.log(HEAVY)]) > _MUCH_HEAVY * np.sum(weights))


def cost_of_patches(target: Target) -> int:
    """The most evaluations that `with_patches` spends, gradients counted as the target's."""
    return MOST_PATCHES * (target.dim + 2) * points_per_gradient(target)


def with_patches(
    target: Target,
    optima: Optima,
    position: np.ndarray,
    log_heaviness: np.ndarray,
    log_z: float,
    ledger: Ledger,
    stage: str = "reference",
) -> Optima:
    """The components of a reference, and more of them at its heaviest points; the same where none is heavy.

    Args:
        position, log_heaviness: of points, with log p - log q - log Z.
        log_z: of all that is known.
    """
    is_left = log_heaviness > np.log(HEAVY)
    patched, is_smooth = copy.copy(optima), is_twice_differentiable(target)
    for _ in range(MOST_PATCHES):
        if not np.any(is_left) or len(patched) >= MOST_IN_ALL:
            break
        heaviest = int(np.argmax(np.where(is_left, log_heaviness, -np.inf)))
        is_left[heaviest] = False
        point = np.asarray(position[heaviest], np.float32)
        spend(ledger, stage, target, target.dim + 1 + int(not is_smooth))
        value, gradient = (array[0].astype(np.float64) for array in evaluate_rows(target, point[None]))
        hessian = second_derivatives(target, point, is_exact=is_smooth)
        if not np.all(np.isfinite(hessian)) or not np.any(hessian) or not np.all(np.isfinite(gradient)):
            continue
        _add(patched, np.asarray(point, np.float64), float(value), gradient, hessian, log_z)
        away = position[is_left] - patched.position[-1]
        is_left[is_left] = np.einsum("ni,ij,nj->n", away, patched.precision[-1], away) > _APART
    return patched


def _add(optima: Optima, at: np.ndarray, value: float, gradient: np.ndarray, hessian: np.ndarray, log_z: float) -> None:
    """A component about a point, at the top of its parabola: a heavy point is at the edge of what it shows."""
    values, vectors = np.linalg.eigh(-0.5 * (hessian + hessian.T))
    mended = np.maximum(np.abs(values), _FLAT * np.max(np.abs(values)))
    covariance, precision = (vectors / mended) @ vectors.T, (vectors * mended) @ vectors.T
    step = covariance @ gradient
    rise = 0.5 * float(gradient @ step)
    is_moved = bool(np.all(values > 0.0)) and rise < _STEEPEST
    top, height = (at + step, value + rise) if is_moved else (at, value)
    index = optima.add(Shape(top, height, 0.0, True, precision, covariance, step))
    optima.log_density[index] -= max(0.0, float(optima.log_mass()[index]) - log_z - np.log(_LARGEST))
