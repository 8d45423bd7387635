"""The mean log likelihood of held-out exact samples under a model. Consumes log_prob values, produces two numbers."""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tempering.lab.metrics.metric import MetricError

__all__ = ["LogLikelihood", "mean_log_likelihood"]


class LogLikelihood(NamedTuple):
    """A mean over `num_samples` points and its standard error."""

    mean: float
    standard_error: float
    num_samples: int


def mean_log_likelihood(log_probs: npt.ArrayLike) -> LogLikelihood:
    """Mean and standard error of the model's normalised log densities at samples of the target; larger is better.

    A point to which the model gives no probability at all makes the mean -inf, and its error infinite.

    Args:
        log_probs: shape (n,), n at least 2.

    Raises:
        MetricError: for NaN, +inf, or fewer than two values.
    """
    values = np.asarray(log_probs, np.float64)
    if values.ndim != 1 or len(values) < 2:
        raise MetricError(f"log_probs has shape {values.shape}; give (n,) with at least two values")
    num_bad = int(np.sum(np.isnan(values) | (values == math.inf)))
    if num_bad:
        raise MetricError(f"{num_bad:,} of {len(values):,} log_probs are NaN or +inf; no mean is defined")
    if np.any(values == -math.inf):
        return LogLikelihood(-math.inf, math.inf, len(values))
    return LogLikelihood(float(values.mean()), float(values.std(ddof=1) / math.sqrt(len(values))), len(values))
