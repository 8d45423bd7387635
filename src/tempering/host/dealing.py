"""Points dealt to workers as they become free, each tried twice at the most; nobody waits for the slowest of a round.

Consumes rows of points; hands every answer on as it arrives, in whatever order, with the numbers of its rows. Pieces
of a vectorised function depend on the rows alone, never on the workers, so that results do not either. So a second try
of such a piece has the same rows: a matrix product of fewer rows rounds in another way.
"""

import time
from collections import deque
from collections.abc import Callable

import numpy as np

from tempering.errors import DensityError, SettingsError
from tempering.host.engines import Engine, Here
from tempering.host.pieces import Arrival, Piece, masked, parts
from tempering.host.processes import Returned
from tempering.host.use import HostUse, Timer
from tempering.host.work import Answer, told

__all__ = ["Dealer"]

_PIECE_SECONDS = 0.05
"""What a piece of quick points should take: less, and handing out shows; more, and a crash loses more."""
_PIECES_PER_WORKER = 4
_TICK = 1.0
"""Seconds between two looks at the clock while nothing arrives."""
_GLANCE = 0.05
"""The same where more points may become known."""


class Dealer:
    """Deals points to an engine.

    Args:
        chunk_size: points of a piece; None for as many as take a twentieth of a second.
        timeout: seconds that a point may take.
        tries: how often a point is tried.
        keeps_pieces: whether a piece that fails is tried again as it was, before its points are tried one by one.
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
        keeps_pieces: bool = False,
    ):
        self.engine, self.use, self.chunk_size, self.timeout = engine, use, chunk_size, timeout
        self.tries, self.drains, self._bad_rows, self.keeps_pieces = tries, False, bad_rows, keeps_pieces
        self.on_tick: Callable[[], None] | None = None
        self._typical: float | None = None
        self._next_key = 0
        self._given_up: set[int] = set()
        self._rounds: list[_Round] = []

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
        self._rounds.append(round_)
        try:
            round_.run()
        except BaseException:
            round_.leave()
            raise
        finally:
            self._rounds.pop()
            self._given_up |= round_.flying.keys() | round_.late.keys()

    @property
    def is_outermost(self) -> bool:
        """Whether no other round waits for workers: an observer may ask for points while others fly."""
        return len(self._rounds) == 1

    def send_on(self, returned: Returned) -> None:
        """Give what came back to the round that waits for it."""
        for round_ in self._rounds:
            if returned.key in round_.flying or returned.key in round_.late:
                round_.returned.append(returned)

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
        self.again: deque[Piece] = deque()
        self.flying: dict[int, Piece] = {}
        self.late: dict[int, Piece] = {}
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
        try:
            self._let_in(list(self.returned))  # they came back together with the one that ended the round
            if self.dealer.drains and not isinstance(self.engine, Here):
                longest = max((len(piece.rows) for piece in self.flying.values()), default=1)
                timeout = self.dealer.timeout
                limit = float("inf") if timeout is None else time.monotonic() + timeout * longest
                while self.flying and time.monotonic() < limit:
                    self._let_in(self.engine.collect(_TICK))
        except Exception:  # the first error is the one to tell
            pass
        finally:
            if (self.flying or self.late) and self.dealer.is_outermost:
                self.engine.close(at_once=True)

    def _let_in(self, all_returned: list[Returned]) -> None:
        for returned in all_returned:
            piece = self.flying.pop(returned.key, None)
            if piece is None:
                self.dealer.send_on(returned)
            elif returned.reply is not None:
                self._keep(list(parts(piece, returned.reply.answers or ())), returned.reply.worker)

    def _keep(self, answers: list[tuple[Piece, Answer]], worker: str) -> None:
        try:
            for part, answer in answers:
                if answer.error is None and self.dealer.bad_rows(answer) is None:
                    self._arrive(part, answer, worker)
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
            piece.tries, piece.begun = piece.tries + 1, None  # the time of an earlier try is not that of this one
            self.engine.submit(key, self.which, self.rows[piece.rows])
            if piece.breaks > 1:
                break
        self._start_clocks()

    def _num_late(self) -> int:
        """Workers of a pool of others that are busy with points that were given up, of this batch or of others."""
        return len(self.late) + self.dealer.num_given_up()

    def _next(self) -> Piece | None:
        if self.again:
            if self.again[0].breaks > 1 and self.flying:
                return None
            piece = self.again.popleft()
            self.dealer.use.retried += len(piece.rows)
            return piece
        size = self.dealer.chunk_size or self.dealer.size_of_piece(len(self.left))
        taken, self.left = self.left[:size], self.left[size:]
        return Piece(taken)

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
            if piece is None:
                self.dealer.send_on(returned)
                continue
            if returned.reply is None:
                if not is_late:
                    self._lost(piece, returned)
                continue
            answers, worker = deque(parts(piece, returned.reply.answers or ())), returned.reply.worker
            try:
                while answers:
                    self._judge(*answers.popleft(), worker, is_late)
            except BaseException:
                self._keep(list(answers), worker)
                raise
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

    def _lost(self, piece: Piece, returned: Returned) -> None:
        error, answer = RuntimeError(returned.lost or "the worker ended"), Answer(len(piece.rows), None, 0.0)
        if not returned.is_common:
            self._failed(piece, "died", error, answer)
            return
        piece.breaks += 1
        if piece.breaks < 3:  # together once more, then alone: nobody knows which of them did it
            self.again.extend([piece] if self.dealer.keeps_pieces else piece.singles())
        elif len(piece.rows) > 1:
            piece.breaks = 2
            self.again.extend(piece.singles())
        else:
            self._arrive(piece, answer, "", "died", error)

    def _judge(self, piece: Piece, answer: Answer, worker: str, is_late: bool = False) -> None:
        bad = None if answer.error is not None else self.dealer.bad_rows(answer)
        if is_late:  # what is good and came before the second try is taken
            news = ~self.done[piece.rows] & (np.ones(len(piece.rows), bool) if bad is None else ~bad)
            if answer.error is not None or not news.any():
                return
            self.dealer.use.busy -= piece.counted
            piece, bad = piece.of(piece.rows[news]), None
            answer = answer if news.all() else masked(answer, news)
        self.dealer.note(answer)
        if answer.error is not None:
            self._failed(piece, "raised", told(answer.error), answer, worker)
        elif bad is None:
            self._arrive(piece, answer, worker)
        elif bad.all():
            self._failed(piece, "nan", None, answer, worker)
        else:  # the others of a vectorised function's piece are as good as any
            good, rest = (piece.of(piece.rows[mask]) for mask in (~bad, bad))
            self._arrive(good, masked(answer, ~bad), worker)
            self._failed(rest, "nan", None, masked(answer, bad), worker)

    def _arrive(self, piece: Piece, answer: Answer, worker: str, fault: str | None = None, error=None) -> None:
        self.done[piece.rows] = True
        self.dealer.use.points += len(piece.rows)
        self.on_arrival(Arrival(piece.rows, answer, worker, fault, error, piece.tries))

    def _failed(self, piece: Piece, fault: str, error, answer: Answer, worker: str = "") -> None:
        is_again = piece.tries - piece.breaks < self.dealer.tries  # a pool that broke was no try of this point
        if len(piece.rows) > 1 and self.dealer.tries > 1:
            is_whole = self.dealer.keeps_pieces and fault != "nan" and is_again
            self.again.extend([piece] if is_whole else piece.singles())
        elif is_again:
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
            again = piece.of(piece.rows)
            again.counted, piece.counted = 0.0, now - piece.begun
            self.dealer.use.busy += piece.counted
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
