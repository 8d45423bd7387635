"""A reproduction carried out: what is missing is made, cell after cell, and everything is written down.

A finished cell is read back, from its folder or from a file of results; one that was begun goes on from its last
finished part. Several processes may share a folder: each takes cells that no other holds. Nothing is lost by a stop.
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import jax

from tempering.errors import RunFolderError, TemperingError, first_line
from tempering.lab.reproduce.age import age, commit
from tempering.lab.reproduce.cells import Cell, cell_of
from tempering.lab.reproduce.older import all_older
from tempering.lab.reproduce.records import Record, find_records, read_records
from tempering.lab.reproduce.registry import REPRODUCTIONS, plan_of
from tempering.lab.reproduce.seconds import Expected, expected, known_times
from tempering.lab.reproduce.tasks import carry_out, settings_digest
from tempering.lab.reproduce.view import View
from tempering.plots.style import bytes_of
from tempering.runs.storage import read_json, write_bytes, write_json
from tempering.types import Event, OnEvent, ignore_event

__all__ = ["Planned", "Work", "planned", "show", "work_off"]


@dataclass(frozen=True)
class Work:
    """What is asked for.

    Args:
        name: of the table or figure.
        seeds: None takes the usual ones.
        only: variants or targets to restrict it to.
        folder: where cells are kept while they are made.
        out: where the JSON and the figures go.
        results: the folder of earlier results.
        fresh: make cells again that are older than the code.
        told_commit: where the tree is no checkout of git.
        command: as it was typed.
    """

    name: str
    seeds: list[int] | None = None
    is_quick: bool = False
    only: list[str] | None = None
    folder: Path = Path("runs/reproduce")
    out: Path = Path("results/reproduce")
    results: Path = Path("results")
    fresh: bool = False
    told_commit: str | None = None
    command: str = ""
    root: Path = Path()

    @property
    def file(self) -> Path:
        """The JSON of the reproduction."""
        return self.out / f"{self.name}{'-quick' if self.is_quick else ''}.json"

    def records(self) -> dict[str, Record]:
        """Finished cells of this and of other reproductions."""
        return {**find_records(self.results), **find_records(self.out.parent), **read_records(self.file)}


@dataclass(frozen=True)
class Planned:
    """A cell with its state: done, older than the code, begun, missing or refused; and how long it will take."""

    cell: Cell
    state: str
    record: Record | None = None
    time: Expected = (None, "")
    why: str = ""

    @property
    def is_to_do(self) -> bool:
        """Whether it is going to be worked on."""
        return self.state in ("begun", "missing", "to be made again")


class TimeIsUpError(Exception):
    """The time that was given is over; what is finished is kept."""


def planned(work: Work) -> list[Planned]:
    """Every cell with its state. Nothing is made."""
    records = work.records()
    times = known_times(work.results, records)
    return [_planned(work, cell, records, times) for cell in plan_of(work.name, work.seeds, work.is_quick, work.only)]


def _planned(work: Work, cell: Cell, records: dict[str, Record], times: dict) -> Planned:
    try:
        own = settings_digest(cell)
    except TemperingError as refusal:
        return Planned(cell, "refused", why=first_line(refusal))
    for record in (records.get(cell.key), _kept(work, cell)):
        if record is None or record.get("settings_hash") != own or "failed" in record:
            continue
        if age(work.root, record.get("commit", "unknown")):
            if work.fresh:
                continue
            return Planned(cell, "done, older than the code", record)
        return Planned(cell, "done", record)
    is_begun = (_place(work, cell, own) / "run" / "config.json").exists()
    return Planned(cell, "begun" if is_begun else "missing", None, expected(cell, times))


def _place(work: Work, cell: Cell, own: str) -> Path:
    """A folder for each version of the settings: a cell of other settings is another cell."""
    return cell.folder(work.folder).with_name(f"{cell.folder(work.folder).name}-{own}")


def _kept(work: Work, cell: Cell) -> Record | None:
    file = _place(work, cell, settings_digest(cell)) / "record.json"
    return read_json(file) if file.exists() else None


@contextmanager
def _held(place: Path) -> Iterator[bool]:
    """Whether the cell is ours now; False where another process holds it."""
    from filelock import FileLock, Timeout

    place.mkdir(parents=True, exist_ok=True)
    lock = FileLock(place / "cell.lock", thread_local=False)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


def work_off(
    work: Work,
    most_seconds: float | None = None,
    say: Callable[[str], None] = print,
    on_event: OnEvent = ignore_event,
) -> bool:
    """Make what is missing, as far as the time goes; True if nothing is left. Writes the files after every cell."""
    began, left = time.monotonic(), 0

    def observe(event: Event) -> None:
        on_event(event)
        if most_seconds is not None and time.monotonic() - began > most_seconds:
            raise TimeIsUpError

    for plan in planned(work):
        if not plan.is_to_do:
            continue
        if most_seconds is not None and time.monotonic() - began > most_seconds:
            left += 1
            continue
        place = _place(work, plan.cell, settings_digest(plan.cell))
        with _held(place) as is_ours:
            if not is_ours:
                say(f"{plan.cell.key}: another process is at it")
                left += 1
                continue
            if _kept(work, plan.cell) is not None and not work.fresh:  # finished by another process meanwhile
                continue
            say(f"{plan.cell.key}: {plan.state}")
            try:
                record = _made(work, plan.cell, place, observe)
            except TimeIsUpError:
                say(f"{plan.cell.key}: the time is up; the same command goes on from its last finished part")
                left += 1
                continue
            except RunFolderError as error:  # what it needs is in use, or damaged; the rest can be made
                say(f"{plan.cell.key}: not made: {error}")
                left += 1
                continue
        if "failed" in record:
            say(f"{plan.cell.key}: FAILED: {record['failed']}")
        write(work)
    write(work)
    return left == 0


def _made(work: Work, cell: Cell, place: Path, on_event: OnEvent) -> Record:
    about = {
        "key": cell.key,
        "kind": cell.kind,
        "name": cell.name,
        "seed": cell.seed,
        "is_quick": cell.is_quick,
        "settings_hash": settings_digest(cell),
        "commit": commit(work.root, work.told_commit),
        "at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    try:
        fit_place = _fit_of(work, cell, on_event) if cell.kind == "refit" else None
        record = {**carry_out(cell, place, on_event, fit_place), **about}
    except (TimeIsUpError, RunFolderError, KeyboardInterrupt):
        raise
    except Exception as error:  # a long list must not end with one cell; the failure is kept and shown
        record = {**about, "device": jax.devices()[0].device_kind, "failed": f"{type(error).__name__}: {error}"[:500]}
    write_json(place / ("failure.json" if "failed" in record else "record.json"), _plain(record))
    return record


def _fitting(cell: Cell) -> Cell:
    """The fit that a refit is of."""
    return Cell("fit", cell.name, cell.seed, cell.budget, cell.is_quick)


def _fit_of(work: Work, cell: Cell, on_event: OnEvent) -> Path:
    """The folder of the fit behind a refit, made where it is missing; its record is kept too.

    Raises:
        RunFolderError: if another process is at it.
        RuntimeError: if it failed.
    """
    fit = _fitting(cell)
    place = _place(work, fit, settings_digest(fit))
    if not (place / "run" / "result.json").exists() or _kept(work, fit) is None:
        with _held(place) as is_ours:
            if not is_ours:
                raise RunFolderError(f"{fit.key} is in use by another process")
            record = _made(work, fit, place, on_event)
        if "failed" in record:
            raise RuntimeError(f"its fit failed: {record['failed']}")
    return place


def _plain(record: Record) -> Record:
    """As JSON has it: without NaN and infinities."""
    return json.loads(json.dumps(record), parse_constant=lambda _: None)


def _failures(work: Work, cell: Cell) -> Record | None:
    file = _place(work, cell, settings_digest(cell)) / "failure.json"
    return read_json(file) if file.exists() else None


def write(work: Work) -> None:
    """The JSON of what is finished, and the figure as PNG and SVG. A cell that failed is among it."""
    known, records = work.records(), []
    cells = plan_of(work.name, work.seeds, work.is_quick, work.only)
    for cell in [*cells, *(each for each in plan_of(work.name, None, work.is_quick) if each not in cells)]:
        try:
            own = settings_digest(cell)
        except TemperingError:
            continue
        kept, before = _kept(work, cell), known.get(cell.key)
        same = [record for record in (kept, before) if record is not None and record["settings_hash"] == own]
        good = [record for record in same if "failed" not in record]
        latest = max(good, key=lambda record: record["at"], default=None) or _failures(work, cell)
        if latest is not None:
            records.append(latest)
    for fit in [_fitting(cell) for cell in cells if cell.kind == "refit"]:  # the figure needs what the fits cost
        found = _kept(work, fit) or known.get(fit.key)
        records += [found] if found is not None else []
    if not records:
        return
    content = {
        "name": work.name,
        "is_quick": work.is_quick,
        "command": work.command,
        "commits": sorted({record["commit"] for record in records}),
        "seeds": sorted({record["seed"] for record in records}),
        "devices": sorted({record["device"] for record in records}),
        "records": [_plain(record) for record in records],
    }
    write_bytes(work.file, (json.dumps(content, indent=None, separators=(",", ":")) + "\n").encode())
    draw = REPRODUCTIONS[work.name].figure
    if draw is not None:
        picture = draw(view_of(work))
        for form in ("png", "svg"):
            write_bytes(work.file.with_suffix(f".{form}"), bytes_of(picture, form))


def view_of(work: Work) -> View:
    """What the table and the figure of a reproduction see."""
    records = {key: _told_apart(record) for key, record in work.records().items()}
    return View(records, all_older(work.results), work.is_quick, work.root)


def _told_apart(record: Record) -> Record:
    """A record that says so where its settings are not those of its cell now."""
    try:
        is_same = record["settings_hash"] == settings_digest(cell_of(record["key"]))
    except TemperingError:  # of a preset that is gone
        is_same = False
    return record if is_same else {**record, "changed": "those of the preset at that commit, which have changed since"}


def show(work: Work) -> str:
    """The table as text, with what it is."""
    from tempering.lab.reproduce.variants import quick_words

    view = view_of(work)
    if work.is_quick:
        view.note(f"{quick_words('lj55')}.")
    return REPRODUCTIONS[work.name].table(view).text()
