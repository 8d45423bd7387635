"""Points dealt to workers as they become free, each tried twice at the most; nobody waits for the slowest of a round.

Consumes rows of points; hands every answer on as it arrives, in whatever order, with the numbers of its rows. Pieces
of a vectorised function depend on the rows alone, never on the workers, so that results do not either.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from tempering.errors import DensityError, SettingsError
from tempering.host.engines import Engine, Here
from tempering.host.processes import Returned
from tempering.host.use import HostUse, Timer
from tempering.host.work import Answer, told

__all__ = ["Arrival", "Dealer"]

_PIECE_SECONDS = 0.05
"""What a piece of quick points should take: less, and handing out shows; more, and a crash loses more."""
_PIECES_PER_WORKER = 4
_TICK = 1.0
"""Seconds between two looks at the clock while nothing arrives."""
_GLANCE = 0.05
"""The same where more points may become known."""


@dataclass(frozen=True)
class Arrival:
    """What is known of some rows now.

    Args:
        rows: their numbers.
        answer: what the function returned for them.
        fault: how it failed for good, of `use.FAULTS`; None where it did not.
        error: the exception of it.
        tries: how often they were tried.
    """

    rows: np.ndarray
    answer: Answer
    worker: str
    fault: str | None = None
    error: BaseException | None = None
    tries: int = 1


@dataclass
class _Piece:
    rows: np.ndarray
    tries: int = 0
    breaks: int = 0
    begun: float | None = None

    def singles(self) -> "Iterator[_Piece]":
        return (_Piece(self.rows[i : i + 1], self.tries, self.breaks) for i in range(len(self.rows)))


class Dealer:
    """Deals points to an engine.

    Args:
        chunk_size: points of a piece; None for as many as take a twentieth of a second.
        timeout: seconds that a point may take.
        tries: how often a point is tried.
        bad_rows: which rows of an answer without an exception are failures (NaN); None where none are.

    Attributes:
        drains: whether to wait for what is in flight before an error is raised: it is paid for.
        on_tick: called every moment while points are waited for.
    """

    def __init__(
        self,
        engine: Engine,
        use: HostUse,
        *,
        chunk_size: int | None,
        timeout: float | None,
        tries: int,
        bad_rows: Callable[[Answer], np.ndarray] | None,
    ):
        self.engine, self.use, self.chunk_size, self.timeout = engine, use, chunk_size, timeout
        self.tries, self.drains, self._bad_rows = tries, False, bad_rows
        self.on_tick: Callable[[], None] | None = None
        self._typical: float | None = None
        self._next_key = 0
        self._given_up: set[int] = set()

    @property
    def typical(self) -> float | None:
        """Seconds that points have taken lately; None before any."""
        return self._typical

    def deal(
        self,
        which: int,
        rows: np.ndarray,
        numbers: np.ndarray,
        on_arrival: Callable[[Arrival], None],
        more: Callable[[int, int], np.ndarray] | None = None,
    ) -> None:
        """Evaluate function `which` at rows[numbers]; every arrival is handed on once, failed ones too.

        Args:
            more: asked again and again, with how many points wait and how many are in flight, for numbers of rows that
                have become known meanwhile. When nothing waits or flies and there are no more, all is done.

        Raises:
            Exception: what `on_arrival` raises; what is in flight then arrives first where `drains` says so.
        """
        if self.timeout is not None and not self.engine.keeps_time:
            raise SettingsError(
                "timeout needs a pool that hands back each point when it is done; one with .map alone hands back "
                "all at the end: give pool=8, an executor, or no timeout"
            )
        self.use.batches += len(numbers) > 0
        round_ = _Round(self, which, rows, numbers, on_arrival, more)
        try:
            round_.run()
        except BaseException:
            round_.leave()
            raise
        finally:
            self._given_up |= round_.flying.keys() | round_.late.keys()

    def num_given_up(self) -> int:
        """Tasks of earlier batches that workers of a pool of others are still busy with: nobody waits for them."""
        self._given_up = {key for key in self._given_up if self.engine.holds(key)}
        return len(self._given_up)

    def size_of_piece(self, num_left: int) -> int:
        """Points of the next piece of a function of one point."""
        if self.timeout is not None or self._typical is None:
            return 1
        fair = num_left // (_PIECES_PER_WORKER * self.engine.num_workers)
        most = max(1, fair) if not isinstance(self.engine, Here) else num_left
        return int(np.clip(_PIECE_SECONDS / max(self._typical, 1e-9), 1, max(1, most)))

    def note(self, answer: Answer) -> None:
        """Learn from an answer how long points take."""
        each = answer.seconds / max(1, answer.size)
        self._typical = each if self._typical is None else 0.8 * self._typical + 0.2 * each
        self.use.busy += answer.seconds

    def bad_rows(self, answer: Answer) -> np.ndarray | None:
        """Which rows are failures though nothing was raised; None where none is."""
        bad = None if self._bad_rows is None else self._bad_rows(answer)
        return bad if bad is not None and bad.any() else None

    def new_key(self) -> int:
        """A number for a task, never used again."""
        self._next_key += 1
        return self._next_key


class _Round:
    """One batch on its way."""

    def __init__(self, dealer: Dealer, which: int, rows: np.ndarray, numbers: np.ndarray, on_arrival, more=None):
        self.dealer, self.engine, self.which, self.rows = dealer, dealer.engine, which, rows
        self.left, self.on_arrival, self.more = numbers, on_arrival, more
        self.again: deque[_Piece] = deque()
        self.flying: dict[int, _Piece] = {}
        self.late: dict[int, _Piece] = {}
        self.returned: deque[Returned] = deque()
        self.done = np.ones(len(rows), bool)
        self.done[numbers] = False
        self.stuck_since: float | None = None

    def run(self) -> None:
        self._hand_out()
        timer = Timer(self.dealer.use)  # now, when a pool has said its first word
        while self._goes_on():
            self._hand_out()
            self._take(self.engine.collect(self._patience()))
            self._see_to_the_late()
            timer.tick(self.engine.num_ready)
            if self.dealer.on_tick is not None:
                self.dealer.on_tick()

    def _goes_on(self) -> bool:
        """Whether anything is to be done, with what has become known meanwhile."""
        if self.more is not None:
            new = self.more(len(self.left) + len(self.again), len(self.flying))
            self.left, self.done[new] = np.sort(np.concatenate([self.left, new])), False  # who is behind comes first
        return bool(len(self.left) or self.again or self.flying)

    def leave(self) -> None:
        """After an error: let in what is paid for, or see that nobody works on for nothing."""
        self._let_in(list(self.returned))  # they came back together with the one that ended the round
        if self.dealer.drains and not isinstance(self.engine, Here):
            limit = None if self.dealer.timeout is None else time.monotonic() + self.dealer.timeout
            while self.flying and (limit is None or time.monotonic() < limit):
                self._let_in(self.engine.collect(_TICK))
        if self.flying or self.late:
            self.engine.close(at_once=True)

    def _let_in(self, all_returned: list[Returned]) -> None:
        for returned in all_returned:
            piece = self.flying.pop(returned.key, None)
            if piece is not None and returned.reply is not None:
                self._keep(piece, returned)

    def _keep(self, piece: _Piece, returned: Returned) -> None:
        assert returned.reply is not None
        try:
            for part, answer in _parts(piece, returned.reply.answers or ()):
                if answer.error is None and self.dealer.bad_rows(answer) is None:
                    self._arrive(part, answer, returned.reply.worker)
        except Exception:  # the first error is the one to tell
            return

    def _patience(self) -> float | None:
        """How long to wait for an arrival: until the next piece is too late, or a moment."""
        most = _TICK if self.more is None else _GLANCE
        if self.dealer.timeout is None:
            return most
        begun = [p.begun + self.dealer.timeout * len(p.rows) for p in self.flying.values() if p.begun is not None]
        return float(np.clip(min(begun, default=_TICK + time.monotonic()) - time.monotonic(), 0.01, most))

    def _hand_out(self) -> None:
        while len(self.left) or self.again:
            if any(piece.breaks > 1 for piece in self.flying.values()):
                return  # it is tried alone
            num_late = self._num_late()
            if num_late >= self.engine.num_workers or self.engine.room(len(self.flying) + num_late) <= 0:
                break
            piece = self._next()
            if piece is None:
                return
            key = self.dealer.new_key()
            self.flying[key] = piece
            piece.tries += 1
            self.engine.submit(key, self.which, self.rows[piece.rows])
            if piece.breaks > 1:
                break
        self._start_clocks()

    def _num_late(self) -> int:
        """Workers of a pool of others that are busy with points that were given up, of this batch or of others."""
        return len(self.late) + self.dealer.num_given_up()

    def _next(self) -> _Piece | None:
        if self.again:
            if self.again[0].breaks > 1 and self.flying:
                return None
            piece = self.again.popleft()
            self.dealer.use.retried += len(piece.rows) if piece.tries else 0
            return piece
        size = self.dealer.chunk_size or self.dealer.size_of_piece(len(self.left))
        taken, self.left = self.left[:size], self.left[size:]
        return _Piece(taken)

    def _start_clocks(self) -> None:
        """A task that waits in the queue of a pool has not begun: as many have as there are workers."""
        if self.dealer.timeout is None:
            return
        pieces, free = list(self.flying.values()), max(0, self.engine.num_ready - self._num_late())
        if sum(piece.begun is not None for piece in pieces) > free:
            # The pool has shrunk. It begins again what went down with a worker, and nobody knows what that was.
            for piece in pieces:
                piece.begun = None
        for piece in pieces[:free]:
            piece.begun = time.monotonic() if piece.begun is None else piece.begun

    def _take(self, all_returned: list[Returned]) -> None:
        self.returned.extend(all_returned)
        while self.returned:
            returned = self.returned.popleft()
            is_late = returned.key in self.late
            piece = (self.late if is_late else self.flying).pop(returned.key, None)
            if piece is None or (is_late and returned.reply is None):
                continue
            if returned.reply is None:
                self._lost(piece, returned)
                continue
            for part, answer in _parts(piece, returned.reply.answers or ()):
                self._judge(part, answer, returned.reply.worker, is_late)
            if is_late:
                self._drop_second_tries()
        self._start_clocks()

    def _drop_second_tries(self) -> None:
        """They are not needed where the first try came late, but before them."""
        self.again = deque(piece for piece in self.again if not np.all(self.done[piece.rows]))
        for key in [key for key, piece in self.flying.items() if np.all(self.done[piece.rows])]:
            piece = self.flying.pop(key)
            if not self.engine.abandon(key):
                self.late[key] = piece

    def _lost(self, piece: _Piece, returned: Returned) -> None:
        if returned.is_common:
            piece.breaks += 1
            if piece.breaks < 3:  # together once more, then alone: nobody knows which of them did it
                self.again.extend(piece.singles())
                return
            piece.tries = self.dealer.tries
        self._failed(
            piece, "died", RuntimeError(returned.lost or "the worker ended"), Answer(len(piece.rows), None, 0.0)
        )

    def _judge(self, piece: _Piece, answer: Answer, worker: str, is_late: bool = False) -> None:
        bad = None if answer.error is not None else self.dealer.bad_rows(answer)
        if is_late:  # what is good and came before the second try is taken
            news = ~self.done[piece.rows] & (np.ones(len(piece.rows), bool) if bad is None else ~bad)
            if answer.error is not None or not news.any():
                return
            piece, bad = _Piece(piece.rows[news], piece.tries), None
            answer = answer if news.all() else _masked(answer, news)
        self.dealer.note(answer)
        if answer.error is not None:
            self._failed(piece, "raised", told(answer.error), answer, worker)
        elif bad is None:
            self._arrive(piece, answer, worker)
        elif bad.all():
            self._failed(piece, "nan", None, answer, worker)
        else:  # the others of a vectorised function's piece are as good as any
            good, rest = (_Piece(piece.rows[mask], piece.tries, piece.breaks) for mask in (~bad, bad))
            self._arrive(good, _masked(answer, ~bad), worker)
            self._failed(rest, "nan", None, _masked(answer, bad), worker)

    def _arrive(self, piece: _Piece, answer: Answer, worker: str, fault: str | None = None, error=None) -> None:
        self.done[piece.rows] = True
        self.dealer.use.points += len(piece.rows)
        self.on_arrival(Arrival(piece.rows, answer, worker, fault, error, piece.tries))

    def _failed(self, piece: _Piece, fault: str, error, answer: Answer, worker: str = "") -> None:
        if len(piece.rows) > 1 and self.dealer.tries > 1:
            self.again.extend(piece.singles())
        elif piece.tries < self.dealer.tries:
            self.again.append(piece)
        else:
            self._arrive(piece, answer, worker, fault, error)

    def _see_to_the_late(self) -> None:
        timeout = self.dealer.timeout
        if timeout is None:
            return
        now = time.monotonic()
        self._see_to_the_stuck(now, timeout)
        for key, piece in list(self.flying.items()):
            if piece.begun is None or now - piece.begun < timeout * len(piece.rows):
                continue
            del self.flying[key]
            if not self.engine.abandon(key):
                self.late[key] = piece
            again = _Piece(piece.rows, piece.tries, piece.breaks)
            self.dealer.use.busy += now - piece.begun
            error = DensityError(
                f"a point took longer than timeout = {timeout:g} s, {piece.tries} times; give more time, "
                "on_failure='reject' to count such points as outside the support, or fix the function"
            )
            self._failed(again, "timeout", error, Answer(len(piece.rows), None, now - piece.begun))

    def _see_to_the_stuck(self, now: float, timeout: float) -> None:
        num_late = self._num_late()
        is_stuck = num_late >= self.engine.num_workers > 0 and (len(self.left) or self.again or self.flying)
        self.stuck_since = (self.stuck_since or now) if is_stuck else None
        if self.stuck_since is not None and now - self.stuck_since > timeout * (self.dealer.chunk_size or 1):
            raise DensityError(
                f"all {self.engine.num_workers} workers are busy with points that take longer than timeout = "
                f"{timeout:g} s, and a pool of your own cannot be made to end them; give pool=8, which can, or a "
                "longer timeout"
            )


def _parts(piece: _Piece, answers: tuple[Answer, ...]) -> Iterator[tuple[_Piece, Answer]]:
    """The answers of a task with the rows that each is about."""
    if len(answers) == 1 and answers[0].size == len(piece.rows):
        yield piece, answers[0]
        return
    place = 0
    for answer in answers:
        yield _Piece(piece.rows[place : place + answer.size], piece.tries, piece.breaks), answer
        place += answer.size


def _masked(answer: Answer, mask: np.ndarray) -> Answer:
    """The part of an answer about some of its points."""
    result = answer.result
    cut = lambda part: np.asarray(part)[mask]  # noqa: E731
    parts = tuple(map(cut, result)) if isinstance(result, tuple | list) and len(result) == 2 else cut(result)
    share = float(np.mean(mask))
    return Answer(int(mask.sum()), parts, share * answer.seconds)
