"""The live panel of a run on a terminal: level, stage, evaluations, readings and time.

Consumes `tempering.types.Event`s, draws with Rich. `tempering.runs.display` imports it where a terminal is there.
"""

import math
import os
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

from tempering.runs.display import READINGS, is_terminal, place_text
from tempering.runs.words import duration_text
from tempering.types import Event

__all__ = ["Live"]

_DASH = "–"
_COMPILER = os.path.join("jax", "_src", "compiler.py")


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


class Live(Progress):
    """A panel that follows the events: level, stage, evaluations, readings, time.

    The time left of the run is known once a whole level lies behind: those to come are taken to last as long as
    those before. It is held by a row of levels that is not shown.
    """

    def __init__(self, name: str, console: Console):
        self._name, self._readings, self._clock = name, {}, console.get_time
        self._begun = self._level_begun = self._heard = self._clock()
        self._event: Event | None = None
        super().__init__(
            TextColumn("{task.description}", markup=False),
            BarColumn(32),
            _Count(),
            console=console,
            refresh_per_second=4,
            speed_estimate_period=math.inf,
            # Lines printed meanwhile go above the panel, but only where they would have reached a terminal anyway.
            redirect_stdout=is_terminal(sys.stdout),
            redirect_stderr=is_terminal(sys.stderr),
        )

    def observe(self, event: Event) -> None:
        """Take note of one event."""
        with suppress(Exception):
            last, self._event, self._heard = self._event or event, event, self._clock()
            kept = self._readings
            if event.level != last.level:
                kept, self._level_begun = {}, self._clock()  # readings of another level would mislead
            numbers = {name: getattr(event, name) for name in ("temperature", *(name for _, name, _ in READINGS))}
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
            since = now - self._heard
            left = f"~{duration_text(event.seconds_left - since)}" if event.seconds_left > since else _DASH
        times = f"   elapsed {duration_text(now - self._begun)}   left {left}"
        yield Text.assemble((self._name, "bold"), (times, "dim"))
        if event is None:
            yield Text("starting", style="dim")
            return
        place = "   ".join(place_text(event, self._readings.get("temperature")))
        yield Text.assemble(place, ("   compiling" if _is_compiling() else "", "dim"))
        yield self.make_tasks_table(tasks)
        known = ((title, self._readings.get(name), form) for title, name, form in READINGS)
        yield Text("   ".join(f"{title} {_DASH if x is None else form.format(x)}" for title, x, form in known))
        if event.note:
            yield Text(event.note, style="dim")


def _left(task: Task, since: float = 0.0) -> str:
    """An estimate made `since` seconds ago; a dash where there is none or it has run out."""
    seconds = (task.time_remaining or 0.0) - since
    return f"~{duration_text(seconds)}" if seconds > 0 else _DASH
