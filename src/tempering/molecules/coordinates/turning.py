"""Conformations made by turning a molecule about a bond: starts on opposite sides of a barrier. No evaluations."""

import numpy as np

from tempering.molecules.coordinates.skeleton import neighbours_of
from tempering.molecules.coordinates.zmatrix import distances_from
from tempering.molecules.observables import backbone, checked_conformations, dihedrals_of
from tempering.molecules.target import MoleculeTarget
from tempering.types import Float

__all__ = ["OPPOSITE_PHI", "opposite_starts", "turned"]

OPPOSITE_PHI = (-80.0, 60.0)
"""Degrees: where a residue's phi mostly is, and where it rarely is."""


def turned(target: MoleculeTarget, atoms: tuple[int, int, int, int], angle: float) -> Float[np.ndarray, " dim"] | None:
    """The record's conformation, centred, with one dihedral set; no bond, no angle and no chiral centre changes.

    Args:
        atoms: of the dihedral, (a, b, c, d), joined in this order.
        angle: degrees.

    Returns:
        The conformation, nm, or None where the bond b-c is part of a ring, about which nothing turns.
    """
    beyond = distances_from(neighbours_of(target.num_atoms, target.bonds), atoms[2], without=atoms[1])
    if atoms[1] in beyond:
        return None
    moving = sorted(beyond.keys() - {atoms[2]})
    x = checked_conformations(target, target.init)[0].astype(np.float64)
    origin, axis = x[atoms[2]], x[atoms[2]] - x[atoms[1]]
    axis = axis / np.linalg.norm(axis)
    by = np.radians(angle) - dihedrals_of(x[None], np.array([atoms])).item()
    arms = x[moving] - origin
    # Rodrigues: about the axis, counterclockwise as seen from its tip, which raises the dihedral.
    along = np.outer(arms @ axis, axis)
    x[moving] = origin + along + np.cos(by) * (arms - along) + np.sin(by) * np.cross(axis, arms)
    return (x - np.mean(x, axis=0, keepdims=True)).reshape(-1).astype(np.float32)


def opposite_starts(target: MoleculeTarget) -> Float[np.ndarray, "start dim"] | None:
    """The conformation with phi of the first residue at each of `OPPOSITE_PHI`; None for a molecule without phi.

    They are not relaxed: side groups may have come close.
    """
    residues = backbone(target)
    starts = [turned(target, residues[0].phi, angle) for angle in OPPOSITE_PHI] if residues else [None]
    found = [start for start in starts if start is not None]
    return np.stack(found) if len(found) == len(starts) else None
