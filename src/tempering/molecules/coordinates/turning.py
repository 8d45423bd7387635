"""Conformations made by turning a molecule about a bond: starts on opposite sides of a barrier. No evaluations."""

import numpy as np

from tempering.molecules.observables import backbone, checked_conformations
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
    moving = _beyond(target, atoms[1], atoms[2])
    if moving is None:
        return None
    x = checked_conformations(target, target.init)[0].astype(np.float64)
    origin, axis = x[atoms[2]], x[atoms[2]] - x[atoms[1]]
    axis = axis / np.linalg.norm(axis)
    by = np.radians(angle) - _dihedral(*x[list(atoms)])
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


def _beyond(target: MoleculeTarget, b: int, c: int) -> list[int] | None:
    """The atoms that hang on c once the bond b-c is cut; None if b is among them."""
    found, new = {c}, [c]
    while new:
        here = new.pop()
        near = {i + j - here for i, j in target.bonds if here in (i, j) and {i, j} != {b, c}}
        new.extend(near - found)
        found |= near
    return None if b in found else sorted(found - {c})


def _dihedral(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> float:
    n1, n2 = np.cross(b - a, c - b), np.cross(c - b, d - c)
    return float(np.arctan2(np.dot(b - a, n2) * np.linalg.norm(c - b), np.dot(n1, n2)))
