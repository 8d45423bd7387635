"""Places where chains stand that a reference does not cover, and that count for nothing.

Of a density with thousands of low optima a search lists some, and chains from the user's points end at others. A chain
does not say how much such a place holds. Its height and its second derivatives do, as those of an optimum do. How many
such places there are nobody knows where most were found once; but all of them together hold no more than a density as
high as this one wherever optima are.
"""

import math

import numpy as np

from tempering.atlas.curvature import is_twice_differentiable, second_derivatives
from tempering.atlas.optima import Optima, Shape, laplace_log_mass
from tempering.atlas.survey import expected_optima, few_count
from tempering.runs.ledger import Ledger
from tempering.targets.base import Target
from tempering.targets.cost import points_per_gradient, spend
from tempering.targets.rows import evaluate_rows

__all__ = ["are_negligible"]

_NEGLIGIBLE = 1e-3
"""Share of the mass that all such places together may hold."""
_STILL_RISING = 4.0
"""Nats that are added to the mass of a place from which the density rises: it is not the top of what lies there."""


def are_negligible(target: Target, optima: Optima, position: np.ndarray, log_z: float, ledger: Ledger) -> np.ndarray:
    """Which places belong to tops that hold next to nothing, even if there are as many as searches foretell, or as many
    as there is room for.

    None of them do where more than a few of the known optima count: there one that is not known is news. Nor where that
    cannot be paid for.

    Args:
        position: (place, dim).
        log_z: of all that is known.
    """
    none, is_smooth = np.zeros(len(position), bool), is_twice_differentiable(target)
    cost = len(position) * (target.dim + 1)
    is_paid = ledger.left("reference") >= cost * points_per_gradient(target)
    if not (few_count(optima) and is_smooth and is_paid and len(position)):
        return none
    spend(ledger, "reference", target, cost)
    values, gradients = (
        np.asarray(array, np.float64) for array in evaluate_rows(target, np.asarray(position, np.float32))
    )
    log_num, log_room = math.log(expected_optima(optima.hits)), _log_room(np.concatenate([optima.position, position]))
    for index, at in enumerate(position):
        hessian = second_derivatives(target, np.asarray(at, np.float32), is_exact=True)
        if not (np.isfinite(values[index]) and np.all(np.isfinite(gradients[index])) and np.all(np.isfinite(hessian))):
            continue
        shape = Shape.at(np.asarray(at, np.float64), float(values[index]), gradients[index], hessian)
        height = values[index] + max(shape.rise, 0.0) + (0.0 if shape.is_peak else _STILL_RISING)
        log_mass = float(laplace_log_mass(np.array([height]), shape.covariance[None])[0])
        none[index] = max(log_mass + log_num, height + log_room) - log_z < math.log(_NEGLIGIBLE)
    return none


def _log_room(places: np.ndarray) -> float:
    """Log volume of a normal as wide in every coordinate as these places are spread."""
    spread = np.maximum(np.std(places, axis=0), 1e-30)
    return float(np.sum(np.log(spread))) + 0.5 * places.shape[1] * math.log(2.0 * math.pi * math.e)
