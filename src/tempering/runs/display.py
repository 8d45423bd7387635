"""Progress for people: a live display on a terminal, plain lines elsewhere, or nothing.

Consumes `tempering.types.Event`s, produces text on a stream. A display never raises into the computation it watches.
"""

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from tempering.runs.words import duration_text
from tempering.types import Event, OnEvent, ignore_event

__all__ = ["READINGS", "choose_display", "duration_text", "event_line", "is_terminal", "place_text", "plain_lines"]

LINE_INTERVAL = 5.0
"""Seconds between two plain lines of the same stage."""
READINGS = (("ESS", "ess_fraction", "{:.3f}"), ("acceptance", "acceptance", "{:.2f}"), ("loss", "loss", "{:.4f}"))
"""Numbers of an event that are shown: title, name of the field, format."""


@contextmanager
def choose_display(quiet: bool, stream: Any = None, name: str = "tempering") -> Iterator[OnEvent]:
    """The display that suits the stream: none if `quiet`, live on a terminal, plain lines otherwise.

    Args:
        quiet: whether to show nothing.
        stream: any text stream; standard error when None.
        name: of the run, the title of the live display.
    """
    out = _Harmless(sys.stderr if stream is None else stream)
    if quiet:
        yield ignore_event
        return
    live = _live_display(name, out) if is_terminal(out) else None
    if live is None:
        yield plain_lines(out)
        return
    with suppress(Exception):
        live.start()
    try:
        yield live.observe
    finally:
        with suppress(Exception):
            live.stop()


def _live_display(name: str, stream: Any) -> Any:
    """The panel, or None on a terminal that cannot move its cursor."""
    from rich.console import Console  # here: most imports of the package show nothing

    from tempering.runs.live import Live

    console = Console(file=stream)
    return None if console.is_dumb_terminal else Live(name, console)


def plain_lines(stream: Any, interval: float = LINE_INTERVAL, clock: Callable[[], float] = time.monotonic) -> OnEvent:
    """A line at each new stage or level, and else at most one every `interval` seconds: for logs and pipes."""
    start, last_place, last_time = clock(), None, -math.inf

    def on_event(event: Event) -> None:
        nonlocal last_place, last_time
        now, place = clock(), (event.stage, event.level)
        if place != last_place or now - last_time >= interval:
            last_place, last_time = place, now
            stream.write(event_line(event, now - start) + "\n")
            stream.flush()

    return on_event


class _Harmless:
    """A stream that keeps its failures to itself: a full disk or a closed pipe must not end the run."""

    def __init__(self, stream: Any):
        self._stream = stream

    def write(self, text: str) -> None:
        with suppress(Exception):
            self._stream.write(text)

    def flush(self) -> None:
        with suppress(Exception):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def is_terminal(stream: Any) -> bool:
    """Whether a stream is a terminal; a closed one is none."""
    try:
        return bool(stream.isatty())
    except (AttributeError, OSError, ValueError):  # no such method, or closed
        return False


def place_text(event: Event, temperature: float | None) -> list[str]:
    """Level and temperature in words; nothing for what is not known."""
    words = [f"level {event.level + 1} of {event.num_levels}"] if event.num_levels else []
    return words + ([] if temperature is None else [f"T = {temperature:.4g}"])


def event_line(event: Event, elapsed: float) -> str:
    """One event as a line of text; what is not known is left out."""
    planned = f" of {event.planned:,}" if event.planned else ""
    parts = [f"[{duration_text(elapsed)}]", *place_text(event, event.temperature)]
    parts += [f"{event.stage} {event.done:,}/{event.total:,}", f"{event.evaluations:,}{planned} evaluations"]
    readings = [(title, getattr(event, name), form) for title, name, form in READINGS]
    parts += [f"{title} {form.format(value)}" for title, value, form in readings if value is not None]
    return "  ".join(parts + ([event.note] if event.note else []))
