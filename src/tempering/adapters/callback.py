"""Any Python callable on NumPy arrays as a target, called from compiled programs: one call of the host per batch.

Every point that a stage asks for reaches the callable exactly once: the callback is a pure one, of which the compiler
might drop those whose answer is not used and merge equal ones; no stage asks for either, and the tests count.
"""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from tempering.adapters.black_box import BlackBox, Faults
from tempering.errors import DensityError, SettingsError
from tempering.settings.checks import require_choice, require_count, require_flag, require_positive
from tempering.targets.base import Target
from tempering.types import Array, Float

__all__ = ["CallbackTarget", "boxes_of", "checked_host", "from_callable", "reporting"]

_GRADIENTS = ("none", "finite", "returned")


class CallbackTarget(Target):
    """The density of a black box. A context manager too: leaving it ends own worker processes and leaves the store."""

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
        """End own worker processes and leave the store of points, if any; a later evaluation opens them anew."""
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
    pool: Any = None,
    num_processes: int = 0,
    chunk_size: int | None = None,
    timeout: float | None = None,
    on_failure: str = "stop",
    store: str | Path | bool | None = None,
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
        pool: who evaluates. A number: so many worker processes, which are replaced when they die. An executor
            (`concurrent.futures`, loky, `mpi4py.futures`, Dask's `client.get_executor()`, submitit), an object with
            `.map` (`multiprocessing.Pool`, schwimmbad, Ray's pool), or a function without arguments that makes one. The
            function travels once, and points are handed out as workers become free. The result does not depend on the
            number of workers. Close processes by `target.close()`, or by `with tp.from_callable(…) as target:`; at the
            end of the program they end by themselves. docs/clusters.md has complete scripts.
        num_processes: the same as a number for `pool`; 0 evaluates in this process.
        chunk_size: points that a worker gets at once. None: 16 for a batched function; else one, or more where points
            take less than a twentieth of a second.
        timeout: seconds that a point may take, on a pool.
        on_failure: a point on a pool that raises, takes longer than `timeout`, returns NaN or ends its worker is tried
            again once. "stop": then the fit ends with its error (NaN is passed on, and never accepted); without a pool
            at once. "reject": the point counts as outside the support, and `sampler.summary()` says how many did.
        store: a folder that keeps every point with its value as it arrives; a later run on it does not pay for them
            again. None: the folder of the fit, where `out=` gives one. False: nowhere.
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
    require_positive("finite_step", finite_step)
    box = BlackBox(
        fn,
        int(dim),
        gradient,
        batched=batched,
        finite_step=finite_step,
        **checked_host(pool, num_processes, chunk_size, timeout, on_failure, store),
    )
    return CallbackTarget(int(dim), box)


def checked_host(
    pool: Any = None,
    num_processes: int = 0,
    chunk_size: int | None = None,
    timeout: float | None = None,
    on_failure: str = "stop",
    store: str | Path | bool | None = None,
) -> dict[str, Any]:
    """The options of `from_callable` about pools, checked, as `BlackBox` takes them; for every adapter of the host."""
    require_count("num_processes", num_processes, 0)
    if pool is not None and num_processes:
        raise SettingsError("pool and num_processes both say who evaluates; give one of them")
    if isinstance(pool, bool):
        raise SettingsError(f"pool = {pool} is not allowed: give a number of processes, or a pool")
    pool = int(num_processes) if pool is None else pool
    if chunk_size is not None:
        require_count("chunk_size", chunk_size)
    if timeout is not None:
        require_positive("timeout", timeout)
        if isinstance(pool, int) and pool == 0:
            raise SettingsError("timeout needs a pool: a point in this process cannot be ended; give pool=1 or more")
    require_choice("on_failure", on_failure, ("stop", "reject"))
    if store is True or not isinstance(store, str | os.PathLike | bool | None):
        raise SettingsError(f"store = {store!r} is not allowed: give a folder, None or False")
    return {"pool": pool, "chunk_size": chunk_size, "faults": Faults(on_failure, timeout), "store": store}


def boxes_of(target: Target) -> list[BlackBox]:
    """The black boxes inside a target, however it is wrapped."""
    is_ours = lambda node: isinstance(node, CallbackTarget)  # noqa: E731
    boxes = [leaf.box for leaf in jax.tree.leaves(target, is_leaf=is_ours) if is_ours(leaf)]
    return list(dict.fromkeys(boxes))


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
