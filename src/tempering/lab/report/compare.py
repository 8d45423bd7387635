"""Runs side by side: a table for the terminal, and a page. Consumes folders, produces text; evaluates nothing."""

import itertools
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tempering.errors import RunFolderError, SettingsError, require_extra
from tempering.lab.report.contents import Story, read_contents
from tempering.lab.report.page import rendered
from tempering.lab.report.rows import badge_of, cards
from tempering.lab.report.tables import quality_rows
from tempering.plots.contents import number_of
from tempering.runs.storage import as_path, write_bytes
from tempering.runs.words import DASH, number_text, with_error
from tempering.sampler.html import small_histogram
from tempering.sampler.words import table_lines
from tempering.weights.estimates import Estimate

__all__ = ["Comparison", "compare_lines", "compare_page", "compare_runs"]

MARK = "tempering compare"
"""In every page of this kind, which alone may be replaced."""
FAR = 4.0
"""Standard errors between two runs from which they are said to disagree."""
MOST_PARAMETERS = 30


@dataclass(frozen=True)
class Comparison:
    """Runs side by side.

    Args:
        stories: one per run.
        names: of the runs, each another.
        rows: what, and its value in every run.
        parameters: name, the text of every run (a dash for one without draws), and how far apart two runs are, in
            standard errors.
        notes: what a reader should know, in words.
    """

    stories: tuple[Story, ...]
    names: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]
    parameters: tuple[tuple[str, tuple[str, ...], float | None], ...]
    notes: tuple[str, ...]


def compare_runs(folders: list[Path]) -> Comparison:
    """Read runs and put them side by side.

    Raises:
        SettingsError: for fewer than two folders, or the same one twice.
        RunFolderError: if one is not the folder of a run, or is damaged.
    """
    places = [as_path(folder) for folder in folders]
    if len(places) < 2:
        raise SettingsError("compare takes two folders or more, such as `tempering compare runs/a runs/b`")
    if len({place.resolve() for place in places}) < len(places):
        raise SettingsError("the same folder is given twice; compare takes folders of different runs")
    stories = tuple(read_contents(place) for place in places)
    names = _names(places, stories)
    rows = [("verdict", tuple(badge_of(story)["word"] for story in stories))]
    made = [cards(story) for story in stories]
    rows += [(name, tuple(own[k][1] for own in made)) for k, (name, _, _) in enumerate(made[0])]
    for name, value in (
        ("effective share", lambda story: _percent(number_of(story.result, "ess_fraction"))),
        ("Pareto k", lambda story: _decimals(number_of(story.result, "pareto_k"))),
        ("levels", lambda story: number_text(len(story.levels))),
        ("method", lambda story: str(story.result.get("method") or DASH)),
        ("seed", lambda story: str(story.result.get("seed") if story.result.get("seed") is not None else DASH)),
    ):
        rows.append((name, tuple(map(value, stories))))
    rows += _metric_rows(stories)
    return Comparison(stories, names, tuple(rows), *_parameters(stories, names))


def _percent(value: float | None) -> str:
    return DASH if value is None else f"{value:.1%}"


def _decimals(value: float | None) -> str:
    return DASH if value is None else f"{value:.2f}"


def _names(places: list[Path], stories: tuple[Story, ...]) -> tuple[str, ...]:
    """Names of folders; with the folder above, or numbered, where two are the same."""
    names = [place.resolve().name for place in places]
    if len(set(names)) < len(names):
        names = ["/".join(place.resolve().parts[-2:]) for place in places]
    if len(set(names)) < len(names):
        names = [f"{name} ({number})" for number, name in enumerate(names, 1)]
    return tuple(names)


def _metric_rows(stories: tuple[Story, ...]) -> list[tuple[str, tuple[str, ...]]]:
    """Metrics against reference samples that all runs have."""
    tables = [{row.name: row.value for row in quality_rows(story.result)} for story in stories]
    shared = [name for name in tables[0] if all(name in table for table in tables[1:])]
    return [(name, tuple(table[name] for table in tables)) for name in shared]


def _parameters(stories: tuple[Story, ...], names: tuple[str, ...]) -> tuple[tuple, tuple[str, ...]]:
    """Means of parameters that all runs with draws have, and what is far apart."""
    found = [{} if s.answer is None else {own.name: own for own in s.answer.estimates()} for s in stories]
    notes = [f"{name} has no draws to compare." for name, own in zip(names, found, strict=True) if not own]
    drawn = [own for own in found if own]
    shared = [name for name in drawn[0] if all(name in own for own in drawn)] if len(drawn) > 1 else []
    is_alike = all(set(own) == set(drawn[0]) for own in drawn)
    if not is_alike:
        notes.append("The runs have different parameters: only those that all of them have are compared.")
    rows = []
    for name in shared[:MOST_PARAMETERS]:
        own: list[Estimate | None] = [table.get(name) for table in found]
        pairs = [(each.mean, each.mean_error) for each in own if each is not None]
        texts = tuple(DASH if each is None else with_error(each.mean, each.mean_error) for each in own)
        rows.append((name, texts, _apart(pairs)))
    log_z = [(number_of(story.result, "log_z"), number_of(story.result, "log_z_error")) for story in stories]
    known = [(value, error) for value, error in log_z if value is not None and error is not None]
    gap = _apart(known) if is_alike else None
    far = [name for name, _, apart in rows if apart is not None and apart > FAR]
    far += ["log Z"] if gap is not None and gap > FAR else []
    if far:
        words = ", ".join(far[:6]) + (f" and {len(far) - 6} more" if len(far) > 6 else "")
        notes.append(
            f"Two runs differ by more than {FAR:.0f} standard errors in {words}: they are not of the same density, or "
            "one of them is wrong."
        )
    if len(shared) > MOST_PARAMETERS:
        notes.append(f"The first {MOST_PARAMETERS} of {len(shared)} parameters are shown.")
    return tuple(rows), tuple(notes)


def _apart(pairs: list[tuple[float, float]]) -> float | None:
    """The largest distance of two estimates, in standard errors of their difference."""
    gaps = [
        abs(a - b) / math.hypot(e, f)
        for (a, e), (b, f) in itertools.combinations(pairs, 2)
        if e is not None and f is not None and math.hypot(e, f) > 0
    ]
    return max(gaps) if gaps else None


def compare_lines(comparison: Comparison) -> list[str]:
    """The comparison for a terminal."""
    rows = [["", *comparison.names], *([name, *values] for name, values in comparison.rows)]
    lines = table_lines(rows)
    if comparison.parameters:
        table = [["mean", *comparison.names, "apart"]]
        for name, values, apart in comparison.parameters:
            table.append([name, *values, DASH if apart is None else f"{apart:.1f} errors"])
        lines += ["", *table_lines(table)]
    return [*lines, *(["", *comparison.notes] if comparison.notes else [])]


def compare_page(comparison: Comparison, path: str | Path) -> Path:
    """Write the comparison as one self-contained page.

    Raises:
        RunFolderError: if the file exists and is not a page of this kind, or cannot be written.
    """
    require_extra("jinja2", "reports")
    place = as_path(path, "path")
    if place.is_dir():
        raise RunFolderError(f"{place} is a folder; choose a file for the page")
    if place.exists() and MARK not in place.read_text(encoding="utf-8", errors="replace")[:2000]:
        raise RunFolderError(f"{place} exists and is not a page of `tempering compare`; choose another file")
    text = rendered(
        "compare.html",
        title=" and ".join(comparison.names) if len(comparison.names) == 2 else f"{len(comparison.names)} runs",
        mark=MARK,
        names=comparison.names,
        badges=[badge_of(story) for story in comparison.stories],
        rows=comparison.rows[1:],
        parameters=[_with_pictures(comparison, *row) for row in comparison.parameters],
        notes=comparison.notes,
        far=FAR,
    )
    write_bytes(place, text.encode())
    return place


def _with_pictures(comparison: Comparison, name: str, values: tuple[str, ...], apart: float | None) -> dict[str, Any]:
    """A parameter with its marginal in every run, all on one axis."""
    columns = [_column(story, name) for story in comparison.stories]
    window = _window([column for column in columns if column is not None])
    pictures = ["" if column is None else small_histogram(column[0], column[1], 170, 40, window) for column in columns]
    return {"name": name, "values": list(zip(comparison.names, values, pictures, strict=True)), "apart": apart}


def _column(story: Story, name: str) -> tuple[np.ndarray, np.ndarray] | None:
    """A parameter's values in the draws of a run, with their shares; None for a run without draws."""
    shares = None if story.answer is None else story.answer.shares
    if story.answer is None or shares is None:
        return None
    return story.answer.values[:, story.answer.names.index(name)], shares


def _window(columns: list) -> tuple[float, float]:
    from tempering.plots.pair_figures import weighted_window

    ends = [weighted_window(column, shares) for column, shares in columns]
    return min(low for low, _ in ends), max(high for _, high in ends)
