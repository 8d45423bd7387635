"""Pools that a user brings, as engines: anything with `submit`, `apply_async` or `map`.

The user's own library sends functions and points its own way; here is what they have in common.
"""

import logging
import multiprocessing
import queue
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError, wait
from typing import Any

import numpy as np

from tempering.errors import SettingsError, what_is
from tempering.host.pools import ALLOWED, NOT_FOUND, client_of, end_of, is_closed, size_of, unfit, words_of
from tempering.host.processes import Returned
from tempering.host.work import Reply, Shipped, evaluate

__all__ = ["Foreign", "kind_of"]

_GLANCE = 1.0
"""Seconds between two looks at how many workers a pool has, and at whether some have ended."""
QUICK = 0.2
"""Seconds of a task up to which its way through Dask, 7 ms (results/pool.json), counts."""
_SILENCE = 60.0
"""Seconds without a word of any worker after which that is said, and again."""
_LOGGER = logging.getLogger("tempering")
_MOST_STILLBORN = 3
"""Pools in a row that may break before they have begun."""
_POLL = 0.2
"""Seconds between two looks at futures that cannot call back."""


class Foreign:
    """What pools of users have in common: functions that travel once, and a window of tasks in flight.

    The first tasks take the functions with them. Later ones name them only, and a worker that has not got them, because
    the pool grew or replaced one, says so and gets its task again with them.
    """

    keeps_time = True
    """Whether something comes back before all is done, so that a point can be too late."""

    def __init__(self, pool: Any, shipped: Shipped, make: Callable[[], Any] | None):
        self.pool, self.shipped, self._make = pool, shipped, make
        self._num_shipped, self._num_mapped, self._size, self._looked = 0, 0, 1, -float("inf")
        self._tasks: dict[int, tuple[int, np.ndarray]] = {}
        self._given_to: dict[int, Any] = {}
        self._trouble: Exception | None = None
        self._num_stillborn = 0
        self._typical: float | None = None
        self._back: queue.SimpleQueue = queue.SimpleQueue()
        self._probe: Any = None

    @property
    def num_workers(self) -> int:
        """As the pool says, which may grow and shrink; one where it has none at the moment."""
        return max(1, self.num_ready)

    @property
    def num_ready(self) -> int:
        """The same, and none where a cluster waits for its first worker, or for others."""
        now = time.monotonic()
        if now - self._looked > _GLANCE:
            self._looked, self._size = now, size_of(self._pool())
        return self._size

    def check(self) -> None:
        """Send the functions ahead: a pool that is closed is refused now, one that lacks something when it is used."""
        if self.pool is not None:
            self._greet()

    def room(self, num_flying: int) -> int:
        """Twice as many tasks as workers, so that none waits for the next one.

        Dask gives a task to a worker at once, where it may wait behind a slow one: it gets as many as workers, unless
        they are quick.
        """
        self._welcome()
        queues = client_of(self.pool) is not None and (self._typical is None or self._typical > QUICK)
        return (1 if queues else 2) * self.num_workers - num_flying

    def submit(self, key: int, which: int, rows: np.ndarray) -> None:
        """Hand over a task, with the functions where they may not be there yet."""
        self._tasks[key] = (which, rows)
        self._num_shipped += 1
        self._send(key, with_functions=self._num_shipped <= 2 * self.num_workers)

    def collect(self, seconds: float | None) -> list[Returned]:
        """What has come back."""
        found = []
        try:
            found.append(self._back.get(timeout=seconds))
            while True:
                found.append(self._back.get_nowait())
        except queue.Empty:
            pass
        returned = []
        for key, reply, error in found:
            if key not in self._tasks:
                continue
            if reply is not None and reply.answers is None:
                self._send(key, with_functions=True)
                continue
            returned.append(self._returned(key, reply, error))
        return returned

    def abandon(self, key: int) -> bool:
        """A pool of others cannot be told to end a worker; a late answer is still taken."""
        return False

    def holds(self, key: int) -> bool:
        """Until it is back."""
        return key in self._tasks

    def close(self, at_once: bool = False) -> None:
        """The pool is the user's; one that was made here is ended."""
        if self._make is not None and self.pool is not None:
            pool, self.pool, self._probe = self.pool, None, None
            end_of(pool)

    def _pool(self) -> Any:
        if self._trouble is not None:
            raise self._trouble
        if self.pool is None:
            assert self._make is not None
            self.pool = self._make()
            kind_of(self.pool)
            self._num_shipped = 0
        return self.pool

    def _returned(self, key: int, reply: Reply | None, error: BaseException | None) -> Returned:
        del self._tasks[key]
        pool = self._given_to.pop(key, None)
        if reply is not None:
            took = sum(answer.seconds for answer in reply.answers or ())
            self._typical = 0.8 * (took if self._typical is None else self._typical) + 0.2 * took
            return Returned(key, reply)
        assert error is not None
        if isinstance(error, BrokenExecutor):
            if pool is self.pool:  # else another has taken its place already
                self._broken(error)
            return Returned(key, lost=f"the pool broke ({words_of(error)})", is_common=True)
        return Returned(key, lost=f"the pool lost the task: {type(error).__name__}: {words_of(error)}")

    def _broken(self, error: BaseException, at_start: bool = False) -> None:
        """A broken pool takes no more tasks: make another, where that is known how; else say so when it is needed."""
        if at_start and (self._make is None or self._num_stillborn >= _MOST_STILLBORN):
            self._trouble = RuntimeError(f"the pool broke before it evaluated a point ({words_of(error)}); {NOT_FOUND}")
        elif self._make is None:
            self._trouble = RuntimeError(
                f"the pool broke, because a worker ended ({words_of(error)}), and a pool that broke "
                "takes no more points; give pool=8, whose workers are replaced, or a function that makes the pool, "
                "such as pool=lambda: ProcessPoolExecutor(8); with `out=` or `store=` nothing that was paid is lost"
            )
        else:
            self.pool, self._probe = None, None
            return
        self._trouble.__cause__ = error

    def _greet(self) -> None:
        try:
            self._probe = self._asked(-1, self.shipped, 0, np.zeros((0, 1)))
        except BrokenExecutor as error:
            self._broken(error)
            self._pool()
        except Exception as error:
            if not is_closed(error):
                raise unfit(error) from error
            raise SettingsError(
                f"the pool takes no work ({words_of(error)}): it is closed, or was not started; give one that is "
                "open, such as inside its `with` block"
            ) from error

    def _welcome(self) -> None:
        """Wait for the first word of a worker, once: all that can be wrong with a pool shows before a point is paid."""
        self._pool()
        while self._probe is not True:
            if self._probe is None:
                self._greet()
                continue
            try:
                while not self._is_there(self._probe):
                    _LOGGER.warning(
                        "no worker of the pool has answered for %g s: they wait in a queue, have not started or cannot "
                        "import tempering or the function (see their own logs)",
                        _SILENCE,
                    )
                self._probe, self._num_stillborn = True, 0
            except BrokenExecutor as error:
                self._num_stillborn += 1
                self._broken(error, at_start=True)
                self._pool()
            except CancelledError as error:
                raise SettingsError(
                    "the pool dropped its first task, because it was closed; close it after the fit"
                ) from error
            except BaseException as error:
                raise unfit(error) from error

    def _send(self, key: int, *, with_functions: bool) -> None:
        which, rows = self._tasks[key]
        try:
            self._given_to[key] = self._pool()
            self._asked(key, self.shipped if with_functions else None, which, rows)
        except BrokenExecutor as error:
            self._back.put((key, None, error))
        except Exception as error:
            if error is self._trouble or not is_closed(error):
                raise
            raise SettingsError(
                f"the pool takes no more work ({words_of(error)}): it was closed while a fit used it; close it after"
            ) from error

    def _asked(self, key: int, shipped: Shipped | None, which: int, rows: np.ndarray) -> Any:
        raise NotImplementedError

    def _is_there(self, probe: Any) -> bool:
        """Whether the first task came back; raises what went wrong with it. Waits, but not for ever."""
        raise NotImplementedError


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

    def _is_there(self, probe: Any) -> bool:
        if self._is_job_each:
            end = time.monotonic() + _SILENCE
            while not probe.done() and time.monotonic() < end:
                time.sleep(_POLL)
        elif not probe.done():  # `wait` does not take a future that was cancelled at once for one that is done
            wait([probe], _SILENCE)
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
        self._num_lost = 0

    def _asked(self, key: int, shipped: Shipped | None, which: int, rows: np.ndarray) -> Any:
        arguments = (self.shipped.token, shipped, which, rows, key)
        if key < 0:
            return self._pool().apply_async(evaluate, arguments)
        return self._pool().apply_async(
            evaluate,
            arguments,
            callback=lambda reply: self._back.put((key, reply, None)),
            error_callback=lambda error: self._back.put((key, None, error)),
        )

    def _is_there(self, probe: Any) -> bool:
        probe.wait(_SILENCE)
        if probe.ready():
            probe.get()
        return probe.ready()

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
        children = {child.pid: child for child in multiprocessing.active_children() if child.pid}
        gone = [child for pid, child in self._children.items() if pid not in children and child.exitcode]
        self._children = children
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

    def _is_there(self, probe: Any) -> bool:
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
        except BaseException as error:
            raise unfit(error) from error


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
    if isinstance(pool, type):
        return None
    for name, kind in (("submit", _Futures), ("apply_async", _Async), ("map", _Mapped)):
        if callable(getattr(pool, name, None)):
            return kind
    if callable(pool):
        return None
    raise SettingsError(f"pool is {what_is(pool)} without .submit or .map; give {ALLOWED}")
