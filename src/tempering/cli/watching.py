"""`tempering watch`: a run's folder looked at from another terminal. Reads files only; the run does not notice."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tempering.errors import TemperingError
from tempering.runs.progress import State, duration_text, read_state
from tempering.settings import require_positive

__all__ = ["is_in_use", "view", "watch"]

_DASH = "–"
_SILENT = 10.0
"""Seconds without an event after which that is said."""
_COLUMNS = (("T", "temperature", "{:.4g}"), ("ESS", "ess_fraction", "{:.3f}"), ("Pareto k", "pareto_k", "{:.2f}"))


def watch(folder: Path, once: bool, report: bool, every: float) -> int:
    """Show where a run is until it ends; the exit code is 1 if its process ended before the run did."""
    require_positive("--every", every)
    console = Console()
    state = _state(folder)
    if once:
        console.print(view(state))
    elif console.is_terminal:
        with Live(view(state), console=console, refresh_per_second=4, transient=False) as live:
            state = _follow(folder, state, every, report, lambda new: live.update(view(new)))
    else:
        console.print(view(state))
        state = _follow(folder, state, every, report, lambda new: print(_line(new), flush=True))
        console.print(view(state))
    if state.status == "stopped":
        print(
            f"tempering: the process of this run has ended; `tempering resume {folder}` goes on from the last finished "
            "part, and a fit of tp.fit goes on if you make the same call",
            file=sys.stderr,
        )
        return 1
    return 0


def _follow(folder: Path, state: State, every: float, report: bool, show: Callable[[State], None]) -> State:
    num_parts = -1
    while True:
        if report and state.num_parts != num_parts:
            num_parts = state.num_parts
            _write_report(folder)
        if state.status != "running":
            return state
        time.sleep(every)
        state = _state(folder)
        show(state)


def _write_report(folder: Path) -> None:
    from tempering.lab.report import make_report

    try:
        make_report(folder)
    except TemperingError as error:  # of a file that is being written, or a package that is missing
        print(f"tempering: no report: {error}", file=sys.stderr)


def _state(folder: Path) -> State:
    """Where the run is. Whoever works on a folder holds its lock, so that a killed run is told from a slow one."""
    import dataclasses

    is_used, state = is_in_use(folder), read_state(folder)
    if is_used:
        return dataclasses.replace(state, status="running")
    if state.status == "running":  # it may have ended between the two looks
        state = read_state(folder)
        if state.status == "running":
            return dataclasses.replace(state, status="stopped", seconds=state.seconds - state.silence, silence=0.0)
    return state


def is_in_use(folder: Path) -> bool:
    """Whether a process works on the folder."""
    place = folder / ".lock"
    if not place.is_file():
        return False
    from filelock import FileLock, Timeout

    lock = FileLock(place, thread_local=False)
    try:
        lock.acquire(blocking=False)
    except (Timeout, OSError):  # a disk that cannot be locked does not say that nobody is there
        return True
    lock.release()
    return False


def view(state: State) -> RenderableType:
    """The state of a run as a panel."""
    event = state.event
    head = Text.assemble((state.name, "bold"), (f"   {state.status}", "dim"), (_times(state), "dim"))
    parts: list[RenderableType] = [head]
    planned = event.get("planned") or state.budget
    spent = f"{state.evaluations:,}" + (f" of {planned:,}" if planned else "")
    spent += ", in finished parts" if state.status == "stopped" and not event else ""
    bars = Table.grid(padding=(0, 2))
    bars.add_row("evaluations", _bar(state.evaluations, planned), spent)
    if state.status == "running" and event:
        where = f"{event.get('done', 0):,} of {event.get('total', 0):,}"
        bars.add_row(str(event.get("stage")), _bar(event.get("done"), event.get("total")), where)
    parts.append(bars)
    if state.status == "running" and (left := _stage_left(event)):
        parts.append(Text(left, style="dim"))
    if state.status == "running" and state.silence > _SILENT:
        parts.append(
            Text(f"no news for {duration_text(state.silence)}: the run is compiling, or in a long step", style="dim")
        )
    if state.status == "running" and not event:
        parts.append(Text("the run is starting or compiling; it has reported nothing yet", style="dim"))
    if state.status == "running" and event.get("note"):
        parts.append(Text(str(event["note"]), style="dim"))
    if state.levels:
        parts.append(_levels(state))
    if state.verdict:
        parts.append(Text(f"verdict: {state.verdict}"))
    return Group(*parts)


def _times(state: State) -> str:
    left = state.event.get("seconds_left") if state.status == "running" else None
    known = f"   left {duration_text(left)}" if isinstance(left, int | float) else ""
    so_far = " so far" if state.status == "running" else ""
    return f"   {duration_text(state.seconds)}{so_far}{known}"


def _stage_left(event: dict[str, Any]) -> str:
    """What is left of the stage at the rate that it had so far; nothing before a tenth of it is done."""
    done, total, seconds = (event.get(name) or 0 for name in ("done", "total", "stage_seconds"))
    if not total or done < 0.1 * total or done >= total or seconds <= 0:
        return ""
    return f"about {duration_text(seconds * (total - done) / done)} left in this stage"


def _bar(done: Any, total: Any) -> RenderableType:
    return ProgressBar(total=float(total), completed=min(float(done or 0), float(total)), width=24) if total else ""


def _levels(state: State) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("level", *(title for title, _, _ in _COLUMNS), "evaluations"):
        table.add_column(title, justify="right")
    for number, record in state.levels.items():
        cells = [(record.get(name), form) for _, name, form in _COLUMNS]
        spent = sum((record.get("evaluations") or {}).values())
        table.add_row(
            str(number + 1), *(_DASH if value is None else form.format(value) for value, form in cells), f"{spent:,}"
        )
    return table


def _line(state: State) -> str:
    """The state on one line, where there is no terminal."""
    event = state.event
    planned = event.get("planned") or state.budget
    parts = [f"[{duration_text(state.seconds)}]", state.status]
    if event:
        parts.append(f"{event.get('stage')} {event.get('done', 0):,}/{event.get('total', 0):,}")
    return "  ".join([*parts, f"{state.evaluations:,}" + (f" of {planned:,}" if planned else "") + " evaluations"])
