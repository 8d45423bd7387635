"""What draws without a usable value may stand for: the mass there, if the density goes on as it is next to them."""

import numpy as np

__all__ = ["mass_without_value"]

_NUM_NEIGHBOURS = 4
"""Of which the highest counts: next to a boundary the density may fall steeply."""


def mass_without_value(
    position: np.ndarray, log_density: np.ndarray, is_usable: np.ndarray, log_q: np.ndarray
) -> float:
    """The share of the mass that lies at draws without a usable value, as far as their neighbours foretell.

    A log likelihood that takes the logarithm of a negative number is NaN where it should be -inf. Next to such a
    region the density is low, and nothing is lost. One that overflows is NaN where the density is high.

    Args:
        position: (draw, dim).
        log_density: NaN or +inf where there is no value; -inf is a value, outside the support.
        is_usable: whether value, gradient and log q are finite.
        log_q: of the distribution that the points were drawn from.

    Returns:
        1.0 where a value is +inf, or where nothing is usable.
    """
    from scipy.spatial import KDTree  # here: importing it takes a tenth of a second

    position, log_density, log_q = (np.asarray(array, np.float64) for array in (position, log_density, log_q))
    is_usable, is_outside = np.asarray(is_usable, bool), np.isneginf(log_density)
    is_unknown = ~is_usable & ~is_outside & np.isfinite(log_q)
    if not np.any(is_unknown):
        return 0.0
    if not np.any(is_usable) or np.any(np.isposinf(log_density)):
        return 1.0
    known = is_usable | is_outside
    scale = np.maximum(np.std(position[is_usable], axis=0), 1e-30)
    num = min(_NUM_NEIGHBOURS, int(np.sum(known)))
    _, near = KDTree(position[known] / scale).query(position[is_unknown] / scale, k=num)
    foretold = np.max(log_density[known][near.reshape((-1, num))], axis=1)
    own = log_density[is_unknown]  # finite where the gradient alone is missing
    lost = np.where(np.isfinite(own), own, foretold) - log_q[is_unknown]
    found = log_density[is_usable] - log_q[is_usable]
    top = max(np.max(found), np.max(lost))
    lost, found = np.sum(np.exp(lost - top)), np.sum(np.exp(found - top))
    return float(lost / (lost + found))
