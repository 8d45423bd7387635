"""Panels of draws and the figures of alanine dipeptide, from records alone."""

from typing import Any

import numpy as np

from tempering.lab.reproduce.figures import COLOURS, say_quick
from tempering.lab.reproduce.published import METHODS
from tempering.lab.reproduce.tables import OURS, preset_name
from tempering.lab.reproduce.view import View
from tempering.plots.style import FAINT, INK, MUTED, REFERENCE, Picture, render

__all__ = ["aldp_energy", "aldp_marginals", "mog40", "mw32", "ramachandran"]

ALDP = {"aldp-paper-pt-dm": "PT+DM", "aldp-paper": "PTSD", "aldp-pt-dm": "PT+DM, ours", "aldp": "ours"}
_COLOURS = {"aldp-paper-pt-dm": COLOURS["paper-pt-dm"], "aldp-paper": COLOURS["paper"], "aldp": "#1f2328"}
_COLOURS["aldp-pt-dm"] = "#E69F00"
_DEEPEST = 10.0


def mog40(view: View) -> Picture:
    """Draws of every method on MoG-40, exact samples first."""
    return _points(view, "mog40", (46.0, 46.0), ("x₀", "x₁"))


def mw32(view: View) -> Picture:
    """Draws of every method on MW-32, the first two wells."""
    return _points(view, "mw32", (3.0, 3.0), ("u₀", "u₁"))


def _points(view: View, target: str, reach: tuple[float, float], labels: tuple[str, str]) -> Picture:
    methods = {**METHODS, **OURS}
    found = {method: view.of(preset_name(target, method)) for method in methods}

    def draw(figure: Any) -> None:
        panels = figure.subplots(2, 5, sharex=True, sharey=True).ravel()
        _scatter(panels[0], _exact(target), INK, "exact samples")
        for axes, (method, words) in zip(panels[1:], methods.items(), strict=True):
            runs = [run for run in found[method].good if run.get("data", {}).get("points")]
            if runs:
                _scatter(axes, np.array(runs[0]["data"]["points"]), COLOURS[method], words)
            else:
                axes.set_title(words, color=MUTED)
                why = "its record has no points" if found[method].good else found[method].status
                axes.text(0.5, 0.5, why, transform=axes.transAxes, ha="center", color=MUTED)
        for axes in panels:
            axes.set(xlim=(-reach[0], reach[0]), ylim=(-reach[1], reach[1]), aspect="equal")
        for axes in panels[5:]:
            axes.set_xlabel(labels[0])
        for axes in panels[::5]:
            axes.set_ylabel(labels[1])
        say_quick(figure, view)

    return render(13.0, 5.8, draw)


def _scatter(axes: Any, points: np.ndarray, colour: str, words: str) -> None:
    axes.scatter(points[:, 0], points[:, 1], s=2.0, color=colour, linewidths=0, alpha=0.7)
    axes.set_title(words, color=colour)


def _exact(target: str) -> np.ndarray:
    """A thousand exact samples, in the coordinates that are shown."""
    import jax

    from tempering.registry import make_target
    from tempering.targets import ExactTarget

    made = make_target("mog40") if target == "mog40" else make_target("many_well", dim=32)
    assert isinstance(made, ExactTarget)
    columns = (0, 1) if target == "mog40" else (0, 2)
    return np.asarray(made.sample(jax.random.key(0), 1_000))[:, columns]


def _of_molecule(view: View, part: str) -> dict[str, dict[str, Any]]:
    """The data of the first good run of every variant that has any."""
    found = {}
    for name in ALDP:
        runs = [run for run in view.of(name).good if part in run.get("data", {})]
        if runs:
            found[name] = runs[0]["data"][part]
    return found


def _without(figure: Any) -> None:
    axes = figure.subplots()
    axes.text(0.5, 0.5, "not run: no record has the data of this figure", ha="center", color=MUTED)


def ramachandran(view: View) -> Picture:
    """Figure 7: the reference, PT+DM and PTSD."""
    found = _of_molecule(view, "torus")

    def draw(figure: Any) -> None:
        if not found:
            _without(figure)
            return
        reference = next((data["reference"] for data in found.values() if "reference" in data), None)
        panels = {} if reference is None else {"reference": reference}
        panels |= {ALDP[name]: data["draws"] for name, data in found.items()}
        row = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        edges = np.linspace(-180, 180, 65)
        for axes, (words, counted) in zip(row, panels.items(), strict=True):
            counts = np.array(counted["counts"], float)
            with np.errstate(divide="ignore"):
                depth = np.log(counts.max() / counts)
            depth[counts == 0] = np.nan
            image = axes.pcolormesh(edges, edges, depth.T, vmin=0, vmax=_DEEPEST, cmap="viridis", rasterized=True)
            share = counts[(edges[:-1] >= 0) & (edges[:-1] < 120)].sum() / max(1, counted["num"])
            axes.set(title=f"{words}, {counted['num']:,}\n0 < φ < 120°: {100 * share:.2f} %", aspect="equal")
            axes.set(xticks=range(-180, 181, 90), yticks=range(-180, 181, 90), xlabel="φ, degrees")
        row[0].set_ylabel("ψ, degrees")
        figure.colorbar(image, ax=list(row), shrink=0.8).set_label("−log density above its minimum, kT")
        say_quick(figure, view)

    return render(3.6 * (1 + max(1, len(found))) + 1, 4.2, draw)


def aldp_marginals(view: View) -> Picture:
    """The marginals of phi and psi, as they are and on a logarithmic scale."""
    found = _of_molecule(view, "torus")

    def draw(figure: Any) -> None:
        if not found:
            _without(figure)
            return
        table, edges = figure.subplots(2, 2, sharex=True), np.linspace(-180, 180, 65)
        for place, letter in enumerate("φψ"):
            for axes in table[:, place]:
                reference = next((data["reference"] for data in found.values() if "reference" in data), None)
                if reference is not None:
                    axes.stairs(_marginal(reference, place), edges, fill=True, color=FAINT, label="reference")
                for name, data in found.items():
                    axes.stairs(_marginal(data["draws"], place), edges, color=_COLOURS[name], lw=1.3, label=ALDP[name])
                axes.set(xticks=range(-180, 181, 90))
            table[1, place].set(yscale="log", xlabel=f"{letter}, degrees")
        table[0, 0].legend(frameon=False, fontsize=8)
        for axes in table[:, 0]:
            axes.set_ylabel("% per degree")
        say_quick(figure, view)

    return render(9.6, 5.2, draw)


def _marginal(counted: dict[str, Any], place: int) -> np.ndarray:
    counts = np.array(counted["counts"], float).sum(axis=1 - place)
    return 100 * counts / max(1.0, counts.sum()) / (360 / len(counts))


def aldp_energy(view: View) -> Picture:
    """Energies of the draws over those of the reference."""
    found = _of_molecule(view, "energies")

    def draw(figure: Any) -> None:
        if not found:
            _without(figure)
            return
        axes = figure.subplots()
        for index, (name, data) in enumerate(found.items()):
            low, high = data["limits"]
            edges = np.linspace(low, high, len(data["draws"]["counts"]) + 1)
            width = edges[1] - edges[0]
            if index == 0:
                counts = np.array(data["reference"]["counts"]) / data["reference"]["num"] / width
                axes.stairs(counts, edges, fill=True, color=FAINT, label="reference")
            outside = 1 - sum(data["draws"]["counts"]) / data["draws"]["num"]
            counts = np.array(data["draws"]["counts"]) / data["draws"]["num"] / width
            axes.stairs(counts, edges, color=_COLOURS[name], lw=1.3, label=f"{ALDP[name]}, {outside:.0%} outside")
        axes.set(xlabel="energy, kT", ylabel="density", title="Alanine dipeptide: energies of draws")
        axes.legend(frameon=False)
        if view.is_quick:
            axes.set_title("quick: not the paper's settings", color=REFERENCE)

    return render(6.4, 3.8, draw)
