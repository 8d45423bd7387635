"""Second derivatives of a log density at one point, where searches end.

By JAX where it can look inside, and by differences of gradients otherwise.
"""

import jax
import jax.numpy as jnp
import numpy as np

from tempering.devices import on_one
from tempering.targets.base import Target, evaluate
from tempering.targets.cost import is_black_box
from tempering.types import Array, Float

__all__ = ["is_drowned", "is_twice_differentiable", "second_derivatives", "seen_along_own_axes"]

_DROWNED = 1e-5
"""Smallest curvature over the largest, below which second derivatives are seen once more, along their own axes."""


@on_one
def _slopes(
    target: Target, x: Float[Array, " dim"], axes: Float[Array, "axis dim"], *, is_exact: bool
) -> Float[Array, "axis dim"]:
    """How the gradient changes along each axis: an evaluation each; by differences where JAX cannot look inside."""
    gradient = lambda point: evaluate(target, point)[1]  # noqa: E731
    if is_exact:
        return jax.lax.map(lambda axis: jax.jvp(gradient, (x,), (axis,))[1], axes)
    step = 1e-2 * jnp.maximum(1.0, jnp.abs(x))
    moved = jax.lax.map(lambda axis: gradient(x + step * axis), axes)
    return (moved - gradient(x)[None]) / step[:, None]


def second_derivatives(target: Target, x: np.ndarray, *, is_exact: bool) -> np.ndarray:
    """At one point, in double precision: `dim` evaluations, and one more where they are differences."""
    axes = jax.device_put(np.eye(x.shape[0], dtype=np.float32))
    return np.asarray(_slopes(target, jax.device_put(x), axes, is_exact=is_exact), np.float64).T


def is_drowned(hessian: np.ndarray) -> bool:
    """Whether the smallest curvature is within what single precision makes of the largest."""
    sizes = np.abs(np.linalg.eigvalsh(0.5 * (hessian + hessian.T)))
    return bool(sizes.min() < _DROWNED * sizes.max())


def seen_along_own_axes(target: Target, x: np.ndarray, hessian: np.ndarray) -> np.ndarray:
    """The same second derivatives once more, along the axes that they show: `dim` evaluations.

    In any other direction the largest curvature takes part, and what single precision makes of it hides the smallest.
    Along an axis of its own a curvature is a number by itself, and may be eight powers of ten below the largest.
    """
    axes = np.linalg.eigh(-0.5 * (hessian + hessian.T))[1].T.astype(np.float32)
    slopes = np.asarray(_slopes(target, jax.device_put(x), jax.device_put(axes), is_exact=True), np.float64)
    own, back = slopes @ axes.T.astype(np.float64), np.linalg.inv(axes.astype(np.float64))
    return back @ (0.5 * (own + own.T)) @ back.T


def is_twice_differentiable(target: Target) -> bool:
    """Whether JAX can differentiate the gradient: not where it comes from a callback."""
    point = jax.ShapeDtypeStruct((target.dim,), jnp.float32)
    gradient = lambda x: evaluate(target, x)[1]  # noqa: E731
    try:
        jax.eval_shape(lambda x: jax.jvp(gradient, (x,), (x,))[1], point)
    except Exception:  # JAX has no one error for it, and a user's own rules may raise anything
        return False
    return not is_black_box(target)
