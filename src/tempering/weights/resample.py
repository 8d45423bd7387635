"""Drawing by weight: a level's buffer from weighted samples, and equally weighted points from a user's weighted draws.

Two searches in cumulative weights do it. `indices_by_weight` runs on the device, in float32 and under jit, for the
levels of a fit. `systematic_indices` runs on the host in float64, for what belongs to the user by now: that may be a
million draws, whose cumulative weights float32 cannot tell apart.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering.buffer import Buffer, from_states
from tempering.compilation import quick
from tempering.errors import DensityError
from tempering.kernels import ChainState
from tempering.settings import Resampling
from tempering.settings.checks import require, require_count, require_seed
from tempering.types import Array, Float, Int, Key
from tempering.weights.ess import normalised
from tempering.weights.hilbert import hilbert_order
from tempering.weights.weigh import Weighted

__all__ = ["evened", "indices_by_weight", "keep_usable", "resample", "resampled", "systematic_indices"]


@quick
def indices_by_weight(key: Key, log_weights: Float[Array, " particle"], num: int, scheme: str) -> Int[Array, " draw"]:
    """Indices of `num` particles drawn in proportion to their weights, of which one at least must be positive.

    Args:
        scheme: multinomial draws independently; systematic shares one uniform, which keeps every count within one of
            its expectation and comes back in random order.
    """
    size = log_weights.shape[0]
    key_position, key_order = jax.random.split(key)
    if scheme == "multinomial":
        positions = jax.random.uniform(key_position, (num,))
    else:
        positions = (jnp.arange(num, dtype=jnp.float32) + jax.random.uniform(key_position)) / num
    cumulative = jnp.cumsum(normalised(log_weights))
    indices = jnp.searchsorted(cumulative / cumulative[-1], positions, side="right")
    # A parallel sum rounds every prefix on its own, so a particle without weight may own an ulp of it, and a position
    # that rounds up to 1 falls behind the last. Both belong to the particle of positive weight before.
    own = jnp.where(log_weights > -jnp.inf, jnp.arange(size), -1)
    indices = jnp.maximum(jax.lax.cummax(own)[jnp.minimum(indices, size - 1)], jnp.argmax(own >= 0))
    return indices if scheme == "multinomial" else jax.random.permutation(key_order, indices)


def systematic_indices(log_weights: np.ndarray, num: int, offset: float) -> np.ndarray:
    """Indices at `num` even steps of the cumulative weight, in order. Every count is within one of its expectation.

    Args:
        log_weights: neither NaN nor +inf, and one at least above -inf.
        offset: of the first step, from 0 to 1 in steps. A random one makes counts right on average.
    """
    weights = np.exp(np.asarray(log_weights, np.float64) - np.max(log_weights))
    cumulative = np.cumsum(weights)
    positions = (np.arange(num) + offset) / num * cumulative[-1]
    # A position that rounds up to the total belongs to the last draw that has weight.
    return np.minimum(np.searchsorted(cumulative, positions, side="right"), np.flatnonzero(weights)[-1])


def resampled(key: Key, weighted: Weighted, resampling: Resampling) -> Buffer:
    """A buffer of the level: equally weighted copies, or, where nothing is to be resampled, samples with their weights.

    Raises:
        DensityError: if no sample has a positive weight.
    """
    weighted.require_weight()
    log_weights = weighted.log_weights
    if not resampling.is_resampled:
        return _with_weights(weighted.states, log_weights)
    indices = indices_by_weight(key, log_weights, log_weights.shape[0], resampling.scheme)
    return from_states(weighted.states, "importance_resampled").take(indices)


@quick
def _with_weights(states: ChainState, log_weights: Array) -> Buffer:
    """The samples as they are, with their weights."""
    # A sample without weight may have no density; a copy of a usable one in its place keeps every number finite.
    own = jnp.where(log_weights > -jnp.inf, jnp.arange(log_weights.shape[0]), jnp.argmax(log_weights))
    return eqx.tree_at(lambda tree: tree.log_weight, from_states(states, "weighted").take(own), log_weights)


def keep_usable(key: Key, weighted: Weighted) -> Buffer:
    """The samples as generated, unweighted; those that cannot start a chain are replaced by others at random.

    Raises:
        DensityError: if none can start a chain.
    """
    weighted.require_weight()
    is_usable = weighted.log_weights > -jnp.inf
    indices = indices_by_weight(key, jnp.where(is_usable, 0.0, -jnp.inf), is_usable.shape[0], "systematic")
    own = jnp.where(is_usable, jnp.arange(is_usable.shape[0]), indices)
    return from_states(weighted.states, "generated").take(own)


def evened(key: Key, buffer: Buffer, scheme: str) -> Buffer:
    """The same distribution with even weights, for chains to start from; a buffer of even weights stays as it is."""
    if not bool(jnp.any(buffer.log_weight != buffer.log_weight[0])):
        return buffer
    taken = buffer.take(indices_by_weight(key, buffer.log_weight, buffer.size, scheme))
    return eqx.tree_at(lambda tree: tree.log_weight, taken, jnp.zeros_like(taken.log_weight))


def resample(draws: Any, log_weights: Any, num: int, *, seed: int = 0) -> Any:
    """Make equally weighted points from weighted draws. The points are spread evenly. It costs no evaluation.

    Each draw is taken as often as its weight says, rounded up or down at random. So the mean of any function over the
    points equals its mean over the weighted draws, apart from noise. The points are not independent: a subset of them
    is no better than an independent sample of its size. If there are fewer draws than `num`, points repeat.

    The draws are put in order along a Hilbert curve, and points are picked at even steps of the cumulative weight. So
    every part of the curve gets its share of points to within one (Gerber, Chopin and Whiteley 2019).

    Examples:
        >>> import numpy as np, tempering as tp
        >>> draws = np.array([[0.0], [1.0], [2.0]], np.float32)
        >>> points = tp.resample(draws, np.log([0.5, 0.25, 0.25]), 400)
        >>> np.bincount(points[:, 0].astype(int))
        array([200, 100, 100])

    Args:
        draws: an array with the axes (draw, dim), or a tree of arrays with the same first axis, as `sample_weighted`
            gives.
        log_weights: one number per draw, normalised or not. -inf means no weight.
        num: the number of points. They come in random order.
        seed: the same seed gives the same points.

    Returns:
        Points in the form of the draws, as NumPy arrays of the same types.

    Raises:
        SettingsError: if draws and weights do not fit together or are not real numbers, if weights are NaN or +inf, or
            if draws with a weight are not finite.
        DensityError: if no draw has a positive weight.
    """
    require_count("num", num)
    require_seed("seed", seed)
    log_weights = _numbers("log_weights", log_weights).astype(np.float64)
    require(log_weights.ndim == 1, "log_weights", log_weights.shape, "one number per draw, an array of one axis")
    leaves = [_numbers("draws", leaf) for leaf in jax.tree.leaves(draws)]
    fits = bool(leaves) and all(leaf.ndim > 0 and leaf.shape[0] == log_weights.size for leaf in leaves)
    allowed = f"an array whose first axis is that of the {log_weights.size:,} log weights, or a tree of such arrays"
    require(
        fits,
        "draws",
        [leaf.shape for leaf in leaves][:3],
        allowed,
        "a list of rows is not an array: give np.asarray(draws)",
    )
    is_number = not np.any(np.isnan(log_weights) | (log_weights == np.inf))
    require(is_number, "log_weights", "NaN or inf among them", "finite, or -inf for a draw without weight")
    usable = np.flatnonzero(log_weights > -np.inf)
    if usable.size == 0:
        raise DensityError(f"none of the {log_weights.size:,} draws has a positive weight to resample by; draw more")
    rows = np.concatenate([leaf[usable].reshape(usable.size, -1).astype(np.float64) for leaf in leaves], axis=1)
    remedy = "a log weight of -inf takes a draw out"
    require(bool(np.all(np.isfinite(rows))), "draws", "NaN or inf among them", "finite where they have weight", remedy)
    own = log_weights[usable]
    along = hilbert_order(rows, np.exp(own - np.max(own)))
    generator = np.random.default_rng(int(seed))
    picked = along[systematic_indices(own[along], num, generator.uniform())]
    indices = usable[generator.permutation(picked)]
    return jax.tree.map(lambda leaf: np.asarray(leaf)[indices], draws)


def _numbers(name: str, given: Any) -> np.ndarray:
    """An array of real numbers, or a refusal."""
    array = np.asarray(given)
    kinds = (jnp.floating, jnp.integer, jnp.bool_)
    require(any(jnp.issubdtype(array.dtype, kind) for kind in kinds), name, array.dtype, "real numbers")
    return array
