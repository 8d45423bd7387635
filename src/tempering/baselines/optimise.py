"""One update of a network's arrays; and a clipping of gradients by their own history, as fab-jax does it."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from tempering.types import Array, Float, Int

__all__ = ["clipped_by_median", "updated"]

_CLIP, _IGNORE = 2.0, 10.0
"""Of the median norm: where gradients are clipped, and from which they are left out."""


class _Norms(NamedTuple):
    norm: Float[Array, " window"]
    num: Int[Array, ""]


def updated(optimiser: optax.GradientTransformation, gradient: Any, memory: Any, arrays: Any) -> tuple[Any, Any]:
    """The arrays after one update, and the optimiser's memory."""
    with jax.numpy_dtype_promotion("standard"):  # Adam's bias correction raises a float to an integer power
        changes, memory = optimiser.update(gradient, memory, arrays)
    return optax.apply_updates(arrays, changes), memory


def clipped_by_median(window: int) -> optax.GradientTransformation:
    """Clip gradients at twice the median norm of the last `window`, and leave out those above ten times it.

    Until a tenth of the window is known, gradients pass as they are. A norm that is left out enters the history too:
    where all gradients have grown, they are used again after half a window.
    """

    def init(params: Any) -> _Norms:
        del params
        return _Norms(jnp.full((window,), jnp.nan), jnp.zeros((), jnp.int32))

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, _Norms]:
        del params
        norm, median = optax.tree.norm(updates), jnp.nanmedian(state.norm)
        is_known = state.num >= max(1, window // 10)
        factor = jnp.minimum(1.0, _CLIP * median / jnp.maximum(norm, 1e-30))
        factor = jnp.where(norm > _IGNORE * median, 0.0, factor)
        factor = jnp.where(is_known, factor, 1.0)
        factor = jnp.where(jnp.isfinite(norm), factor, 0.0)
        updates = jax.tree.map(lambda leaf: jnp.where(factor > 0, factor * leaf, 0.0), updates)
        kept = state.norm.at[state.num % window].set(jnp.where(jnp.isfinite(norm), norm, jnp.nan))
        return updates, _Norms(kept, state.num + 1)

    return optax.GradientTransformation(init, update)
