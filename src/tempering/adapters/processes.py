"""Worker processes that evaluate a Python callable on rows of points. Consumes arrays, produces what it returned.

Processes are spawned, never forked: JAX holds threads, and a fork copies locks that nobody will release. No worker
outlives this process, however that ends.
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.context import SpawnContext
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np

from tempering.errors import DensityError

__all__ = ["Workers"]

_CHUNKS_PER_WORKER = 4
"""Points are dealt in more pieces than there are workers: one slow piece must not keep the others waiting."""


class _Context(SpawnContext):
    """Remembers the processes: a pool has no public way to end busy ones, nor to say how one ended."""

    def __init__(self):
        super().__init__()
        self.processes: list[Any] = []

    def Process(self, *args: Any, **named: Any) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        self.processes.append(super().Process(*args, **named))
        return self.processes[-1]


class Workers:
    """`num` processes, started when first needed, that hold `functions`."""

    def __init__(self, functions: tuple[Callable[..., Any], ...], num: int, *, is_batched: bool):
        for function in functions:
            try:
                ForkingPickler.dumps(function)
            except Exception as error:
                raise DensityError(
                    f"{getattr(function, '__qualname__', type(function).__name__)} cannot be sent to another process "
                    f"({type(error).__name__}: {error}); with num_processes it must be a function at the top of a "
                    "module, or an object of a class there; a lambda or a function inside another needs num_processes=0"
                ) from error
        self._functions, self._num, self._is_batched = functions, num, is_batched
        self._lock = threading.Lock()
        self._pool: ProcessPoolExecutor | None = None
        self._context = _Context()

    def map(self, which: int, points: np.ndarray) -> list[Any]:
        """What functions[which] returned for all points: one answer per point, or, batched, (size, answer) per piece.

        Raises:
            Exception: what the function raised, as it was, with the worker's traceback for its cause.
            RuntimeError: if a worker ended.
        """
        pieces = np.array_split(points, max(1, min(len(points), _CHUNKS_PER_WORKER * self._num)))
        with self._lock:
            try:
                answers = self._answers(which, pieces)
            except BrokenProcessPool:
                codes = self._stop()
                # The pool ends the others itself when one is lost.
                code = next((code for code in codes if code != -signal.SIGTERM), -signal.SIGTERM)
                raise RuntimeError(
                    f"a worker process ended with exit code {code} before it answered; a script that uses "
                    "num_processes must do its work under `if __name__ == '__main__':`, as each worker imports it "
                    "once more"
                ) from None
            except BaseException:
                self._stop()  # the others may be busy for long with a batch that nobody waits for
                raise
        if self._is_batched:
            return [(len(piece), answer) for piece, answer in zip(pieces, answers, strict=True)]
        return [answer for piece in answers for answer in piece]

    def close(self) -> None:
        """End the processes; a later `map` starts new ones."""
        with self._lock:
            self._stop()

    def _answers(self, which: int, pieces: list[np.ndarray]) -> list[Any]:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(self._num, self._context, _begin, (self._functions, self._is_batched))
        futures = [self._pool.submit(_evaluate, which, piece) for piece in pieces]
        for future in as_completed(futures):
            future.result()  # raises as soon as one has failed
        return [future.result() for future in futures]

    def _stop(self) -> list[int]:
        """End the processes, busy or not; returns their exit codes."""
        processes, self._context.processes = self._context.processes, []
        for process in processes:
            process.terminate()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        self._pool = None
        return [process.exitcode for process in processes]


_held: tuple[tuple[Callable[..., Any], ...], bool]
"""In a worker: the functions, and whether they take many points at once."""


def _begin(functions: tuple[Callable[..., Any], ...], is_batched: bool) -> None:
    """The start of a worker."""
    global _held
    _held = functions, is_batched
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process; the parent ends the others
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A pool's workers wait for ever where their parent was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _evaluate(which: int, points: np.ndarray) -> Any:
    functions, is_batched = _held
    function = functions[which]
    try:
        return function(points) if is_batched else [function(point) for point in points]
    except BaseException as error:
        if _survives_the_journey(error):
            raise
        raise RuntimeError(f"{type(error).__name__}: {error}") from error


def _survives_the_journey(error: BaseException) -> bool:
    try:
        copy = ForkingPickler.loads(ForkingPickler.dumps(error))  # pyright: ignore[reportAttributeAccessIssue]
    except Exception:
        return False
    return isinstance(error, Exception) and type(copy) is type(error)
