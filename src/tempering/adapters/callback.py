"""Any Python callable on NumPy arrays as a target, called from compiled programs: one call of the host per batch.

Every point that a stage asks for reaches the callable exactly once: the callback is a pure one, of which the compiler
might drop those whose answer is not used and merge equal ones; no stage asks for either, and the tests count.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from tempering.adapters.black_box import BlackBox
from tempering.errors import DensityError, SettingsError
from tempering.settings.checks import require_count, require_flag, require_positive
from tempering.targets.base import Target
from tempering.types import Array, Float

__all__ = ["CallbackTarget", "boxes_of", "from_callable", "reporting"]

_GRADIENTS = ("none", "finite", "returned")


class CallbackTarget(Target):
    """The density of a black box. A context manager too: leaving it ends the worker processes."""

    dim: int = eqx.field(static=True)
    box: BlackBox = eqx.field(static=True)

    @property
    def has_gradient(self) -> bool:
        """Whether gradients are more than zeros."""
        return self.box.has_gradient

    @property
    def points_per_gradient(self) -> int:
        """Points that value and gradient of one point take; a gradient function of its own counts with the value."""
        return 1 + self.dim if self.box.gradient == "finite" else 1

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        """What the callable returns for one point."""
        if not isinstance(x, Tracer):  # outside compiled programs exceptions need no detour
            return jnp.asarray(self.box.values(np.asarray(x)))
        return _log_density(self.box, x)

    def close(self) -> None:
        """End the worker processes, if any; a later evaluation starts new ones."""
        self.box.close()

    def __enter__(self) -> "CallbackTarget":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _log_density(box: BlackBox, x: Array) -> Array:
    shape = jax.ShapeDtypeStruct((), jnp.float32)
    return jax.pure_callback(box.values, shape, x, vmap_method="expand_dims")


@_log_density.defjvp
def _value_and_slope(box: BlackBox, primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    """One visit for value and gradient."""
    ((x,), (direction,)) = primals, tangents
    if not box.has_gradient:
        value = _log_density(box, x)
        return value, jnp.zeros_like(value)
    shapes = jax.ShapeDtypeStruct((), jnp.float32), jax.ShapeDtypeStruct(x.shape, jnp.float32)
    value, gradient = jax.pure_callback(box.values_and_gradients, shapes, x, vmap_method="expand_dims")
    return value, jnp.sum(gradient * direction)


def from_callable(
    fn: Callable[..., Any],
    dim: int,
    *,
    gradient: str | Callable[..., Any] = "none",
    batched: bool = False,
    num_processes: int = 0,
    finite_step: float = 1e-6,
) -> CallbackTarget:
    """Make any Python function a target for `tp.fit`: NumPy, SciPy, a simulator, a compiled library.

    Args:
        fn: the unnormalised log density: one point (dim,) of float64 -> a number, or, with `batched`, (n, dim) -> (n,).
            -inf outside the support.
        dim: dimension of a point.
        gradient: "none": values only; chains walk at random and the model learns from samples alone. "finite":
            forward differences, 1 + dim evaluations each, all counted. "returned": `fn` returns (value, gradient). Or
            a function that returns the gradient; it counts together with the value.
        batched: whether `fn`, and `gradient` if it is a function, take many points at once.
        num_processes: evaluate in so many worker processes; 0 in this one. Close them by `target.close()`, or by
            `with tp.from_callable(…) as target:`; at the end of the program they end by themselves.
        finite_step: of the differences, relative to max(1, |x|) in every coordinate. A callable that works in float32
            needs about 1e-3.

    Returns:
        A target. Hand it to `tp.fit` as it is: inside a function of one's own it would be counted wrongly.

    Raises:
        DensityError: if `fn` is not callable, or cannot be sent to a worker.
        SettingsError: for other arguments outside what is allowed.

    What `fn` raises during a fit ends it and is raised by `tp.fit` as it is. Wrong shapes are a DensityError.

    Example:
        >>> import numpy as np, tempering as tp
        >>> target = tp.from_callable(lambda x: -0.5 * np.sum(x**2), dim=2)
        >>> target.has_gradient
        False
    """
    if not callable(fn):
        raise DensityError(f"fn is a {type(fn).__name__}; it must be a function of one point that returns a number")
    if not callable(gradient) and gradient not in _GRADIENTS:
        allowed = ", ".join(map(repr, _GRADIENTS))
        raise SettingsError(f"gradient = {gradient!r} is not allowed: it must be one of {allowed}, or a function")
    require_count("dim", dim)
    require_flag("batched", batched)
    require_count("num_processes", num_processes, 0)
    require_positive("finite_step", finite_step)
    dim, num_processes = int(dim), int(num_processes)
    box = BlackBox(fn, dim, gradient, batched=batched, num_processes=num_processes, finite_step=finite_step)
    return CallbackTarget(dim, box)


def boxes_of(target: Target) -> list[BlackBox]:
    """The black boxes inside a target, however it is wrapped."""
    is_ours = lambda node: isinstance(node, CallbackTarget)  # noqa: E731
    return [leaf.box for leaf in jax.tree.leaves(target, is_leaf=is_ours) if is_ours(leaf)]


@contextmanager
def reporting(target: Target) -> Iterator[None]:
    """Raise what a black box inside `target` raised, in place of the runtime's error that it becomes on the way.

    The door of everything that evaluates: `tp.fit`, and a sampler's weighted draws. Other targets go through.
    """
    boxes = boxes_of(target)
    if not boxes:
        yield
        return
    logger = logging.getLogger("jax._src.callback")
    for box in boxes:
        box.take_error()
    logger.addFilter(_quiet)
    try:
        yield
    except Exception as error:
        own = next((found for found in (box.take_error() for box in boxes) if found is not None), None)
        if own is None or own is error:
            raise
        # The runtime's error says nothing more; the traceback of the callable is the exception's own.
        raise own.with_traceback(own.__traceback__) from own.__cause__
    finally:
        logger.removeFilter(_quiet)


def _quiet(record: logging.LogRecord) -> bool:
    """Drops JAX's own report of a failed callback: the exception is about to be raised."""
    return "callback failed" not in record.getMessage()
