"""What chemists look at in a conformation: backbone dihedrals, bond lengths and bond angles, from the topology.

Consumes conformations in nm, one in each row; produces NumPy arrays in float64, radians and nm. All of it is invariant
under translations and rotations; a mirror image has the opposite dihedrals. Coordinates that are not finite make what
depends on them not finite, and nothing else.
"""

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from jaxtyping import Float

from tempering.errors import SettingsError, what_is
from tempering.molecules.callback import OpenMMTarget
from tempering.molecules.coordinates.skeleton import neighbours_of
from tempering.molecules.system.record import Atom
from tempering.molecules.target import MoleculeTarget

__all__ = [
    "Backbone",
    "angle_atoms",
    "atoms_label",
    "backbone",
    "backbone_angles",
    "bond_angles",
    "bond_lengths",
    "checked_conformations",
    "dihedrals_of",
    "identity_of",
]

_CHUNK = 1 << 14
"""Conformations handled at a time, to bound memory; it does not change results."""


class Backbone(NamedTuple):
    """The atoms of phi (C of the residue before, N, CA, C) and psi (N, CA, C, N of the residue after) of a residue."""

    residue: str
    phi: tuple[int, int, int, int]
    psi: tuple[int, int, int, int]


def identity_of(target: Any) -> tuple[tuple[Atom, ...], np.ndarray]:
    """The atoms of a molecule and its bonds (bond, 2); of one that OpenMM evaluates no bonds are known."""
    if isinstance(target, MoleculeTarget):
        return target.record.atoms, target.record.bonds
    if isinstance(target, OpenMMTarget):
        return target.atoms, np.zeros((0, 2), np.int32)
    raise SettingsError(
        f"target is {what_is(target)}; give a molecule, such as tp.from_openmm or make_target('aldp') makes"
    )


def checked_conformations(target: Any, draws: npt.ArrayLike) -> np.ndarray:
    """Conformations as an array (num, atom, 3) of floats.

    Args:
        target: the molecule.
        draws: (num, 3 * atom) or (num, atom, 3), nm, NumPy or JAX.
    """
    num_atoms = len(identity_of(target)[0])
    array = np.asarray(draws)
    if not np.issubdtype(array.dtype, np.floating):
        array = array.astype(np.float64)
    if array.shape[1:] not in ((3 * num_atoms,), (num_atoms, 3)) or not len(array):
        raise SettingsError(
            f"draws have shape {array.shape}; {num_atoms} atoms need (num, {3 * num_atoms}) or (num, {num_atoms}, 3), "
            "at least one conformation, in nm"
        )
    return array.reshape((-1, num_atoms, 3))


def backbone(target: Any) -> tuple[Backbone, ...]:
    """The residues that have both phi and psi, in their order; found by the names N, CA, C and by the bonds."""
    atoms, bonds = identity_of(target)
    neighbours = neighbours_of(len(atoms), bonds.tolist())
    found = []
    for number in sorted({atom.residue_number for atom in atoms}):
        place = {atom.name: i for i, atom in enumerate(atoms) if atom.residue_number == number}
        if not {"N", "CA", "C"} <= set(place):
            continue
        n, alpha, c = (place[name] for name in ("N", "CA", "C"))
        before = [i for i in neighbours[n] if atoms[i].name == "C" and atoms[i].residue_number != number]
        after = [i for i in neighbours[c] if atoms[i].name == "N" and atoms[i].residue_number != number]
        if before and after:
            residue = f"{atoms[n].residue}{number + 1}"
            found.append(Backbone(residue, (before[0], n, alpha, c), (n, alpha, c, after[0])))
    return tuple(found)


def backbone_angles(target: Any, draws: npt.ArrayLike) -> Float[np.ndarray, "num residue 2"]:
    """phi and psi of every residue of `backbone(target)`, radians from -pi to pi.

    Args:
        target: the molecule.
        draws: (num, 3 * atom) or (num, atom, 3), nm.

    Raises:
        SettingsError: for a wrong shape, or a molecule without a residue that has both.
    """
    residues = backbone(target)
    if not residues:
        raise SettingsError(
            "no residue of this molecule has both phi and psi: they are found by the atom names N, CA and C and by the "
            "bonds of the topology; use tempering.molecules.coordinates.dihedrals with atoms of your own choice"
        )
    quadruples = np.array([atoms for residue in residues for atoms in (residue.phi, residue.psi)])
    angles = _by_chunks(checked_conformations(target, draws), lambda x: dihedrals_of(x, quadruples))
    return angles.reshape((-1, len(residues), 2))


def bond_lengths(target: Any, draws: npt.ArrayLike) -> Float[np.ndarray, "num bond"]:
    """The length of every bond of the topology, nm, in its order (`target.record.bonds`).

    Raises:
        SettingsError: for a wrong shape, or a molecule without bonds.
    """
    bonds = _checked_bonds(target)
    conformations = checked_conformations(target, draws)
    return _by_chunks(conformations, lambda x: _norm(x[:, bonds[:, 1]] - x[:, bonds[:, 0]]))


def bond_angles(target: Any, draws: npt.ArrayLike) -> Float[np.ndarray, "num angle"]:
    """The angle at the middle atom of every `angle_atoms(target)`, radians from 0 to pi.

    Raises:
        SettingsError: for a wrong shape, or a molecule without bonds.
    """
    _checked_bonds(target)
    atoms = angle_atoms(target)

    def angles(x: np.ndarray) -> np.ndarray:
        a, b = x[:, atoms[:, 0]] - x[:, atoms[:, 1]], x[:, atoms[:, 2]] - x[:, atoms[:, 1]]
        # Accurate near 0 and pi, where the arc cosine is not.
        return np.arctan2(_norm(np.cross(a, b)), np.sum(a * b, axis=-1))

    return _by_chunks(checked_conformations(target, draws), angles)


def angle_atoms(target: Any) -> np.ndarray:
    """Every two neighbours of every atom, (angle, 3), the atom itself in the middle."""
    atoms, bonds = identity_of(target)
    neighbours = neighbours_of(len(atoms), bonds.tolist())
    triples = [(a, middle, b) for middle, of in enumerate(neighbours) for a, b in combinations(of, 2)]
    return np.array(triples, np.int32).reshape((-1, 3))


def atoms_label(target: Any, atoms: Sequence[int] | np.ndarray) -> str:
    """Atoms by name, such as `ALA2 N–CA–C`; the residue is that of the first, others are named where they change."""
    known, words, residue = identity_of(target)[0], [], None
    for place in np.asarray(atoms).tolist():
        atom = known[place]
        here = f"{atom.residue}{atom.residue_number + 1} " if atom.residue else ""
        words.append(("" if here == residue else here) + (atom.name or f"{atom.element}{place}"))
        residue = here
    return "–".join(words)


def _checked_bonds(target: Any) -> np.ndarray:
    bonds = identity_of(target)[1]
    if not len(bonds):
        raise SettingsError("this molecule has no bonds on record; give tp.from_openmm the topology with its bonds")
    return bonds


def _by_chunks(x: np.ndarray, compute: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    # Draws of a diverged sampler: infinity minus infinity is NaN, as meant.
    with np.errstate(invalid="ignore", over="ignore"):
        starts = range(0, len(x), _CHUNK)
        return np.concatenate([compute(x[start : start + _CHUNK].astype(np.float64)) for start in starts])


def _norm(vectors: np.ndarray) -> np.ndarray:
    return np.sqrt(np.sum(vectors * vectors, axis=-1))


def dihedrals_of(x: np.ndarray, atoms: np.ndarray) -> np.ndarray:
    """Dihedrals (num, dihedral) of conformations (num, atom, 3), as `dihedrals.dihedrals`, but by NumPy in float64."""
    a, b, c, d = (x[:, atoms[:, place]] for place in range(4))
    n1, n2 = np.cross(b - a, c - b), np.cross(c - b, d - c)
    return np.arctan2(np.sum((b - a) * n2, axis=-1) * _norm(c - b), np.sum(n1 * n2, axis=-1))
