"""Pools that a user brings: those with `submit`, with `apply_async`, and with `map` alone."""

import multiprocessing
import time
from concurrent.futures import BrokenExecutor, CancelledError, wait
from typing import Any

import numpy as np

from tempering.host.foreign import Foreign
from tempering.host.pools import end_of, says_closed, shut, unfit, way_of
from tempering.host.processes import Returned
from tempering.host.work import Reply, Shipped, evaluate

__all__ = ["kind_of"]

_GLANCE = 1.0
"""Seconds between two looks at whether workers have ended."""
_MOST_DEATHS = 3
"""Workers that may end while the first task is waited for: those that cannot find the function all do."""
_POLL = 0.2
"""Seconds between two looks at futures that cannot call back."""


class _Futures(Foreign):
    """Anything with `submit`: executors of the standard library, loky, mpi4py.futures, Dask, submitit.

    Futures of submitit cannot call back: each is a job of the queue, in a process that has nothing from before.
    """

    def __init__(self, *given: Any):
        super().__init__(*given)
        self._polled: dict[int, Any] = {}
        self._is_job_each = False

    def _asked(self, key: int, shipped: Shipped | None, which: int, rows: np.ndarray) -> Any:
        if self._is_job_each:
            shipped = self.shipped
        future = self._pool().submit(evaluate, self.shipped.token, shipped, which, rows, key)
        self._is_job_each = not hasattr(future, "add_done_callback")
        if key >= 0:
            if self._is_job_each:
                self._polled[key] = future
            else:
                future.add_done_callback(lambda done: self._back.put((key, *_outcome(done))))
        return future

    def _is_there(self, probe: Any, seconds: float) -> bool:
        if self._is_job_each:
            end = time.monotonic() + seconds
            while not probe.done() and time.monotonic() < end:
                time.sleep(_POLL)
        elif not probe.done():  # `wait` does not take a future that was cancelled at once for one that is done
            wait([probe], seconds)
        if probe.done():
            probe.result()
        return probe.done()

    def collect(self, seconds: float | None) -> list[Returned]:
        """What has come back; futures that cannot call back are asked."""
        if not self._polled:
            return super().collect(seconds)
        for key in [key for key, future in self._polled.items() if future.done()]:
            self._back.put((key, *_outcome(self._polled.pop(key))))
        return super().collect(min(_POLL, _POLL if seconds is None else seconds))


class _Async(Foreign):
    """Anything with `apply_async`: multiprocessing.Pool, Ray's pool.

    Such a pool replaces a worker that was killed, but never tells of the task that it had. When a child process has
    ended badly, one of the tasks in flight is lost; it is the one that is still missing when all the others are back.
    Ray's pool tells of the task, keeps the dead worker, and goes on to give it tasks: it counts as broken.
    """

    def __init__(self, *given: Any):
        super().__init__(*given)
        self._left: list[Any] = []
        self._children: dict[int, Any] = {}
        self._suspects: set[int] = set()
        self._num_lost = self._num_deaths = 0

    def _asked(self, key: int, shipped: Shipped | None, which: int, rows: np.ndarray) -> Any:
        arguments = (self.shipped.token, shipped, which, rows, key)
        if key < 0:
            self._fallen()  # those from before are not this task's
            return self._pool().apply_async(evaluate, arguments)
        return self._pool().apply_async(
            evaluate,
            arguments,
            callback=lambda reply: self._back.put((key, reply, None)),
            error_callback=lambda error: self._back.put((key, None, error)),
        )

    def _is_there(self, probe: Any, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while not probe.ready() and time.monotonic() < end:
            probe.wait(min(_GLANCE, seconds))
            fallen = [] if probe.ready() else self._fallen()
            self._num_deaths += len(fallen)
            if self._num_deaths >= _MOST_DEATHS:
                self._num_stillborn = _MOST_DEATHS  # others of its kind would fare no better
                raise BrokenExecutor(f"its worker processes end, the last one with exit code {fallen[-1].exitcode}")
            if fallen:  # the task went down with it
                self._probe = probe = self._greeting()
        if probe.ready():
            probe.get()
            self._num_deaths = 0
        return probe.ready()

    def _fallen(self) -> list[Any]:
        """Child processes that have ended badly since the last look."""
        children = {child.pid: child for child in multiprocessing.active_children() if child.pid}
        gone = [child for pid, child in self._children.items() if pid not in children and child.exitcode]
        self._children = children
        return gone

    def _returned(self, key: int, reply: Reply | None, error: BaseException | None) -> Returned:
        if reply is not None or "RayActorError" not in {kind.__name__ for kind in type(error).__mro__}:
            return super()._returned(key, reply, error)
        pool = self._given_to.pop(key, None)
        del self._tasks[key]
        if pool is self.pool:  # else another has taken its place already
            assert error is not None
            self._broken(error)
            self._left.append(pool)  # its other workers may still answer
        return Returned(key, lost="a worker of Ray's pool died", is_common=True)

    def close(self, at_once: bool = False) -> None:
        """As of all, and of pools that broke before."""
        super().close(at_once)
        left, self._left = self._left, []
        for pool in left:
            end_of(pool)

    def collect(self, seconds: float | None) -> list[Returned]:
        """What has come back, and tasks that went down with a worker."""
        found = super().collect(min(_GLANCE, _GLANCE if seconds is None else seconds))
        self._suspects -= {returned.key for returned in found}
        gone = self._fallen()
        if gone:
            self._num_lost += len(gone)
            self._suspects = set(self._tasks)
        if self._num_lost and len(self._suspects) <= self._num_lost:
            for key in self._suspects & set(self._tasks):
                del self._tasks[key]
                self._given_to.pop(key, None)
                found.append(Returned(key, lost="a worker process of the pool ended before it answered"))
            self._suspects, self._num_lost = set(), 0
        return found


class _Mapped(Foreign):
    """Anything with `map` alone: schwimmbad, pools of one's own. All tasks of a round are handed over together."""

    keeps_time = False

    def room(self, num_flying: int) -> int:
        """As many as there are."""
        self._welcome()
        return max(1, 1_000_000 - num_flying)

    def _asked(self, key: int, shipped: Shipped | None, which: int, rows: np.ndarray) -> Any:
        del which, rows
        return True if key < 0 and shipped is not None else None  # gathered until `collect`

    def _is_there(self, probe: Any, seconds: float) -> bool:
        """A probe is not sent: `map` would wait for it."""
        return True

    def collect(self, seconds: float | None) -> list[Returned]:
        """Have the pool carry out all that was handed over. Workers that lack the functions get their tasks again."""
        del seconds
        replies = self._mapped(list(self._tasks), self._num_mapped)
        self._num_mapped += len(replies)
        replies |= self._mapped([key for key, reply in replies.items() if reply.answers is None], 0, all_of_them=True)
        self._tasks.clear()
        self._given_to.clear()
        return [Returned(key, reply) for key, reply in replies.items()]

    def _mapped(self, keys: list[int], num_before: int, all_of_them: bool = False) -> dict[int, Reply]:
        first = len(keys) if all_of_them else 2 * self.num_workers - num_before
        token, whole = self.shipped.token, self.shipped
        tasks = [(token, whole if i < first else None, *self._tasks[key], key) for i, key in enumerate(keys)]
        if not tasks:
            return {}
        try:
            return dict(zip(keys, self._pool().map(_evaluated, tasks), strict=True))
        except Exception as error:
            raise (shut(error) if says_closed(error) else unfit(error)) from error


def _evaluated(task: tuple[str, Shipped | None, int, np.ndarray, int]) -> Reply:
    return evaluate(*task)


def _outcome(future: Any) -> tuple[Reply | None, BaseException | None]:
    try:
        return future.result(), None
    except CancelledError:
        return None, RuntimeError("it was cancelled")
    except BaseException as error:
        return None, error


def kind_of(pool: Any) -> type[Foreign] | None:
    """The engine for a pool; None for what is none, which may be a function or a class that makes one."""
    return {None: None, "submit": _Futures, "apply_async": _Async, "map": _Mapped}[way_of(pool)]
