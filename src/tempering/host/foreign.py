"""What pools that a user brings have in common, as engines; `kinds` has their ways of taking tasks.

The user's own library sends functions and points its own way.
"""

import logging
import queue
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError
from typing import Any

import numpy as np

from tempering.errors import SettingsError
from tempering.host.pools import NOT_FOUND, client_of, end_of, is_closed, shut, size_of, unfit, way_of, words_of
from tempering.host.processes import Returned
from tempering.host.work import Reply, Shipped

__all__ = ["Foreign"]

_GLANCE = 1.0
"""Seconds between two looks at how many workers a pool has, and at whether some have ended."""
QUICK = 0.2
"""Seconds of a task up to which its way through Dask, 7 ms (results/pool.json), counts."""
_SILENCE = 60.0
"""Seconds without a word of any worker after which that is said, and again."""
_LOGGER = logging.getLogger("tempering")
_MOST_STILLBORN = 3
"""Pools in a row that may break before they have begun."""


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
            way_of(self.pool)
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
            self._probe = self._greeting()
        except BrokenExecutor as error:
            self._broken(error)
            self._pool()
        except Exception as error:
            if not is_closed(error):
                raise unfit(error) from error
            raise shut(error) from error

    def _greeting(self) -> Any:
        """A task without points, which takes the functions with it."""
        return self._asked(-1, self.shipped, 0, np.zeros((0, 1)))

    def _welcome(self) -> None:
        """Wait for the first word of a worker, once: all that can be wrong with a pool shows before a point is paid."""
        self._pool()
        while self._probe is not True:
            if self._probe is None:
                self._greet()
                continue
            try:
                while not self._is_there(self._probe, _SILENCE):
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

    def _is_there(self, probe: Any, seconds: float) -> bool:
        """Whether the first task came back; raises what went wrong with it. Waits so many seconds at the most."""
        raise NotImplementedError
