"""The skeleton of a molecule: the torsions and distances by which one conformation is told from another.

Consumes bonds and elements; produces indices of atoms, constants of whatever is compiled.
"""

from collections.abc import Iterable, Sequence

import numpy as np

__all__ = ["neighbours_of", "skeleton"]

_MOST_DISTANCES = 12


def neighbours_of(num_atoms: int, bonds: Iterable[Sequence[int]]) -> list[list[int]]:
    """The atoms that are bonded to each atom, in order."""
    found: list[set[int]] = [set() for _ in range(num_atoms)]
    for a, b in bonds:
        found[a].add(b)
        found[b].add(a)
    return [sorted(atoms) for atoms in found]


def skeleton(
    num_atoms: int, bonds: Sequence[tuple[int, int]], elements: Sequence[str]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One torsion for each inner bond of the heavy atoms, and some pairs of atoms.

    A bond is inner if both its atoms have another heavy neighbour; the torsion takes the one of lowest number. Pairs
    are heavy atoms not joined by a bond, up to 12 of them evenly over all; of a molecule with fewer than three heavy
    atoms, any atoms.

    Args:
        elements: symbols of the atoms; an empty one counts as heavy.

    Returns:
        Torsions (torsion, 4), and the first and second atoms of the pairs.
    """
    heavy = [atom for atom in range(num_atoms) if elements[atom] != "H"]
    neighbours = neighbours_of(num_atoms, bonds)
    torsions = []
    for b, c in bonds:
        before = [atom for atom in neighbours[b] if atom != c and atom in heavy]
        after = [atom for atom in neighbours[c] if atom != b and atom in heavy]
        if {b, c} <= set(heavy) and before and after and before[0] != after[0]:  # a ring of three has none
            torsions.append((before[0], b, c, after[0]))
    atoms = heavy if len(heavy) > 2 else list(range(num_atoms))
    pairs = [(a, b) for place, a in enumerate(atoms) for b in atoms[place + 1 :] if b not in neighbours[a]]
    pairs = pairs or [(a, b) for place, a in enumerate(atoms) for b in atoms[place + 1 :]]
    num = min(len(pairs), _MOST_DISTANCES)
    chosen = np.asarray(pairs)[np.unique(np.linspace(0, len(pairs) - 1, num).round().astype(int))]
    return np.asarray(torsions, np.int32).reshape((-1, 4)), chosen[:, 0], chosen[:, 1]
