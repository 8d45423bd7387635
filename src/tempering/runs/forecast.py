"""How long a fit will take, from fits that were made on this machine before: nothing here is guessed.

Consumes the seconds by stage of finished fits, kept in the user's cache folder; produces those of a like one.
"""

import contextlib
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax

from tempering.compilation import user_folder
from tempering.errors import RunFolderError
from tempering.runs.storage import write_bytes
from tempering.types import Event, OnEvent

__all__ = ["Kind", "expected_seconds", "remember", "with_time_left"]

_FILE = "seconds.jsonl"
_MOST_LINES = 200
_MOST_ASKED = 5
_LIKE = 2.0
"""A fit is like another if dimension and budget differ by this factor at the most."""


@dataclass(frozen=True)
class Kind:
    """What the seconds of a fit depend on."""

    method: str
    dim: int
    budget: int
    network: str
    width: int

    @classmethod
    def of(cls, method: str, dim: int, budget: int, settings: Any) -> "Kind":
        """Of a fit with these settings."""
        network = getattr(settings, "network", None)  # baselines have networks of their own, told by the method
        own = (type(settings).__name__, 0) if network is None else (network.kind, network.width)
        return cls(method, dim, budget, *own)

    def distance(self, entry: dict[str, Any]) -> float:
        """How unlike a fit of the past is; infinite if it says nothing about this one."""
        same = (self.method, self.network, self.width, jax.default_backend())
        if same != tuple(entry.get(name) for name in ("method", "network", "width", "backend")):
            return math.inf
        away = [abs(math.log(own / max(1, entry[name]))) for name, own in (("dim", self.dim), ("budget", self.budget))]
        return sum(away) if max(away) <= math.log(_LIKE) else math.inf


def remember(kind: Kind, seconds: dict[str, float]) -> None:
    """Keep the seconds of a finished fit. Where nothing can be kept, nothing is."""
    path = _path()
    if path is None or not seconds:
        return
    line = json.dumps({**vars(kind), "backend": jax.default_backend(), "seconds": seconds})
    with contextlib.suppress(OSError, RunFolderError):
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [*_lines(path), line][-_MOST_LINES:]
        write_bytes(path, ("\n".join(lines) + "\n").encode())


def expected_seconds(kind: Kind) -> dict[str, float] | None:
    """Seconds by stage of one of the most similar fits; None where no like fit was made here.

    Of the last few it is the one whose whole time is in the middle: one density that was hard to learn, or a machine
    that was busy once, should not decide for all that come after.
    """
    path, found = _path(), []
    for line in [] if path is None else _lines(path):
        try:
            entry = json.loads(line)
            distance = kind.distance(entry)
            seconds = {str(stage): float(took) for stage, took in entry["seconds"].items()}
        except (ValueError, KeyError, TypeError, AttributeError):  # damaged, or of another version
            continue
        if math.isfinite(distance):
            found.append((distance, seconds))
    nearest = min((distance for distance, _ in found), default=None)
    last = [seconds for distance, seconds in found if distance == nearest][-_MOST_ASKED:]
    return sorted(last, key=lambda seconds: sum(seconds.values()))[(len(last) - 1) // 2] if last else None


def with_time_left(expected: dict[str, float] | None, seconds: Callable[[], dict[str, float]], on_event: OnEvent):
    """An observer that gets every event with the seconds that are left, where a like fit says so.

    Args:
        expected: seconds by stage of a like fit.
        seconds: that the stages of this one have taken so far.
    """
    if not expected:
        return on_event

    def observe(event: Event) -> None:
        so_far = seconds()
        left = sum(max(0.0, took - so_far.get(stage, 0.0)) for stage, took in expected.items())
        on_event(replace(event, seconds_left=left if left > 0 else None))

    return observe


def _path() -> Path | None:
    folder = user_folder()
    return None if folder is None else folder / _FILE


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return []
