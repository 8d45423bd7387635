"""A few points that stand for many weighted draws: systematic resampling along a Hilbert curve.

Resampling adds noise of its own: by independent picks, that of as many independent points. Systematic resampling picks
at even steps of the cumulative weight, and where neighbours in its order are neighbours in space, every stretch of the
curve gets its weight in points to within one (on the order's part: Gerber, Chopin and Whiteley 2019). In one dimension
that is sorting; in a few, a Hilbert curve. Most of what chance is left is that of the draws themselves, which
quasi-random ones lessen. On the host and in float64: the draws are the user's by now, and may be a million, whose
cumulative weights float32 (`resampling.indices_by_weight`, which levels use) cannot tell apart.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tempering.errors import DensityError
from tempering.settings.checks import require, require_count, require_seed

__all__ = ["hilbert_order", "resample"]

_MOST_AXES = 8
"""Of the curve: in more, a cell has hardly a draw in it, and leading principal components carry what there is."""
_NUM_BITS = 62
"""Of a place on the curve, an int64."""
_MOST_BITS = 20
"""Of an axis: a cell for each of a million draws."""


def resample(draws: Any, log_weights: Any, num: int, *, seed: int = 0) -> Any:
    """Equally weighted points in place of weighted draws, spread nearly as evenly as these are; no evaluations.

        draws, log_weights = sampler.sample_weighted(20_000, is_quasi_random=True)
        points = tp.resample(draws, log_weights, 1_000)

    Every draw comes as often as its weight says, rounded up or down at random, so that the mean of any function over
    the points is that over the weighted draws, but for noise. Means over all points gain most; these are not
    independent, and a part of them is no better than as many others. With fewer draws than `num` points, points repeat.

    Args:
        draws: an array of axes (draw, dim), or a tree of arrays with the same first axis, as `sample_weighted` gives.
        log_weights: one a draw, normalised or not; -inf for none.
        num: points to give back, in random order.
        seed: the same seed gives the same points.

    Returns:
        Points of the form that the draws have, as NumPy arrays of the same types.

    Raises:
        SettingsError: for draws and weights that do not fit together or are not real numbers; for weights that are NaN
            or +inf, or draws that have weight and are not finite.
        DensityError: if no draw has a positive weight.
    """
    require_count("num", num)
    require_seed("seed", seed)
    log_weights = _numbers("log_weights", log_weights).astype(np.float64)
    require(log_weights.ndim == 1, "log_weights", log_weights.shape, "one number a draw, an array of one axis")
    leaves = [_numbers("draws", leaf) for leaf in jax.tree.leaves(draws)]
    fits = bool(leaves) and all(leaf.ndim > 0 and leaf.shape[0] == log_weights.size for leaf in leaves)
    allowed = f"an array whose first axis is that of the {log_weights.size:,} log weights, or a tree of such arrays"
    require(
        fits, "draws", [leaf.shape for leaf in leaves][:3], allowed, "a list of rows is no array: np.asarray(draws)"
    )
    is_number = not np.any(np.isnan(log_weights) | (log_weights == np.inf))
    require(is_number, "log_weights", "NaN or inf among them", "finite, or -inf for a draw without weight")
    usable = np.flatnonzero(log_weights > -np.inf)
    if usable.size == 0:
        raise DensityError(f"none of the {log_weights.size:,} draws has a positive weight to resample by; draw more")
    rows = np.concatenate([leaf[usable].reshape(usable.size, -1).astype(np.float64) for leaf in leaves], axis=1)
    remedy = "a log weight of -inf takes a draw out"
    require(bool(np.all(np.isfinite(rows))), "draws", "NaN or inf among them", "finite where they have weight", remedy)
    weights = np.exp(log_weights[usable] - np.max(log_weights[usable]))
    along = hilbert_order(rows, weights)
    generator = np.random.default_rng(int(seed))
    cumulative = np.cumsum(weights[along])
    places = (np.arange(num) + generator.uniform()) / num * cumulative[-1]
    picked = along[np.minimum(np.searchsorted(cumulative, places, side="right"), usable.size - 1)]
    indices = usable[generator.permutation(picked)]
    return jax.tree.map(lambda leaf: np.asarray(leaf)[indices], draws)


def _numbers(name: str, given: Any) -> np.ndarray:
    """An array of real numbers, or a refusal."""
    array = np.asarray(given)
    kinds = (jnp.floating, jnp.integer, jnp.bool_)
    require(any(jnp.issubdtype(array.dtype, kind) for kind in kinds), name, array.dtype, "real numbers")
    return array


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
