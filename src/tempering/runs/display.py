"""Progress for people: a live display on a terminal, plain lines elsewhere, or nothing.

Consumes `tempering.types.Event`s, produces text on a stream. A display never raises into the computation it watches,
and does no work an event that a clock reading and a few assignments do not cover.
"""

import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any, Protocol, cast, runtime_checkable

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tempering.types import Event, OnEvent, ignore_event

__all__ = ["Pace", "choose_display", "duration_text", "live_display", "plain_lines", "quiet"]

Clock = Callable[[], float]

REFRESHES_PER_SECOND = 4
LINE_INTERVAL = 5.0
"""Seconds between two plain lines of the same stage."""
_DASH = "–"
_READINGS = (("ESS", "ess_fraction", "{:.3f}"), ("acceptance", "acceptance", "{:.2f}"), ("loss", "loss", "{:.4f}"))


@runtime_checkable
class Stream(Protocol):
    """What plain lines are written to: any text stream will do."""

    def write(self, text: str, /) -> Any: ...

    def flush(self) -> Any: ...


quiet: OnEvent = ignore_event
"""The display that shows nothing."""


def duration_text(seconds: int | float) -> str:
    """A duration as people say it: 4.2 s, 3 min 07 s, 2 h 05 min."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes = round(seconds) // 60
    if minutes < 60:
        return f"{minutes} min {round(seconds) % 60:02d} s"
    return f"{minutes // 60:,} h {minutes % 60:02d} min"


class Pace:
    """How fast a run goes, and how long it will take as far as that is known.

    A stage's rate counts from its first event, so compiling is not taken for work. The rest of the run is known once
    a whole level of the same stages lies behind: the levels to come are taken to last as long as the latest one did.
    Stages after the last level are not foreseen. An estimate without such ground, or one that has run out, is None.
    """

    def __init__(self, clock: Clock = time.monotonic):
        self._clock = clock
        self._start = clock()
        self._event: Event | None = None
        self._seen = self._stage_start = self._level_start = self._start
        self._first_done = 0
        self._level_stages: set[str] = set()
        self._latest_level: tuple[float, frozenset[str]] | None = None

    def observe(self, event: Event) -> None:
        """Take note of one event."""
        now, last = self._clock(), self._event
        if last is None or event.level != last.level:
            if last is not None and event.level > last.level:
                self._latest_level = (now - self._level_start, frozenset(self._level_stages))
            self._level_start, self._level_stages = now, set()
        if last is None or (event.stage, event.level) != (last.stage, last.level) or event.done < last.done:
            self._stage_start, self._first_done = now, event.done
        self._level_stages.add(event.stage)
        self._event, self._seen = event, now

    def elapsed(self) -> float:
        """Seconds since the display began."""
        return self._clock() - self._start

    def stage_left(self) -> float | None:
        """Seconds until the stage is done, or None."""
        event = self._event
        if event is None or event.done <= self._first_done:
            return None
        rate = (event.done - self._first_done) / max(self._seen - self._stage_start, 1e-9)
        return _positive((event.total - event.done) / rate - (self._clock() - self._seen))

    def run_left(self) -> float | None:
        """Seconds until the last level is done, or None."""
        event = self._event
        if event is None or self._latest_level is None or event.num_levels <= event.level:
            return None
        duration, stages = self._latest_level
        if not self._level_stages <= stages:
            return None
        spent = self._clock() - self._level_start
        return _positive(max(0.0, duration - spent) + duration * (event.num_levels - 1 - event.level))


def _positive(seconds: float) -> float | None:
    return seconds if seconds > 0 else None


@contextmanager
def live_display(name: str, console: Console | None = None) -> Iterator[OnEvent]:
    """A panel on the terminal that follows the events: level, stage, evaluations, readings, time.

    The cursor comes back however the block ends.

    Args:
        name: of the run.
        console: where to draw; standard error when None.
    """
    console = console or _Console(stderr=True)
    view = _View(name)
    live = _Live(
        get_renderable=view.render,
        console=console,
        refresh_per_second=REFRESHES_PER_SECOND,
        # Lines printed meanwhile go above the panel, but only where they would have reached a terminal anyway.
        redirect_stdout=_is_terminal(sys.stdout),
        redirect_stderr=_is_terminal(sys.stderr),
    )
    with suppress(Exception):
        live.start()
    try:
        yield view.observe
    finally:
        with suppress(Exception):
            live.stop()
        with suppress(Exception):
            console.show_cursor(True)


def plain_lines(stream: Stream, interval: float = LINE_INTERVAL, clock: Clock = time.monotonic) -> OnEvent:
    """A line at each new stage or level, and else at most one every `interval` seconds: for logs and pipes."""
    start, last_place, last_time = clock(), None, -math.inf

    def on_event(event: Event) -> None:
        nonlocal last_place, last_time
        now, place = clock(), (event.stage, event.level)
        if place == last_place and now - last_time < interval:
            return
        last_place, last_time = place, now
        with suppress(Exception):  # a full disk or a closed pipe must not end the run
            stream.write(_line(event, now - start) + "\n")
            stream.flush()

    return on_event


@contextmanager
def choose_display(quiet: bool, stream: Stream | None = None, name: str = "tempering") -> Iterator[OnEvent]:
    """The display that suits the stream: none if `quiet`, live on a terminal, plain lines otherwise.

    Args:
        quiet: whether to show nothing.
        stream: where to write; standard error when None.
        name: of the run, the title of the live display.
    """
    out: Stream = sys.stderr if stream is None else stream
    if quiet:
        yield ignore_event
        return
    console = _Console(file=cast(IO[str], out)) if _is_terminal(out) else None
    if console is None or console.is_dumb_terminal:
        yield plain_lines(out)
        return
    with live_display(name, console) as on_event:
        yield on_event


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except (AttributeError, OSError, ValueError):  # no such method, or closed
        return False


def _place_text(event: Event) -> str:
    return f"level {event.level + 1} of {event.num_levels}" if event.num_levels else ""


def _line(event: Event, elapsed: float) -> str:
    """One event as a line of text; what is not known is left out."""
    parts = [f"[{duration_text(elapsed)}]", _place_text(event)]
    parts += [f"T = {event.temperature:.4g}"] if event.temperature is not None else []
    parts += [f"{event.stage} {event.done:,}/{event.total:,}"]
    planned = f" of {event.planned:,}" if event.planned else ""
    parts += [f"{event.evaluations:,}{planned} evaluations"]
    readings = [(title, getattr(event, name), form) for title, name, form in _READINGS]
    parts += [f"{title} {form.format(value)}" for title, value, form in readings if value is not None]
    return "  ".join(part for part in parts if part)


class _Console(Console):
    """Rich ends the process when its pipe breaks; a display must not."""

    def on_broken_pipe(self) -> None:
        self.quiet = True


class _Live(Live):
    """A frame that cannot be drawn (the terminal is gone) is skipped, in the display's thread and at the end."""

    def refresh(self) -> None:
        with suppress(Exception):
            super().refresh()


class _View:
    """What the live display shows; events come from the computation, `render` from the display's own thread."""

    def __init__(self, name: str, clock: Clock = time.monotonic):
        self._name, self._pace, self._lock = name, Pace(clock), threading.Lock()
        self._event: Event | None = None
        self._readings: dict[str, float] = {}

    def observe(self, event: Event) -> None:
        with suppress(Exception), self._lock:
            if self._event is None or event.level != self._event.level:
                self._readings = {}  # those of another level would mislead
            numbers = {name: getattr(event, name) for name in ("temperature", *(name for _, name, _ in _READINGS))}
            self._readings |= {name: value for name, value in numbers.items() if value is not None}
            self._pace.observe(event)
            self._event = event

    def render(self) -> RenderableType:
        try:
            with self._lock:
                return self._panel()
        except Exception as error:  # in the display's thread, where nobody would catch it
            return Text(f"{self._name}: no display ({error})")

    def _panel(self) -> RenderableType:
        event, pace = self._event, self._pace
        head = Table.grid(expand=True, padding=(0, 2))
        head.add_column(no_wrap=True, ratio=1)
        head.add_column(no_wrap=True, justify="right")
        times = Text.assemble(
            ("elapsed ", "dim"), duration_text(pace.elapsed()), ("  left ", "dim"), _left(pace.run_left())
        )
        head.add_row(Text(self._name, style="bold"), times)
        if event is None:
            return Group(head, Text("starting", style="dim"))
        temperature = self._readings.get("temperature")
        where = [_place_text(event), "" if temperature is None else f"T = {temperature:.4g}"]
        rows = Table.grid(padding=(0, 2))
        rows.add_column(no_wrap=True, style="dim", min_width=15)
        rows.add_column(width=32)
        rows.add_column(no_wrap=True)
        rows.add_row("evaluations", _bar(event.evaluations, event.planned), _of(event.evaluations, event.planned))
        left = Text.assemble(_of(event.done, event.total), ("  left ", "dim"), _left(pace.stage_left()))
        rows.add_row(event.stage, _bar(event.done, event.total), left)
        return Group(head, Text("   ".join(part for part in where if part)), rows, self._numbers())

    def _numbers(self) -> Text:
        text = Text()
        for title, name, form in _READINGS:
            value = self._readings.get(name)
            text.append(f"{title} ", "dim").append(f"{_DASH if value is None else form.format(value)}   ")
        return text


def _bar(done: int, total: int) -> ProgressBar:
    return ProgressBar(total=total or None, completed=min(done, total), pulse=not total, width=32)


def _of(done: int, total: int) -> str:
    return f"{done:,} of {total:,}" if total else f"{done:,} of {_DASH}"


def _left(seconds: float | None) -> str:
    return _DASH if seconds is None else f"~{duration_text(seconds)}"
