"""Quantiles of distributions at the normal coordinates of a grid, in double precision, before anything is compiled.

Consumes shape parameters; produces h(F^-1(Phi(z))) at the nodes z, where h is log x for what is positive, logit x for
what lies in the unit interval and asinh x on the real line: smooth functions of z, which a spline holds to single
precision. Both tails are computed from their own end, and where a quantile would underflow, from the power law that
the distribution has there.
"""

from typing import Any

import numpy as np

__all__ = ["NODES", "STEP", "asinh_student", "log_exponential", "log_gamma", "log_half_normal", "logit_beta"]

STEP = 1.0 / 32.0
"""Between two nodes; a power of two, so that nodes are exact in single precision."""
_LAST = 30.0
"""The prior has 1e-197 of its mass beyond."""
NODES = np.arange(-_LAST, _LAST + STEP / 2, STEP)

_SMALL = -60.0
"""A logarithm below which x is so small that the distribution is its power law to the last digit."""


def _tails() -> tuple[np.ndarray, np.ndarray, Any]:
    """Phi and 1 - Phi at the nodes, each with its relative precision, and SciPy's functions."""
    from scipy import special  # here: a fit without a prior needs none

    return special.ndtr(NODES), special.ndtr(-NODES), special


def log_exponential() -> np.ndarray:
    """log x for rate 1."""
    below, _, special = _tails()
    lower = -np.log1p(-np.where(NODES < 0, below, 0.5))
    return np.log(np.where(NODES < 0, lower, -special.log_ndtr(-NODES)))


def log_half_normal() -> np.ndarray:
    """log x for standard deviation 1."""
    below, above, special = _tails()
    x = np.where(NODES < 0, special.erfinv(below), special.erfcinv(above))
    return np.log(x) + 0.5 * np.log(2.0)


def log_gamma(concentration: float) -> np.ndarray:
    """log x for rate 1."""
    below, above, special = _tails()
    power = (special.log_ndtr(NODES) + special.gammaln(concentration + 1.0)) / concentration
    is_lower = NODES < 0
    x = np.where(is_lower, special.gammaincinv(concentration, below), special.gammainccinv(concentration, above))
    return np.where((power < _SMALL) | (x <= 0), power, np.log(np.maximum(x, np.finfo(float).tiny)))


def logit_beta(a: float, b: float) -> np.ndarray:
    """log x - log(1 - x)."""
    below, above, special = _tails()
    return _log_lower_beta(a, b, below, above, special) - _log_lower_beta(b, a, above, below, special)


def _log_lower_beta(a: float, b: float, below: np.ndarray, above: np.ndarray, special: Any) -> np.ndarray:
    """log of the quantile at `below` = 1 - `above`."""
    is_lower = below < above
    x = np.where(is_lower, special.betaincinv(a, b, below), special.betainccinv(a, b, above))
    power = (np.log(below) + np.log(a) + special.betaln(a, b)) / a
    is_power = power < _SMALL
    # SciPy's inverse fails here and there in the far tails, where its distribution function does not.
    with np.errstate(invalid="ignore"):
        gap = np.abs(special.betainc(a, b, x) - below) > 1e-11 * below
    is_bad = ~is_power & (~(x > 0) | (gap & (x < 0.5)))
    log_x = np.where(is_power, power, np.log(np.maximum(x, np.finfo(float).tiny)))
    low, high = np.full(np.sum(is_bad), 2.0 * _SMALL), np.zeros(np.sum(is_bad))
    for _ in range(64):
        middle = 0.5 * (low + high)
        x = np.exp(middle)
        is_less = np.where(
            is_lower[is_bad], special.betainc(a, b, x) < below[is_bad], special.betaincc(a, b, x) > above[is_bad]
        )
        low, high = np.where(is_less, middle, low), np.where(is_less, high, middle)
    log_x[is_bad] = 0.5 * (low + high)
    return log_x


def asinh_student(nu: float) -> np.ndarray:
    """asinh x for location 0 and scale 1: with w = nu / (nu + x^2), P(|X| > x) = I_w(nu / 2, 1 / 2)."""
    below, above, special = _tails()
    outside = 2.0 * np.minimum(below, above)
    inside = np.abs(special.erf(NODES / np.sqrt(2.0)))
    log_w = _log_lower_beta(0.5 * nu, 0.5, outside, inside, special)
    log_rest = _log_lower_beta(0.5, 0.5 * nu, np.maximum(inside, 1e-300), outside, special)
    log_x = 0.5 * (np.log(nu) + log_rest - log_w)
    far = np.log(2.0) + log_x  # asinh x for an x that may be too large for a number
    near = np.arcsinh(np.exp(np.minimum(log_x, 40.0)))
    return np.where(NODES == 0, 0.0, np.sign(NODES) * np.where(log_x > 40.0, far, near))
