"""Any Python callable on NumPy arrays as a target, called from compiled programs: one call of the host per batch.

Every point that a stage asks for reaches the callable exactly once: the callback is a pure one, of which the compiler
might drop those whose answer is not used and merge equal ones; no stage asks for either, and the tests count.
"""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from tempering.adapters.black_box import BlackBox, Faults
from tempering.errors import DensityError, SettingsError, what_is
from tempering.settings.checks import require_choice, require_count, require_flag, require_positive
from tempering.targets.base import Target
from tempering.types import Array, Float

__all__ = ["CallbackTarget", "boxes_of", "checked_host", "from_callable", "reporting"]

_GRADIENTS = ("none", "finite", "returned")


class CallbackTarget(Target):
    """The density of a black box. It is a context manager too: leaving it ends its workers and closes its store."""

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
        """End own worker processes and leave the store of points, if any; a later evaluation opens them again."""
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
        fn: the unnormalised log density. It takes one point, a float64 array (dim,), and returns a number. With
            `batched` it takes (n, dim) and returns (n,). It is -inf outside the support.
        dim: the dimension of a point.
        gradient: how gradients are made. "none": there are values only; chains walk at random, and the model learns
            from samples alone. "finite": forward differences; each gradient costs 1 + dim evaluations, and all are
            counted. "returned": `fn` returns (value, gradient). A function: it returns the gradient, and value and
            gradient count once together.
        batched: whether `fn`, and `gradient` if it is a function, take many points at once.
        pool: the workers that evaluate. A number starts that many processes, which are replaced if they die. It may
            also be an executor (`concurrent.futures`, loky, `mpi4py.futures`, Dask's `client.get_executor()`,
            submitit), an object with `.map` (`multiprocessing.Pool`, schwimmbad, Ray's pool), or a function without
            arguments that makes one. The function is sent once, and points are sent as workers become free. The result
            does not depend on the number of workers. Close processes by `target.close()`, or by
            `with tp.from_callable(…) as target:`. At the end of the program they end by themselves. docs/clusters.md
            has complete scripts.
        num_processes: the same as a number for `pool`. 0 evaluates in this process.
        chunk_size: the number of points that a worker gets at once. None takes 16 for a batched function. For others it
            takes one, or more if points take less than a twentieth of a second.
        timeout: the longest time in seconds for one point, on a pool.
        on_failure: what happens to a point that raises, takes longer than `timeout`, returns NaN or ends its worker. On
            a pool the point is tried again once. "stop": then the fit ends with the error; NaN is passed on, and never
            accepted. Without a pool the fit ends at once. "reject": the point counts as outside the support, and
            `sampler.summary()` says how many did.
        store: a folder that keeps every point with its value as it arrives. A later run on it does not pay for them
            again. None takes the folder of the fit, if `out=` gives one. False keeps nothing.
        finite_step: the step of the differences, relative to max(1, |x|) in every coordinate. A callable that works in
            float32 needs about 1e-3.

    Returns:
        A target. Hand it to `tp.fit` as it is. If a function of your own calls it, evaluations are counted wrongly.

    Raises:
        DensityError: if `fn` is not callable, or cannot be sent to a worker.
        SettingsError: for other arguments outside what is allowed.

    An exception in `fn` ends the fit, and `tp.fit` raises it unchanged. Wrong shapes are a DensityError.

    Examples:
        >>> import numpy as np, tempering as tp
        >>> target = tp.from_callable(lambda x: -0.5 * np.sum(x**2), dim=2)
        >>> target.has_gradient
        False
    """
    if not callable(fn):
        raise DensityError(f"fn is {what_is(fn)}; it must be a function of one point that returns a number")
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
        with ExitStack() as visits:
            for box in boxes:
                visits.enter_context(box.visited())
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
