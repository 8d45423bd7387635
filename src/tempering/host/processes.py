"""Own worker processes, each with a pipe: who died, and at which point, is known, and nobody else is disturbed.

Processes are spawned, never forked: JAX holds threads, and a fork copies locks that nobody will release. No worker
outlives this process, however that ends.
"""

import atexit
import multiprocessing
import os
import signal
import sys
import threading
import weakref
from dataclasses import dataclass, field
from multiprocessing import connection
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np

from tempering.errors import DensityError
from tempering.host.pools import NOT_FOUND
from tempering.host.work import Answer, Reply, Shipped, evaluate, worker_name

__all__ = ["Processes", "Returned", "require_sendable"]

_MOST_STILLBORN = 3
"""Workers in a row that may end before they have begun: a script without a main guard ends them all."""
_PATIENCE = 5.0
"""Seconds that a worker has to end by itself when it is closed."""


@dataclass(frozen=True)
class Returned:
    """What became of a task: a reply, or how it was lost in words.

    Args:
        is_common: whether a whole pool broke, so that nobody knows which of its tasks did it.
    """

    key: int
    reply: Reply | None = None
    lost: str | None = None
    is_common: bool = False


@dataclass
class _Worker:
    process: Any
    pipe: Any
    is_ready: bool = False
    key: int | None = None


def require_sendable(shipped: Shipped) -> None:
    """Refuse functions that cannot be sent to another process."""
    for function in shipped.functions:
        try:
            content = bytes(ForkingPickler.dumps(function))
        except Exception as error:
            raise DensityError(
                f"{getattr(function, '__qualname__', type(function).__name__)} cannot be sent to another process "
                f"({type(error).__name__}: {error}); with num_processes or pool it must be a function at the top of a "
                "module, or an object of a class there; a lambda or a function inside another needs num_processes=0, "
                "or a pool that sends functions by value (Dask, loky)"
            ) from error
        if b"__main__" in content and not hasattr(sys.modules["__main__"], "__file__"):
            raise DensityError(
                f"{getattr(function, '__qualname__', type(function).__name__)} cannot be found by another process: "
                f"{NOT_FOUND}; or take a pool that sends functions by value (Dask, loky)"
            )


@dataclass(eq=False)
class Processes:
    """`num` processes, started when first needed; one that ends is replaced.

    Args:
        shipped: what they hold from their start: nothing but points travels later.
    """

    shipped: Shipped
    num: int
    keeps_time: bool = True
    _workers: list[_Worker] = field(default_factory=list)
    _num_stillborn: int = 0

    def __post_init__(self) -> None:
        # Not daemons, which may have no processes of their own; so the interpreter would wait for them at its end.
        atexit.register(_close_if_there, weakref.ref(self))

    @property
    def num_workers(self) -> int:
        """How many there are."""
        return self.num

    @property
    def num_ready(self) -> int:
        """Those that have started."""
        return sum(worker.is_ready for worker in self._workers)

    def check(self) -> None:
        """Refuse what cannot work, without starting anything."""
        require_sendable(self.shipped)

    def room(self, num_flying: int) -> int:
        """Tasks that can be taken now: one a worker that is ready and idle. Starts workers that are missing."""
        del num_flying
        while len(self._workers) < self.num:
            self._workers.append(self._born())
        return sum(worker.is_ready and worker.key is None for worker in self._workers)

    def submit(self, key: int, which: int, rows: np.ndarray) -> None:
        """Hand a task to an idle worker."""
        worker = next(worker for worker in self._workers if worker.is_ready and worker.key is None)
        worker.key = key
        try:
            worker.pipe.send((which, rows))
        except OSError:
            pass  # it has ended, which `collect` sees

    def collect(self, seconds: float | None) -> list[Returned]:
        """What has come back; waits for something to, `seconds` at the most."""
        waited = [worker.pipe for worker in self._workers] + [worker.process.sentinel for worker in self._workers]
        ready = set(connection.wait(waited, seconds))
        found = []
        for worker in list(self._workers):
            if worker.pipe in ready:
                found += self._heard(worker)
            elif worker.process.sentinel in ready:
                found += self._buried(worker)
        return found

    def abandon(self, key: int) -> bool:
        """End the worker that holds a task. True: it is gone, and its place is free."""
        for worker in self._workers:
            if worker.key == key:
                worker.key = None
                self._end(worker, at_once=True)
                self._workers.remove(worker)
        return True

    def holds(self, key: int) -> bool:
        """A worker that was given up has been ended."""
        return False

    def close(self, at_once: bool = False) -> None:
        """End the processes; a later task starts new ones."""
        workers, self._workers = self._workers, []
        for worker in workers:
            if not at_once and worker.key is None:
                try:
                    worker.pipe.send(None)
                    continue
                except OSError:
                    pass
            worker.process.terminate()
        for worker in workers:
            self._end(worker, at_once=False)

    def _born(self) -> _Worker:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, self.shipped))
        process.start()
        theirs.close()
        return _Worker(process, ours)

    def _heard(self, worker: _Worker) -> list[Returned]:
        try:
            reply = worker.pipe.recv()
        except (EOFError, OSError):
            return self._buried(worker)
        if reply is None:
            worker.is_ready, self._num_stillborn = True, 0
            return []
        key, worker.key = worker.key, None
        return [] if key is None else [Returned(key, reply)]

    def _buried(self, worker: _Worker) -> list[Returned]:
        """A worker that has ended: its task is lost, and its place is free for another."""
        self._end(worker, at_once=False)
        self._workers.remove(worker)
        code = worker.process.exitcode
        if not worker.is_ready:
            self._num_stillborn += 1
            if self._num_stillborn >= _MOST_STILLBORN:
                self._num_stillborn = 0
                raise RuntimeError(
                    f"a worker process ended with exit code {code} before it began; {NOT_FOUND}, "
                    "as each worker imports it once more"
                )
        lost = f"a worker process ended with exit code {code} before it answered"
        return [] if worker.key is None else [Returned(worker.key, lost=lost)]

    @staticmethod
    def _end(worker: _Worker, at_once: bool) -> None:
        if at_once:
            worker.process.kill()
        worker.process.join(_PATIENCE)
        if worker.process.exitcode is None:
            worker.process.kill()
            worker.process.join()
        worker.pipe.close()


def _close_if_there(reference: weakref.ref) -> None:
    own = reference()
    if own is not None:
        own.close(at_once=True)


def _serve(pipe: Any, shipped: Shipped) -> None:
    """The life of a worker: tasks in, replies out, until it is told to end or its parent does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process; the parent ends the others
    threading.Thread(target=_end_with_parent, daemon=True).start()
    pipe.send(None)  # ready
    first: Shipped | None = shipped
    while True:
        try:
            task = pipe.recv()
        except EOFError:
            return
        if task is None:
            return
        which, rows = task
        reply = evaluate(shipped.token, first, which, rows)
        first = None
        try:
            pipe.send(reply)
        except Exception as error:  # what the function returned cannot travel
            fault = RuntimeError(
                f"what was returned cannot be sent to another process: {type(error).__name__}: {error}"
            )
            pipe.send(Reply(worker_name(), (Answer(len(rows), None, 0.0, fault),)))


def _end_with_parent() -> None:
    """A worker would wait for ever where its parent was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
