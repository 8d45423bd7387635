"""The upper tail of importance weights: Pareto's k.

Consumes raw log weights, produces plain numbers. NumPy in float64 on the host: a few hundred tail points, once per run.
"""

import numpy as np

from tempering.types import Array, Float

__all__ = ["RELIABLE_K", "fit_tail", "pareto_k", "unseen_mass"]

RELIABLE_K = 0.7
"""Pareto k above which weighted means are not to be relied on (Vehtari et al. 2024)."""

_MIN_TAIL = 5
_NUM_GRID = 30  # Points of the grid before sqrt(n) more, and the quartile's factor: Vehtari et al. 2024, appendix.
_QUARTILE_FACTOR = 3.0
_PRIOR_K, _PRIOR_SIZE = 0.5, 10.0  # Ten imagined observations at k = 1/2.
_LEAST_REFITTED, _UNLIKELY = 130, 0.01  # As many as are fitted of 2,000 draws.
_STANDS_OUT, _LEAST_EVEN = 2.0, 7  # Times the mean weight; a ninth of what is fitted of 500 draws.
_FLOOR = -600.0  # Smaller log weights, next to a largest of 0, would take 1 / excess out of range.


def pareto_k(log_weights: Float[Array, " particle"] | np.ndarray) -> float:
    """Shape k of the generalised Pareto distribution that fits the largest min(n / 5, 3 sqrt(n)) weights.

    Weights have about 1 / k finite moments: below 0.5 the error of a weighted mean is the usual one, above 0.7 it is
    unreliable at any practical n, above 1 the mean itself does not exist (Vehtari, Simpson, Gelman, Yao and Gabry 2024,
    "Pareto smoothed importance sampling"). It sees only the tail that was drawn: modes that no draw reached leave no
    trace.

    Args:
        log_weights: raw, not normalised; -inf is a weight of zero.

    Returns:
        k, of fewer weights where two kinds of them meet in the tail; -inf where the largest weights are all equal, a
        bounded tail; NaN where fewer than five weights stand out (20 draws or fewer, or hardly one of positive weight),
        or where a log weight is NaN or +inf.
    """
    return fit_tail(np.asarray(log_weights, np.float64))[0]


_BEYOND = 100.0
"""Times as many draws, up to which `unseen_mass` carries the tail on."""
_STEEPEST_K = 3.0


def unseen_mass(log_weights: Float[Array, " particle"] | np.ndarray) -> float:
    """The share of the mass that lies beyond the largest weight drawn: what a hundred times as many draws would add.

    k alone says how fast a tail falls, and nothing of how much is in it. One weight of four times the mean among 20,000
    that are even has a k above 1, and stands for 0.02 % of the mass; three weights of 70 among 2,000 have a k of 0.6,
    and stand for a tenth, give or take half of it. As with Good and Turing's estimate, the share of the largest draw is
    about what is still to be found up to the next as large; the fitted tail carries it on.

    Args:
        log_weights: as for `pareto_k`.

    Returns:
        A share of the mean weight, 1 or more where nothing is known; NaN where no weight is positive. Without a tail to
        fit it is the share of the largest draw. Modes that no draw came near are not in it.
    """
    values = np.asarray(log_weights, np.float64)
    highest = np.max(values, initial=-np.inf)
    if not np.isfinite(highest):
        return float("nan")
    total = float(np.sum(np.exp(values - highest)))
    k, scale, threshold, num_tail = fit_tail(values)
    if not np.isfinite(k):
        return 1.0 / total
    k = min(k, _STEEPEST_K)
    fitted = threshold + scale * (np.log(num_tail) if abs(k) < 1e-9 else np.expm1(k * np.log(num_tail)) / k)
    growth = np.log(_BEYOND) if abs(k - 1.0) < 1e-9 else (1.0 - _BEYOND ** (k - 1.0)) / (1.0 - k)
    return float(max(1.0, fitted) * growth / total)


def fit_tail(log_weights: np.ndarray) -> tuple[float, float, float, int]:
    """k and scale of the excesses over a threshold, the threshold (the largest weight is 1), how many exceed it.

    A tail so heavy that the largest of its draws would be larger 99 times in 100 is none: two kinds of weights meet in
    it, of which the larger ones end. Then a third of it is fitted, as long as that leaves enough and fits better.

    Where no weight is twice the mean, two kinds give a k above 0.7 too, and the largest few tell whether they end: a
    third after a third is left of the tail until k is below, down to seven weights. Where it never is, the tail goes on
    up the flank of a mode that was not drawn, and stays as it was.

    k is NaN or -inf where `pareto_k` is.
    """
    num = len(log_weights)
    size = int(np.ceil(min(0.2 * num, 3.0 * np.sqrt(num))))
    highest = np.max(log_weights)
    if size < _MIN_TAIL or not np.isfinite(highest):
        return float("nan"), float("nan"), 0.0, 0
    ordered = np.sort(log_weights) - highest
    first = found = _fit_largest(ordered, size)
    if _STANDS_OUT * np.mean(np.exp(np.maximum(ordered, _FLOOR))) > 1.0:
        while size // 3 >= _LEAST_EVEN and found[0] > RELIABLE_K:
            size //= 3
            found = _fit_largest(ordered, size)
        return found if found[0] <= RELIABLE_K else first
    while size // 3 >= _LEAST_REFITTED and _is_too_heavy(found):
        size //= 3
        found = _fit_largest(ordered, size)
    return first if _is_too_heavy(found) else found


def _is_too_heavy(found: tuple[float, float, float, int]) -> bool:
    """Whether the largest of the draws, 1, is smaller than the fitted tail makes it 99 times in 100."""
    k, scale, threshold, num = found
    if not k > 0.0:
        return False
    beyond = (1.0 + k * (1.0 - threshold) / scale) ** (-1.0 / k)
    return bool(num * np.log1p(-min(beyond, 1.0 - 1e-12)) < np.log(_UNLIKELY))


def _fit_largest(ordered: np.ndarray, size: int) -> tuple[float, float, float, int]:
    """The same of so many of the largest of sorted log weights whose largest is 0."""
    cut = max(float(ordered[-size - 1]), _FLOOR)
    excesses = np.exp(ordered[ordered > cut]) - np.exp(cut)
    if excesses.size == 0:
        return float("-inf"), 0.0, 1.0, 0
    if excesses.size < _MIN_TAIL:
        return float("nan"), float("nan"), 0.0, 0
    k, scale = _fit_pareto(excesses)
    return k, scale, float(np.exp(cut)), excesses.size


def _fit_pareto(excesses: np.ndarray) -> tuple[float, float]:
    """k and scale of sorted positive numbers with density (1 / scale) (1 + k x / scale)^(-1 / k - 1).

    Zhang and Stephens (2009): with theta = -k / scale the likelihood is profiled to one dimension, k(theta) =
    mean log(1 - theta x), and theta is its mean under a data-dependent prior, over a grid; here with the constants of
    Vehtari et al., who also draw k towards 1/2 by ten observations' worth.
    """
    num = excesses.size
    grid = _NUM_GRID + int(np.sqrt(num))
    quartile = excesses[int(num / 4 + 0.5) - 1]
    theta = 1.0 - np.sqrt(grid / (np.arange(1, grid + 1) - 0.5))
    theta = 1.0 / excesses[-1] + theta / (_QUARTILE_FACTOR * quartile)
    shapes = np.mean(np.log1p(-theta[:, None] * excesses[None]), axis=1)
    log_likelihoods = num * (np.log(-theta / shapes) - shapes - 1.0)
    posterior = np.exp(log_likelihoods - np.max(log_likelihoods))
    best = np.sum(theta * posterior) / np.sum(posterior)
    k = np.mean(np.log1p(-best * excesses))
    regularised = (num * k + _PRIOR_SIZE * _PRIOR_K) / (num + _PRIOR_SIZE)
    return float(regularised), float(-k / best)
