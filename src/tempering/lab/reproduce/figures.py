"""The paper's figures of errors and extrapolations, from records alone. Published points are open marks."""

import statistics
from typing import Any

import numpy as np

from tempering.lab.catalogue import read
from tempering.lab.reproduce.extrapolating import TARGETS as EXTRAPOLATED
from tempering.lab.reproduce.published import METHODS, TARGETS, published
from tempering.lab.reproduce.tables import OURS, preset_name, w_names
from tempering.lab.reproduce.two_levels import TITLES
from tempering.lab.reproduce.view import Found, View
from tempering.plots.style import DRAWS, FAINT, INK, MUTED, REFERENCE, Picture, label_ends, render

__all__ = ["COLOURS", "extrapolation", "front", "illustration", "likelihood", "pareto", "say_quick"]

COLOURS = {
    "fab": "#E69F00",
    "cmcd": "#009E73",
    "dds": "#8C6BB1",
    "idem": "#56B4E9",
    "bnem": "#CC79A7",
    "dikl": "#999933",
    "paper-pt-dm": "#D55E00",
    "paper": "#0072B2",
    "": "#1f2328",
}


def say_quick(figure: Any, view: View) -> None:
    """A line on top of every quick figure."""
    if view.is_quick:
        figure.suptitle("quick: not the paper's settings", color=REFERENCE, fontsize=10)


def _nothing(axes: Any) -> None:
    axes.text(0.5, 0.5, "not run", transform=axes.transAxes, ha="center", color=MUTED)


def _first(found: Found, names: tuple[str, ...]) -> dict | None:
    rows = (found.summary.get(name) for name in names)
    return next((row for row in rows if row is not None and row["mean"] is not None), None)


def front(view: View) -> Picture:
    """Figure 1: W against evaluations on MW-32; ours filled, published open."""
    known = published("figure-front")["rows"]

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        axes.set_xscale("log")
        floors, catalogue = [], read()
        for method, words in {**METHODS, **OURS}.items():
            name, colour = preset_name("mw32", method), COLOURS[method]
            found, least = view.of(name), catalogue.get(name, {}).get("least_budget")
            if least is not None:  # a budget below it buys no step at all
                axes.axvline(least, ymax=0.06, color=colour, lw=2)
            row = _first(found, w_names("mw32"))
            if row is not None:
                spent = found.summary["evaluations"]["mean"]
                axes.errorbar(spent, row["mean"], row["error"], fmt="o", color=colour, ms=7, label=words)
                floors += [row["floor"]] if row["floor"] is not None else []
            if method in known:
                x, y = known[method]
                axes.plot(x, y, "s", mfc="none", mec=colour, ms=9, label=f"{words}, published")
        if floors:
            axes.axhline(statistics.fmean(floors), color=MUTED, lw=1, ls=(0, (4, 3)), label="floor of ours, at its N")
        axes.plot([], [], "|", color=MUTED, ms=9, label="first budget that buys a step")
        axes.set(xlabel="evaluations", ylabel="W of draws", title="Many-Well-32: error against evaluations")
        axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
        say_quick(figure, view)

    return render(8.2, 4.2, draw)


def pareto(view: View, names: dict[str, tuple[int, ...]]) -> Picture:
    """Figure 6: W and energy TVD against evaluations, PTSD and PT+DM by number of levels."""
    styles = {"-paper": COLOURS["paper"], "-paper-pt-dm": COLOURS["paper-pt-dm"], "-10-levels": "#E69F00"}
    styles["-our-network"] = "#009E73"

    def colour_of(name: str) -> str:
        return next(colour for end, colour in reversed(styles.items()) if name.endswith(end))

    def panel(axes: Any, target: str, metrics: tuple[str, ...], title: str) -> None:
        axes.set_xscale("log")
        ends, floors = [], []
        for name, budgets in names.items():
            if not name.startswith(target):
                continue
            points = []
            for budget in budgets:
                found = view.of(name, budget=budget)
                row = _first(found, metrics)
                if row is not None:
                    points.append((found.summary["evaluations"]["mean"], row["mean"], row["error"] or 0.0))
                    floors += [row["floor"]] if row["floor"] is not None else []
            if points:
                x, y, error = zip(*sorted(points), strict=True)
                axes.errorbar(x, y, error, marker="o", ms=4, color=colour_of(name))
                ends.append((x[-1], y[-1], name.removeprefix(f"{target}-"), colour_of(name)))
        if floors:
            axes.axhline(statistics.fmean(floors), color=MUTED, lw=1, ls=(0, (4, 3)))
        axes.set(title=f"{TARGETS[target]}: {title}", xlabel="evaluations")
        axes.figure.canvas.draw()
        label_ends(axes, ends) if ends else _nothing(axes)

    def draw(figure: Any) -> None:
        table = figure.subplots(2, 2)
        for row, target in zip(table, ("mog40", "mw32"), strict=True):
            panel(row[0], target, w_names(target), "W")
            panel(row[1], target, ("energy_tvd",), "energy TVD")
        say_quick(figure, view)

    return render(12.5, 6.6, draw)


def likelihood(view: View, targets: tuple[str, ...]) -> Picture:
    """Refitted log likelihood against evaluations."""

    def draw(figure: Any) -> None:
        for axes, target in zip(figure.subplots(1, len(targets), squeeze=False)[0], targets, strict=True):
            axes.set_xscale("log")
            has_any = False
            for method, words in {**METHODS, **OURS}.items():
                name = preset_name(target, method)
                row = _first(view.of(name, "refit"), ("refitted_log_likelihood",))
                spent = view.of(name).summary.get("evaluations", {}).get("mean")
                if row is not None and spent is not None:
                    axes.errorbar(spent, row["mean"], row["error"], fmt="o", color=COLOURS[method], label=words)
                    if row["floor"] is not None and not has_any:
                        axes.axhline(row["floor"], color=MUTED, lw=1, ls=(0, (4, 3)), label="the target's own")
                    has_any = True
            axes.set(title=TARGETS[target], xlabel="evaluations", ylabel="log likelihood of exact samples")
            axes.legend(frameon=False, fontsize=8) if has_any else _nothing(axes)
        say_quick(figure, view)

    return render(4.4 * len(targets), 3.6, draw)


def _stairs(axes: Any, counts: dict[str, Any], limits: list[float], colour: str, words: str, is_filled: bool) -> None:
    """A histogram whose area is the share inside the limits; what is outside is said where it is much."""
    edges = np.linspace(limits[0], limits[1], len(counts["counts"]) + 1)
    density = np.array(counts["counts"]) / (counts["num"] * (edges[1] - edges[0]))
    outside = 1.0 - sum(counts["counts"]) / counts["num"]
    words += f", {outside:.0%} outside" if outside > 0.005 else ""
    look = {"fill": True, "color": FAINT} if is_filled else {"color": colour, "lw": 1.3}
    axes.stairs(density, edges, label=words, **look)


def illustration(view: View) -> Picture:
    """Figure 5: distances at the two hot temperatures, buffer and model, and every way to T = 1.

    Of the paper's settings where they were run, else of ours.
    """
    of_both = [view.of(name, "illustration") for name in ("lj55-paper", "lj55")]
    runs = [run for found in of_both for run in found.good if "data" in run]
    words = {"lj55-paper": "the paper's settings", "lj55": "our settings"}

    def draw(figure: Any) -> None:
        if not runs:
            _nothing(figure.subplots())
            return
        data, ways = runs[0]["data"], runs[0]["ways"]
        hot = [name.removeprefix("buffer at ") for name in data if name.startswith("buffer at ")]
        panels = figure.subplots(2, -(-(len(hot) + len(ways)) // 2), sharex=True, sharey=True).ravel()
        for axes, temperature in zip(panels, hot, strict=False):
            _stairs(axes, data[f"buffer at {temperature}"], data["limits"], INK, "buffer", True)
            _stairs(axes, data[f"model at {temperature}"], data["limits"], DRAWS, "model", False)
            axes.set_title(f"T = {temperature}")
        for axes, (way, row) in zip(panels[len(hot) :], ways.items(), strict=False):
            _stairs(axes, data["reference"], data["limits"], INK, "reference, T = 1", True)
            _stairs(axes, data[way], data["limits"], REFERENCE if way == "fd" else DRAWS, "draws", False)
            axes.set_title(f"{TITLES[way]}\ndistance TVD {row['distance_tvd']:.3f}, energy {row['energy_tvd']:.2f}")
        for index, axes in enumerate(panels):
            axes.set_visible(index < len(hot) + len(ways))
            if axes.get_visible():
                axes.legend(frameon=False, fontsize=7)
                axes.set_xlabel("distance of two particles")
        figure.suptitle(words.get(str(runs[0].get("name")), ""), fontsize=10)
        say_quick(figure, view)

    return render(15.0, 6.0, draw)


def extrapolation(view: View) -> Picture:
    """Appendix D.1: energies at T = 0.1 by way, a row a target, and how Langevin steps close the gap."""
    runs = {name: [run for run in view.of(name, "extrapolation").good if "data" in run] for name in EXTRAPOLATED}
    known = published("figure-extrapolation")["rows"]
    shown = {name: own[0] for name, own in runs.items() if own}

    def draw(figure: Any) -> None:
        if not shown:
            _nothing(figure.subplots())
            return
        ways = ("me", "ad", "fd", "fd-log")
        table = figure.subplots(len(shown), len(ways) + 1, squeeze=False)
        for row, (name, run) in zip(table, shown.items(), strict=True):
            for axes, way in zip(row, ways, strict=False):
                if name == "mog40":
                    _plane(axes, run["data"]["points"], way)
                else:
                    _stairs(axes, run["data"]["truth"], run["data"]["limits"], INK, "truth", True)
                    _stairs(axes, run["data"][way], run["data"]["limits"], DRAWS, "draws", False)
                    axes.legend(frameon=False, fontsize=7)
                    axes.set_xlabel("energy")
                title = f"{name}: {TITLES[way]}" if way == "me" else TITLES[way]
                axes.set_title(f"{title}\nenergy TVD {run['ways'][way]['energy_tvd']:.2f}", fontsize=8.5)
            _steps(row[-1], run, known.get(name))
        say_quick(figure, view)

    return render(16.0, 1.0 + 2.7 * max(1, len(shown)), draw)


def _plane(axes: Any, points: dict[str, list], way: str) -> None:
    for name, colour in (("truth", FAINT), (way, DRAWS)):
        x = np.array(points[name])
        axes.scatter(x[:, 0], x[:, 1], s=3, color=colour, linewidths=0)
    axes.set(xlim=(-46, 46), ylim=(-46, 46), aspect="equal", xticks=(-40, 0, 40), yticks=(-40, 0, 40))


def _steps(axes: Any, run: dict[str, Any], published_steps: tuple[int, ...] | None) -> None:
    """Energy TVD after Langevin steps; an open mark on the floor is the paper's number of steps."""
    for way, colour in (("fd", REFERENCE), ("me", DRAWS), ("ad", "#009E73")):
        curve = {int(mark): value for mark, value in run["ways"][way]["curve"].items()}
        axes.plot([max(mark, 0.5) for mark in curve], list(curve.values()), color=colour, marker="o", ms=3, label=way)
    axes.axhline(run["floor"], color=MUTED, lw=1, ls=(0, (4, 3)))
    if published_steps:
        axes.plot(published_steps[0], run["floor"], "s", mfc="none", mec=INK, ms=8, label="FD, published")
    axes.set(xscale="log", xlabel="Langevin steps (0 at 0.5)", title="energy TVD after Langevin steps")
    axes.legend(frameon=False, fontsize=7)
