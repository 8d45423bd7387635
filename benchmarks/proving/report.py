"""Tables and the picture of docs/proving-ground.md, made from rows."""

import textwrap
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tempering.plots.style import FAINT, INK, MUTED, png_of, render

from .catalogue import DENSITIES, density_of
from .outcomes import outcome_table
from .record import Tolerance
from .runner import OURS

__all__ = ["densities_table", "picture", "results_table", "rewritten", "write_page"]

_BEGIN, _END = "<!-- {}: begin -->", "<!-- {}: end -->"
_METHODS = {OURS: "o", "dynesty": "s", "nautilus": "D", "pocomc": "^", "smc": "v", "nuts": "P"}
"""In the order of the table, with their marks in the picture."""
_COLOURS = {
    "right": "#0072B2",
    "false alarm": "#56B4E9",
    "honest": "#E69F00",
    "silent wrong": "#D55E00",
    "wrong": "#999999",
}
_CEILING = 10.0
_FLOOR = 1e-3
"""Smaller errors of log Z are drawn here: they are the noise of a good answer."""


def densities_table() -> str:
    """What there is, and its truth."""
    header = ("density", "dim", "handed over as", "exact log Z", "regions", "what makes it hard", "truth")
    lines = [_line(header), "|" + " --- |" * len(header)]
    for name in DENSITIES:
        density = density_of(name)
        log_z = "–" if density.log_z is None else f"{density.log_z:.4f}"
        if density.log_z_error:
            log_z += f" ± {density.log_z_error:.4f}"
        regions = "–" if density.masses is None else f"{len(density.masses)}"
        name = f"`{name}`" + (" (a named limit)" if density.limit else "")
        lines.append(
            _line((name, str(density.dim), density.handed_over, log_z, regions, density.hardness, density.truth))
        )
    return "\n".join(lines)


def results_table(rows: list[dict[str, Any]]) -> str:
    """A line for a density, a method and a budget: means over seeds, and what became of every seed."""
    header = (
        "density",
        "method",
        "seeds",
        "evaluations",
        "log Z error",
        "weights error",
        "spread error",
        "s",
        "outcome",
    )
    lines = [_line(header), "|" + " --- |" * len(header)]
    groups: dict[tuple, list[dict[str, Any]]] = {}
    for row in rows:
        if row["density"] in DENSITIES:
            groups.setdefault((row["density"], row["method"], row["budget"]), []).append(row)
    names, methods = list(DENSITIES), list(_METHODS)
    for name, method, budget in sorted(groups, key=lambda k: (names.index(k[0]), methods.index(k[1]), k[2] or 0)):
        group = groups[name, method, budget]
        capped = method if budget is None or method == OURS else f"{method}, at most {budget:,}"
        spent = [row["evaluations"] for row in group if "evaluations" in row]
        cells = [f"`{name}`", capped, str(len(group)), f"{np.mean(spent):,.0f}" if spent else "–"]
        cells += [_errors(group, key) for key in ("log_z_off", "weights_off", "spread_off")]
        cells += [f"{np.mean([row['seconds'] for row in group]):.0f}", _outcomes(group)]
        lines.append(_line(cells))
    return "\n".join(lines)


def _errors(group: list[dict[str, Any]], key: str) -> str:
    """The mean error and the largest in size; nothing where nothing was measured."""
    found = [row[key] for row in group if row.get(key) is not None]
    if not found:
        return "–"
    if len(found) == 1:
        return f"{found[0]:.3f}"
    return f"{np.mean(found):.3f} (largest {max(found, key=abs):.3f})"


def _outcomes(group: list[dict[str, Any]]) -> str:
    counts = Counter(row["outcome"] for row in group)
    words = [f"{count} {'**' + word + '**' if word == 'silent wrong' else word}" for word, count in counts.items()]
    return ", ".join(words)


def random_tables(rows: list[dict[str, Any]]) -> str:
    """The four outcomes of random mixtures for every method that has rows of them."""
    rows = [row for row in rows if row["density"].startswith("mixture-")]
    parts = []
    for method in _METHODS:
        of_method = [row for row in rows if row["method"] == method]
        if of_method:
            parts.append(f"{method}:\n\n{outcome_table(of_method)}")
    return "\n\n".join(parts) or "No rows yet."


def rewritten(text: str, rows: list[dict[str, Any]]) -> str:
    """The page's text with fresh tables."""
    made = {"densities": densities_table(), "results": results_table(rows), "random": random_tables(rows)}
    for which, table in made.items():
        begin, end = _BEGIN.format(which), _END.format(which)
        before, rest = text.split(begin)
        text = f"{before}{begin}\n{table}\n{end}{rest.split(end)[1]}"
    return text


def write_page(page: Path, rows: list[dict[str, Any]]) -> None:
    """Put the tables between the markers of a page."""
    page.write_text(rewritten(page.read_text(), rows))
    print(f"written: {page}")


def picture(rows: list[dict[str, Any]]) -> bytes:
    """Errors of log Z: our fits of all densities in one strip, and against evaluations where rivals stand beside us.

    A mark is a run, its shape the method, its colour the outcome. A panel is a density.
    """
    shown = [row for row in rows if row["density"] in DENSITIES and row.get("log_z_off") is not None]
    ours = [row for row in shown if row["method"] == OURS]
    others = {row["density"] for row in shown if row["method"] != OURS}
    names = [name for name in DENSITIES if name in others]
    columns = 4
    num_rows = -(-len(names) // columns)

    def draw(figure) -> None:
        grid = figure.add_gridspec(num_rows + 2, columns)
        strip = figure.add_subplot(grid[:2, :])
        _strip(strip, ours)
        _legend(strip, sorted({row["method"] for row in shown}, key=list(_METHODS).index))
        for number, name in enumerate(names):
            place = figure.add_subplot(grid[2 + number // columns, number % columns])
            _panel(place, name, [row for row in shown if row["density"] == name])
            place.tick_params(labelleft=number % columns == 0, labelbottom=number + columns >= len(names))
        figure.supxlabel("evaluations", color=INK, fontsize=9.5)
        figure.supylabel("error of log Z", color=INK, fontsize=9.5)

    return png_of(render(9.5, 0.6 + 1.75 * (num_rows + 2), draw))


def _drawn(row: dict[str, Any]) -> float:
    """The error within what is shown."""
    return min(max(abs(row["log_z_off"]), _FLOOR), 0.8 * _CEILING)


def _strip(axes, rows: list[dict[str, Any]]) -> None:
    """Every fit of ours, the largest error last; those that are clearly wrong are named."""
    rows = sorted(rows, key=_drawn)
    axes.axhspan(_FLOOR / 2, Tolerance().log_z, color=FAINT, alpha=0.5, linewidth=0)
    for place, row in enumerate(rows):
        axes.plot(place, _drawn(row), _METHODS[OURS], color=_COLOURS[row["outcome"]], markersize=4)
    wrong = [row["density"] for row in rows if _drawn(row) > (Tolerance().log_z or _FLOOR)]
    words = f"above the band, from left to right:\n{textwrap.fill(', '.join(wrong), 60, break_on_hyphens=False)}"
    axes.annotate(words, (0.35, 0.93), xycoords="axes fraction", va="top", fontsize=7.5, color=INK)
    axes.set(yscale="log", ylim=(_FLOOR / 2, _CEILING), xticks=[], xlim=(-2, len(rows) + 1))
    axes.set_title(
        f"our {len(rows)} fits of {len({row['density'] for row in rows})} densities, by their error", fontsize=9
    )


def _panel(axes, name: str, rows: list[dict[str, Any]]) -> None:
    tolerance = density_of(name).tolerance.log_z
    if tolerance is not None:
        axes.axhspan(_FLOOR / 2, tolerance, color=FAINT, alpha=0.5, linewidth=0)
    for row in rows:
        axes.plot(
            row["evaluations"],
            _drawn(row),
            _METHODS[row["method"]],
            color=_COLOURS[row["outcome"]],
            markersize=5,
            markeredgecolor="white",
            markeredgewidth=0.5,
        )
    axes.set(xscale="log", yscale="log", xlim=(7e3, 1.5e6), ylim=(_FLOOR / 2, _CEILING))
    axes.set_title(name, fontsize=9)


def _legend(axes, methods: Sequence[str]) -> None:
    from matplotlib.lines import Line2D

    marks = [Line2D([], [], marker=_METHODS[name], color=MUTED, linestyle="", label=name) for name in methods]
    words = [Line2D([], [], marker="o", color=colour, linestyle="", label=word) for word, colour in _COLOURS.items()]
    axes.legend(handles=[*marks, *words], loc="upper left", frameon=False, fontsize=7.5, ncols=2, columnspacing=0.8)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
