"""What a metric is: a number, the floor below which nobody can get at that N, and what it means.

Consumes and produces plain Python and NumPy values; the checks on inputs that every metric shares live here.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tempering.errors import TemperingError

__all__ = ["Metric", "MetricError", "MetricsReport", "checked_points", "checked_values", "refuse_nonfinite"]


class MetricError(TemperingError):
    """A metric that is not defined for these samples, or whose solver did not converge."""


@dataclass(frozen=True)
class Metric:
    """One measured number.

    Args:
        name: as in the report, e.g. `energy_tvd`.
        value: the number; NaN when `failure` says why there is none.
        unit: of value and floor; empty for a pure number.
        description: what was computed, in a sentence.
        floor: the same metric for exact samples in place of the ones judged; None where there is no such thing.
        smaller_is_better: whether smaller values are better.
        num_samples: how many of the judged samples entered.
        num_floor: how many samples stood in for them in the floor, when it was measured.
        floor_spread: the standard deviation of the floor between pairs of sets, when it is a mean over several.
        floor_source: where the floor comes from, in words.
        failure: why there is no value, or None.
        floor_failure: why there is no floor although there ought to be one, or None.
    """

    name: str
    value: float
    unit: str
    description: str
    floor: float | None = None
    smaller_is_better: bool = True
    num_samples: int | None = None
    num_floor: int | None = None
    floor_spread: float | None = None
    floor_source: str | None = None
    failure: str | None = None
    floor_failure: str | None = None

    def as_dict(self) -> dict:
        """A JSON-ready copy: numbers that are not finite become None."""
        record = dict(self.__dict__)
        for name in ("value", "floor", "floor_spread"):
            number = record[name]
            record[name] = number if number is not None and math.isfinite(number) else None
        return record


@dataclass(frozen=True)
class MetricsReport:
    """All metrics of one sample set by name, and what they cost.

    `num_evaluations` counts the points at which the target was evaluated, values only: the caller enters it in the
    ledger under `metrics`.
    """

    metrics: dict[str, Metric]
    num_evaluations: int

    def __getitem__(self, name: str) -> Metric:
        return self.metrics[name]


def checked_points(points: npt.ArrayLike, name: str, *, allow_nonfinite: bool = False) -> np.ndarray:
    """A set of points as float64, shape (n, dim).

    Raises:
        MetricError: for another shape, no points, or (unless allowed) entries that are not finite.
    """
    return _checked(points, name, 2, "a metric needs (n, dim) with at least one point", allow_nonfinite)


def checked_values(values: npt.ArrayLike, name: str, *, allow_nonfinite: bool = False) -> np.ndarray:
    """Scalars, such as energies, as float64, shape (n,).

    Raises:
        MetricError: for another shape, no values, or (unless allowed) values that are not finite.
    """
    return _checked(values, name, 1, "this metric needs (n,) with at least one value", allow_nonfinite)


def _checked(values: npt.ArrayLike, name: str, num_axes: int, wanted: str, allow_nonfinite: bool) -> np.ndarray:
    array = np.asarray(values, np.float64)
    if array.ndim != num_axes or array.size == 0:
        raise MetricError(f"{name} has shape {array.shape}; {wanted}")
    if not allow_nonfinite:
        refuse_nonfinite(array, name)
    return array


def refuse_nonfinite(array: np.ndarray, name: str) -> None:
    """Raise a `MetricError` that counts the rows with an entry that is not finite, if there are any."""
    num_bad = int(np.sum(~np.isfinite(array.reshape(len(array), -1)).all(axis=1)))
    if num_bad:
        raise MetricError(
            f"{num_bad:,} of the {len(array):,} rows of {name} are not finite, and this metric has no value for them; "
            "leaving them out would flatter the sampler. Mend the sampler, or report the metric as failed"
        )
