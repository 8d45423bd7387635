"""The figure of docs/guidance.md, from the rows of `where_guidance_pays.py`."""

from typing import Any

import numpy as np

from guiding.steps import ratio_for

__all__ = ["picture", "rows_in"]

COLOURS = {"none": "#656d76", "T": "#D55E00", "log_T": "#0072B2", "second order": "#009E73", "own": "#CC79A7"}
WORDS = {
    "none": "no guidance",
    "T": "linear in T (the paper)",
    "log_T": "linear in log T",
    "second order": "second order in log T",
    "own": "a model of T itself",
}
DIMS = (2, 4, 8, 16, 32, 64)
_SHOWN = ("none", "T", "log_T", "second order")


def rows_in(content: dict[str, Any], part: str) -> list[dict[str, Any]]:
    """All rows of a part, of all its seeds."""
    return [row for run in content["parts"].get(part, {"runs": []})["runs"] for row in run["rows"]]


def chosen(rows: list[dict[str, Any]], **wanted: Any) -> list[dict[str, Any]]:
    """The rows with these values, by ratio."""
    found = [row for row in rows if all(row.get(key) == value for key, value in wanted.items())]
    return sorted(found, key=lambda row: row["ratio"])


def _by_ratio(axes, rows: list[dict[str, Any]], density: str, dim: int) -> None:
    """Shares of `dim` coordinates against the ratio of temperatures."""
    for way in (*_SHOWN, "own"):
        own = chosen(rows, density=density, temperature=1.0, way=way)
        if own:
            shares = [row["share"] ** dim for row in own]
            look = {"color": COLOURS[way], "label": WORDS[way], "lw": 1.8, "ls": "--" if way == "own" else "-"}
            axes.plot([row["ratio"] for row in own], shares, **look)
    axes.set_xscale("log")
    axes.set_xticks([1.1, 1.5, 2.0, 3.0, 5.0], ["1.1", "1.5", "2", "3", "5"])
    axes.minorticks_off()
    axes.set_ylim(0.0, 1.03)
    axes.set_title(f"{density}, {dim} coordinates", fontsize=9.5)
    axes.set_xlabel("ratio of temperatures")


def _by_dim(axes, rows: list[dict[str, Any]], density: str) -> None:
    """The largest ratio with a share of 0.2, against the dimension; nothing where it is above all that were tried."""
    for way in _SHOWN:
        own = chosen(rows, density=density, temperature=1.0, way=way)
        largest = [ratio_for(own, dim) for dim in DIMS]
        shown = [np.nan if ratio is None or np.isinf(ratio) else ratio for ratio in largest]
        axes.plot(DIMS, shown, color=COLOURS[way], marker="o", ms=3)
    axes.set_xscale("log", base=2)
    axes.set_xticks(DIMS, [str(dim) for dim in DIMS])
    axes.set_yscale("log")
    axes.set_yticks([1.1, 1.5, 2.0, 3.0, 5.0], ["1.1", "1.5", "2", "3", "5"])
    axes.minorticks_off()
    axes.set_title(f"{density}: ratio that keeps 0.2", fontsize=9.5)
    axes.set_xlabel("coordinates")


def exact_share(exact: list[dict[str, Any]], ratio: float, way: str) -> float:
    """Of the density of the learned models, four double wells beside four normals, with exact denoisers."""
    wanted = {"temperature": 1.0, "ratio": ratio, "way": way}
    return float(
        np.prod([chosen(exact, density=name, **wanted)[0]["share"] ** 4 for name in ("double well", "gaussian")])
    )


def _learned(axes, rows: list[dict[str, Any]], exact: list[dict[str, Any]], num: int) -> None:
    """Means over seeds, of learned models in eight dimensions, with every seed as a dot; exact denoisers dotted."""
    of_size = [row for row in rows if row["num"] == num]
    for way in ("none", "T", "log_T"):
        own = chosen(of_size, way=way)
        ratios = sorted({row["ratio"] for row in own})
        mean = [np.mean([row["share"] for row in own if row["ratio"] == ratio]) for ratio in ratios]
        axes.plot(ratios, mean, color=COLOURS[way], lw=1.8)
        axes.plot(ratios, [exact_share(exact, ratio, way) for ratio in ratios], color=COLOURS[way], lw=1.2, ls=":")
        axes.scatter([row["ratio"] for row in own], [row["share"] for row in own], color=COLOURS[way], s=8)
    own = [row["share"] for row in of_size if row["way"] == "own"]
    if own:
        axes.axhline(np.mean(own), color=COLOURS["own"], lw=1.2, ls="--")
    axes.set_xscale("log")
    axes.set_xticks([1.5, 2.0, 3.0], ["1.5", "2", "3"])
    axes.minorticks_off()
    axes.set_ylim(0.0, 1.03)
    axes.set_title(f"learned from {num:,} samples", fontsize=9.5)
    axes.set_xlabel("ratio of temperatures")


def fill(figure, content: dict[str, Any]) -> None:
    """Two rows of panels: shares with exact denoisers; what dimension does, and learned models."""
    exact = [*rows_in(content, "gaussian"), *rows_in(content, "line")]
    learned = rows_in(content, "learned")
    axes = figure.subplots(2, 4)
    for column, density in enumerate(("gaussian", "double well", "narrow and wide")):
        _by_ratio(axes[0, column], exact, density, 8)
        _by_dim(axes[1, column], exact, density)
    for place, num in zip(axes[:, 3], sorted({row["num"] for row in learned}), strict=True):
        _learned(place, learned, exact, num)
    for place in (axes[0, 0], axes[0, 3], axes[1, 3]):
        place.set_ylabel("effective share of the draws")
    axes[1, 0].set_ylabel("ratio of temperatures")
    handles, labels = axes[0, 1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False, fontsize=9)


def picture(content: dict[str, Any]) -> bytes:
    """The figure as PNG."""
    from tempering.plots.style import png_of, render

    return png_of(render(12.0, 5.6, lambda figure: fill(figure, content)))
