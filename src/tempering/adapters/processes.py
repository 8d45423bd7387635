"""Worker processes that evaluate a Python callable on rows of points. Consumes arrays, produces what it returned.

Processes are spawned, never forked: JAX holds threads, and a fork copies locks that nobody will release. Each worker
ends when its pipe does, so that none outlives this process, however that ends.
"""

import multiprocessing
import signal
import threading
import traceback
from collections.abc import Callable
from multiprocessing.connection import wait
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np

from tempering.errors import DensityError

__all__ = ["WorkerTraceback", "Workers"]

_CHUNKS_PER_WORKER = 4
"""Points are dealt in more pieces than there are workers: one slow piece must not keep the others waiting."""


class WorkerTraceback(Exception):
    """The traceback of a worker, as text: the cause of the exception that is raised here."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class Workers:
    """`num` processes, started when first needed, that hold `functions`.

    Raises:
        DensityError: if a function cannot be sent to another process.
    """

    def __init__(self, functions: tuple[Callable[..., Any], ...], num: int, *, is_batched: bool):
        for function in functions:
            _refuse_unsendable(function)
        self._functions, self._num, self._is_batched = functions, num, is_batched
        self._lock = threading.Lock()
        self._processes: list[Any] = []
        self._connections: list[Any] = []

    def map(self, which: int, points: np.ndarray) -> list[Any]:
        """What functions[which] returned for all points: an answer a point, or, batched, (size, answer) a piece.

        Raises:
            Exception: what the function raised, as it was, with the worker's traceback for its cause.
            RuntimeError: if a worker ended.
        """
        with self._lock:
            try:
                return self._map(which, points)
            except BaseException:
                # Some workers may still be busy with this batch: their answers must not be taken for the next one's.
                self._stop()
                raise

    def close(self) -> None:
        """End the processes; a later `map` starts new ones."""
        with self._lock:
            self._stop()

    @property
    def pids(self) -> tuple[int, ...]:
        """Of the processes that run now."""
        return tuple(process.pid for process in self._processes)

    def _map(self, which: int, points: np.ndarray) -> list[Any]:
        if not self._processes:
            self._start()
        pieces = np.array_split(points, min(len(points), _CHUNKS_PER_WORKER * self._num))
        answers: list[Any] = [None] * len(pieces)
        todo = iter(enumerate(pieces))
        busy: dict[Any, int] = {}

        def deal(connection: Any) -> None:
            following = next(todo, None)
            if following is not None:
                busy[connection] = following[0]
                try:
                    connection.send((which, following[1]))
                except BrokenPipeError:
                    raise self._lost(connection) from None

        for connection in self._connections:
            deal(connection)
        while busy:
            for connection in wait(list(busy)):
                answers[busy.pop(connection)] = self._receive(connection)
                deal(connection)
        if self._is_batched:
            return [(len(piece), answer) for piece, answer in zip(pieces, answers, strict=True)]
        return [answer for piece in answers for answer in piece]

    def _receive(self, connection: Any) -> Any:
        try:
            is_good, answer, text = connection.recv()
        except (EOFError, ConnectionResetError):
            raise self._lost(connection) from None
        if not is_good:
            answer.__cause__ = WorkerTraceback(text)
            raise answer
        return answer

    def _lost(self, connection: Any) -> RuntimeError:
        process = self._processes[self._connections.index(connection)]
        process.join(5.0)
        return RuntimeError(
            f"a worker process ended with exit code {process.exitcode} before it answered; a script that uses "
            "num_processes must do its work under `if __name__ == '__main__':`, as each worker imports it once more"
        )

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        for _ in range(self._num):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, self._functions, self._is_batched), daemon=True)
            process.start()
            theirs.close()  # so that the end of a worker is the end of its pipe
            self._processes.append(process)
            self._connections.append(ours)

    def _stop(self) -> None:
        for connection in self._connections:
            connection.close()
        for process in self._processes:
            process.terminate()
            process.join()
        self._processes, self._connections = [], []


def _refuse_unsendable(function: Callable[..., Any]) -> None:
    try:
        ForkingPickler.dumps(function)
    except Exception as error:
        raise DensityError(
            f"{getattr(function, '__qualname__', type(function).__name__)} cannot be sent to another process "
            f"({type(error).__name__}: {error}); with num_processes it must be a function at the top of a module, or "
            "an object of a class there; a lambda or a function inside another needs num_processes=0"
        ) from error


def _serve(connection: Any, functions: tuple[Callable[..., Any], ...], is_batched: bool) -> None:
    """The life of a worker: answer until the pipe ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process; the parent ends the others
    while True:
        try:
            which, points = connection.recv()
        except (EOFError, OSError):
            return
        try:
            function = functions[which]
            answer = function(points) if is_batched else [function(point) for point in points]
            message = ForkingPickler.dumps((True, answer, ""))
        except Exception as error:
            message = ForkingPickler.dumps((False, _sendable(error), traceback.format_exc()))
        try:
            connection.send_bytes(message)
        except OSError:
            return


def _sendable(error: Exception) -> Exception:
    """The exception itself, or one that says as much where it does not survive the journey."""
    try:
        copy = ForkingPickler.loads(ForkingPickler.dumps(error))  # pyright: ignore[reportAttributeAccessIssue]
        if type(copy) is type(error):
            return error
    except Exception:
        pass
    return RuntimeError(f"{type(error).__name__}: {error}")
