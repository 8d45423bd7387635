"""Are the modes weighted right? Consumes points and an exact target, produces errors of region weights.

A point that is not finite is in no region, but it still counts in the denominator: its mass is missing everywhere.
Region indicators are facts of the target, not evaluations of its density; the ledger does not count them.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from tempering.lab.metrics.metric import MetricError, checked_points
from tempering.targets.base import ExactTarget

__all__ = ["estimated_region_weights", "max_region_error", "region_tv"]

_CHUNK = 4096
"""Points handled at a time, to bound memory; it does not change results."""


def estimated_region_weights(target: ExactTarget, samples: npt.ArrayLike) -> np.ndarray:
    """The mean of every region indicator over the samples, shape (region,), in float64.

    Raises:
        MetricError: for samples of another shape than (n, target.dim).
    """
    points = checked_points(samples, "samples", allow_nonfinite=True)
    if points.shape[1] != target.dim:
        raise MetricError(f"samples have {points.shape[1]} dimensions and the target {target.dim}; they must agree")
    x = jnp.asarray(points)
    # After the cast: what overflows float32 is in no region either.
    finite = jnp.isfinite(x).all(axis=1, keepdims=True)
    indicators = np.asarray(_indicators(target, jnp.where(finite, x, 0.0)), np.float64)
    return np.where(finite, indicators, 0.0).sum(axis=0) / len(points)


@eqx.filter_jit
def _indicators(target: ExactTarget, points: jax.Array) -> jax.Array:
    return jax.lax.map(target.region_indicators, points, batch_size=_CHUNK)


def region_tv(estimated: npt.ArrayLike, exact: npt.ArrayLike) -> float:
    """Total variation between region weights of a partition, (1/2) (sum_r |w_r - w*_r| + missing mass).

    Args:
        estimated: w, shape (region,); what it lacks from 1 is mass in no region.
        exact: w*, shape (region,), summing to 1.

    Returns:
        A number in [0, 1].

    Raises:
        MetricError: if the shapes differ, or the exact weights do not sum to one (no partition).
    """
    w, truth = _checked_pair(estimated, exact)
    if abs(truth.sum() - 1.0) > 1e-4:
        raise MetricError(
            f"the exact weights sum to {truth.sum():.6g}, so the regions are not a partition and total variation means "
            "nothing; use max_region_error"
        )
    return float(0.5 * (np.abs(w - truth).sum() + max(1.0 - w.sum(), 0.0)))


def max_region_error(estimated: npt.ArrayLike, exact: npt.ArrayLike) -> float:
    """The largest absolute error of a region weight. Works for regions that overlap.

    Raises:
        MetricError: if the shapes differ.
    """
    w, truth = _checked_pair(estimated, exact)
    return float(np.abs(w - truth).max())


def _checked_pair(estimated: npt.ArrayLike, exact: npt.ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    w, truth = np.asarray(estimated, np.float64), np.asarray(exact, np.float64)
    if w.shape != truth.shape or w.ndim != 1 or w.size == 0:
        raise MetricError(f"region weights have shapes {w.shape} and {truth.shape}; give two of shape (region,)")
    return w, truth
