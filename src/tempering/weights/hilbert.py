"""The order of points along a Hilbert curve: neighbours on the curve are neighbours in space.

In one dimension that is sorting. `resample.resample` picks at even steps along the curve.
"""

import numpy as np

__all__ = ["hilbert_order"]

_MOST_AXES = 8
"""Of the curve: in more, a cell has hardly a draw in it, and leading principal components carry what there is."""
_NUM_BITS = 62
"""Of a place on the curve, an int64."""
_MOST_BITS = 20
"""Of an axis: a cell for each of a million draws."""


def hilbert_order(rows: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Indices of the rows in their order along a Hilbert curve.

    Coordinates are replaced by their ranks, so that neither units nor outliers matter; where there are many, by the
    ranks of the leading principal components.

    Args:
        rows: finite numbers of axes (row, dim).
        weights: of the rows, for the principal components.
    """
    rows = rows[:, np.ptp(rows, axis=0) > 0]
    if rows.shape[1] > _MOST_AXES:
        rows = _principal(rows, weights)
    if rows.shape[1] == 0:
        return np.arange(rows.shape[0])
    num_bits = min(_NUM_BITS // rows.shape[1], _MOST_BITS)
    ranks = np.stack([np.searchsorted(np.sort(column), column) for column in rows.T], axis=1)  # equal for equal numbers
    cells = (ranks.astype(np.int64) << num_bits) // rows.shape[0]
    return np.argsort(_place_on_curve(cells, num_bits), kind="stable")


def _principal(rows: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Rows in the leading principal components of their correlations; fewer where fewer vary."""
    from scipy.linalg import eigh  # here, so that `import tempering` does not wait for it

    share = np.full(rows.shape[0], 1.0 / rows.shape[0]) if weights is None else weights / np.sum(weights)
    centred = rows - share @ rows
    spread = np.sqrt(share @ centred**2)
    scaled = centred / np.where(spread > 0, spread, 1.0)
    dim = rows.shape[1]
    strength, axes = eigh((scaled * share[:, None]).T @ scaled, subset_by_index=(dim - _MOST_AXES, dim - 1))
    return scaled @ axes[:, strength > 1e-9 * strength[-1]][:, ::-1]


def _place_on_curve(cells: np.ndarray, num_bits: int) -> np.ndarray:
    """The place of every cell on the Hilbert curve through a cube of 2^num_bits cells a side.

    From the coarsest bit to the finest, what lies below a bit is turned as the curve turns there: mirrored where the
    bit is set, exchanged with the first axis where not. A Gray code then numbers the corners in the curve's order
    (Skilling 2004).
    """
    axes = [cells[:, axis].copy() for axis in range(cells.shape[1])]
    for bit in (1 << level for level in range(num_bits - 1, 0, -1)):
        below = bit - 1
        for axis, values in enumerate(axes):
            is_set = (values & bit) != 0
            exchanged = np.where(is_set, 0, (axes[0] ^ values) & below)
            axes[0] ^= np.where(is_set, below, exchanged)
            if axis > 0:
                values ^= exchanged
    for axis in range(1, len(axes)):
        axes[axis] ^= axes[axis - 1]
    turned = np.zeros_like(axes[0])
    for bit in (1 << level for level in range(num_bits - 1, 0, -1)):
        turned ^= np.where((axes[-1] & bit) != 0, bit - 1, 0)
    place = np.zeros_like(axes[0])
    for level in range(num_bits - 1, -1, -1):
        for values in axes:
            place = (place << 1) | (((values ^ turned) >> level) & 1)
    return place
