"""Capped peptides from the residues of OpenMM's own force-field files: a topology, and positions to minimise from.

Consumes residue names; needs no coordinates and no download. Atoms come in the order of the force field's templates,
which is that of AMBER. Positions are laid out by the bonds alone; a minimiser makes them a conformation.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tempering.errors import SettingsError, require_extra

__all__ = ["layout_of_bonds", "peptide_topology"]

_BOND = 0.13
"""nm, a typical bond."""
_SHRINKING = 0.8
"""Atoms d bonds apart lie about d^0.8 bonds apart in space: chains zigzag."""
_NOISE = 0.03
"""nm; enough that different seeds come to different minima."""


def peptide_topology(residues: Sequence[str], force_field: Any) -> Any:
    """The topology of a chain such as ("ACE", "ALA", "NME"), each residue a template of the force field.

    Args:
        residues: template names; the first and the last are caps or end residues.
        force_field: an `openmm.app.ForceField`.

    Raises:
        SettingsError: for a name that is not among the templates.
    """
    require_extra("openmm", "Systems of OpenMM")
    from openmm import app

    topology = app.Topology()
    chain = topology.addChain()
    previous = None
    for name in residues:
        template = force_field._templates.get(name)
        if template is None:
            raise SettingsError(f"the force field has no residue {name!r}; give names of its templates, such as 'ALA'")
        residue = topology.addResidue(name, chain)
        atoms = [topology.addAtom(atom.name, atom.element, residue) for atom in template.atoms]
        for first, second in template.bonds:
            topology.addBond(atoms[first], atoms[second])
        ends = [atoms[place] for place in template.externalBonds]
        if previous is not None:
            topology.addBond(previous, next(atom for atom in ends if atom.name == "N"))
        previous = next((atom for atom in ends if atom.name == "C"), None)
    return topology


def layout_of_bonds(num_atoms: int, bonds: np.ndarray, seed: int = 0) -> np.ndarray:
    """Positions (atom, 3), nm, whose distances follow the number of bonds between atoms.

    Classical scaling of the matrix of those distances to three axes, with noise that breaks symmetries. Rings
    come out untangled and chains stretched.
    """
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import shortest_path

    graph = coo_matrix((np.ones(len(bonds)), (bonds[:, 0], bonds[:, 1])), (num_atoms, num_atoms))
    distances = _BOND * shortest_path(graph, directed=False, unweighted=True) ** _SHRINKING
    centring = np.eye(num_atoms) - 1.0 / num_atoms
    values, vectors = np.linalg.eigh(-0.5 * centring @ distances**2 @ centring)
    positions = vectors[:, -3:] * np.sqrt(np.maximum(values[-3:], 0.0))
    return positions + np.random.default_rng(seed).normal(0.0, _NOISE, positions.shape)
