"""Who follows a run: the display, the logger `tempering`, a user's callback, and a clock.

Consumes `Event`s and hands each to all observers. There is one stream of events, and every way to follow a run listens
to it.
"""

import json
import logging
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from tempering.errors import SettingsError, what_is
from tempering.runs.display import choose_display, event_line
from tempering.runs.forecast import with_time_left
from tempering.runs.progress import noted, read_entries
from tempering.runs.storage import write_bytes
from tempering.types import Event, OnEvent, ignore_event

__all__ = [
    "Stopwatch",
    "check_callback",
    "evaluations_of",
    "followed",
    "logged",
    "read_seconds",
    "watching",
    "write_seconds",
]

LOGGER = logging.getLogger("tempering")
"""Every new stage of a run is a record of level INFO, every other event one of level DEBUG."""
LOGGER.addHandler(logging.NullHandler())

STATS = "stats.jsonl"
_LEDGER_STAGES = {
    "searching for modes": "atlas",
    "fitting the modes": "reference",
    "drawing from modes": "atlas",  # the name of this stage in older folders
    "learning coordinates": "shape",
    "pilot": "pilot",
    "initial PT": "initial_pt",
    "drawing from the modes": "importance_weights",
    "guided sampling": "importance_weights",
    "drawing": "importance_weights",
    "refinement": "refinement",
    "final weights": "final_weights",
}
"""What a stage of the display is called in the ledger, where it evaluates the density."""


def evaluations_of(stage: str) -> str | None:
    """The ledger's name of what a stage of an event evaluates; None for one that evaluates nothing."""
    return _LEDGER_STAGES.get(stage)


class Stopwatch:
    """Wall time by stage, from the times of events. Time between two events counts for the earlier one's stage.

    A stage that reports only when it is done gets the time before its report. What comes before the first event is
    `starting`, and what comes after the last one belongs to its stage.

    Args:
        store: where a line is written when a stage ends, so that a killed run keeps what it had; in a folder that
            earlier processes worked on, their seconds count as well.
    """

    def __init__(self, store: Any = None, clock: Callable[[], float] = time.monotonic):
        path = getattr(store, "path", None)
        self.seconds: dict[str, float] = {} if path is None else read_seconds(path)
        self._store, self._clock = store, clock
        self._last, self._stage, self._open = clock(), "starting", 0.0

    def observe(self, event: Event) -> None:
        """Take note of one event."""
        is_new, is_over = event.stage != self._stage, 0 < event.total <= event.done
        if is_new and is_over:  # it says so only now that it is over
            self._change(event.stage)
        now = self._clock()
        self._open, self._last = self._open + now - self._last, now
        if is_new and not is_over:
            self._change(event.stage)

    def so_far(self) -> dict[str, float]:
        """Seconds by stage, with those of the stage that goes on."""
        going_on = self._open + self._clock() - self._last
        return {**self.seconds, self._stage: self.seconds.get(self._stage, 0.0) + going_on}

    def stop(self) -> dict[str, float]:
        """End the last stage; seconds by stage."""
        now = self._clock()
        self._open, self._last = self._open + now - self._last, now
        self._change("finishing")
        return self.seconds

    def _change(self, stage: str) -> None:
        if self._open > 0:
            took = round(self._open, 3)
            self.seconds[self._stage] = round(self.seconds.get(self._stage, 0.0) + took, 3)
            if self._store is not None:
                self._store.log({"event": "stage", "stage": self._stage, "took": took})
        self._stage, self._open = stage, 0.0


@contextmanager
def followed(
    progress: bool,
    callback: OnEvent | None,
    store: Any = None,
    expected: dict[str, float] | None = None,
    hosts: Any = None,
) -> Iterator[tuple[OnEvent, Stopwatch]]:
    """One observer that hands every event to clock, display, logger and callback; and that clock.

    Args:
        progress: whether to show a display.
        callback: the user's; what it raises ends the run, which can be resumed where it has a folder.
        store: of the run, for the clock.
        expected: seconds by stage of a like run.
        hosts: of a density on the host (`adapters.hosting`), which has more to show while workers are busy.
    """
    watch, path = Stopwatch(store), getattr(store, "path", None)
    with (
        choose_display(quiet=not progress) as shown,
        nullcontext(shown) if path is None else noted(path, shown) as told,
    ):
        told = told if hosts is None else hosts.telling(told)
        others = with_time_left(expected, watch.so_far, watching(told, logged(), callback or ignore_event))
        yield watching(watch.observe, others), watch


def watching(*observers: OnEvent) -> OnEvent:
    """All observers as one."""

    def on_event(event: Event) -> None:
        for observer in observers:
            observer(event)

    return on_event


def logged() -> OnEvent:
    """Events as records of the logger."""
    last, begun = None, time.monotonic()

    def on_event(event: Event) -> None:
        nonlocal last
        place = (event.stage, event.level)
        level = logging.DEBUG if place == last else logging.INFO
        last = place
        if LOGGER.isEnabledFor(level):
            LOGGER.log(level, event_line(event, time.monotonic() - begun), extra={"event": event})

    return on_event


def check_callback(callback: Any) -> None:
    """Refuse a callback that cannot be called."""
    if callback is not None and not callable(callback):
        raise SettingsError(f"callback is {what_is(callback)}; give a function of one event, or None")


def read_seconds(folder: Path) -> dict[str, float]:
    """Seconds by stage over all processes that worked on a folder; lines that are damaged are skipped."""
    seconds: dict[str, float] = {}
    for entry in read_entries(folder):
        stage, took = entry.get("stage"), entry.get("took")
        if isinstance(stage, str) and isinstance(took, int | float) and math.isfinite(took):
            seconds[stage] = round(seconds.get(stage, 0.0) + took, 3)
    return seconds


def write_seconds(folder: Path, seconds: dict[str, float]) -> None:
    """Seconds by stage as the statistics of a folder that has none of its own."""
    if not seconds or (folder / STATS).exists():
        return
    lines = [json.dumps({"seconds": 0.0, "event": "start"})]
    total = 0.0
    for stage, took in seconds.items():
        total += took
        lines.append(json.dumps({"seconds": round(total, 3), "event": "stage", "stage": stage, "took": took}))
    write_bytes(folder / STATS, ("\n".join(lines) + "\n").encode())
