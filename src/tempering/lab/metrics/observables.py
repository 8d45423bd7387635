"""Expectations under the target and their errors. Consumes points, produces numbers."""

import math

import numpy as np
import numpy.typing as npt

from tempering.lab.metrics.metric import MetricError, checked_points

__all__ = ["expected_mean_error", "second_moment_error"]


def second_moment_error(samples: npt.ArrayLike, second_moment: float) -> float:
    """| mean |x|^2 - E|x|^2 |: the paper's observable O(x) = (x - a)^T C (x - a) with a = 0 and C = I.

    Args:
        samples: shape (n, dim).
        second_moment: E|x|^2 under the target, exact or from a reference set.

    Raises:
        MetricError: for samples that are not finite.
    """
    if not math.isfinite(second_moment):
        raise MetricError(f"second_moment is {second_moment}; give the finite E|x|^2 of the target")
    return float(abs(np.mean(np.sum(checked_points(samples, "samples") ** 2, axis=1)) - second_moment))


def expected_mean_error(values: npt.ArrayLike, num_samples: int, num_reference: int | None = None) -> float:
    """The floor of an error of a mean: E|error| = sqrt(2/pi) sd sqrt(1/n + 1/m) for independent exact samples.

    One measured difference of two means may be close to zero by luck, and would make a bad floor; this is its
    expectation by the central limit theorem.

    Args:
        values: the observable on reference samples, for its standard deviation; at least two.
        num_samples: n, the number of samples judged.
        num_reference: m, when the truth is itself a mean over m reference samples; None when it is exact.
    """
    spread = float(np.std(np.asarray(values, np.float64), ddof=1))
    inverse = 1.0 / num_samples + (0.0 if num_reference is None else 1.0 / num_reference)
    return math.sqrt(2.0 / math.pi * inverse) * spread
