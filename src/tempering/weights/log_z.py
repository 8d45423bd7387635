"""log Z from several estimates, and from weights whose densities are themselves estimated.

Consumes log weights and estimates with standard errors; produces one estimate with a standard error that holds.
"""

from collections.abc import Iterable

import numpy as np

from tempering.types import Array, Float

__all__ = ["pooled_log_z", "recalibrated_log_z"]


def pooled_log_z(estimates: Iterable[tuple[float | None, float | None]]) -> tuple[float, float]:
    """The mean of independent (log Z, standard error), weighted by inverse variance, and its standard error.

    Give only what is trustworthy: an error that is too small takes the mean over. Pairs that are not finite are left
    out, and an error of 0 counts as exact. Without any pair, (NaN, NaN).
    """
    pairs = np.array([pair for pair in estimates if None not in pair], np.float64).reshape((-1, 2))
    values, errors = pairs[np.all(np.isfinite(pairs), axis=1)].T
    if values.size == 0:
        return float("nan"), float("nan")
    if np.any(errors == 0.0):
        return float(np.mean(values[errors == 0.0])), 0.0
    precisions = errors**-2.0
    return float(np.sum(precisions * values) / np.sum(precisions)), float(1.0 / np.sqrt(np.sum(precisions)))


def recalibrated_log_z(
    estimate: tuple[float, float],
    log_weights: Float[Array, " checked"] | np.ndarray,
    exact_log_weights: Float[Array, " checked"] | np.ndarray,
) -> tuple[float, float]:
    """log Z of estimated densities, moved to where exact ones put it: Z mean(exact w) / mean(w) over what was checked.

    Determinants estimated from probes bias every weight alike: a log Z of many weights is then sharp and wrong (on
    Many-Well-32 by 0.02, six of its standard errors). The ratio is known well from few draws, because both weights of a
    draw share all but that.

    Args:
        estimate: log Z and its standard error, from all weights.
        log_weights: of the draws that were checked, some of those behind the estimate.
        exact_log_weights: of the same draws, with exact determinants.

    Returns:
        log Z and its standard error, by the delta method; NaN where no checked draw has a positive weight.
    """
    values = np.asarray(log_weights, np.float64), np.asarray(exact_log_weights, np.float64)
    highest = [np.max(v, initial=-np.inf) for v in values]
    if not np.all(np.isfinite(highest)):
        return float("nan"), float("nan")
    weights, exact = (np.exp(v - top) for v, top in zip(values, highest, strict=True))
    shift = np.log(np.mean(exact)) + highest[1] - np.log(np.mean(weights)) - highest[0]
    relative = exact / np.mean(exact) - weights / np.mean(weights)
    return float(estimate[0] + shift), float(np.hypot(estimate[1], np.std(relative) / np.sqrt(relative.size)))
