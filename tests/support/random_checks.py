"""Every assertion on random numbers in this suite: samples in; nothing, or a failure that explains itself, out.

The false-failure budget of the whole suite is 1e-3. One call is two-sided at z = 5, which a right program fails with
probability 2 * Phi(-5) = 5.7e-7, whatever the shape: a call that compares d columns gives each of them 1/d of that
(Bonferroni). The budget then pays for 1e-3 / 5.7e-7 = 1,744 calls, each parameter of a parametrised test counted;
a saboteur costs nothing, for it is off by far more than its limit.

These probabilities hold for independent samples, or for correlated ones with an honest `ess`. They assume that the
central limit theorem has set in: heavy tails need more samples, not a wider tolerance. Malformed input (NaN, too few
samples, shapes that do not fit) is a ValueError and not a rejection, so that no saboteur passes for the wrong reason.
"""

from collections.abc import Callable

import numpy as np
from scipy import stats

__all__ = [
    "FALSE_FAILURE_BUDGET",
    "FALSE_FAILURE_PER_CALL",
    "MAX_CALLS",
    "assert_fraction",
    "assert_mean",
    "assert_same_distribution_ks",
    "assert_std",
    "must_fail",
]

Z = 5.0
FALSE_FAILURE_PER_CALL = float(2.0 * stats.norm.sf(Z))
FALSE_FAILURE_BUDGET = 1e-3
MAX_CALLS = int(FALSE_FAILURE_BUDGET / FALSE_FAILURE_PER_CALL)

MIN_ESS = 30  # below this neither a standard error nor the normal approximation means anything


def assert_mean(samples, expected, *, ess=None, name: str = "mean", key=None) -> None:
    """The mean of each column is `expected`: |observed - expected| / (std / sqrt(ess)) is below Student's t at z = 5.

    Args:
        samples: (n,) or (n, d).
        expected: the exact mean, a scalar or (d,).
        ess: effective sample size, a scalar or (d,), if the samples are correlated or weighted; n by default.
        name: what is compared; it heads the failure.
        key: the random key behind the samples, printed so that the failure can be repeated.
    """
    columns, expected, ess = _columns(samples, expected, ess)
    observed = columns.mean(axis=0)
    error = columns.std(axis=0, ddof=1) / np.sqrt(ess)
    # The standard error is itself estimated, from `ess` samples: Student's t, which is the normal for many of them.
    limit = stats.t.isf(_level(columns) / 2.0, ess - 1.0)
    # A constant column has no error at all; rounding in the mean of n equal floats is allowed for.
    score = np.abs(observed - expected) / np.maximum(error, 1e-12 * np.maximum(1.0, np.abs(expected)))
    _reject(score > limit, name, "mean", observed, expected, error, ess, key, score=score, limit=limit)


def assert_std(samples, expected, *, ess=None, name: str = "standard deviation", key=None) -> None:
    """The standard deviation of each column is `expected` (> 0), two-sided at z = 5 on the scale of log variance.

    The variance of log s^2 is (m4 / m2^2 - 1) / ess for any distribution with four moments. On the log scale the error
    hardly depends on s itself, which would otherwise skew the score. Arguments as for `assert_mean`.
    """
    columns, expected, ess = _columns(samples, expected, ess)
    centred = columns - columns.mean(axis=0)
    second, fourth = np.mean(centred**2, axis=0), np.mean(centred**4, axis=0)
    if np.any(second == 0.0) or np.any(expected <= 0.0):
        raise ValueError(f"{name}: a constant column or an expected value of zero has no log variance to compare")
    observed = columns.std(axis=0, ddof=1)
    log_error = np.sqrt((fourth / second**2 - 1.0) / ess)
    limit = stats.t.isf(_level(columns) / 2.0, ess - 1.0)
    score = np.abs(2.0 * np.log(observed / expected)) / log_error
    error = 0.5 * observed * log_error
    _reject(score > limit, name, "std", observed, expected, error, ess, key, score=score, limit=limit)


def assert_fraction(hits, expected, *, ess=None, name: str = "fraction", key=None) -> None:
    """The fraction of true entries in each column is `expected`, by both tails of the exact binomial.

    Args:
        hits: booleans, (n,) or (n, d). Soft indicators have no binomial: use `assert_mean`.
        expected: the exact probability, a scalar or (d,), in [0, 1]; rare events are judged exactly.
        ess: as for `assert_mean`; the counts are scaled to it.
        name: as for `assert_mean`.
        key: as for `assert_mean`.
    """
    if np.asarray(hits).dtype != np.bool_:
        raise ValueError(f"{name}: assert_fraction takes booleans, got {np.asarray(hits).dtype}")
    columns, expected, ess = _columns(hits, expected, ess)
    if np.any((expected < 0.0) | (expected > 1.0)):
        raise ValueError(f"{name}: an expected fraction must lie in [0, 1], got {expected}")
    observed = columns.mean(axis=0)
    trials = np.round(ess)
    successes = np.round(observed * trials)
    binomial = stats.binom(trials, expected)
    p_value = np.minimum(1.0, 2.0 * np.minimum(binomial.cdf(successes), binomial.sf(successes - 1)))
    error = np.sqrt(expected * (1.0 - expected) / trials)
    _reject(p_value < _level(columns), name, "fraction", observed, expected, error, ess, key, p_value=p_value)


def assert_same_distribution_ks(
    samples, reference, *, ess=None, reference_ess=None, name: str = "distribution", key=None
) -> None:
    """Kolmogorov and Smirnov find no difference between the samples and a cdf, or between two sets of samples.

    Args:
        samples: (n,), or (n, d) to compare column by column (the marginals only: a wrong correlation goes unseen).
        reference: the exact cdf, a function from (n,) to (n,), for one column only; or samples, (m,) or (m, d).
        ess: as for `assert_mean`. With correlated samples the test is approximate.
        reference_ess: the same for reference samples.
        name: as for `assert_mean`.
        key: as for `assert_mean`.
    """
    columns, _, ess = _columns(samples, 0.0, ess)
    if callable(reference):
        if columns.shape[1] != 1:
            raise ValueError(f"{name}: a cdf describes one column, got {columns.shape[1]}")
        distance, size = np.array([_distance_to_cdf(columns[:, 0], reference)]), ess
    else:
        others, _, others_ess = _columns(reference, 0.0, reference_ess)
        if others.shape[1] != columns.shape[1]:
            raise ValueError(f"{name}: {columns.shape[1]} columns against {others.shape[1]}")
        distance = np.array([_distance_between(a, b) for a, b in zip(columns.T, others.T, strict=True)])
        size = ess * others_ess / (ess + others_ess)
    p_value = stats.kstwo.sf(distance, np.maximum(1.0, np.round(size)))
    # Under the null sqrt(n) D has mean 0.869 and standard deviation 0.260 (Kolmogorov's limit).
    expected, error = 0.869 / np.sqrt(size), 0.260 / np.sqrt(size)
    _reject(p_value < _level(columns), name, "KS distance", distance, expected, error, ess, key, p_value=p_value)


def must_fail(check: Callable, *args, **kwargs) -> str:
    """The saboteur: `check(*args, **kwargs)` has to reject what it is given. Returns the message of the rejection.

    Only an AssertionError is a rejection; any other exception means that the sabotage broke something else.
    """
    try:
        check(*args, **kwargs)
    except AssertionError as rejection:
        return str(rejection)
    raise AssertionError(f"{getattr(check, '__name__', check)} accepted what it must reject")


def _columns(samples, expected, ess) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Samples as float64 (n, d), with the expected value and the effective sample size of each column, (d,)."""
    values = np.asarray(samples, dtype=np.float64)
    if values.ndim not in (1, 2):
        raise ValueError(f"samples must be (n,) or (n, d), got {values.shape}: reshape them on purpose")
    values = values[:, None] if values.ndim == 1 else values
    num, dim = values.shape
    expected = np.asarray(expected, dtype=np.float64)
    sizes = np.asarray(num if ess is None else ess, dtype=np.float64)
    if expected.shape not in ((), (dim,)) or sizes.shape not in ((), (dim,)):
        raise ValueError(f"{dim} columns, but expected is {expected.shape} and ess {sizes.shape}: a scalar or one each")
    if not np.all(np.isfinite(values)) or not np.all(np.isfinite(expected)):
        raise ValueError(f"{np.sum(~np.isfinite(values))} of {values.size} samples are not finite, or expected is not")
    if not np.all((sizes >= MIN_ESS) & (sizes <= num)):
        raise ValueError(f"the effective sample size must lie between {MIN_ESS} and the {num} samples, got {sizes}")
    return values, np.broadcast_to(expected, (dim,)), np.broadcast_to(sizes, (dim,))


def _level(columns: np.ndarray) -> float:
    """The significance of one column, so that the whole call fails by chance with FALSE_FAILURE_PER_CALL."""
    return FALSE_FAILURE_PER_CALL / columns.shape[1]


def _distance_to_cdf(values: np.ndarray, cdf: Callable) -> float:
    """The largest gap between the empirical cdf and `cdf`, on either side of each step."""
    num = len(values)
    exact = np.asarray(cdf(np.sort(values)), dtype=np.float64)
    if exact.shape != (num,) or not np.all((exact >= 0.0) & (exact <= 1.0)):
        raise ValueError(f"the cdf must map {num} points to {num} values in [0, 1], got shape {exact.shape}")
    steps = np.arange(num + 1) / num
    return float(max(np.max(steps[1:] - exact), np.max(exact - steps[:-1])))


def _distance_between(a: np.ndarray, b: np.ndarray) -> float:
    """The largest gap between two empirical cdfs."""
    points = np.concatenate([a, b])
    below = [np.searchsorted(np.sort(values), points, side="right") / len(values) for values in (a, b)]
    return float(np.max(np.abs(below[0] - below[1])))


def _reject(bad, name, quantity, observed, expected, error, ess, key, **evidence) -> None:
    """Raise with one line for each of the worst columns, if any is bad."""
    if not np.any(bad):
        return
    lines = []
    for column in np.flatnonzero(bad)[:8]:
        shown = ", ".join(f"{word} {np.broadcast_to(value, bad.shape)[column]:.3g}" for word, value in evidence.items())
        lines.append(
            f"  column {column}: observed {observed[column]:.6g}, expected {expected[column]:.6g}, "
            f"standard error {error[column]:.3g}, ESS {ess[column]:.1f}, {shown}"
        )
    shown_key = "not given" if key is None else " ".join(repr(key).split())
    heading = f"{name}: the {quantity} is off in {np.sum(bad)} of {bad.size} columns (key: {shown_key})"
    raise AssertionError("\n".join([heading, *lines]))
