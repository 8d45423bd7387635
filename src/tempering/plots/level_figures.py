"""Figures of the samples that each level was trained on: how the target cools down.

Consumes the level buffers, produces figures, or None where there are none.
"""

import numpy as np

from tempering.plots.contents import RunContents
from tempering.plots.style import FAINT, MUTED, Picture, level_colours, render, show_some, temperature_text, window

__all__ = ["level_energies_figure", "levels_figure"]

MAX_LEVELS = 12
"""Levels shown; of more, as many are chosen evenly, the first and the last among them."""
NUM_SHOWN = 1_500
"""Dots in one panel."""
_NUM_BINS = 120


def _chosen(contents: RunContents) -> list[int]:
    levels = sorted(contents.samples)
    if len(levels) <= MAX_LEVELS:
        return levels
    return [levels[index] for index in np.unique(np.linspace(0, len(levels) - 1, MAX_LEVELS).round().astype(int))]


def _label(contents: RunContents, level: int) -> str:
    temperature = contents.temperature_of(level)
    return f"level {level}" if temperature is None else f"T = {temperature_text(temperature)}"


def levels_figure(contents: RunContents) -> Picture | None:
    """Samples by level: scatter plots in two dimensions, the distribution of the first coordinate otherwise."""
    levels = _chosen(contents)
    if not levels:
        return None
    if contents.samples[levels[0]].position.shape[1] == 2:
        return _scatter_figure(contents, levels)
    values = [contents.samples[level].position[:, 0] for level in levels]
    return _ridge_figure(contents, levels, values, window(values), "$x_0$")


def level_energies_figure(contents: RunContents) -> Picture | None:
    """The distribution of the energy -log density (at T = 1) of each level's samples."""
    levels = _chosen(contents)
    if not levels:
        return None
    energies = [-contents.samples[level].log_density.astype(np.float64) for level in levels]
    limits = window(energies, tail=0.01, fence=8.0)
    return _ridge_figure(contents, levels, energies, limits, "energy, −log density at T = 1")


def _scatter_figure(contents: RunContents, levels: list[int]) -> Picture:
    num_columns = min(len(levels), 4 if len(levels) in (4, 7, 8, 12) else 5)
    num_rows = -(-len(levels) // num_columns)
    everything = [contents.samples[level].position for level in levels]
    limits = [window([points[:, axis] for points in everything], margin=0.03) for axis in (0, 1)]
    colours = level_colours(len(levels))

    def draw(figure) -> None:
        table = figure.subplots(num_rows, num_columns, sharex=True, sharey=True, squeeze=False)
        for axes in table.ravel()[len(levels) :]:
            axes.set_axis_off()
        for axes, level, points, colour in zip(table.ravel(), levels, everything, colours, strict=False):
            shown = show_some(points, NUM_SHOWN)
            axes.plot(shown[:, 0], shown[:, 1], ".", color=colour, ms=2.6, alpha=0.6, mew=0)
            axes.set(xlim=limits[0], ylim=limits[1], aspect="equal")
            axes.set_title(_label(contents, level), color=colour, fontweight="bold")
            axes.tick_params(labelsize=8, color=FAINT)
            for spine in axes.spines.values():
                spine.set(visible=True, color=FAINT)

    width = 10.4
    shape = (limits[1][1] - limits[1][0]) / (limits[0][1] - limits[0][0])
    height = num_rows * (width / num_columns * min(max(shape, 0.4), 1.6) + 0.25)
    return render(width if num_columns > 2 else 4.0 * num_columns, height if num_columns > 2 else 4.2, draw)


def _ridge_figure(
    contents: RunContents, levels: list[int], values: list[np.ndarray], limits: tuple[float, float], label: str
) -> Picture:
    """One histogram a level, hottest at the top, each scaled to the same height; what lies outside is written."""
    edges = np.linspace(*limits, _NUM_BINS + 1)
    colours = level_colours(len(levels))

    def draw(figure) -> None:
        axes = figure.subplots()
        for row, (level, value, colour) in enumerate(zip(levels, values, colours, strict=True)):
            counts, _ = np.histogram(value[np.isfinite(value)], edges)
            base = len(levels) - 1 - row
            shape = base + 0.92 * counts / max(counts.max(), 1)
            axes.stairs(shape, edges, baseline=base, fill=True, color=colour, alpha=0.75, lw=0)
            axes.stairs(shape, edges, color=colour, lw=1.0, baseline=None)
            axes.axhline(base, color=FAINT, lw=0.6, zorder=0)
            beside = {"transform": axes.get_yaxis_transform()}
            axes.text(-0.012, base + 0.12, _label(contents, level), color=colour, ha="right", **beside)
            outside = 1.0 - counts.sum() / len(value)
            if outside >= 0.01:
                axes.text(1.012, base + 0.12, f"{outside:.0%} outside", color=MUTED, fontsize=8, **beside)
        axes.set(xlim=limits, yticks=[], xlabel=label, ylim=(-0.02, len(levels)))
        axes.spines["left"].set_visible(False)
        axes.spines["bottom"].set_color(MUTED)

    return render(7.6, 1.0 + 0.5 * len(levels), draw)
