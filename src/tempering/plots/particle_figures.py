"""Figures of particle systems, in what rotations and relabelling leave alone: distances, energies, shapes.

Consumes the arrays of `evaluation.npz` (full coordinates) and the level buffers (inner coordinates) of a run whose
`contents.geometry` is known; produces figures, or None where there is nothing to show. Histograms of single
coordinates would mislead: chains need not visit every rotated copy, and all copies are the same sample.
"""

import jax
import jax.numpy as jnp
import numpy as np

from tempering.errors import SettingsError
from tempering.plots.contents import LevelSamples, RunContents
from tempering.plots.style import (
    DRAWS,
    FAINT,
    INK,
    MUTED,
    REFERENCE,
    Picture,
    coloured_words,
    level_colours,
    render,
    show_some,
    temperature_text,
    window,
)
from tempering.transforms.centred import Centred, distance_chunks

__all__ = ["configurations_figure", "distances_figure", "particle_levels_figure"]

NUM_PICTURES = 4
"""Configurations in a row of the picture."""
_NUM_MEASURED = 200
"""Configurations that scale and bonds are measured on."""
MAX_LEVELS = 12
"""Levels shown; of more, as many are chosen evenly, the first and the last among them."""
_BOND = 1.3
"""Pairs closer than so many typical nearest distances are joined where no bonds are known: in a cluster, less than the
second shell at 1.4."""
_NUM_LEVEL_BINS = 120
NUM_BINS = 200
_CHUNK = 1 << 21
"""Distances handled at a time, and at most shown of a level."""


# Configurations.


def configurations_figure(contents: RunContents) -> Picture | None:
    """A few draws above a few reference configurations, spaced evenly over each set, each with its energy.

    They stand with their principal axes across, up and towards the reader, which no density of particles can see.
    """
    geometry = contents.geometry
    if geometry is None:
        return None
    rows, trusted = [], None
    for name, colour in (("draws", DRAWS), ("reference", REFERENCE)):
        points, energies = contents.points(name), contents.energies(name)
        whole = [] if points is None else np.flatnonzero(np.isfinite(points).all(axis=1))
        if points is not None and len(whole):
            chosen = whole[np.unique(np.linspace(0, len(whole) - 1, NUM_PICTURES).round().astype(int))]
            known = None if energies is None else energies[chosen]
            rows.append((f"{name}, {len(chosen)} of {len(points):,}", colour, _turned(points[chosen], geometry), known))
            trusted = show_some(points[whole], _NUM_MEASURED)
    if trusted is None:
        return None
    # The reference, where there is one, sets the scale, and not by its outliers: a particle that has left the cluster
    # would make dots of all others.
    spacing = _spacing(trusted, geometry)
    sizes = np.quantile(np.abs(_turned(trusted, geometry)[:, :, :2]).max(axis=1), 0.9, axis=0)
    half_width, half_height = (max(float(size), spacing) + 0.5 * spacing for size in sizes)

    def draw(figure) -> None:
        table = figure.subplots(len(rows), NUM_PICTURES, squeeze=False)
        for line, (title, colour, shapes, energies) in zip(table, rows, strict=True):
            for axes in line[len(shapes) :]:
                axes.set_axis_off()
            for index, (axes, shape) in enumerate(zip(line, shapes, strict=False)):
                _picture(axes, shape, spacing, colour, contents.bonds)
                axes.set(xlim=(-half_width, half_width), ylim=(-half_height, half_height), aspect="equal")
                outside = np.sum((np.abs(shape[:, :2]) > np.array([[half_width, half_height]])).any(axis=1))
                words = [] if energies is None else [f"energy {energies[index]:,.4g}".replace("-", "−")]
                words += [f"{outside} outside this window"] if outside else []
                axes.text(0.5, -0.01, ", ".join(words), transform=axes.transAxes, ha="center", va="top", color=MUTED)
            line[0].set_title(title, color=colour, fontweight="bold")

    width = 10.0
    side = width / NUM_PICTURES * min(half_height / half_width, 1.2)
    return render(width, len(rows) * (side + 0.5), draw)


def _particles(points: np.ndarray, geometry: Centred) -> np.ndarray:
    """Rows as configurations, axes (num, n, d)."""
    if points.shape[-1] != geometry.full_dim:
        raise SettingsError(
            f"configurations have {points.shape[-1]} coordinates in a row and {geometry.num_particles} particles in "
            f"{geometry.spatial_dim} dimensions have {geometry.full_dim}; give full coordinates, not those of the "
            "centred subspace"
        )
    return np.asarray(points, np.float64).reshape((-1, geometry.num_particles, geometry.spatial_dim))


def _turned(points: np.ndarray, geometry: Centred) -> np.ndarray:
    """Centred, in principal axes by falling spread, (num, n, 3): missing axes are 0. Rotated, never mirrored."""
    shapes = _particles(points, geometry)
    centred = shapes - shapes.mean(axis=1, keepdims=True)
    _, _, axes = np.linalg.svd(centred, full_matrices=True)
    axes[:, -1] *= np.sign(np.linalg.det(axes))[:, None]
    turned = np.einsum("nid,nad->nia", centred, axes)[:, :, :3]
    return np.pad(turned, ((0, 0), (0, 0), (0, 3 - turned.shape[2])))


def _spacing(points: np.ndarray, geometry: Centred) -> float:
    """The typical distance of a particle to the one nearest to it: the median over particles and configurations."""
    some = _particles(points, geometry)
    distances = np.linalg.norm(some[:, :, None] - some[:, None], axis=-1)
    nearest = np.min(np.where(np.eye(some.shape[1], dtype=bool)[None], np.inf, distances), axis=2)
    return float(np.median(nearest)) or 1.0


def _picture(axes, shape: np.ndarray, spacing: float, colour: str, bonds: tuple[tuple[int, int], ...]) -> None:
    """Particles as discs from the farthest to the nearest, paler with depth; bonds, or close pairs, are joined."""
    from matplotlib.colors import to_rgb
    from matplotlib.patches import Circle

    depth = shape[:, 2]
    span = max(float(np.ptp(depth)), 1e-9)
    is_flat = span < 0.1 * spacing
    nearness = np.ones(len(shape)) if is_flat else (depth - depth.min()) / span
    full = np.array(to_rgb(colour))

    def paler(near: float) -> tuple[float, ...]:
        return tuple(1.0 - (0.25 + 0.75 * near) * (1.0 - full))

    distances = np.linalg.norm(shape[:, None] - shape[None], axis=-1)
    for i, j in bonds or np.argwhere(np.triu(distances < _BOND * spacing, k=1)):
        # Behind the nearer end, in front of what is farther away than both.
        line = {"color": paler(0.5 * float(nearness[i] + nearness[j])), "lw": 2.0}
        axes.plot(*shape[[i, j], :2].T, zorder=2.0 + float(min(nearness[i], nearness[j])) - 1e-3, **line)
    for place, near in zip(shape[:, :2], nearness, strict=True):
        axes.add_patch(
            Circle(place, 0.27 * spacing, facecolor=paler(near), edgecolor="white", lw=0.9, zorder=2.0 + float(near))
        )
    axes.set(xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set(visible=True, color=FAINT)


# Distances.


def distances_figure(contents: RunContents) -> Picture | None:
    """Interatomic distances of draws and reference: histograms with the bins of `distance_tvd`, and their gap."""
    geometry, draws, reference = contents.geometry, contents.points("draws"), contents.points("reference")
    if geometry is None or draws is None:
        return None
    if reference is not None:
        reference = reference[np.isfinite(reference).all(axis=1)]
    if reference is None or not len(reference):
        reference = None
        seen = show_some(draws, max(200, _CHUNK // _num_pairs(geometry)))
        edges = np.linspace(*window([_distances(seen, geometry)], fence=8.0), num=NUM_BINS + 1)
        edges = edges[edges >= 0.0] if edges[0] < 0.0 else edges
    else:
        ranges = [(part.min(), part.max()) for part in _distance_chunks(reference, geometry)]
        span = (min(low for low, _ in ranges), max(high for _, high in ranges))
        edges = np.histogram_bin_edges(np.empty(0), NUM_BINS, span)
    p, p_error = _shares(draws, geometry, edges)

    def draw(figure) -> None:
        heights = [1] if reference is None else [3, 1]
        column = figure.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
        words = [(f"draws of the sampler, {len(draws):,}", DRAWS)]
        if reference is not None:
            q, q_error = _shares(reference, geometry, edges)
            column[0].stairs(100 * q, edges, fill=True, color=REFERENCE, alpha=0.4, lw=0)
            words.append((f"reference samples, {len(reference):,}", REFERENCE))
            _gap(column[1], p - q, np.hypot(p_error, q_error), edges)
        column[0].stairs(100 * p, edges, color=DRAWS, lw=1.2)
        words.append((f"distances of draws outside this range: {max(1.0 - p.sum(), 0.0):.2%}", INK))
        coloured_words(column[0], words, 0.99, 0.97, 0.085)
        column[0].set(ylabel="share of a bin, %", xlim=(edges[0], edges[-1]))
        column[0].set_ylim(
            0, 1.4 * (column[0].dataLim.y1 or 1.0)
        )  # the upper well of a double well is where the words are
        column[-1].set_xlabel(_label(contents))

    return render(9.6, 3.6 if reference is None else 4.6, draw)


def _label(contents: RunContents) -> str:
    return "distance of two atoms, nm" if contents.bonds else "distance of two particles"


def _num_pairs(geometry: Centred) -> int:
    return geometry.num_particles * (geometry.num_particles - 1) // 2


def _distances(points: np.ndarray, geometry: Centred) -> np.ndarray:
    """Axes (num, pair)."""
    return np.concatenate(list(_distance_chunks(points, geometry)))


def _distance_chunks(points: np.ndarray, geometry: Centred):
    return distance_chunks(_particles(points, geometry))


def _shares(points: np.ndarray, geometry: Centred, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The share of all distances in each bin, lost ones included, and its standard error over configurations.

    Distances of one configuration depend on each other: a binomial error of the pooled ones would be too small.
    """
    num_bins, num_pairs = len(edges) - 1, _num_pairs(geometry)
    total, squares = np.zeros(num_bins), np.zeros(num_bins)
    for distances in _distance_chunks(points, geometry):
        place = np.searchsorted(edges, distances, side="right") - 1
        place = np.where(distances == edges[-1], num_bins - 1, place)
        is_inside = (place >= 0) & (place < num_bins)  # NaN is sorted behind everything
        row = np.broadcast_to(np.arange(len(distances))[:, None], distances.shape)
        flat = row[is_inside] * num_bins + place[is_inside]
        share = np.bincount(flat, minlength=len(distances) * num_bins).reshape(-1, num_bins) / num_pairs
        total, squares = total + share.sum(axis=0), squares + (share**2).sum(axis=0)
    mean = total / len(points)
    return mean, np.sqrt(np.maximum(squares / len(points) - mean**2, 0.0) / len(points))


def _gap(axes, gap: np.ndarray, deviation: np.ndarray, edges: np.ndarray) -> None:
    """p - q by bin, over the band of two standard deviations that independent configurations would stay in."""
    axes.stairs(200 * deviation, edges, baseline=-200 * deviation, fill=True, color=FAINT, lw=0)
    axes.axhline(0, color=MUTED, lw=0.6)
    axes.stairs(100 * gap, edges, color=DRAWS, lw=1.0, baseline=None)
    limit = 1.15 * max(100 * np.abs(gap).max(), 200 * deviation.max(), 1e-9)
    axes.set(ylabel="difference, %", ylim=(-limit, limit))
    words = "band: independent configurations, ±2 standard deviations"
    axes.text(0.99, 0.06, words, transform=axes.transAxes, ha="right", va="bottom", fontsize=8.5, color=MUTED)


# Levels.


def particle_levels_figure(contents: RunContents) -> Picture | None:
    """Distances and energies (at T = 1) of each level's samples, hottest at the top; the reference over the last."""
    geometry, levels = contents.geometry, sorted(contents.samples)
    if geometry is None or not levels:
        return None
    if len(levels) > MAX_LEVELS:
        chosen = np.unique(np.linspace(0, len(levels) - 1, MAX_LEVELS).round().astype(int))
        levels = [levels[index] for index in chosen]
    samples = [contents.samples[level] for level in levels]
    distances = [_level_distances(part, geometry) for part in samples]
    energies = [-part.log_density.astype(np.float64) for part in samples]
    temperature = contents.temperature_of(levels[-1])
    reference = contents.points("reference") if temperature == 1 else None
    reference_energies = contents.energies("reference") if temperature == 1 else None
    seen = None if reference is None else show_some(reference, max(1, _CHUNK // _num_pairs(geometry)))
    reference_distances = None if seen is None else _distances(seen, geometry).ravel()

    def draw(figure) -> None:
        left, right = figure.subplots(1, 2)
        low, high = window(distances, fence=8.0)
        _ridges(left, distances, reference_distances, (max(low, 0.0), high))
        _ridges(right, energies, reference_energies, window(energies, tail=0.01, fence=8.0))
        for row, (level, colour) in enumerate(zip(levels, level_colours(len(levels)), strict=True)):
            known = contents.temperature_of(level)
            label = f"level {level}" if known is None else f"T = {temperature_text(known)}"
            place = {"transform": left.get_yaxis_transform(), "ha": "right"}
            left.text(-0.02, len(levels) - 1 - row + 0.12, label, color=colour, **place)
        left.set_xlabel(_label(contents))
        right.set_xlabel("energy, −log density at T = 1")
        if reference is not None:
            right.text(
                1.0,
                1.0,
                "line at T = 1: reference",
                transform=right.transAxes,
                ha="right",
                va="bottom",
                color=REFERENCE,
            )

    return render(10.0, 1.1 + 0.5 * len(levels), draw)


def _level_distances(samples: LevelSamples, geometry: Centred) -> np.ndarray:
    """Distances of a level's samples, pooled; of large systems, of some."""
    some = show_some(samples.position, max(1, _CHUNK // _num_pairs(geometry)))
    full = np.asarray(jax.vmap(geometry.embed)(jnp.asarray(some, jnp.float32)))
    return _distances(full, geometry).ravel()


def _ridges(axes, values: list[np.ndarray], reference: np.ndarray | None, limits: tuple[float, float]) -> None:
    """One histogram a level, each scaled to the same height; what lies outside is written."""
    edges = np.linspace(*limits, _NUM_LEVEL_BINS + 1)
    for row, (value, colour) in enumerate(zip(values, level_colours(len(values)), strict=True)):
        base, counts = len(values) - 1 - row, np.histogram(value[np.isfinite(value)], edges)[0]
        share, top = counts / len(value), counts.max() / len(value)
        has_reference = reference is not None and base == 0
        if reference is not None and has_reference:
            trusted = np.histogram(reference[np.isfinite(reference)], edges)[0] / len(reference)
            top = max(top, trusted.max())
            axes.stairs(0.92 * trusted / top, edges, color=REFERENCE, lw=1.3, baseline=None, zorder=3)
        shape = base + 0.92 * share / (top or 1.0)
        axes.stairs(shape, edges, baseline=base, fill=True, color=colour, alpha=0.3 if has_reference else 0.75, lw=0)
        axes.stairs(shape, edges, color=colour, lw=1.0, baseline=None)
        axes.axhline(base, color=FAINT, lw=0.6, zorder=0)
        outside = 1.0 - share.sum()
        if outside >= 0.01:
            place = {"transform": axes.get_yaxis_transform(), "ha": "right", "fontsize": 8}
            axes.text(1.0, base + 0.62, f"{outside:.0%} outside", color=MUTED, **place)
    axes.set(xlim=limits, yticks=[], ylim=(-0.02, len(values)))
    axes.spines["left"].set_visible(False)
    axes.spines["bottom"].set_color(MUTED)
