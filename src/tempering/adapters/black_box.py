"""A Python callable on NumPy arrays, seen from the host: batches in, checked values and gradients out.

Holds no JAX: `callback` calls it from compiled programs. What the callable raises is kept here, because on its way
through a compiled program it would turn into an error of the runtime. Points go to workers by `host.dealing`; values
that a store of points has are not asked for again.
"""

import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tempering.adapters.seen import density_mark
from tempering.errors import DensityError, what_is
from tempering.host.dealing import Dealer
from tempering.host.engines import Here, engine_of
from tempering.host.paces import Paces
from tempering.host.pieces import Arrival
from tempering.host.use import HostUse
from tempering.host.work import Answer, Shipped
from tempering.runs.points import OUTCOMES, PointStore

__all__ = ["BlackBox", "Faults"]

_VALUE, _GRADIENT = 0, 1
_CHUNK = 16
"""Points that a vectorised function gets at once from a pool: the same for any number of workers."""
_WORTH_KEEPING = 1e-3
"""Seconds: a point that took less, in this process, is paid again sooner than it is read."""
_WORTH_AHEAD = 0.02
"""Seconds: below that, rows of a program are not worth their own pace."""


@dataclass(frozen=True)
class Faults:
    """What to do about points that fail: those that raise, take too long, are NaN or end their worker.

    Args:
        on_failure: stop, or reject: such a point counts as outside the support.
        timeout: seconds that a point may take.
    """

    on_failure: str = "stop"
    timeout: float | None = None


class BlackBox:
    """Values and gradients of a callable at many points; the arguments are those of `callback.from_callable`."""

    def __init__(
        self,
        fn: Callable[..., Any],
        dim: int,
        gradient: str | Callable[..., Any] = "none",
        *,
        batched: bool = False,
        finite_step: float = 1e-6,
        pool: Any = None,
        chunk_size: int | None = None,
        faults: Faults | None = None,
        store: str | Path | bool | None = None,
    ):
        self.fn, self.dim, self.gradient, self.batched, self.finite_step = fn, dim, gradient, batched, finite_step
        self.functions = (fn, gradient) if callable(gradient) else (fn,)
        faults = faults or Faults()
        self.faults, self.place = faults, store
        self.engine = engine_of(pool, Shipped(uuid.uuid4().hex, self.functions, batched))
        is_here = isinstance(self.engine, Here)
        is_plain = is_here and faults.on_failure == "stop"
        if isinstance(self.engine, Here):
            self.engine.halts = is_plain
        chunk_size = chunk_size or ((1 << 62 if is_here else _CHUNK) if batched else None)
        self.use = HostUse()
        self.replayed_failures: Counter = Counter()
        self._dealer = Dealer(
            self.engine,
            self.use,
            chunk_size=chunk_size,
            timeout=faults.timeout,
            tries=1 if is_plain else 2,
            bad_rows=None if is_plain else _is_nan,
            keeps_pieces=batched and not is_here,
        )
        self.error: Exception | None = None
        self.store: PointStore | None = None
        self._keeps_all = store is not None or not is_here
        self._visitors: Counter = Counter()  # threads that may evaluate now
        self._paces: Paces | None = None
        self._lock = threading.RLock()  # two compiled programs may run at once; a callable need not allow for that

    @property
    def has_gradient(self) -> bool:
        """Whether there is any way to a gradient."""
        return self.gradient != "none"

    @property
    def num_workers(self) -> int:
        """That evaluate now."""
        return self.engine.num_workers

    def on_tick(self, observe: Callable[[], None] | None) -> None:
        """Have `observe` called every moment while points are waited for."""
        self._dealer.on_tick = observe

    def values(self, points: Any) -> np.ndarray:
        """Log densities of points (*batch, dim) as float32 of axes (*batch)."""
        if self._paces is not None:
            return self._foreseen(self._paces, points)[0]
        with self._lock:
            rows, shape = self._rows(points)
            return _single(self._keep(self._values, rows)).reshape(shape)

    def values_and_gradients(self, points: Any) -> tuple[np.ndarray, np.ndarray]:
        """Log densities and gradients, of axes (*batch) and (*batch, dim)."""
        if self._paces is not None:
            return self._foreseen(self._paces, points)
        with self._lock:
            rows, shape = self._rows(points)
            computes = {"returned": self._pairs, "finite": self._differences}
            values, gradients = self._keep(computes.get(str(self.gradient), self._own), rows)
            return _single(values).reshape(shape), _single(gradients).reshape((*shape, self.dim))

    def may_run_ahead(self) -> bool:
        """Whether rows of a program may go on at their own pace: several workers take single points of some length.

        Pieces of a vectorised function would follow the order of arrival, and its last bits with them. Programs of two
        threads could not be told apart.
        """
        is_simple = not self.batched and self.gradient in ("none", "returned") and self._is_alone()
        is_slow = (self._dealer.typical or 0.0) >= _WORTH_AHEAD
        return is_simple and is_slow and self.engine.keeps_time and self.num_workers > 1

    @contextmanager
    def visited(self) -> Iterator[None]:
        """This thread may evaluate inside. It waits for rows of another thread that go at their own pace."""
        own = threading.get_ident()
        with self._lock:
            self._visitors[own] += 1
        try:
            yield
        finally:
            self._visitors[own] -= 1

    def _is_alone(self) -> bool:
        return sum(num > 0 for num in list(self._visitors.values())) <= 1

    def at_own_pace(self, paces: Paces, work: Callable[[], Any]) -> Any:
        """The result of `work`, a program that visits this box; its rows do not wait for each other (`host.paces`)."""
        with self._lock:
            if self._is_alone():
                first = self._run(paces, work)[1]
                if self._is_costly(paces) and not paces.is_strange:  # perhaps it was compiled: it is timed once more
                    self._run(paces, work)
                if not self._is_costly(paces) and not paces.is_strange:
                    return self._keep(lambda rows: self._paced(paces, work, rows), first)
        return work()  # without the lock: its visits come from a thread of the runtime

    def _is_costly(self, paces: Paces) -> bool:
        return 2 * paces.cost > (self._dealer.typical or 0.0)

    def _run(self, paces: Paces, work: Callable[[], Any]) -> tuple[Any, np.ndarray]:
        self._paces = paces
        paces.begin()
        try:
            result = work()
        finally:
            self._paces = None
        return result, paces.end()

    def _paced(self, paces: Paces, work: Callable[[], Any], first: np.ndarray) -> Any:
        kinds = ("value", "gradient") if self.gradient == "returned" else ("value",)
        arrays, result = {kind: paces.arrays[kind] for kind in kinds}, None

        def unpaid(numbers: np.ndarray) -> np.ndarray:
            missing = self._replay(kinds, paces.points, arrays, numbers)
            paces.known(np.setdiff1d(numbers, missing))
            return missing

        def more(num_waiting: int, num_flying: int) -> np.ndarray:
            nonlocal result
            while paces.is_due(num_waiting, num_flying, self.num_workers):
                result, new = self._run(paces, work)
                missing = unpaid(new)
                if len(missing):
                    return missing
            return np.zeros(0, int)

        def arrive(arrival: Arrival) -> None:
            self._arrive(_VALUE, kinds, paces.points, arrays, arrival)
            paces.known(arrival.rows)

        self._dealer.deal(_VALUE, paces.points, unpaid(first), arrive, more)
        assert paces.is_done
        return result

    def _foreseen(self, paces: Paces, points: Any) -> tuple[np.ndarray, np.ndarray]:
        rows, shape = self._rows(points)
        values, gradients = paces.answer(rows)
        return _single(values).reshape(shape), _single(gradients).reshape((*shape, self.dim))

    def take_error(self) -> Exception | None:
        """What the callable raised since the last time this was asked."""
        error, self.error = self.error, None
        return error

    def open_store(self, folder: Path | None = None) -> None:
        """Open the store of points that was asked for, or that of a run's folder; nothing where there is neither.

        Raises:
            RunFolderError: if it is in use, or of another density or version.
        """
        given = self.place if isinstance(self.place, str | Path) else folder
        if self.store is not None or self.place is False or given is None:
            return
        mode = "function" if callable(self.gradient) else str(self.gradient)
        has_gradient = mode in ("function", "returned")
        mark = density_mark(self.functions, self.dim, mode if has_gradient else "values")
        self.store = PointStore(given, self.dim, mark, has_gradient)
        self._dealer.drains = True

    def close_store(self) -> None:
        """Let others have the store."""
        if self.store is not None:
            self.store.close()
        self.store, self._dealer.drains = None, False

    def close(self) -> None:
        """End worker processes and leave the store, if any; a later evaluation starts and opens them again."""
        self.engine.close()
        self.close_store()

    def _rows(self, points: Any) -> tuple[np.ndarray, tuple[int, ...]]:
        points = np.array(points, np.float64)  # a copy of its own: a callable may write into what it is given
        return points.reshape((-1, self.dim)), points.shape[:-1]

    def _keep(self, compute: Callable[[np.ndarray], Any], rows: np.ndarray) -> Any:
        try:
            self.open_store()
            return compute(rows)
        except Exception as error:
            self.error = self.error or error
            raise

    def _gathered(self, which: int, rows: np.ndarray, kinds: tuple[str, ...]) -> tuple[np.ndarray, ...]:
        """Checked arrays of the kinds asked for (value, gradient), the points along the first axis."""
        shapes = {"value": (), "gradient": (self.dim,)}
        arrays = {kind: np.empty((len(rows), *shapes[kind])) for kind in kinds}
        missing = self._replay(kinds, rows, arrays, np.arange(len(rows)))
        # A callable may write into what it is given; what is stored is what was asked for.
        asked = rows.copy() if self.store is not None and isinstance(self.engine, Here) else rows
        arrive = lambda arrival: self._arrive(which, kinds, asked, arrays, arrival)  # noqa: E731
        self._dealer.deal(which, rows, missing, arrive)
        return tuple(arrays.values())

    def _replay(
        self, kinds: tuple[str, ...], rows: np.ndarray, arrays: dict[str, np.ndarray], numbers: np.ndarray
    ) -> np.ndarray:
        """Fill in what the store has of the rows of these numbers; the numbers of those that it has not."""
        if self.store is None or not self.store.num_before:
            return numbers
        missing, rejects = [], self.faults.on_failure == "reject"
        for number in numbers:
            found = self.store.record(_kind(kinds), rows[number], rejects=rejects)
            if found is None:
                missing.append(number)
                continue
            for kind in kinds:
                arrays[kind][number] = found[kind]
            if found["outcome"]:
                self.replayed_failures[OUTCOMES[found["outcome"]]] += 1
        self.use.replayed += len(numbers) - len(missing)
        return np.asarray(missing, int)

    def _arrive(self, which: int, kinds: tuple[str, ...], asked: np.ndarray, arrays: Any, arrival: Arrival) -> None:
        """Check what came back, fill it in, and write it down; or do what was chosen for a point that failed."""
        numbers, fault, stops = arrival.rows, arrival.fault, self.faults.on_failure == "stop"
        if fault is None or (fault == "nan" and stops):  # NaN is a value, which every stage knows how to take
            self._fill(which, kinds, arrays, arrival)
            self._write(kinds, asked, arrays, arrival, "answered")
            return
        for kind in kinds:
            arrays[kind][numbers] = np.nan if stops else {"value": -np.inf, "gradient": 0.0}[kind]
        self._write(kinds, asked, arrays, arrival, fault)
        if not stops:
            self.use.failed[fault] += len(numbers)
            return
        assert arrival.error is not None
        raise arrival.error

    def _write(self, kinds: tuple[str, ...], asked: np.ndarray, arrays: Any, arrival: Arrival, outcome: str) -> None:
        each, numbers = arrival.answer.seconds / max(1, arrival.answer.size), arrival.rows
        if self.store is None or not (self._keeps_all or each >= _WORTH_KEEPING):
            return
        values, gradients = (arrays[kind][numbers] if kind in arrays else None for kind in ("value", "gradient"))
        is_rejected = outcome != "answered" and self.faults.on_failure == "reject"
        self.store.add(
            _kind(kinds),
            asked[numbers],
            (-np.inf if is_rejected else np.nan) if values is None else values,
            gradients,
            seconds=each,
            worker=arrival.worker,
            tries=arrival.tries,
            outcome=outcome,
        )

    def _fill(self, which: int, kinds: tuple[str, ...], arrays: Any, arrival: Arrival) -> None:
        function = self.functions[which]
        name = getattr(function, "__qualname__", None) or type(function).__name__
        lead = (arrival.answer.size,) if self.batched else ()
        where, parts = f"an argument of shape {(*lead, self.dim)}", arrival.answer.result
        if len(kinds) == 1:
            parts = (parts,)
        elif not isinstance(parts, tuple | list) or len(parts) != len(kinds):
            raise DensityError(
                f"{name} returned {_shown(parts)} for {where}; with gradient='returned' it must return the pair "
                "(value, gradient)"
            )
        for kind, part in zip(kinds, parts, strict=True):
            shape = (*lead, self.dim) if kind == "gradient" else lead
            arrays[kind][arrival.rows] = _checked(part, shape, f"{name} returned", kind, where)

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


def _kind(kinds: tuple[str, ...]) -> str:
    return kinds[0] if len(kinds) == 1 else "both"


def _is_nan(answer: Answer) -> np.ndarray:
    """Which of an answer's values are NaN; what has no sensible shape is refused elsewhere."""
    result = answer.result
    result = result[0] if isinstance(result, tuple | list) and len(result) == 2 else result
    try:
        found = np.isnan(np.asarray(result, np.float64))
    except (TypeError, ValueError):
        return np.zeros(answer.size, bool)
    if found.shape in ((), (answer.size,)):
        return np.broadcast_to(found, (answer.size,))
    return np.zeros(answer.size, bool)


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
    if part is None:
        return "None"
    text = repr(part)
    return f"{what_is(part)} ({text[:60] + ('…' if len(text) > 60 else '')})"
