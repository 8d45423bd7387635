"""What became of points on the host: how many, how long, by how many workers, and what went wrong. Plain numbers."""

import time
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

from tempering.runs.words import duration_text

__all__ = ["FAULTS", "HostUse", "forecast_words"]

FAULTS = ("raised", "timeout", "nan", "died")
"""How a point can fail: an exception, too long, NaN, or the end of its worker."""

_COUNTS, _SECONDS = ("points", "replayed", "batches", "retried"), ("busy", "available", "waited")
_BUSY, _ENOUGH = 0.8, 4.0
"""Utilisation below which, and points of a batch for each worker below which, a word is said: results/cluster.json."""


@dataclass
class HostUse:
    """The account of a black box since it was made.

    Args:
        points: that a function answered, failed ones too.
        replayed: that the store answered, because an earlier process paid for them.
        batches: in which they were asked for.
        retried: second tries, on top of `points`.
        failed: points that failed for good, by `FAULTS`.
        busy: seconds that workers spent in the function.
        available: seconds that workers were there while points were waited for.
        waited: seconds that points were waited for.
        workers: the most at a time.
    """

    points: int = 0
    replayed: int = 0
    batches: int = 0
    retried: int = 0
    failed: Counter = field(default_factory=Counter)
    busy: float = 0.0
    available: float = 0.0
    waited: float = 0.0
    workers: int = 0

    @property
    def seconds_per_point(self) -> float | None:
        """The mean; None before any point."""
        return self.busy / self.points if self.points else None

    @property
    def utilisation(self) -> float | None:
        """The share of the workers' time that they worked, while points were waited for."""
        return min(1.0, self.busy / self.available) if self.available > 0 else None

    @property
    def is_short_of_points(self) -> bool:
        """Whether workers were idle because batches are small for their number."""
        share = self.utilisation
        if share is None or not self.batches or self.workers < 2:
            return False
        return share < _BUSY and self.points / self.batches < _ENOUGH * self.workers

    @property
    def num_failed(self) -> int:
        """Points that failed for good."""
        return sum(self.failed.values())

    def copy(self) -> "HostUse":
        """As it is now."""
        return replace(self, failed=Counter(self.failed))

    def plus(self, other: "HostUse | None") -> "HostUse":
        """Both accounts as one."""
        return self if other is None else self._joined(other, 1)

    def since(self, before: "HostUse") -> "HostUse":
        """What has come after an earlier state of the account."""
        return self._joined(before, -1)

    def _joined(self, other: "HostUse", sign: int) -> "HostUse":
        numbers = {name: getattr(self, name) + sign * getattr(other, name) for name in (*_COUNTS, *_SECONDS)}
        failed = self.failed + other.failed if sign > 0 else self.failed - other.failed
        return HostUse(**numbers, failed=failed, workers=max(self.workers, other.workers))

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        numbers = {name: round(getattr(self, name), 3) for name in _SECONDS}
        counts = {name: getattr(self, name) for name in (*_COUNTS, "workers")}
        return {**counts, "failed": dict(self.failed), **numbers}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> "HostUse":
        """What `as_dict` described."""
        return cls(**{**content, "failed": Counter(content.get("failed") or {})})

    def lines(self) -> list[str]:
        """In words, for a summary."""
        if not self.points + self.replayed:
            return []
        each = self.seconds_per_point
        head = f"host  {self.points:,} points on {_counted(self.workers, 'worker')}"
        head += "" if each is None else f" at {duration_of(each)} each"
        head += "" if self.utilisation is None else f", utilisation {self.utilisation:.2f}"
        lines = [head]
        if self.is_short_of_points:
            lines.append(
                f"  a batch had {self.points / self.batches:,.0f} points for {_counted(self.workers, 'worker')}, which "
                f"were idle at its end: more chains help, settings={{'initial.num_chains': {4 * self.workers}}}"
            )
        if self.replayed:
            lines.append(f"  {self.replayed:,} more came from the store of points, paid for by an earlier process")
        if self.retried:
            lines.append(f"  {self.retried:,} were tried again, on top of the budget")
        if self.num_failed:
            kinds = ", ".join(f"{num:,} {_FAULT_WORDS[kind]}" for kind, num in sorted(self.failed.items()))
            lines.append(f"  {self.num_failed:,} failed twice and count as outside the support: {kinds}")
        return lines


_FAULT_WORDS = {
    "raised": "raised an exception",
    "timeout": "took longer than timeout=",
    "nan": "were NaN",
    "died": "ended their worker",
}


class Timer:
    """Adds the time of a block to an account, by the workers that are there."""

    def __init__(self, use: HostUse):
        self.use, self._last = use, time.perf_counter()

    def tick(self, num_workers: int) -> None:
        """Time since the last tick."""
        now = time.perf_counter()
        self.use.waited += now - self._last
        self.use.available += (now - self._last) * num_workers
        self.use.workers = max(self.use.workers, num_workers)
        self._last = now


def duration_of(seconds: float) -> str:
    """Seconds of a point as people say it, short ones in milliseconds."""
    return duration_text(seconds) if seconds >= 0.95 else f"{1e3 * seconds:.3g} ms"


def forecast_words(num_points: int, num_workers: int, seconds: float, utilisation: float = 1.0) -> str:
    """How long points will take.

    Examples:
        >>> forecast_words(20_000, 8, 30.0)
        '20,000 points on 8 workers at 30.0 s: 20 h 50 min'
    """
    whole = num_points * seconds / num_workers / max(utilisation, 1e-3)
    return (
        f"{num_points:,} points on {_counted(num_workers, 'worker')} at {duration_of(seconds)}: {duration_text(whole)}"
    )


def _counted(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"
