"""Pieces of a batch on their way to workers, and what is known of their points when they come back. Plain data."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tempering.host.work import Answer

__all__ = ["Arrival", "Piece", "masked", "parts"]


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
class Piece:
    """Rows that a worker gets together.

    Args:
        rows: their numbers.
        tries: how often they were handed out.
        breaks: how often a whole pool broke while it had them.
        begun: when a worker took them up, as far as is known.
        counted: seconds that the account of workers has of a try that was given up.
    """

    rows: np.ndarray
    tries: int = 0
    breaks: int = 0
    begun: float | None = None
    counted: float = 0.0

    def of(self, rows: np.ndarray) -> "Piece":
        """Some of its rows, with its past."""
        share = len(rows) / max(1, len(self.rows))
        return Piece(rows, self.tries, self.breaks, counted=share * self.counted)

    def singles(self) -> "Iterator[Piece]":
        """Its rows one by one."""
        return (self.of(self.rows[i : i + 1]) for i in range(len(self.rows)))


def parts(piece: Piece, answers: tuple[Answer, ...]) -> Iterator[tuple[Piece, Answer]]:
    """The answers of a task with the rows that each is about."""
    if len(answers) == 1 and answers[0].size == len(piece.rows):
        yield piece, answers[0]
        return
    place = 0
    for answer in answers:
        yield piece.of(piece.rows[place : place + answer.size]), answer
        place += answer.size


def masked(answer: Answer, mask: np.ndarray) -> Answer:
    """The part of an answer about some of its points."""
    result = answer.result
    cut = lambda part: np.asarray(part)[mask]  # noqa: E731
    some = tuple(map(cut, result)) if isinstance(result, tuple | list) and len(result) == 2 else cut(result)
    share = float(np.mean(mask))
    return Answer(int(mask.sum()), some, share * answer.seconds)
