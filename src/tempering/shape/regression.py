"""One coordinate given others: a mean that is linear in features, and a log width that is linear in others.

NumPy in float64 on the host: a few thousand weighted points, no evaluation of the target. Weights sum to the effective
number of points, so that likelihoods and penalties have the right size.
"""

import math
from dataclasses import dataclass

import numpy as np

from tempering.shape.blocks import applied, crossed
from tempering.transforms.triangular import MOST_LOG_SCALE

__all__ = ["Fitted", "fit_conditional", "log_sizes", "weighted_least_squares"]

_RIDGE = 1.0
"""Precision of the prior of every coefficient but the constant; coordinates have unit width."""
_FREE = 1e-6
"""Of the constant, which is not shrunk."""
_LOG_NORMAL_MEAN = 0.635
"""-E log |z| of a standard normal: (log 2 + Euler's constant) / 2."""
_NUM_NEWTON = 4
_MOST_SQUARE = 1e12
"""Of a standardised residual, against overflow."""


@dataclass
class Fitted:
    """Coefficients of mean and log width, residuals and log widths of the points, the penalised log likelihood."""

    mean: np.ndarray
    log_scale: np.ndarray
    residuals: np.ndarray
    log_scales: np.ndarray
    log_likelihood: float


def weighted_least_squares(
    features: np.ndarray, values: np.ndarray, weights: np.ndarray, penalty: np.ndarray
) -> np.ndarray:
    """Coefficients by normal equations with scaled columns and two refinements, which give back the lost digits."""
    weighted = weights[:, None] * features
    normal = crossed(features, weighted) + np.diag(penalty)
    scale = 1.0 / np.sqrt(np.diag(normal) + 1e-300)
    inverse = np.linalg.inv(normal * scale[:, None] * scale + 1e-13 * np.eye(len(scale))) * scale[:, None] * scale
    coefficients = inverse @ crossed(weighted, values)
    for _ in range(2):
        rest = crossed(weighted, values - applied(features, coefficients)) - penalty * coefficients
        coefficients = coefficients + inverse @ rest
    return coefficients


def log_sizes(residuals: np.ndarray) -> np.ndarray:
    """log |r|, moved so that it estimates the log width; the smallest are floored, for log 0 would rule."""
    squares = residuals**2
    return 0.5 * np.log(squares + 1e-4 * np.median(squares) + 1e-300) + _LOG_NORMAL_MEAN


def _penalty(num: int) -> np.ndarray:
    return np.concatenate([[_FREE], np.full(num - 1, _RIDGE)])


def _scales(features: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    return np.clip(applied(features, coefficients), -MOST_LOG_SCALE, MOST_LOG_SCALE)


def fit_conditional(
    values: np.ndarray,
    mean_features: np.ndarray,
    scale_features: np.ndarray,
    weights: np.ndarray,
    *,
    num_rounds: int = 6,
    start: np.ndarray | None = None,
    nu: float = math.inf,
) -> Fitted:
    """Maximum likelihood of values ~ N(F a, e^{2 H b}), a and b in turn: each is a convex problem given the other.

    With a finite `nu` it is a Student's likelihood in place of the normal one: far points count for little, and a term
    that explains one of them gains little.

    Args:
        mean_features: F, (point, term), the first column ones.
        scale_features: H, likewise.
        start: b to begin with; None takes it from the logarithms of the residuals, which no outlier moves far.
    """
    penalty = _penalty(mean_features.shape[1])
    num, num_terms = np.sum(weights), mean_features.shape[1]
    # Residuals are smaller than errors by the terms that were fitted.
    inflation = num / max(num - num_terms, 0.3 * num)
    log_scale, heeded = start, np.ones(len(values))
    log_scales = np.zeros(len(values)) if start is None else _scales(scale_features, start)
    best: Fitted | None = None
    for _ in range(num_rounds):
        mean = weighted_least_squares(mean_features, values, weights * heeded * np.exp(-2.0 * log_scales), penalty)
        residuals = values - applied(mean_features, mean)
        if log_scale is None:
            scale_penalty = _penalty(scale_features.shape[1])
            log_scale = weighted_least_squares(scale_features, log_sizes(residuals), weights, scale_penalty)
        log_scale, loss = _fit_scale(inflation * residuals**2, scale_features, weights, log_scale, nu)
        log_scales = _scales(scale_features, log_scale)
        heeded = _heed(residuals**2 * np.exp(-2.0 * log_scales), nu)
        if best is not None and -loss < best.log_likelihood + 1e-4 * num:
            break
        best = Fitted(mean, log_scale, residuals, log_scales, -loss)
    assert best is not None
    return best


def _heed(standard_squares: np.ndarray, nu: float) -> np.ndarray:
    """The weight of a residual in a Student's likelihood; 1 in a normal's."""
    return np.ones_like(standard_squares) if math.isinf(nu) else (nu + 1.0) / (nu + standard_squares)


def _fit_scale(
    squares: np.ndarray, features: np.ndarray, weights: np.ndarray, start: np.ndarray, nu: float
) -> tuple[np.ndarray, float]:
    """b that minimises sum w (s + r^2 e^{-2s} / 2) with s = H b, by Newton steps that are halved until they descend.

    Of a Student, (nu + 1) log(1 + r^2 e^{-2s} / nu) / 2 stands for the second term.
    """
    penalty = _penalty(features.shape[1])

    def standard_squares(coefficients: np.ndarray) -> np.ndarray:
        return np.minimum(squares * np.exp(-2.0 * _scales(features, coefficients)), _MOST_SQUARE)

    def loss_of(coefficients: np.ndarray) -> float:
        rho = standard_squares(coefficients)
        misfit = rho if math.isinf(nu) else (nu + 1.0) * np.log1p(rho / nu)
        terms = applied(features, coefficients) + 0.5 * misfit
        return float(weights @ terms + 0.5 * penalty @ coefficients**2)

    here, loss = start, loss_of(start)
    for _ in range(_NUM_NEWTON):
        rho = standard_squares(here)
        rho = rho * _heed(rho, nu)
        gradient = crossed(features, weights * (rho - 1.0)) - penalty * here
        # The mean of the Hessian (2 rho) and of its expectation (2): never too small where residuals are.
        hessian = crossed(features, (weights * (rho + 1.0))[:, None] * features) + np.diag(penalty)
        step = np.linalg.solve(hessian, gradient)
        for halving in range(10):
            moved = here + 0.5**halving * step
            new_loss = loss_of(moved)
            if new_loss <= loss:
                break
        else:
            break
        here, gain, loss = moved, loss - new_loss, new_loss
        if gain < 1e-6 * np.sum(weights):
            break
    return here, loss
