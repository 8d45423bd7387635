"""Figures of molecules: Ramachandran plots, dihedrals, energies, the rare mode, bonds and angles.

Consumes a molecule with draws and, where there are any, trusted conformations (in nm, as the metrics take them);
produces figures, of which `png_of` makes bytes. No density is evaluated here.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tempering.errors import SettingsError
from tempering.lab.metrics.marginals import (
    NUM_RAMACHANDRAN_BINS,
    dihedral_histogram,
    marginal_histogram,
    marginal_tvds,
    ramachandran_histogram,
    ramachandran_kl,
)
from tempering.lab.metrics.metric import MetricError
from tempering.lab.metrics.populations import RARE_MODE, Population
from tempering.molecules.observables import (
    angle_atoms,
    atoms_label,
    backbone,
    backbone_angles,
    bond_angles,
    bond_lengths,
)
from tempering.plots.style import DRAWS, FAINT, INK, MUTED, REFERENCE, SERIES, Picture, coloured_words, render

__all__ = ["bonds_figure", "dihedrals_figure", "ramachandran_figure", "rare_mode_figure"]

DEPTH = 10.0
"""kT below the most likely bin at which colours end; the rare mode of alanine dipeptide lies at about 5."""
REWEIGHTED = SERIES[2]
NUM_SHOWN = 5
"""Bonds, and angles, in a row of the picture: those farthest from the reference."""
_NUM_MARGINAL_BINS = 72
"""Of 5 degrees: with the metric's 200, ten thousand draws are ragged."""
_NUM_BOND_BINS = 60


def ramachandran_figure(
    target: Any,
    draws: npt.ArrayLike,
    reference: npt.ArrayLike | None = None,
    *,
    log_weights: npt.ArrayLike | None = None,
    residue: int = 0,
) -> Picture:
    """Log density of (phi, psi) of the draws, of the draws with their weights, and of the reference, side by side.

    Args:
        target: the molecule.
        draws: (num, 3 * atom) or (num, atom, 3), nm.
        reference: trusted conformations, of the same form.
        log_weights: of the draws, shape (num,).
        residue: which of `backbone(target)`.

    Raises:
        SettingsError: for a wrong shape, or a residue that the molecule does not have.
        MetricError: if no draw is finite.
    """
    x = _residue_angles(target, draws, residue)
    y = None if reference is None else _residue_angles(target, reference, residue)
    panels: list[tuple[str, np.ndarray, npt.ArrayLike | None, str]] = [("Draws", x, None, DRAWS)]
    if log_weights is not None:
        panels.append(("Draws, reweighted", x, log_weights, REWEIGHTED))
    if y is not None:
        panels.append(("Reference", y, None, REFERENCE))

    def draw(figure) -> None:
        row = figure.subplots(1, len(panels), sharex=True, sharey=True, squeeze=False)[0]
        depths = [_depth(ramachandran_histogram(angles, log_weights=weights)) for _, angles, weights, _ in panels]
        deepest = max(1.0, *(float(np.nanmax(depth)) for depth in depths))
        for axes, depth, (title, angles, weights, colour) in zip(row, depths, panels, strict=True):
            image = _torus(axes, depth, min(deepest, DEPTH))
            axes.set_title(f"{title}, {len(angles):,}", color=colour, fontweight="bold")
            axes.set_xlabel("φ, degrees")
            if y is not None and angles is not y:
                kl = ramachandran_kl(angles, y, log_weights=weights)
                place = {"transform": axes.transAxes, "ha": "right", "va": "bottom", "backgroundcolor": "white"}
                axes.text(0.98, 0.03, f"KL {kl:.3g}", color=INK, **place)
        row[0].set_ylabel("ψ, degrees")
        extend = "max" if deepest > DEPTH else "neither"
        bar = figure.colorbar(image, ax=list(row), shrink=0.86, pad=0.02, extend=extend)
        bar.set_label("−log density above its minimum, kT")
        bar.outline.set_visible(False)

    return render(3.9 * len(panels) + 1.0, 4.2, draw)


def _depth(density: np.ndarray) -> np.ndarray:
    """kT below the most likely bin; NaN, which is left blank, for empty bins.

    Raises:
        MetricError: if there is nothing to show.
    """
    seen = density > 0
    if not np.any(seen):
        raise MetricError("no draw has finite phi and psi; there is nothing to show")
    depth = np.full(density.shape, np.nan)
    depth[seen] = np.log(np.max(density) / density[seen])
    return depth


def _torus(axes, depth: np.ndarray, deepest: float):
    """The picture of one histogram, with the rare mode between dashed lines."""
    edges = np.linspace(-180.0, 180.0, NUM_RAMACHANDRAN_BINS + 1)
    # Rows of the picture are psi.
    image = axes.pcolormesh(edges, edges, depth.T, cmap="viridis", vmin=0.0, vmax=deepest, rasterized=True)
    for place in RARE_MODE:
        axes.axvline(place, color=MUTED, lw=0.8, ls=(0, (4, 3)))
    _degrees(axes)
    axes.set(ylim=(-180, 180), yticks=range(-180, 181, 90), aspect="equal")
    return image


def _degrees(axes) -> None:
    axes.set(xlim=(-180, 180), xticks=range(-180, 181, 90))


def dihedrals_figure(
    target: Any,
    draws: npt.ArrayLike,
    reference: npt.ArrayLike | None = None,
    *,
    log_weights: npt.ArrayLike | None = None,
    residue: int = 0,
) -> Picture:
    """Marginals of phi and psi: as they are above, and on a logarithmic scale below, where rare modes show.

    Arguments and errors are those of `ramachandran_figure`.
    """
    x = _residue_angles(target, draws, residue)
    y = None if reference is None else _residue_angles(target, reference, residue)

    def draw(figure) -> None:
        table = figure.subplots(2, 2, sharex=True)
        for column, name in enumerate("φψ"):
            angles, trusted = x[:, column], None if y is None else y[:, column]
            upper, lower = table[:, column]
            against = angles[np.isfinite(angles)] if trusted is None else trusted
            plain = dihedral_histogram(angles, against, num_bins=_NUM_MARGINAL_BINS)
            curves = [(plain.density, DRAWS)]
            words = [(_with_tvd(f"draws, {len(x):,}", angles, trusted), DRAWS)]
            if log_weights is not None:
                weighted = dihedral_histogram(angles, against, log_weights=log_weights, num_bins=_NUM_MARGINAL_BINS)
                curves.append((weighted.density, REWEIGHTED))
                words.append((_with_tvd("draws, reweighted", angles, trusted, log_weights), REWEIGHTED))
            edges, per_degree = np.degrees(plain.edges), 100 * np.pi / 180
            for axes in (upper, lower):
                if trusted is not None:
                    shown = per_degree * plain.reference_density
                    axes.stairs(shown, edges, fill=True, color=REFERENCE, alpha=0.35, lw=0)
                for density, colour in curves:
                    axes.stairs(per_degree * density, edges, color=colour, lw=1.3, baseline=None)
                _degrees(axes)
            if trusted is not None:
                words.append((f"reference, {len(trusted):,}", REFERENCE))
            upper.set_ylim(0, 1.45 * (upper.dataLim.y1 or 1.0))
            coloured_words(upper, words, 0.99, 0.98, 0.105)
            lower.set_yscale("log")
            # Half a draw in a bin; below it a logarithm has nothing to show.
            most = max(len(x), 0 if y is None else len(y))
            lower.set_ylim(bottom=50 / most * _NUM_MARGINAL_BINS / 360)
            lower.set_xlabel(f"{name}, degrees")
            if column == 0:
                for place in RARE_MODE:
                    lower.axvline(place, color=MUTED, lw=0.8, ls=(0, (4, 3)))
        for axes in table[:, 0]:
            axes.set_ylabel("% per degree")

    return render(9.6, 5.2, draw)


def _with_tvd(words: str, values: np.ndarray, reference: np.ndarray | None, log_weights=None) -> str:
    if reference is None:
        return words
    return f"{words}: TVD {dihedral_histogram(values, reference, log_weights=log_weights).tvd:.3f}"


def rare_mode_figure(populations: Mapping[str, Population], temperature: float) -> Picture:
    """Populations of a mode with their errors, a bar each, and its free energy against everything else.

    Args:
        populations: by name, such as `{"draws": rare_mode(phi), "reference": rare_mode(reference_phi)}`; names that
            begin with "reference" are drawn as references, and "reweighted" as such.
        temperature: kelvin.

    Raises:
        SettingsError: for none.
    """
    if not populations:
        raise SettingsError("populations is empty; give at least one, such as {'draws': rare_mode(phi)}")
    names, known = list(populations), list(populations.values())
    colours = [_colour(name) for name in names]
    rows = np.arange(len(names))[::-1]

    def draw(figure) -> None:
        left, right = figure.subplots(1, 2, sharey=True)
        shares, errors = (100 * np.array(part) for part in zip(*((p.share, p.error) for p in known), strict=True))
        left.barh(rows, shares, 0.62, color=colours, alpha=0.45, lw=0)
        for row, p, share, error, colour in zip(rows, known, shares, errors, colours, strict=True):
            bar = {"color": colour, "lw": 1.6, "capsize": 3.5}
            left.errorbar(share, row, xerr=[[min(error, share)], [error]], fmt="none", **bar)
            value, spread = p.free_energy(temperature)
            if np.isfinite(value):
                right.errorbar(value, row, xerr=spread, fmt="o", ms=5, **bar)
                words = f"{value:.2f} ± {spread:.2f}"
            else:
                words = "no draw inside" if p.share == 0.0 else "all draws inside"
            right.text(1.02, row, words, transform=right.get_yaxis_transform(), va="center", color=INK)
            digits = max(0, 1 - int(np.floor(np.log10(error)))) if error > 0 else 3
            words = f"{share:.{digits}f} ± {error:.{digits}f} %, {p.num_inside:,} of {p.num_samples:,}"
            left.text(share + error, row, f"  {words}", va="center", color=INK)
        left.set(xlim=(0, 2.3 * float(np.max(shares + errors))), xlabel="population, %")
        left.set_yticks(rows, names)
        left.tick_params(axis="y", length=0)
        left.set_ylim(-0.6, len(names) - 0.4)
        right.set_xlabel("free energy against the rest, kJ/mol")
        right.tick_params(axis="y", length=0)
        right.grid(axis="x")
        right.margins(x=0.15)
        if not any(0.0 < p.share < 1.0 for p in known):  # nothing is drawn, and the axis would be made up
            right.set_xticks([])
        right.spines["left"].set_visible(False)

    return render(9.6, 1.1 + 0.5 * len(names), draw)


def _colour(name: str) -> str:
    if name.startswith("reference"):
        return REFERENCE
    return REWEIGHTED if "reweighted" in name else DRAWS


def bonds_figure(
    target: Any, draws: npt.ArrayLike, reference: npt.ArrayLike, *, log_weights: npt.ArrayLike | None = None
) -> Picture:
    """The bond lengths and the bond angles farthest from the reference, five each, by their total variation.

    Args:
        target: the molecule, with bonds.
        draws, reference: (num, 3 * atom) or (num, atom, 3), nm.
        log_weights: of the draws, shape (num,).

    Raises:
        SettingsError: for a wrong shape, or a molecule without bonds.
    """
    lengths = [bond_lengths(target, x) for x in (draws, reference)]
    angles = [np.degrees(bond_angles(target, x)) for x in (draws, reference)]
    rows = [("bond length, nm", target.record.bonds, *lengths), ("bond angle, degrees", angle_atoms(target), *angles)]

    def draw(figure) -> None:
        table = figure.subplots(len(rows), NUM_SHOWN, squeeze=False)
        for line, (unit, atoms, values, trusted) in zip(table, rows, strict=True):
            tvds = marginal_tvds(values, trusted, log_weights=log_weights) if len(atoms) else np.empty(0)
            for axes in line[len(atoms) :]:
                axes.set_axis_off()
            for axes, place in zip(line, np.argsort(-tvds), strict=False):
                _bond(axes, values[:, place], trusted[:, place], log_weights)
                axes.set_title(f"{atoms_label(target, atoms[place])}\nTVD {tvds[place]:.3f}", fontsize=8.5)
            line[0].set_xlabel(f"{unit}; worst of {len(atoms)}, mean TVD {np.mean(tvds):.3f}", loc="left")
        words = "line: draws, reweighted" if log_weights is not None else "line: draws"
        figure.suptitle(f"{words}; area: reference", x=0.01, ha="left", fontsize=9.5, color=MUTED)

    return render(10.0, 4.4, draw)


def _bond(axes, values: np.ndarray, reference: np.ndarray, log_weights) -> None:
    low, high = reference.min(), reference.max()
    room = 0.25 * (high - low)
    histogram = marginal_histogram(
        values, reference, log_weights=log_weights, span=(low - room, high + room), num_bins=_NUM_BOND_BINS
    )
    axes.stairs(histogram.reference_density, histogram.edges, fill=True, color=REFERENCE, alpha=0.4, lw=0)
    colour = DRAWS if log_weights is None else REWEIGHTED
    axes.stairs(histogram.density, histogram.edges, color=colour, lw=1.2, baseline=None)
    if histogram.share_outside >= 0.001:
        words = f"{histogram.share_outside:.1%} outside"
        axes.text(1.0, 0.98, words, transform=axes.transAxes, ha="right", va="top", fontsize=8, color=MUTED)
    axes.set(yticks=[], xlim=histogram.edges[[0, -1]], ylim=(0, None))
    axes.locator_params(axis="x", nbins=3)
    axes.spines["left"].set_visible(False)
    axes.spines["bottom"].set_color(FAINT)


def _residue_angles(target: Any, draws: npt.ArrayLike, residue: int) -> np.ndarray:
    angles = backbone_angles(target, draws)
    if not 0 <= residue < angles.shape[1]:
        known = ", ".join(f"{place} ({found.residue})" for place, found in enumerate(backbone(target)))
        raise SettingsError(f"residue is {residue}; this molecule has {known}")
    return angles[:, residue]
