"""What tables and figures see: the records of a reproduction by variant, with means over seeds and marks of age.

Quick records and full ones never meet. Runs of older files stand in where a variant has no record of its own, and are
marked so. Rows made with changed settings carry a note.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tempering.lab.reproduce.age import made_at
from tempering.lab.reproduce.cells import Cell
from tempering.lab.reproduce.records import summarise
from tempering.lab.reproduce.variants import exists

__all__ = ["Found", "Table", "View", "number", "with_error"]

_LARGEST = 1e4


@dataclass(frozen=True)
class Found:
    """The records of one variant, all seeds.

    Args:
        status: why there are none, in words; empty where there are some.
    """

    runs: list[dict[str, Any]]
    summary: dict[str, dict]
    status: str = ""
    made: str = "–"

    @property
    def good(self) -> list[dict[str, Any]]:
        """Those that did not fail."""
        return [run for run in self.runs if "failed" not in run]

    @property
    def seeds(self) -> str:
        """How many there are, how many failed, and whether they are of other settings than the variant's."""
        if not self.runs:
            return self.status
        failed, is_cut = len(self.runs) - len(self.good), any(run.get("changed") for run in self.runs)
        return f"{len(self.runs)}" + (f", {failed} failed" if failed else "") + (", other settings" if is_cut else "")

    def metric(self, *names: str, digits: int = 2) -> str:
        """The first of these metrics that there is: mean ± standard error (floor)."""
        for name in names:
            row = self.summary.get(name)
            if row is not None and row["mean"] is not None:
                return with_error(row["mean"], row["error"], digits, row.get("floor"))
        return "–"


@dataclass
class View:
    """All records that a table or figure may show."""

    records: dict[str, dict[str, Any]]
    older: dict[str, dict[str, Any]]
    is_quick: bool
    root: Path
    notes: list[str] = field(default_factory=list)

    def of(self, name: str, kind: Any = "fit", budget: int | None = None) -> Found:
        """The records of a variant; a note is left where they are not of its own settings."""
        prefix = Cell(kind, name, 0, budget, self.is_quick).key.split("/")[0] + "/"
        own = [record for key, record in self.records.items() if self._is_of(key, prefix)]
        if not own and not self.is_quick:
            own = [record for key, record in self.older.items() if self._is_of(key, prefix)]
        if not own:
            return Found([], {}, "not run" if kind != "fit" or exists(name) else "no preset yet")
        own.sort(key=lambda record: record["seed"])
        for record in own:
            if record.get("changed"):
                self.note(
                    f"`{name}` was run with other settings: {record['changed']} ({record.get('file', 'its record')})."
                )
        commits = [record.get("commit", "unknown") for record in own]
        return Found(own, summarise(own) if kind in ("fit", "refit") else {}, "", made_at(self.root, commits))

    def _is_of(self, key: str, prefix: str) -> bool:
        return key.startswith(prefix) and key.endswith("/quick") == self.is_quick

    def note(self, text: str) -> None:
        """A sentence below the table, once."""
        if text not in self.notes:
            self.notes.append(text)


@dataclass
class Table:
    """Rows of text with a header, and sentences below."""

    header: list[str]
    rows: list[list[str]]
    notes: list[str] = field(default_factory=list)

    def markdown(self) -> str:
        """As a table of a page."""
        lines = ["| " + " | ".join(self.header) + " |", "|" + " --- |" * len(self.header)]
        lines += ["| " + " | ".join(row) + " |" for row in self.rows]
        return "\n".join([*lines, *(f"\n{note}" for note in self.notes)])

    def text(self) -> str:
        """As lines of a terminal."""
        widths = [max(len(row[place]) for row in [self.header, *self.rows]) for place in range(len(self.header))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
                 for row in [self.header, *self.rows]]  # fmt: skip
        return "\n".join([*lines, *self.notes])


def number(value: int | float, digits: int) -> str:
    """A number, in powers of ten where it is astronomical."""
    return f"{value:.{digits}f}" if abs(value) < _LARGEST else f"{value:.1e}"


def with_error(
    value: int | float, error: int | float | None = None, digits: int = 2, floor: int | float | None = None
) -> str:
    """value ± error (floor)."""
    text = number(value, digits)
    if error is not None:
        text += f" ± {number(error, digits)}"
    return text + (f" ({number(floor, digits)})" if floor is not None else "")
