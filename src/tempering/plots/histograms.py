"""Histograms that several figures share: one set against a reference with their gap below, and ridges by level."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tempering.plots.style import DRAWS, FAINT, INK, MUTED, REFERENCE, Picture, coloured_words, level_colours, render

__all__ = ["Trusted", "against_figure", "ridges"]

_NUM_BINS = 120
"""Of a ridge."""
_BESIDE, _INSIDE = (1.012, 0.12, "left"), (1.0, 0.62, "right")
"""Where the share outside is written: across the axes, above the foot of the ridge, and its alignment."""


class Trusted(NamedTuple):
    """The reference's share of each bin, its samples, and the gap's standard deviation for two sets of `band`."""

    share: np.ndarray
    num: int
    deviation: np.ndarray
    band: str


def against_figure(
    share: np.ndarray, edges: np.ndarray, num: int, trusted: Trusted | None, outside: str, label: str, room: float = 0.0
) -> Picture:
    """The shares of bins of `num` draws over the reference's, and their gap below; the words say what is `outside`.

    `room` is the height of the axes in heights of the bars; 0 leaves it to Matplotlib.
    """

    def draw(figure) -> None:
        heights = [1] if trusted is None else [3, 1]
        column = figure.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
        words = [(f"draws of the sampler, {num:,}", DRAWS)]
        if trusted is not None:
            column[0].stairs(100 * trusted.share, edges, fill=True, color=REFERENCE, alpha=0.4, lw=0)
            words.append((f"reference samples, {trusted.num:,}", REFERENCE))
            _gap(column[1], share - trusted.share, trusted.deviation, edges, trusted.band)
        column[0].stairs(100 * share, edges, color=DRAWS, lw=1.2)
        words.append((outside, INK))
        coloured_words(column[0], words, 0.99, 0.97, 0.085)
        column[0].set(ylabel="share of a bin, %", xlim=(edges[0], edges[-1]))
        column[0].set_ylim(0, room * (column[0].dataLim.y1 or 1.0) if room else None)
        column[-1].set_xlabel(label)

    return render(9.6, 3.6 if trusted is None else 4.6, draw)


def _gap(axes, gap: np.ndarray, deviation: np.ndarray, edges: np.ndarray, band: str) -> None:
    """The gap by bin, over a band of two standard deviations."""
    axes.stairs(200 * deviation, edges, baseline=-200 * deviation, fill=True, color=FAINT, lw=0)
    axes.axhline(0, color=MUTED, lw=0.6)
    axes.stairs(100 * gap, edges, color=DRAWS, lw=1.0, baseline=None)
    limit = 1.15 * max(100 * np.abs(gap).max(), 200 * deviation.max(), 1e-9)
    axes.set(ylabel="difference, %", ylim=(-limit, limit))
    corner = {"transform": axes.transAxes, "ha": "right", "va": "bottom", "fontsize": 8.5, "color": MUTED}
    axes.text(0.99, 0.06, f"band: {band}, ±2 standard deviations", **corner)


def ridges(
    axes,
    values: Sequence[np.ndarray],
    limits: tuple[float, float],
    *,
    labels: Sequence[str] = (),
    is_narrow: bool = False,
    reference: np.ndarray | None = None,
) -> None:
    """One histogram a level, hottest at the top, each scaled to the same height; what lies outside is written.

    Names stand to the left and shares outside to the right, or inside where the panel is narrow. The reference is a
    line over the last level.
    """
    label_at, (across, above, alignment) = (-0.02, _INSIDE) if is_narrow else (-0.012, _BESIDE)
    edges, beside = np.linspace(*limits, _NUM_BINS + 1), {"transform": axes.get_yaxis_transform()}
    for row, (value, colour) in enumerate(zip(values, level_colours(len(values)), strict=True)):
        base, counts = len(values) - 1 - row, np.histogram(value[np.isfinite(value)], edges)[0]
        share, top = counts / len(value), counts.max() / len(value)
        alpha = 0.75
        if reference is not None and base == 0:
            trusted = np.histogram(reference[np.isfinite(reference)], edges)[0] / len(reference)
            top, alpha = max(top, trusted.max()), 0.3
            axes.stairs(0.92 * trusted / top, edges, color=REFERENCE, lw=1.3, baseline=None, zorder=3)
        shape = base + 0.92 * share / (top or 1.0)
        axes.stairs(shape, edges, baseline=base, fill=True, color=colour, alpha=alpha, lw=0)
        axes.stairs(shape, edges, color=colour, lw=1.0, baseline=None)
        axes.axhline(base, color=FAINT, lw=0.6, zorder=0)
        if labels:
            axes.text(label_at, base + 0.12, labels[row], color=colour, ha="right", **beside)
        if 1.0 - share.sum() >= 0.01:
            words = f"{1.0 - share.sum():.0%} outside"
            axes.text(across, base + above, words, color=MUTED, fontsize=8, ha=alignment, **beside)
    axes.set(xlim=limits, yticks=[], ylim=(-0.02, len(values)))
    axes.spines["left"].set_visible(False)
    axes.spines["bottom"].set_color(MUTED)
