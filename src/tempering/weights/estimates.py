"""What weighted draws say of single numbers: means, standard deviations and quantiles, with Monte Carlo errors.

Consumes values and log weights; produces `Estimate`s. Errors are those of self-normalised weights of independent draws,
by the delta method. They hold where the weights have a finite variance; a Pareto k above 0.7 says that they may not.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

__all__ = ["LEVELS", "Estimate", "estimate", "shares_of"]

LEVELS = (0.05, 0.5, 0.95)
"""Of the quantiles."""


@dataclass(frozen=True)
class Estimate:
    """Estimates of one parameter.

    Args:
        name: the name of the parameter.
        mean, sd: its mean and standard deviation under the target. `mean_error` and `sd_error` are their Monte Carlo
            standard errors.
        quantiles: its quantiles at 5 %, 50 % and 95 %. `quantile_errors` are their errors.
        effective: how many independent draws of the target would give the mean with the same error.
    """

    name: str
    mean: float
    mean_error: float
    sd: float
    sd_error: float
    quantiles: tuple[float, ...]
    quantile_errors: tuple[float, ...]
    effective: float

    def as_dict(self) -> dict[str, Any]:
        """A dict that can be written as JSON. It has one entry per quantile: q5, q50, q95."""
        plain = asdict(self)
        levels, errors = plain.pop("quantiles"), plain.pop("quantile_errors")
        for level, value, error in zip(LEVELS, levels, errors, strict=True):
            plain |= {f"q{level * 100:.0f}": value, f"q{level * 100:.0f}_error": error}
        return plain


def shares_of(log_weights: np.ndarray | None, num: int) -> np.ndarray | None:
    """Weights that sum to one, in float64; even ones for None; None where no weight is positive.

    A weight that is not a number counts for nothing.
    """
    if log_weights is None:
        return np.full(num, 1.0 / num) if num else None
    own = np.asarray(log_weights, np.float64)
    own = np.where(np.isnan(own) | (own == np.inf), -np.inf, own)
    largest = own.max(initial=-np.inf)
    if largest == -np.inf:
        return None
    weights = np.exp(own - largest)
    return weights / weights.sum()


def estimate(name: str, values: np.ndarray, shares: np.ndarray) -> Estimate | None:
    """Mean, standard deviation and quantiles of one coordinate; None with fewer than two usable values.

    With w normalised and g the function whose mean is sought, the error of sum w g is sqrt(sum w^2 (g - mean)^2). That
    of the standard deviation is by its derivative; that of a quantile is half the distance between the quantiles one
    error of the share below them apart.

    Args:
        values: one per draw.
        shares: weights of the draws, which sum to one.
    """
    is_used = np.isfinite(values) & (shares > 0)
    if np.sum(is_used) < 2:
        return None
    x, w = np.asarray(values, np.float64)[is_used], shares[is_used] / shares[is_used].sum()
    mean = float(np.sum(w * x))
    variance = float(np.sum(w * (x - mean) ** 2))
    sd, mean_error = np.sqrt(variance), float(np.sqrt(np.sum(w**2 * (x - mean) ** 2)))
    of_variance = np.sqrt(np.sum(w**2 * ((x - mean) ** 2 - variance) ** 2))
    order = np.argsort(x, kind="stable")
    ordered, below = x[order], np.cumsum(w[order]) - 0.5 * w[order]
    levels, errors = [], []
    for level in LEVELS:
        value = float(np.interp(level, below, ordered))
        spread = float(np.sqrt(np.sum(w**2 * ((x <= value) - level) ** 2)))
        low, high = np.interp([max(level - spread, 0.0), min(level + spread, 1.0)], below, ordered)
        levels.append(value)
        errors.append(float(high - low) / 2)
    return Estimate(
        name=name,
        mean=mean,
        mean_error=mean_error,
        sd=float(sd),
        sd_error=float(of_variance / (2 * sd)) if sd > 0 else 0.0,
        quantiles=tuple(levels),
        quantile_errors=tuple(errors),
        effective=float(variance / mean_error**2) if mean_error > 0 else float(1.0 / np.sum(w**2)),
    )
