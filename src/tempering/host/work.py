"""What a worker does: hold functions under a token, evaluate them at rows of points, time it, and say what went wrong.

Imported by every worker of every pool, so that it needs NumPy alone. A failure is an answer like any other: one bad
point must not cost its neighbours.
"""

import os
import socket
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np

__all__ = ["Answer", "Reply", "Shipped", "WorkerTraceback", "evaluate", "survives", "told", "worker_name"]

_held: dict[str, "Shipped"] = {}
"""In a worker: functions that came once, by their token."""
_MOST_HELD = 16
"""Targets whose functions, and the data in them, a worker holds; one that outlives many fits forgets the oldest."""


@dataclass(frozen=True)
class Shipped:
    """Functions on their way to workers.

    Args:
        token: what they are called by, once a worker holds them.
        is_batched: whether they take many points at once.
    """

    token: str
    functions: tuple[Callable[..., Any], ...]
    is_batched: bool


@dataclass(frozen=True)
class Answer:
    """What a function returned for `size` points, or raised, and the seconds that it took."""

    size: int
    result: Any
    seconds: float
    error: BaseException | None = None


@dataclass(frozen=True)
class Reply:
    """The answers to one task, in the order of its points, and who gave them. None: the functions have not come yet."""

    worker: str
    answers: tuple[Answer, ...] | None


class WorkerTraceback(Exception):
    """The traceback of an exception in another process, as text: the cause of the exception that is raised here."""

    def __init__(self, text: str):
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"\n{self.text}"


def worker_name() -> str:
    """Host and process; of a thread beside the main one its number too."""
    name = f"{socket.gethostname().split('.')[0][:20]}:{os.getpid()}"
    thread = threading.current_thread()
    return name if thread is threading.main_thread() else f"{name}.{thread.native_id}"


def evaluate(
    token: str,
    shipped: Shipped | None,
    which: int,
    rows: np.ndarray,
    key: int = 0,
    *,
    is_apart: bool = True,
    halts: bool = False,
) -> Reply:
    """One task: function number `which` at every row, or once for all rows if it takes many.

    Args:
        shipped: the functions, where the worker may not hold them yet.
        key: tells the task from others: Dask takes tasks with equal arguments for one, and would not try a point again.
        is_apart: whether another process waits for the reply; exceptions are then made fit for the journey.
        halts: whether to stop at the first point that raises.
    """
    own = shipped if shipped is not None else _held.get(token)
    if shipped is not None and is_apart:
        _held[token] = shipped
        for oldest in list(_held)[:-_MOST_HELD]:
            _held.pop(oldest, None)  # another thread may have done it
    if own is None:
        return Reply(worker_name(), None)
    function, answers = own.functions[which], []
    for piece in [rows][: len(rows)] if own.is_batched else rows:
        answer = _timed(function, piece, len(rows) if own.is_batched else 1, is_apart)
        answers.append(answer)
        if halts and answer.error is not None:
            break
    return Reply(worker_name(), tuple(answers))


def _timed(function: Callable[..., Any], piece: np.ndarray, size: int, is_apart: bool) -> Answer:
    begin = time.perf_counter()
    try:
        result = function(piece)
    except BaseException as error:
        if not is_apart and not isinstance(error, Exception):
            raise  # Ctrl-C in the user's own process
        seconds = time.perf_counter() - begin
        return Answer(size, None, seconds, _fit_for_journey(error) if is_apart else error)
    return Answer(size, result, time.perf_counter() - begin)


def _fit_for_journey(error: BaseException) -> BaseException:
    """The exception with its traceback as text; one that cannot travel becomes a RuntimeError with its words."""
    text = traceback.format_exc()
    kept = error if isinstance(error, Exception) and survives(error) else None
    kept = RuntimeError(f"{type(error).__name__}: {error}") if kept is None else kept
    kept.__traceback__ = None
    return _Told(kept, text)


class _Told(Exception):
    """An exception and the text of its traceback, which pickling would lose."""

    def __init__(self, error: BaseException, text: str):
        super().__init__(error, text)
        self.error, self.text = error, text


def told(error: BaseException) -> BaseException:
    """The exception of a worker as it was, with the worker's traceback for its cause."""
    if isinstance(error, _Told):
        error.error.__cause__ = WorkerTraceback(error.text)
        return error.error
    return error


def survives(thing: BaseException) -> bool:
    """Whether an exception arrives as what it was."""
    try:
        copy = ForkingPickler.loads(ForkingPickler.dumps(thing))  # pyright: ignore[reportAttributeAccessIssue]
    except Exception:
        return False
    return type(copy) is type(thing)
