"""Figures of the samples that each level was trained on: how the target cools down.

Consumes the level buffers, produces figures, or None where there are none.
"""

import numpy as np

from tempering.plots.contents import RunContents
from tempering.plots.histograms import ridges
from tempering.plots.style import FAINT, Picture, level_colours, render, show_some, window

__all__ = ["level_energies_figure", "levels_figure"]

MAX_LEVELS = 12
"""Levels shown."""
NUM_SHOWN = 1_500
"""Dots in one panel."""


def levels_figure(contents: RunContents) -> Picture | None:
    """Samples by level: scatter plots in two dimensions, the distribution of the first coordinate otherwise."""
    levels = contents.shown_levels(MAX_LEVELS)
    if not levels:
        return None
    if contents.samples[levels[0]].position.shape[1] == 2:
        return _scatter_figure(contents, levels)
    values = [contents.samples[level].position[:, 0] for level in levels]
    return _ridge_figure(contents, levels, values, window(values), "$x_0$")


def level_energies_figure(contents: RunContents) -> Picture | None:
    """The distribution of the energy -log density (at T = 1) of each level's samples."""
    levels = contents.shown_levels(MAX_LEVELS)
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
            axes.plot(shown[:, 0], shown[:, 1], ".", color=colour, ms=2.6, alpha=0.6, mew=0, rasterized=True)
            axes.set(xlim=limits[0], ylim=limits[1], aspect="equal")
            some = f" ({len(shown):,} of {len(points):,})" if len(shown) < len(points) else ""
            axes.set_title(contents.label_of(level) + some, color=colour, fontweight="bold", fontsize=9.5)
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
    def draw(figure) -> None:
        axes = figure.subplots()
        ridges(axes, values, limits, labels=[contents.label_of(level) for level in levels])
        axes.set_xlabel(label)

    return render(7.6, 1.0 + 0.5 * len(levels), draw)
