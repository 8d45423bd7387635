"""Tables and the picture of docs/proving-ground.md, made from rows."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tempering.plots.style import FAINT, INK, MUTED, png_of, render

from .catalogue import DENSITIES, density_of
from .outcomes import outcome_table
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
    """The error of log Z against evaluations: a panel for a density, a mark for a method, a colour for the outcome."""
    shown = [row for row in rows if row["density"] in DENSITIES and row.get("log_z_off") is not None]
    names = [name for name in DENSITIES if any(row["density"] == name for row in shown)]
    columns = 4
    num_rows = -(-(len(names) + 1) // columns)  # one more panel for the legend

    def draw(figure) -> None:
        axes = np.atleast_1d(figure.subplots(num_rows, columns, sharex=True, sharey=True, squeeze=False)).ravel()
        for place, name in zip(axes, names, strict=False):
            _panel(place, name, [row for row in shown if row["density"] == name])
        for place in axes[len(names) :]:
            place.set_axis_off()
        for place in axes[max(0, len(names) - columns) : len(names)]:  # the lowest panel of every column
            place.tick_params(labelbottom=True)
        _legend(axes[len(names)], sorted({row["method"] for row in shown}, key=list(_METHODS).index))
        figure.supxlabel("evaluations", color=INK, fontsize=9.5)
        figure.supylabel("error of log Z", color=INK, fontsize=9.5)

    return png_of(render(9.5, 0.6 + 1.75 * num_rows, draw))


def _panel(axes, name: str, rows: list[dict[str, Any]]) -> None:
    tolerance = density_of(name).tolerance.log_z
    if tolerance is not None:
        axes.axhspan(_FLOOR / 2, tolerance, color=FAINT, alpha=0.5, linewidth=0)
    for row in rows:
        axes.plot(
            row["evaluations"],
            min(max(abs(row["log_z_off"]), _FLOOR), 0.8 * _CEILING),
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
    axes.legend(handles=[*marks, *words], loc="center left", frameon=False, fontsize=7.5, ncols=2, columnspacing=0.8)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
