"""Figures of pairs of coordinates: a corner plot of weighted draws, and the modes that searches found.

Consumes draws in the user's coordinates with their weights; produces figures, or None where there is nothing to show.
"""

from collections.abc import Sequence

import numpy as np

from tempering.plots.style import DRAWS, FAINT, INK, MUTED, REFERENCE, Picture, coloured_words, render, show_some
from tempering.runs.records import Mode
from tempering.weights.estimates import shares_of

__all__ = ["MAX_CORNER", "corner_figure", "modes_figure", "nearest_shares", "weighted_window"]

MAX_CORNER = 6
"""Coordinates in a corner plot."""
MAX_MODES = 12
"""Modes with a bar."""
_NUM_BINS, _NUM_CELLS = 60, 48
_MASSES = (0.95, 0.5)
"""Share of the target inside each contour."""
_NUM_DOTS = 3_000


def weighted_window(values: np.ndarray, shares: np.ndarray, tail: float = 0.001) -> tuple[float, float]:
    """An axis range with all but `tail` of the weight at each end, and a margin."""
    is_used = np.isfinite(values) & (shares > 0)
    if not np.any(is_used):
        return 0.0, 1.0
    x, w = np.asarray(values, np.float64)[is_used], shares[is_used]
    order = np.argsort(x)
    low, high = np.interp([tail, 1 - tail], np.cumsum(w[order]) / w.sum(), x[order])
    pad = 0.06 * (high - low) or max(1e-6, 0.05 * abs(low))
    return float(low - pad), float(high + pad)


def corner_figure(
    values: np.ndarray, log_weights: np.ndarray | None, names: Sequence[str], modes: Sequence[Mode] = ()
) -> Picture | None:
    """Marginals on the diagonal and densities of pairs below it, by weight; crosses are modes that searches found."""
    shares, num = shares_of(log_weights, len(values)), min(MAX_CORNER, values.shape[1])
    if shares is None or num < 2:
        return None
    limits = [weighted_window(values[:, k], shares) for k in range(num)]
    at = np.array([mode.position for mode in modes if len(mode.position) == values.shape[1]])

    def draw(figure) -> None:
        table = figure.subplots(num, num, squeeze=False, sharex="col")
        for i in range(num):
            for j in range(num):
                axes = table[i][j]
                if j > i:
                    axes.set_axis_off()
                    continue
                if i == j:
                    _diagonal(axes, values[:, i], shares, log_weights is not None, limits[i])
                else:
                    _cloud(axes, values[:, j], values[:, i], shares, (limits[j], limits[i]))
                    if len(at):
                        axes.plot(at[:, j], at[:, i], "+", color=REFERENCE, ms=7, mew=1.3)
                if i == num - 1:
                    axes.set_xlabel(names[j])
                if j == 0 and i > 0:
                    axes.set_ylabel(names[i])
                elif i != j:
                    axes.tick_params(labelleft=False)
        words = [(f"{len(values):,} draws" + (" by weight" if log_weights is not None else ""), DRAWS)]
        words += [("line: as drawn, without weights", INK)] if log_weights is not None else []
        words += [(f"contours: {_MASSES[1]:.0%} and {_MASSES[0]:.0%}", MUTED)]
        words += [("crosses: modes that were found", REFERENCE)] if len(at) else []
        words += [(f"first {num} of {values.shape[1]} coordinates", MUTED)] if values.shape[1] > num else []
        coloured_words(table[0][num - 1], words, 1.0, 0.98, 0.13, takes_room=num < 3)

    side = max(2.2 * num, 5.2)
    return render(side, side, draw)


def _diagonal(axes, values: np.ndarray, shares: np.ndarray, is_weighted: bool, limits: tuple[float, float]) -> None:
    bins, is_finite = np.linspace(*limits, _NUM_BINS + 1), np.isfinite(values)
    counts, _ = np.histogram(values[is_finite], bins, weights=shares[is_finite])
    axes.stairs(counts, bins, fill=True, color=DRAWS, alpha=0.35, lw=0)
    axes.stairs(counts, bins, color=DRAWS, lw=1.2)
    if is_weighted:
        raw, _ = np.histogram(values[is_finite], bins)
        axes.stairs(raw / len(values), bins, color=INK, lw=0.8)
    axes.set(xlim=limits, yticks=[], ylim=(0, None))
    axes.spines["left"].set_visible(False)


def _cloud(axes, x: np.ndarray, y: np.ndarray, shares: np.ndarray, limits) -> None:
    from matplotlib.colors import LinearSegmentedColormap
    from scipy.ndimage import gaussian_filter

    edges = [np.linspace(low, high, _NUM_CELLS + 1) for low, high in limits]
    is_finite = np.isfinite(x) & np.isfinite(y)
    counts, *_ = np.histogram2d(x[is_finite], y[is_finite], edges, weights=shares[is_finite])
    smooth = gaussian_filter(counts, 0.9)
    clear = LinearSegmentedColormap.from_list("draws", ["#0072B200", "#0072B255", "#0072B2cc", "#0072B2ff"])
    # The root, so that a rare mode is seen beside a frequent one.
    axes.pcolormesh(*edges, np.sqrt(smooth).T, cmap=clear, rasterized=True, lw=0)
    centres = [0.5 * (edge[1:] + edge[:-1]) for edge in edges]
    levels = sorted({_height(smooth, mass) for mass in _MASSES})
    if levels[0] > 0 and levels[0] < smooth.max():
        axes.contour(*centres, smooth.T, levels=levels, colors=INK, linewidths=0.7)
    axes.set(xlim=limits[0], ylim=limits[1])


def _height(counts: np.ndarray, mass: float) -> float:
    """The height whose upper set holds the share `mass` of the counts."""
    ordered = np.sort(counts.ravel())[::-1]
    within = np.searchsorted(np.cumsum(ordered), mass * ordered.sum())
    return float(ordered[min(within, len(ordered) - 1)])


def nearest_shares(values: np.ndarray, log_weights: np.ndarray | None, modes: Sequence[Mode]) -> np.ndarray | None:
    """The weight of the draws that are nearer to a mode than to any other, in standard deviations of the draws."""
    at = np.array([mode.position for mode in modes])
    shares = shares_of(log_weights, len(values))
    if shares is None or at.ndim != 2 or at.shape[1] != values.shape[1]:
        return None
    is_used = np.all(np.isfinite(values), axis=1) & (shares > 0)
    x, w = np.asarray(values, np.float64)[is_used], shares[is_used] / shares[is_used].sum()
    scale = np.sqrt(np.sum(w[:, None] * (x - w @ x) ** 2, axis=0))
    scale = np.where(scale > 0, scale, 1.0)
    nearest = np.empty(len(x), int)
    for start in range(0, len(x), 1000):
        gaps = (x[start : start + 1000, None] - at) / scale
        nearest[start : start + 1000] = np.argmin(np.sum(gaps**2, axis=2), axis=1)
    return np.bincount(nearest, weights=w, minlength=len(at))


def modes_figure(
    values: np.ndarray, log_weights: np.ndarray | None, names: Sequence[str], modes: Sequence[Mode]
) -> Picture | None:
    """Every mode that searches found: its weight by curvature, the draws nearest to it, and where it lies."""
    found = nearest_shares(values, log_weights, modes)
    if found is None:
        return None
    heaviest = np.argsort([-mode.weight for mode in modes])[:MAX_MODES]
    at = np.array([mode.position for mode in modes])
    is_plane = values.shape[1] > 1
    pair = _telling_pair(values, at)

    def draw(figure) -> None:
        columns = figure.subplots(1, 2 if is_plane else 1, squeeze=False, width_ratios=[1.1, 1][: 1 + is_plane])[0]
        bars, rows = columns[0], np.arange(len(heaviest))
        bars.barh(rows - 0.2, [100 * found[k] for k in heaviest], 0.38, color=DRAWS, label="weighted draws near it")
        by_shape = [100 * modes[k].weight for k in heaviest]
        bars.barh(rows + 0.2, by_shape, 0.38, color=REFERENCE, alpha=0.55, label="by the curvature at its top")
        bars.set_yticks(rows, [f"mode {k + 1}" for k in range(len(heaviest))])
        bars.set_ylim(max(len(heaviest), 2) - 0.4, -0.6)
        bars.set_xlabel("share of the mass, %")
        more = f", the {len(heaviest)} heaviest" if len(modes) > len(heaviest) else ""
        bars.set_title(f"{len(modes)} mode{'s' * (len(modes) != 1)}{more}")
        figure.legend(loc="outside upper left", ncols=2, frameon=False, fontsize=9, handlelength=1.2)
        if is_plane:
            plane, shown = columns[1], show_some(values, _NUM_DOTS)[:, pair]
            plane.plot(*shown.T, ".", color=DRAWS, ms=2.4, alpha=0.35, mew=0, rasterized=True)
            plane.plot(*at[:, pair].T, "o", mfc="none", color=REFERENCE, ms=8, mew=1.4)
            for number, k in enumerate(heaviest, 1):
                where = {"textcoords": "offset points", "xytext": (6, 5), "color": REFERENCE, "fontsize": 8.5}
                plane.annotate(str(number), at[k, pair], **where)
            plane.set(xlabel=names[pair[0]], ylabel=names[pair[1]])
            plane.grid(color=FAINT)

    return render(10.0 if is_plane else 6.0, max(3.7, 1.4 + 0.36 * len(heaviest)), draw)


def _telling_pair(values: np.ndarray, at: np.ndarray) -> list[int]:
    """The two coordinates in which modes are farthest apart, over the spread of the draws; the first two of equals."""
    spread = np.std(np.where(np.isfinite(values), values, 0.0), axis=0)
    apart = np.std(at, axis=0) / np.where(spread > 0, spread, 1.0)
    return sorted(np.argsort(-apart, kind="stable")[:2].tolist())
