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
from tempering.plots.histograms import Trusted, against_figure, ridges
from tempering.plots.style import DRAWS, FAINT, MUTED, REFERENCE, Picture, render, show_some, window
from tempering.transforms.centred import Centred, distance_chunks

__all__ = ["configurations_figure", "distances_figure", "particle_levels_figure"]

NUM_PICTURES = 4
"""Configurations in a row of the picture."""
_NUM_MEASURED = 200
"""Configurations that scale and bonds are measured on."""
MAX_LEVELS = 12
"""Levels shown."""
_BOND = 1.3
"""Pairs closer than so many typical nearest distances are joined where no bonds are known: in a cluster, less than the
second shell at 1.4."""
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
    trusted = None
    if reference is not None:
        q, q_error = _shares(reference, geometry, edges)
        trusted = Trusted(q, len(reference), np.hypot(p_error, q_error), "independent configurations")
    outside = f"distances of draws outside this range: {max(1.0 - p.sum(), 0.0):.2%}"
    # The upper well of a double well is where the words are.
    return against_figure(p, edges, len(draws), trusted, outside, _label(contents), room=1.4)


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


# Levels.


def particle_levels_figure(contents: RunContents) -> Picture | None:
    """Distances and energies (at T = 1) of each level's samples, hottest at the top; the reference over the last."""
    geometry, levels = contents.geometry, contents.shown_levels(MAX_LEVELS)
    if geometry is None or not levels:
        return None
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
        labels, sides = [contents.label_of(level) for level in levels], (max(low, 0.0), high)
        ridges(left, distances, sides, labels=labels, is_narrow=True, reference=reference_distances)
        limits = window(energies, tail=0.01, fence=8.0)
        ridges(right, energies, limits, is_narrow=True, reference=reference_energies)
        left.set_xlabel(_label(contents))
        right.set_xlabel("energy, −log density at T = 1")
        if reference is not None:
            place = {"transform": right.transAxes, "ha": "right", "va": "bottom"}
            right.text(1.0, 1.0, "line at T = 1: reference", color=REFERENCE, **place)

    return render(10.0, 1.1 + 0.5 * len(levels), draw)


def _level_distances(samples: LevelSamples, geometry: Centred) -> np.ndarray:
    """Distances of a level's samples, pooled; of large systems, of some."""
    some = show_some(samples.position, max(1, _CHUNK // _num_pairs(geometry)))
    full = np.asarray(jax.vmap(geometry.embed)(jnp.asarray(some, jnp.float32)))
    return _distances(full, geometry).ravel()
