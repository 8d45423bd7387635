"""Figures of the draws themselves: where they are against the target, and the distribution of their energies.

Consumes the arrays of `evaluation.npz`, produces figures, or None where there is nothing to show.
"""

import numpy as np

from tempering.lab.metrics.energy import NUM_BINS
from tempering.plots.contents import RunContents
from tempering.plots.histograms import Trusted, against_figure
from tempering.plots.style import DRAWS, FAINT, MUTED, REFERENCE, Picture, coloured_words, render, show_some, window

__all__ = ["energy_figure", "samples_figure"]

NUM_SHOWN = 4_000
"""Dots in a scatter plot."""
DEPTH = 24.0
"""Log density below the maximum at which the contours end: about 7 standard deviations of a mode."""
NUM_PAIRED = 4
"""Coordinates in the pair plot."""
_MASSES = (0.95, 0.5)
"""Share of the reference inside each contour of the pair plot."""


def samples_figure(contents: RunContents) -> Picture | None:
    """The draws against the target: over its contours in two dimensions, by pairs of coordinates otherwise."""
    draws, reference = contents.points("draws"), contents.points("reference")
    shown = draws if draws is not None else reference
    if shown is None:
        return None
    dim = shown.shape[1]
    return _plane_figure(contents, draws, reference) if dim == 2 else _pairs_figure(draws, reference, dim)


def _plane_figure(contents: RunContents, draws: np.ndarray | None, reference: np.ndarray | None) -> Picture:
    named = (("Draws of the sampler", draws, DRAWS), ("Reference samples", reference, REFERENCE))
    panels = [(title, points, colour) for title, points, colour in named if points is not None]
    names = ("grid_x", "grid_y", "grid_log_density")
    grid = [contents.evaluation[name] for name in names if name in contents.evaluation]
    has_grid = len(grid) == len(names)
    if has_grid:
        limits = [(float(part.min()), float(part.max())) for part in grid[:2]]
    else:
        limits = [window([points[:, axis] for _, points, _ in panels]) for axis in (0, 1)]

    def draw(figure) -> None:
        row = figure.subplots(1, len(panels), sharex=True, sharey=True, squeeze=False)[0]
        for axes, (title, points, colour) in zip(row, panels, strict=True):
            if has_grid:
                _contours(axes, *grid)
            shown = show_some(points, NUM_SHOWN)
            axes.plot(shown[:, 0], shown[:, 1], ".", color=colour, ms=2.8, alpha=0.6, mew=0, rasterized=True)
            axes.set(xlim=limits[0], ylim=limits[1], xlabel="$x_0$", aspect="equal")
            some = "" if len(shown) == len(points) else f"{len(shown):,} of "
            axes.set_title(f"{title}, {some}{len(points):,}", color=colour, fontweight="bold")
            num_outside = _num_outside(points, limits)
            if num_outside:
                corner = {"transform": axes.transAxes, "ha": "right", "va": "bottom", "fontsize": 8.5, "color": MUTED}
                axes.text(0.99, 0.01, f"{num_outside:,} outside this window", **corner)
        row[0].set_ylabel("$x_1$")

    return render(5.0 * len(panels), 5.2, draw)


def _contours(axes, grid_x: np.ndarray, grid_y: np.ndarray, grid_log_density: np.ndarray) -> None:
    """Filled contours down to `DEPTH` below the maximum; deeper is blank, so that modes stand apart."""
    from matplotlib.colors import LinearSegmentedColormap

    depth = np.nan_to_num(grid_log_density - np.nanmax(grid_log_density), nan=-np.inf, posinf=-np.inf, neginf=-np.inf)
    depth = np.maximum(depth, -2 * DEPTH)
    greys = LinearSegmentedColormap.from_list("depth", ["#f5f6f8", "#d5dae1", "#a3abb7"])
    # Levels at equal steps of sqrt(depth): at equal distances from the centre of a Gaussian mode.
    levels = -((np.linspace(np.sqrt(DEPTH), 0.0, 9)) ** 2)
    axes.contourf(grid_x, grid_y, depth, levels=levels, cmap=greys)
    axes.contour(grid_x, grid_y, depth, levels=levels[:1], colors=FAINT, linewidths=0.6, linestyles="solid")


def _num_outside(points: np.ndarray, limits: list[tuple[float, float]]) -> int:
    """Points that a window does not show; those that are not finite among them."""
    inside = np.ones(len(points), bool)
    for axis, (low, high) in enumerate(limits):
        inside &= (points[:, axis] >= low) & (points[:, axis] <= high)
    return int(np.sum(~inside))


def _pairs_figure(draws: np.ndarray | None, reference: np.ndarray | None, dim: int) -> Picture:
    num = min(NUM_PAIRED, dim)
    known = [points for points in (reference, draws) if points is not None]
    limits = [window([known[0][:, axis]], tail=0.0005, margin=0.1) for axis in range(num)]

    def draw(figure) -> None:
        table = figure.subplots(num, num, squeeze=False, sharex="col")
        for i in range(num):
            for j in range(num):
                axes = table[i][j]
                if j > i:
                    axes.set_axis_off()
                    continue
                if i == j:
                    _marginal(axes, draws, reference, i, limits[i])
                else:
                    _pair(axes, draws, reference, (j, i), (limits[j], limits[i]))
                if i == num - 1:
                    axes.set_xlabel(f"$x_{{{j}}}$")
                if j == 0 and i > 0:
                    axes.set_ylabel(f"$x_{{{i}}}$")
                elif i != j:
                    axes.tick_params(labelleft=False)
        _name_parts(table[0][num - 1] if num > 1 else table[0][0], draws, reference, dim, num)

    side = 2.35 * num if num > 1 else 5.0
    return render(side, side if num > 1 else 3.2, draw)


def _marginal(axes, draws: np.ndarray | None, reference: np.ndarray | None, axis: int, limits) -> None:
    bins = np.linspace(limits[0], limits[1], 81)
    if reference is not None:
        axes.stairs(*_density(reference[:, axis], bins), fill=True, color=REFERENCE, alpha=0.35, lw=0)
    if draws is not None:
        axes.stairs(*_density(draws[:, axis], bins), color=DRAWS, lw=1.3)
    axes.set(xlim=limits, yticks=[])
    axes.spines["left"].set_visible(False)


def _density(values: np.ndarray, bins: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Histogram density over *all* values, those outside the bins included."""
    counts, _ = np.histogram(values[np.isfinite(values)], bins)
    return counts / (len(values) * np.diff(bins)), bins


def _pair(axes, draws: np.ndarray | None, reference: np.ndarray | None, pair: tuple[int, int], limits) -> None:
    from matplotlib.colors import LinearSegmentedColormap
    from scipy.ndimage import gaussian_filter

    edges = [np.linspace(low, high, 61) for low, high in limits]
    if draws is not None:
        counts = _counts(draws, pair, edges)
        blues = LinearSegmentedColormap.from_list("draws", ["#0072B200", "#0072B266", "#0072B2cc", "#0072B2ff"])
        # The root of the counts, so that a rare mode is seen beside a frequent one.
        axes.pcolormesh(*edges, np.sqrt(counts).T, cmap=blues, rasterized=True)
    if reference is not None:
        smooth = gaussian_filter(_counts(reference, pair, edges), 1.3)
        centres = [0.5 * (edge[1:] + edge[:-1]) for edge in edges]
        levels = sorted({_level_with_mass(smooth, mass) for mass in _MASSES})
        axes.contour(*centres, smooth.T, levels=levels, colors=REFERENCE, linewidths=1.0)
    axes.set(xlim=limits[0], ylim=limits[1])


def _counts(points: np.ndarray, pair: tuple[int, int], edges: list[np.ndarray]) -> np.ndarray:
    chosen = points[:, pair]
    chosen = chosen[np.isfinite(chosen).all(axis=1)]
    return np.histogram2d(chosen[:, 0], chosen[:, 1], edges)[0]


def _level_with_mass(counts: np.ndarray, mass: float) -> float:
    """The height whose upper set holds the share `mass` of the counts."""
    ordered = np.sort(counts.ravel())[::-1]
    within = np.searchsorted(np.cumsum(ordered), mass * ordered.sum())
    return float(ordered[min(within, len(ordered) - 1)])


def _name_parts(axes, draws: np.ndarray | None, reference: np.ndarray | None, dim: int, num: int) -> None:
    words = []
    if draws is not None:
        words.append((f"draws of the sampler, {len(draws):,}", DRAWS))
    if reference is not None:
        words.append((f"reference samples, {len(reference):,}", REFERENCE))
        if num > 1:
            words.append((f"contours hold {_MASSES[1]:.0%} and {_MASSES[0]:.0%} of them", REFERENCE))
    if dim > num:
        words.append((f"the first {num} of {dim} coordinates", MUTED))
    coloured_words(axes, words, 1.0, 0.98, 0.13 if num > 1 else 0.08)


def energy_figure(contents: RunContents) -> Picture | None:
    """Energies of the draws against those of the reference: histograms with the bins of `energy_tvd`, and their gap."""
    draws, reference = contents.energies("draws"), contents.energies("reference")
    if draws is None:
        return None
    trusted = None
    if reference is None:
        edges = np.linspace(*window([draws], tail=0.005, fence=8.0), num=NUM_BINS + 1)
    else:
        reference = reference[np.isfinite(reference)]
        reference_counts, edges = np.histogram(reference, NUM_BINS)
    counts, _ = np.histogram(draws[np.isfinite(draws)], edges)
    p, num = counts / len(draws), len(draws)
    if reference is not None:
        num_trusted = max(len(reference), 1)
        q = np.divide(reference_counts, num_trusted)
        pooled = (num * p + num_trusted * q) / (num + num_trusted)
        deviation = np.sqrt(pooled * (1 - pooled) * (1 / num + 1 / num_trusted))
        trusted = Trusted(q, len(reference), deviation, "two exact sample sets")
    return against_figure(p, edges, num, trusted, _share_outside(draws, edges), "energy, −log density")


def _share_outside(energies: np.ndarray, edges: np.ndarray) -> str:
    is_finite = np.isfinite(energies)
    below, above = np.mean(is_finite & (energies < edges[0])), np.mean(is_finite & (energies > edges[-1]))
    lost = np.mean(~is_finite)
    parts = f"{below:.2%} below, {above:.2%} above" + (f", {lost:.2%} not finite" if lost else "")
    return f"draws outside this range: {parts}"
