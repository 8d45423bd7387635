"""Where a run is, for whoever watches its folder: written by the run, read without a lock and without JAX.

progress.json holds the last event of a run that goes on, and is taken away when the run ends. stats.jsonl has a line
for each finished part, with the record of its level.
"""

import dataclasses
import json
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tempering.errors import RunFolderError
from tempering.runs.ledger import APART
from tempering.runs.words import duration_text

__all__ = ["PROGRESS", "State", "duration_text", "noted", "read_entries", "read_state"]

PROGRESS = "progress.json"
_INTERVAL = 1.0
"""Seconds between two writes of the same stage."""


@contextmanager
def noted(folder: Path, on_event: Callable[[Any], None], clock: Callable[[], float] = time.monotonic) -> Iterator[Any]:
    """An observer that keeps the last event in the folder and hands it on; nothing that fails here ends the run."""
    begun = stage_begun = clock()
    last_time, last_place = -math.inf, None

    def observe(event: Any) -> None:
        nonlocal stage_begun, last_time, last_place
        now, place = clock(), (event.stage, event.level)
        if place != last_place:
            stage_begun = now
        if place != last_place or now - last_time >= _INTERVAL or event.done >= event.total:
            last_time, last_place = now, place
            with suppress(Exception):
                numbers = {"seconds": round(now - begun, 3), "stage_seconds": round(now - stage_begun, 3)}
                _write(folder / PROGRESS, {**dataclasses.asdict(event), **numbers, "process": os.getpid()})
        on_event(event)

    try:
        yield observe
    finally:
        with suppress(OSError):
            (folder / PROGRESS).unlink()


def _write(place: Path, content: dict[str, Any]) -> None:
    """Whole or not at all, and without waiting for the disk: it is worth nothing after a crash."""
    beside = place.with_name(f".{place.name}.{os.getpid()}.tmp")
    beside.write_text(json.dumps(content), encoding="utf-8")
    os.replace(beside, place)


@dataclass(frozen=True)
class State:
    """Where a run is.

    Args:
        name: of the run.
        budget: the most evaluations that it may spend, where there is a limit.
        status: running; ended, where a result is there; stopped, where neither is.
        event: the last one of a run that goes on, or that was killed.
        levels: the records of levels, by number.
        evaluations: spent so far.
        seconds: of work so far, over all processes that worked on the folder.
        silence: seconds since the last event of a run that goes on.
        num_parts: finished parts.
        verdict: of a run that ended.
    """

    name: str
    budget: int | None
    status: str
    event: dict[str, Any] = field(default_factory=dict)
    levels: dict[int, dict[str, Any]] = field(default_factory=dict)
    evaluations: int = 0
    seconds: float = 0.0
    silence: float = 0.0
    num_parts: int = 0
    verdict: str | None = None


def read_entries(path: Path) -> list[dict[str, Any]]:
    """The lines of stats.jsonl; one that is cut short or damaged is skipped, as times and records are all it has."""
    place = path / "stats.jsonl"
    lines = place.read_bytes().splitlines() if place.is_file() else []
    return [entry for entry in map(_entry, lines) if entry is not None]


def _entry(line: bytes) -> dict[str, Any] | None:
    """A line of stats.jsonl whose seconds are a number, or None."""
    try:
        entry = json.loads(line)
        seconds = float(entry["seconds"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return {**entry, "seconds": seconds} if math.isfinite(seconds) else None


def read_state(path: Path) -> State:
    """Where the run of a folder is; nothing is locked or changed.

    Raises:
        RunFolderError: if it is not the folder of a run.
    """
    if not path.is_dir():
        raise RunFolderError(f"{path} is not a folder; give the folder of a run, the one after --out")
    config = _object(path / "config.json")
    if config is None or "config" not in config:
        raise RunFolderError(f"{path} holds no config.json of a run; give the folder after --out of `tempering run`")
    config = config["config"]
    result, sampler = _object(path / "result.json"), _object(path / "sampler.json")
    event = _object(path / PROGRESS) or {}
    entries = read_entries(path)
    levels = {
        int(entry["record"]["level"]): entry["record"] for entry in entries if isinstance(entry.get("record"), dict)
    }
    ended = result or (sampler if config.get("name") == "fit" else None)
    if ended:
        levels = {int(record["level"]): record for record in ended.get("levels") or []} or levels
    spent = sum(sum((record.get("evaluations") or {}).values()) for record in levels.values())
    counts = [entry.get("evaluations") for entry in entries if entry.get("event") == "part"]
    spent = max([spent, *(count for count in counts if isinstance(count, int))])
    if event:
        spent = max(spent, event.get("evaluations") or 0)
    elif ended:
        points = (ended.get("ledger") or {}).get("points") or {}
        spent = ended.get("evaluations") or sum(num for stage, num in points.items() if stage not in APART)
    silence = _age(path / PROGRESS) if event else 0.0
    return State(
        name=str(config.get("name")),
        budget=config.get("budget"),
        status="running" if event else "ended" if ended else "stopped",
        event=event,
        levels=dict(sorted(levels.items())),
        evaluations=int(spent),
        seconds=_seconds(entries, event) + silence,
        silence=silence,
        num_parts=sum(entry.get("event") == "part" for entry in entries),
        verdict=((ended or {}).get("verdict") or {}).get("status"),
    )


def _seconds(entries: list[dict[str, Any]], event: dict[str, Any]) -> float:
    """Each process counts from 0, beginning with a start or resume line; the last event may be later than any line."""
    total, last = 0.0, 0.0
    for entry in entries:
        if entry.get("event") in ("start", "resume"):
            total, last = total + last, 0.0
        last = max(last, entry["seconds"])
    return total + max(last, float(event.get("seconds") or 0.0))


def _age(place: Path) -> float:
    """Seconds since a file was written."""
    try:
        return max(0.0, time.time() - place.stat().st_mtime)
    except OSError:
        return 0.0


def _object(place: Path) -> dict[str, Any] | None:
    try:
        content = json.loads(place.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None
