"""Rows of a compiled program that go on at their own pace, and do not wait for the slowest of a batch.

A program visits the host again and again. Each visit asks for one point of every row, and the next visit comes when all
answers are there. Where rows do not depend on each other, most of that waiting is for nothing. So the program is run
many times. A run answers from what is known. A row whose value is not known yet gets -inf, and what it asks for later
in this run is passed over. In the last run every value is known: it is the program as it always was, with the values
that it always got, and its result is the same to the bit. That holds for any order of arrival.
"""

import time
from collections.abc import Callable

import numpy as np

__all__ = ["Paces"]

_MOST_BYTES = 64 * 2**20
"""What all points of a program may take, with their values."""
_REST = 4.0
"""Time between two runs over the time of a run: workers are not kept waiting for runs that tell little."""


class Paces:
    """What is known of the points of a program: `num_visits` visits with a point of each of `num_rows` rows.

    Points have numbers: visit times `num_rows`, plus row.

    Args:
        mixed: of a visit: how many neighbouring rows have become dependent on each other since the visit before, such
            as the levels of a ladder by a swap; 1 where none have.
    """

    def __init__(self, num_rows: int, num_visits: int, dim: int, mixed: Callable[[int], int]):
        self.num_rows, self.num_visits, self.dim, self._mixed = num_rows, num_visits, dim, mixed
        self.cost, self.is_strange = 0.0, False
        self._visit, self._begun, self._ended = 0, 0.0, 0.0
        self._is_open = np.ones(num_rows, bool)
        self._fresh: list[np.ndarray] = []
        self.has_news = False

    @property
    def is_small(self) -> bool:
        """Whether all of it may be held at once."""
        return 8 * self.num_rows * self.num_visits * (2 * self.dim + 3) <= _MOST_BYTES

    def begin(self) -> None:
        """A run of the program begins."""
        if not hasattr(self, "points"):
            whole = self.num_rows * self.num_visits
            self.points = np.zeros((whole, self.dim))
            self.arrays = {"value": np.full(whole, -np.inf), "gradient": np.zeros((whole, self.dim))}
            self._is_asked, self._is_known = np.zeros(whole, bool), np.zeros(whole, bool)
        self._visit, self._begun, self.has_news = 0, time.perf_counter(), False
        self._is_open[:] = True

    def end(self) -> np.ndarray:
        """A run of the program is over: the numbers of points that it was the first to ask for."""
        self._ended = time.perf_counter()
        self.cost = self._ended - self._begun
        self.is_strange |= self._visit != self.num_visits
        fresh, self._fresh = self._fresh, []
        return np.concatenate(fresh) if fresh else np.zeros(0, int)

    @property
    def is_done(self) -> bool:
        """Whether the last run had every value."""
        return self._visit == self.num_visits and bool(self._is_open.all())

    def answer(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values and gradients for a visit of the program, as far as they are known."""
        visit, self._visit = self._visit, self._visit + 1
        if visit >= self.num_visits or rows.shape != (self.num_rows, self.dim):
            self.is_strange = True
            return np.full(len(rows), -np.inf), np.zeros(rows.shape)
        size = self._mixed(visit)
        if size > 1:
            self._is_open = np.repeat(self._is_open.reshape(-1, size).all(axis=1), size)
        here = slice(visit * self.num_rows, (visit + 1) * self.num_rows)
        points, is_known = self.points[here], self._is_known[here]
        is_new = self._is_open & ~(self._is_asked[here] & (points.view(np.int64) == rows.view(np.int64)).all(axis=1))
        points[is_new], is_known[is_new], self._is_asked[here][is_new] = rows[is_new], False, True
        self._fresh.append(here.start + np.flatnonzero(is_new))
        self._is_open = self._is_open & is_known
        values, gradients = self.arrays["value"][here], self.arrays["gradient"][here]
        is_open = self._is_open
        return np.where(is_open, values, -np.inf), np.where(is_open[:, None], gradients, 0.0)

    def known(self, numbers: np.ndarray) -> None:
        """The values of these points stand in `arrays` now."""
        self._is_known[numbers] = True
        self.has_news = self.has_news or len(numbers) > 0

    def is_due(self, num_waiting: int, num_flying: int, num_workers: int) -> bool:
        """Whether to run the program again, where so many points wait to be handed out and so many are in flight."""
        if not self.has_news or num_waiting >= num_workers:
            return False
        return num_waiting + num_flying == 0 or time.perf_counter() - self._ended >= _REST * self.cost
