"""A Python callable on NumPy arrays, seen from the host: batches in, checked values and gradients out.

Holds no JAX: `callback` calls it from compiled programs. What the callable raises is kept here, because on its way
through a compiled program it would turn into an error of the runtime.
"""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from tempering.adapters.processes import Workers
from tempering.errors import DensityError

__all__ = ["BlackBox"]

_VALUE, _GRADIENT = 0, 1


class BlackBox:
    """Values and gradients of a callable at many points; the arguments are those of `callback.from_callable`."""

    def __init__(
        self,
        fn: Callable[..., Any],
        dim: int,
        gradient: str | Callable[..., Any],
        *,
        batched: bool,
        num_processes: int,
        finite_step: float,
    ):
        self.fn, self.dim, self.gradient, self.batched, self.finite_step = fn, dim, gradient, batched, finite_step
        self.functions = (fn, gradient) if callable(gradient) else (fn,)
        self.workers = Workers(self.functions, num_processes, is_batched=batched) if num_processes else None
        self.error: Exception | None = None
        self._lock = threading.RLock()  # two compiled programs may run at once; a callable need not allow for that

    @property
    def has_gradient(self) -> bool:
        """Whether there is any way to a gradient."""
        return self.gradient != "none"

    def values(self, points: Any) -> np.ndarray:
        """Log densities of points (*batch, dim) as float32 of axes (*batch)."""
        with self._lock:
            rows, shape = self._rows(points)
            return _single(self._keep(self._values, rows)).reshape(shape)

    def values_and_gradients(self, points: Any) -> tuple[np.ndarray, np.ndarray]:
        """Log densities and gradients, of axes (*batch) and (*batch, dim)."""
        with self._lock:
            rows, shape = self._rows(points)
            computes = {"returned": self._pairs, "finite": self._differences}
            values, gradients = self._keep(computes.get(str(self.gradient), self._own), rows)
            return _single(values).reshape(shape), _single(gradients).reshape((*shape, self.dim))

    def take_error(self) -> Exception | None:
        """What the callable raised since the last time this was asked."""
        error, self.error = self.error, None
        return error

    def close(self) -> None:
        """End the worker processes, if any; a later evaluation starts new ones."""
        if self.workers is not None:
            self.workers.close()

    def _rows(self, points: Any) -> tuple[np.ndarray, tuple[int, ...]]:
        points = np.array(points, np.float64)  # a copy of its own: a callable may write into what it is given
        return points.reshape((-1, self.dim)), points.shape[:-1]

    def _keep(self, compute: Callable[[np.ndarray], Any], rows: np.ndarray) -> Any:
        try:
            return compute(rows)
        except Exception as error:
            self.error = self.error or error
            raise

    def _answers(self, which: int, rows: np.ndarray) -> list[Any]:
        """What the callable returned: one answer per point, or, batched, (size, answer) per piece."""
        if self.workers is not None:
            return self.workers.map(which, rows)
        function = self.functions[which]
        return [(len(rows), function(rows))] if self.batched else [function(row) for row in rows]

    def _gathered(self, which: int, rows: np.ndarray, kinds: tuple[str, ...]) -> tuple[np.ndarray, ...]:
        """Checked arrays of the kinds asked for (value, gradient), the points along the first axis."""
        shapes = {"value": (), "gradient": (self.dim,)}
        arrays = tuple(np.empty((len(rows), *shapes[kind])) for kind in kinds)
        function = self.functions[which]
        name = getattr(function, "__qualname__", None) or type(function).__name__
        done = 0
        for answer in self._answers(which, rows):
            size, parts = answer if self.batched else (1, answer)
            lead = (size,) if self.batched else ()
            where = f"an argument of shape {(*lead, self.dim)}"
            if len(kinds) == 1:
                parts = (parts,)
            elif not isinstance(parts, tuple | list) or len(parts) != len(kinds):
                raise DensityError(
                    f"{name} returned {_shown(parts)} for {where}; with gradient='returned' it must return the pair "
                    "(value, gradient)"
                )
            for array, kind, part in zip(arrays, kinds, parts, strict=True):
                array[done : done + size] = _checked(part, (*lead, *shapes[kind]), f"{name} returned", kind, where)
            done += size
        return arrays

    def _values(self, rows: np.ndarray) -> np.ndarray:
        return self._pairs(rows)[0] if self.gradient == "returned" else self._gathered(_VALUE, rows, ("value",))[0]

    def _pairs(self, rows: np.ndarray) -> tuple[np.ndarray, ...]:
        return self._gathered(_VALUE, rows, ("value", "gradient"))

    def _own(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        (gradients,) = self._gathered(_GRADIENT, rows.copy(), ("gradient",))
        return self._values(rows), gradients

    def _differences(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Forward differences: 1 + dim points each, in one batch."""
        steps = self.finite_step * np.maximum(1.0, np.abs(rows))
        moved = np.repeat(rows[:, None], 1 + self.dim, axis=1)
        axes = np.arange(self.dim)
        moved[:, 1 + axes, axes] += steps
        steps = moved[:, 1 + axes, axes] - rows  # as rounding left them
        values = self._values(moved.reshape((-1, self.dim))).reshape((-1, 1 + self.dim))
        with np.errstate(invalid="ignore"):  # -inf less -inf, outside the support
            return values[:, 0], (values[:, 1:] - values[:, :1]) / steps


def _single(values: np.ndarray) -> np.ndarray:
    """float32; what is too large for it becomes infinite, and is counted as such."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def _checked(part: Any, shape: tuple[int, ...], returned: str, kind: str, where: str) -> np.ndarray:
    try:
        array = np.asarray(part)
    except ValueError:  # a ragged list
        array = np.asarray(None)
    if array.shape != shape or array.dtype.kind not in "fiu":
        allowed = f"{'a value' if kind == 'value' else 'a gradient'} of shape {shape}, real numbers"
        raise DensityError(f"{returned} {_shown(part)} for the {kind} of {where}; it must be {allowed}")
    return array


def _shown(part: Any) -> str:
    """What was returned, in a few words."""
    shape, dtype = getattr(part, "shape", None), getattr(part, "dtype", None)
    if shape is not None:
        return f"an array of shape {tuple(shape)} and dtype {dtype}"
    text = repr(part)
    return f"a {type(part).__name__} ({text[:60] + ('…' if len(text) > 60 else '')})"
