"""Progress for people: a live display on a terminal, plain lines elsewhere, or nothing.

Consumes `tempering.types.Event`s, produces text on a stream. A display never raises into the computation it watches.
"""

import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

from tempering.runs.words import duration_text
from tempering.types import Event, OnEvent, ignore_event

__all__ = ["choose_display", "duration_text", "event_line", "plain_lines"]

LINE_INTERVAL = 5.0
"""Seconds between two plain lines of the same stage."""
_DASH = "–"
_COMPILER = os.path.join("jax", "_src", "compiler.py")
_READINGS = (("ESS", "ess_fraction", "{:.3f}"), ("acceptance", "acceptance", "{:.2f}"), ("loss", "loss", "{:.4f}"))


@contextmanager
def choose_display(quiet: bool, stream: Any = None, name: str = "tempering") -> Iterator[OnEvent]:
    """The display that suits the stream: none if `quiet`, live on a terminal, plain lines otherwise.

    Args:
        quiet: whether to show nothing.
        stream: any text stream; standard error when None.
        name: of the run, the title of the live display.
    """
    out = _Harmless(sys.stderr if stream is None else stream)
    console = Console(file=out) if _is_terminal(out) else None  # pyright: ignore[reportArgumentType]
    if quiet:
        yield ignore_event
    elif console is None or console.is_dumb_terminal:
        yield plain_lines(out)
    else:
        display = _Live(name, console)
        with suppress(Exception):
            display.start()
        try:
            yield display.observe
        finally:
            with suppress(Exception):
                display.stop()


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


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except (AttributeError, OSError, ValueError):  # no such method, or closed
        return False


def _place_text(event: Event, temperature: float | None) -> list[str]:
    words = [f"level {event.level + 1} of {event.num_levels}"] if event.num_levels else []
    return words + ([] if temperature is None else [f"T = {temperature:.4g}"])


def event_line(event: Event, elapsed: float) -> str:
    """One event as a line of text; what is not known is left out."""
    planned = f" of {event.planned:,}" if event.planned else ""
    parts = [f"[{duration_text(elapsed)}]", *_place_text(event, event.temperature)]
    parts += [f"{event.stage} {event.done:,}/{event.total:,}", f"{event.evaluations:,}{planned} evaluations"]
    readings = [(title, getattr(event, name), form) for title, name, form in _READINGS]
    parts += [f"{title} {form.format(value)}" for title, value, form in readings if value is not None]
    return "  ".join(parts + ([event.note] if event.note else []))


def _is_compiling() -> bool:
    """Whether JAX's compiler is at work for the main thread: it is the only one to know, and its stack shows it."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None:
        if frame.f_code.co_filename.endswith(_COMPILER):
            return True
        frame = frame.f_back
    return False


class _Count(ProgressColumn):
    """How much is done, and of a stage how long the rest will take, from its rate."""

    def render(self, task: Task) -> Text:
        total = _DASH if task.total is None else f"{task.total:,.0f}"
        left = f"  left {_left(task)}" if task.fields["is_stage"] else ""
        return Text.assemble(f"{task.completed:,.0f} of {total}", (left, "dim"))


class _Live(Progress):
    """A panel that follows the events: level, stage, evaluations, readings, time.

    The time left of the run is known once a whole level lies behind: those to come are taken to last as long as
    those before. It is held by a row of levels that is not shown.
    """

    def __init__(self, name: str, console: Console):
        self._name, self._readings, self._clock = name, {}, console.get_time
        self._begun = self._level_begun = self._told = self._clock()
        self._event: Event | None = None
        super().__init__(
            TextColumn("{task.description}", markup=False),
            BarColumn(32),
            _Count(),
            console=console,
            refresh_per_second=4,
            speed_estimate_period=math.inf,
            # Lines printed meanwhile go above the panel, but only where they would have reached a terminal anyway.
            redirect_stdout=_is_terminal(sys.stdout),
            redirect_stderr=_is_terminal(sys.stderr),
        )

    def observe(self, event: Event) -> None:
        """Take note of one event."""
        with suppress(Exception):
            last, self._event, self._told = self._event or event, event, self._clock()
            kept = self._readings
            if event.level != last.level:
                kept, self._level_begun = {}, self._clock()  # readings of another level would mislead
            numbers = {name: getattr(event, name) for name in ("temperature", *(name for _, name, _ in _READINGS))}
            self._readings = {**kept, **{name: value for name, value in numbers.items() if value is not None}}
            if (event.stage, event.level) != (last.stage, last.level) or event.done < last.done:
                self.remove_task(self.task_ids[2])
            rows = (
                ("levels", event.level, event.num_levels),
                ("evaluations", event.evaluations, event.planned),
                (event.stage, event.done, event.total),
            )
            for row, (title, done, total) in enumerate(rows):
                if row < len(self.task_ids):
                    self.update(self.task_ids[row], completed=done, total=total or None)
                else:
                    self.add_task(title, completed=done, total=total or None, visible=row > 0, is_stage=row == 2)

    def get_renderables(self) -> Iterable[RenderableType]:
        """What is shown; called from the display's own thread."""
        event, tasks, now = self._event, self.tasks, self._clock()
        left = _left(tasks[0], now - self._level_begun) if tasks else _DASH
        if event is not None and event.seconds_left is not None:
            since = now - self._told
            left = f"~{duration_text(event.seconds_left - since)}" if event.seconds_left > since else _DASH
        times = f"   elapsed {duration_text(now - self._begun)}   left {left}"
        yield Text.assemble((self._name, "bold"), (times, "dim"))
        if event is None:
            yield Text("starting", style="dim")
            return
        place = "   ".join(_place_text(event, self._readings.get("temperature")))
        yield Text.assemble(place, ("   compiling" if _is_compiling() else "", "dim"))
        yield self.make_tasks_table(tasks)
        known = ((title, self._readings.get(name), form) for title, name, form in _READINGS)
        yield Text("   ".join(f"{title} {_DASH if x is None else form.format(x)}" for title, x, form in known))
        if event.note:
            yield Text(event.note, style="dim")


def _left(task: Task, since: float = 0.0) -> str:
    """An estimate made `since` seconds ago; a dash where there is none or it has run out."""
    seconds = (task.time_remaining or 0.0) - since
    return f"~{duration_text(seconds)}" if seconds > 0 else _DASH
