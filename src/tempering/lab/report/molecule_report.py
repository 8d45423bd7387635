"""The figures of molecules for the report of a run: from a folder's contents to `molecule_figures`.

Consumes `RunContents`; produces figures, or None where the run is on no molecule that has a name, or there is nothing
to show. Conformations are shown in one hand, as the metrics compare them. The folder keeps weights without their draws,
so that no figure here is weighted.
"""

import dataclasses
from collections.abc import Callable

import numpy as np

from tempering.lab.metrics.molecules import in_one_hand
from tempering.lab.metrics.populations import rare_mode
from tempering.lab.report.contents import configured_target
from tempering.lab.report.molecule_figures import bonds_figure, dihedrals_figure, ramachandran_figure, rare_mode_figure
from tempering.molecules.observables import backbone, backbone_angles
from tempering.molecules.target import MoleculeTarget
from tempering.plots.contents import RunContents, conformations_of
from tempering.plots.style import Picture
from tempering.targets.inner import Inner

__all__ = ["MOLECULE_FIGURES", "in_atoms", "molecule_of"]


def molecule_of(contents: RunContents) -> MoleculeTarget | None:
    """The molecule of a run on a named target, in whatever coordinates; None for anything else."""
    made = configured_target(contents.config)
    made = made.target if isinstance(made, Inner) else made
    return made if isinstance(made, MoleculeTarget) else None


def in_atoms(contents: RunContents) -> RunContents:
    """A run on a molecule as one on atoms with bonds, for the figures of particles; any other run as it is.

    In internal coordinates, draws and reference are conformations already, but turned differently: coordinates cannot
    be compared one by one. Samples of levels become conformations, and their log densities those of conformations:
    without the volume.
    """
    made, molecule = configured_target(contents.config), molecule_of(contents)
    if molecule is None:
        return contents
    contents = dataclasses.replace(contents, bonds=molecule.bonds)
    geometry = molecule.geometry
    if contents.geometry is not None or geometry is None or not isinstance(made, Inner):
        return contents
    samples = {level: conformations_of(part, made.chart, geometry) for level, part in contents.samples.items()}
    return dataclasses.replace(contents, geometry=geometry, samples=samples)


def _rare_mode(target: MoleculeTarget, draws: np.ndarray, reference: np.ndarray | None) -> Picture | None:
    sets = {"draws": draws} | ({} if reference is None else {"reference": reference})
    populations = {name: rare_mode(backbone_angles(target, x)[:, 0, 0]) for name, x in sets.items() if len(x) > 1}
    return rare_mode_figure(populations, target.temperature) if populations else None


def _bonds(target: MoleculeTarget, draws: np.ndarray, reference: np.ndarray | None) -> Picture | None:
    return None if reference is None or not len(target.record.bonds) else bonds_figure(target, draws, reference)


def _of_contents(
    draw: Callable[..., Picture | None], needs_backbone: bool = True
) -> Callable[[RunContents], Picture | None]:
    def figure(contents: RunContents) -> Picture | None:
        target, draws, reference = molecule_of(contents), contents.points("draws"), contents.points("reference")
        if target is None or draws is None or not np.isfinite(draws).all(axis=1).any():
            return None
        if needs_backbone and not backbone(target):
            return None
        if reference is not None:
            reference = reference[np.isfinite(reference).all(axis=1)]
            reference = in_one_hand(target, reference) if len(reference) else None
        return draw(target, in_one_hand(target, draws), reference)

    return figure


MOLECULE_FIGURES: dict[str, Callable[[RunContents], Picture | None]] = {
    "ramachandran": _of_contents(ramachandran_figure),
    "dihedrals": _of_contents(dihedrals_figure),
    "rare_mode": _of_contents(_rare_mode),
    "bonds": _of_contents(_bonds, needs_backbone=False),
}
"""Every figure by the name of its file, in the order of the page."""
