"""The figures of `sampler.plot`: the level table, rates along the ladder, marginals, the tail of the weights.

Consumes what a sampler knows as plain values, `SamplerContents`, and the level buffers of its run folder where it has
one; produces figures by name. Everything but the table and the marginals is the report's.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tempering.errors import RunFolderError, SettingsError
from tempering.molecules.coordinates.internal import InternalChart
from tempering.plots.contents import LevelSamples, RunContents, conformations_of, level_samples
from tempering.plots.ladder_figures import ladder_figure, training_figure, weights_figure
from tempering.plots.level_figures import level_energies_figure
from tempering.plots.pair_figures import corner_figure, modes_figure
from tempering.plots.particle_figures import configurations_figure, distances_figure, particle_levels_figure
from tempering.plots.style import (
    DRAWS,
    FAINT,
    INK,
    MUTED,
    REFERENCE,
    Picture,
    bytes_of,
    level_colours,
    png_of,
    render,
    window,
)
from tempering.runs.exports import columns_of, named_arrays
from tempering.runs.records import LevelRecord, Mode, level_table
from tempering.runs.storage import as_path, write_bytes
from tempering.runs.words import with_error
from tempering.transforms.centred import Centred

__all__ = ["SamplerContents", "figure_file", "figures_folder", "sampler_figures", "write_figure", "write_figures"]

MAX_COORDINATES = 6
"""Coordinates whose marginals are shown."""
MAX_LEVELS = 8
"""Levels in one panel of marginals."""
_NUM_BINS = 60
FORMATS = (".png", ".svg", ".pdf")
_OF_MODE = ("log_density", "weight", "hits")


@dataclass(frozen=True)
class SamplerContents:
    """What the figures need to know of a sampler.

    Args:
        facts: `Sampler.facts()`: account, levels, ESS.
        draws: as a user sees them, unweighted: axes (num, dim), or a nest of arrays with num first.
        log_weights: of the draws; None where there is no density to weigh them by.
        outer: from points in the model's coordinates, as the level buffers have them, to what a user sees.
        folder: of the run, whose level buffers are shown; None where there is none.
        geometry: of particles, whose single coordinates mean nothing: they get distances in place of marginals. So do
            molecules in internal coordinates, by the chart in `facts`: their draws are Cartesian.
    """

    facts: dict[str, Any]
    draws: Any
    log_weights: np.ndarray | None = None
    outer: Callable[..., Any] | None = None
    folder: Path | None = None
    geometry: Centred | None = None


def sampler_figures(known: SamplerContents, only: Sequence[str] | None = None) -> dict[str, Picture]:
    """Every figure there are numbers for, by name; of these `only` the named ones. No density is evaluated here."""
    levels = [LevelRecord.from_dict(record) for record in known.facts["levels"]]
    samples = {} if known.folder is None else _samples_or_none(known.folder)
    names, draws = _matrix(known.draws)
    # Of a molecule in Cartesian coordinates the network knows the bonds.
    stated = (known.facts.get("network") or {}).get("bonds") or ()
    geometry, bonds = known.geometry, tuple((int(a), int(b)) for a, b in stated)
    chart = known.facts.get("chart") or {}
    if chart.get("name") == "internal":
        chart = InternalChart.from_dict(chart)
        geometry = Centred(chart.zmatrix.num_atoms, 3)
        # All but those that close rings, which no atom is placed by.
        bonds = tuple((row.parent, row.atom) for row in chart.zmatrix.placements)
        samples = {level: conformations_of(part, chart, geometry) for level, part in samples.items()}
    elif known.outer is not None and geometry is None:
        samples = {k: LevelSamples(_matrix(known.outer(s.position))[1], s.log_density) for k, s in samples.items()}
    evaluation = {"draws": draws}
    if known.log_weights is not None:
        evaluation["log_weights"] = known.log_weights
    contents = RunContents(known.facts, {}, {}, evaluation, levels, samples, geometry, bonds)
    modes = [Mode(tuple(mode["position"]), *(mode[k] for k in _OF_MODE)) for mode in known.facts.get("modes") or ()]
    labels, weights = names or tuple(f"$x_{{{axis}}}$" for axis in range(draws.shape[1])), known.log_weights
    makers: dict[str, Callable[[], Picture | None]] = {
        "levels": lambda: table_figure(levels, known.facts),
        "ladder": lambda: ladder_figure(contents),
        "marginals": lambda: marginals_figure(contents, names),
        "corner": lambda: corner_figure(draws, weights, labels, modes),
        "modes": lambda: modes_figure(draws, weights, labels, modes),
        "level_energies": lambda: level_energies_figure(contents),
        "weights": lambda: weights_figure(contents),
        "training": lambda: training_figure(contents),
    }
    if geometry is not None:
        makers |= {name: lambda: None for name in ("corner", "modes")}
        makers["marginals"] = lambda: particle_levels_figure(contents)
        makers["distances"] = lambda: distances_figure(contents)
        makers["configurations"] = lambda: configurations_figure(contents)
    made = {name: make() for name, make in makers.items() if only is None or name in only}
    return {name: figure for name, figure in made.items() if figure is not None}


def figure_file(path: str | Path) -> Path:
    """A place for one figure, whose suffix is a format that is known.

    Raises:
        SettingsError: for another suffix.
        RunFolderError: if it is no path, a folder, or below a file.
    """
    place = as_path(path, "path")
    if place.suffix not in FORMATS:
        raise SettingsError(f"{place.name!r} is not allowed: its suffix must be one of {', '.join(FORMATS)}")
    figures_folder(place.parent)
    if place.is_dir():
        raise RunFolderError(f"{place} is a folder; choose a file for the figure")
    return place


def write_figure(figure: Picture, place: Path) -> Path:
    """One figure in the format of the file's suffix."""
    write_bytes(place, bytes_of(figure, place.suffix[1:]))
    return place


def figures_folder(folder: str | Path) -> Path:
    """A place for figures, to be checked before there are any.

    Raises:
        RunFolderError: if it is no path, or a file, or below one.
    """
    place = as_path(folder)
    if any(part.exists() and not part.is_dir() for part in (place, *place.parents)):
        raise RunFolderError(f"{place} is a file, or below one; choose a folder for the figures")
    return place


def write_figures(figures: dict[str, Picture], folder: str | Path) -> list[Path]:
    """`name.png` of every figure; an older one of the same name is replaced, whole.

    Raises:
        RunFolderError: if the folder cannot be written.
    """
    place, paths = figures_folder(folder), []
    for name, figure in figures.items():
        paths.append(place / f"{name}.png")
        write_bytes(paths[-1], png_of(figure))
    return paths


def _samples_or_none(folder: Path) -> dict[int, LevelSamples]:
    """The level buffers, where the folder is still there and whole; pictures of a sampler do not hang on them."""
    try:
        return level_samples(folder / "levels")
    except RunFolderError:
        return {}


def _matrix(draws: Any) -> tuple[tuple[str, ...] | None, np.ndarray]:
    """A plain array as it is; of a nest of arrays the names of the coordinates and all of them side by side."""
    if hasattr(draws, "shape"):
        return None, np.asarray(draws)
    columns = columns_of(named_arrays(draws))
    return tuple(columns), np.stack(list(columns.values()), axis=1)


# The table.


def table_figure(levels: list[LevelRecord], facts: dict[str, Any]) -> Picture | None:
    """The per-level table of `summary` as a picture, with account and final quality above it."""
    if not levels:
        return None
    header, *rows = level_table(levels)
    shown = [index for index in range(len(header)) if any(row[index] != "-" for row in rows)]
    cells = [[row[index] for index in shown] for row in (header, *rows)]
    widths = np.array([max(len(row[index]) for row in cells) + 2.5 for index in range(len(shown))])
    right = np.cumsum(widths) / widths.sum()
    line, top = 0.24, 0.75
    height, width = top + line * len(cells) + 0.15, max(6.0, 0.082 * float(widths.sum()))

    def draw(figure) -> None:
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        axes.set(xlim=(0, 1), ylim=(height, 0))
        axes.set_axis_off()
        title = f"Sampler ({facts['method']}) of {facts['dim']} {'dimension' if facts['dim'] == 1 else 'dimensions'}"
        axes.text(0.015, 0.22, title, fontweight="bold", va="center")
        axes.text(0.015, 0.47, _account(facts), color=MUTED, fontsize=9, va="center")
        for number, row in enumerate(cells):
            down = top + line * (number + 0.5)
            style = {"color": MUTED if number == 0 else INK, "fontsize": 9, "ha": "right", "va": "center"}
            for across, cell in zip(right, row, strict=True):
                axes.text(across - 0.012, down, "–" if cell == "-" else cell, **style)
            axes.axhline(top + line * (number + 1), color=MUTED if number == 0 else FAINT, lw=0.6)

    return render(width, height, draw, is_constrained=False)


def _account(facts: dict[str, Any]) -> str:
    ledger = facts.get("ledger") or {}
    spent = sum(n for stage, n in (ledger.get("points") or {}).items() if stage not in ("sampling", "metrics"))
    parts = [f"{spent:,} evaluations"]
    if facts.get("ess_fraction") is not None:
        parts.append(f"final ESS {facts['ess_fraction']:.1%}")
    if facts.get("pareto_k") is not None:
        parts.append(f"Pareto k {facts['pareto_k']:.2f}")
    if facts.get("log_z") is not None:
        parts.append(f"log Z {with_error(facts['log_z'], facts.get('log_z_error'))}")
    return "   ".join(parts)


# The marginals.


def marginals_figure(contents: RunContents, names: tuple[str, ...] | None = None) -> Picture | None:
    """Marginals of up to six coordinates: the samples of each level above, the final draws, raw and weighted, below."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    draws = contents.points("draws")
    if draws is None or contents.geometry is not None:
        return None
    num = min(MAX_COORDINATES, draws.shape[1])
    weights = _weights(contents.evaluation.get("log_weights"))
    levels = contents.shown_levels(MAX_LEVELS)
    columns = min(num, 3)
    rows = -(-num // columns)

    def draw(figure) -> None:
        table = figure.subplots(rows, columns, squeeze=False)
        for axes in table.ravel()[num:]:
            axes.set_axis_off()
        for axis, axes in zip(range(num), table.ravel(), strict=False):
            _marginal(axes, contents, levels, axis, draws, weights, is_named=axis % columns == 0)
            axes.set_xlabel(names[axis] if names else f"$x_{{{axis}}}$")
        words = ["draws of the model"] + ["the same by weight: the target"] * (weights is not None)
        words += [f"first {num} of {draws.shape[1]} coordinates"] * (draws.shape[1] > num)
        handles = [Line2D([], [], color=DRAWS, lw=1.6)] + [Patch(color=REFERENCE, alpha=0.4)] * (weights is not None)
        handles += [Line2D([], [], lw=0)] * (draws.shape[1] > num)
        where = "outside upper left"
        figure.legend(handles, words, loc=where, ncols=min(columns, 3), frameon=False, fontsize=9, handlelength=1.5)

    return render(3.4 * columns + 0.9, rows * (1.6 + 0.26 * len(levels)) + 0.3 * (1 + (columns == 1)), draw)


def _marginal(axes, contents: RunContents, levels: list[int], axis: int, draws, weights, *, is_named: bool) -> None:
    """One coordinate: ridges of the levels, hottest at the top, over the final draws, which have twice the height."""
    known = [contents.samples[level].position[:, axis] for level in levels]
    limits = _limits(known, draws[:, axis])
    edges = np.linspace(*limits, _NUM_BINS + 1)
    for row, (level, values, colour) in enumerate(zip(levels, known, level_colours(len(levels)), strict=True)):
        base = 2.2 + len(levels) - 1 - row
        shape = base + 0.9 * _scaled(values, edges, None)
        axes.stairs(shape, edges, baseline=base, fill=True, color=colour, alpha=0.7, lw=0)
        axes.axhline(base, color=FAINT, lw=0.6, zorder=0)
        if is_named:
            place = {"ha": "right", "transform": axes.get_yaxis_transform()}
            axes.text(-0.02, base + 0.1, contents.label_of(level), color=colour, **place)
    scale = None
    if weights is not None:
        scale = max(_shares(draws[:, axis], edges, None).max(), _shares(draws[:, axis], edges, weights).max())
        axes.stairs(
            2.0 * _scaled(draws[:, axis], edges, weights, scale), edges, fill=True, color=REFERENCE, alpha=0.4, lw=0
        )
    axes.stairs(2.0 * _scaled(draws[:, axis], edges, None, scale), edges, color=DRAWS, lw=1.3, baseline=None)
    axes.set(xlim=limits, yticks=[], ylim=(-0.02, 2.2 + len(levels)))
    axes.locator_params(axis="x", nbins=5)
    axes.spines["left"].set_visible(False)


def _limits(by_level: list[np.ndarray], draws: np.ndarray) -> tuple[float, float]:
    """All of the draws, and half of the way to the hottest level, which may be so wide that they are a needle in it."""
    low, high = window([*by_level[-1:], draws], tail=0.001)
    if not by_level:
        return low, high
    lowest, highest = window(by_level[:1], tail=0.02)
    return low + 0.5 * min(lowest - low, 0.0), high + 0.5 * max(highest - high, 0.0)


def _shares(values: np.ndarray, edges: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    is_finite = np.isfinite(values)
    counts, _ = np.histogram(values[is_finite], edges, weights=None if weights is None else weights[is_finite])
    return counts / (len(values) if weights is None else 1.0)


def _scaled(values: np.ndarray, edges: np.ndarray, weights: np.ndarray | None, scale: float | None = None):
    """Shares of the bins over the largest, or over `scale`."""
    shares = _shares(values, edges, weights)
    return shares / max(shares.max() if scale is None else scale, 1e-30)


def _weights(log_weights: np.ndarray | None) -> np.ndarray | None:
    """Self-normalised weights, or None without a positive one; undefined ones count as zero."""
    if log_weights is None:
        return None
    usable = np.where(np.isnan(log_weights) | (log_weights == np.inf), -np.inf, log_weights.astype(np.float64))
    if not np.any(usable > -np.inf):
        return None
    weights = np.exp(usable - usable.max())
    return weights / weights.sum()
