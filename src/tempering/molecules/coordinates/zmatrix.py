"""Which atoms every atom is placed by: a Z-matrix from the bonds of a molecule.

Consumes bonds; produces a tree of placements. The root is an atom in the middle of the molecule, and every other atom
hangs on the atom before it on the shortest way to the root. Bonds that close rings are in no placement: their lengths
follow from the others.
"""

from collections import deque
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from tempering.errors import SettingsError
from tempering.molecules.coordinates.skeleton import neighbours_of

__all__ = ["Placement", "ZMatrix", "distances_from", "zmatrix_of"]

_LARGEST_STIFF_RING = 7
"""Atoms of a ring about whose bonds nothing turns: none is wide enough for a bond that is trans within the ring."""


class Placement(NamedTuple):
    """How one atom is placed: by its bond to `parent`, the angle to `axis` there, and a torsion about their bond.

    Args:
        atom: which.
        parent: the atom it hangs on.
        axis: the parent's own parent; for neighbours of the root, the first of them. -1 for that one itself.
        other: where the torsion counts from: an atom beyond `axis`, or, for `relative`, a neighbour of `parent` that
            is placed before. -1 for the first two, which have none.
        kind: `frame` has no torsion. `full` is one of a bond that turns freely, `stiff` one of a bond in a ring.
            `relative` is the angle, seen along the bond, from `other` to this atom: about 120 or 180 degrees, whatever
            the rest of the molecule does.
    """

    atom: int
    parent: int
    axis: int
    other: int
    kind: Literal["frame", "full", "stiff", "relative"]


class Generation(NamedTuple):
    """Placements from `start` to `stop`; the first `num_carriers` have others hanging on them.

    `parents` are the places of their parents within the generation before.
    """

    start: int
    stop: int
    num_carriers: int
    parents: np.ndarray


@dataclass(frozen=True)
class ZMatrix:
    """All placements but the root's, generation after generation; in each, atoms that others hang on come first.

    The first two are those of the frame. A full or stiff torsion stands before those that are relative to it.
    """

    root: int
    placements: tuple[Placement, ...]

    @property
    def num_atoms(self) -> int:
        """How many atoms."""
        return len(self.placements) + 1

    @cached_property
    def place(self) -> dict[int, int]:
        """Where in `placements` an atom is."""
        return {row.atom: place for place, row in enumerate(self.placements)}

    @cached_property
    def generations(self) -> tuple[Generation, ...]:
        """The placements by their distance from the root."""
        found, start, parents = [], 0, {self.root: 0}
        while start < len(self.placements):
            stop = start
            while stop < len(self.placements) and self.placements[stop].parent in parents:
                stop += 1
            rows = self.placements[start:stop]
            carriers = {row.parent for row in self.placements[stop:]}
            num_carriers = sum(row.atom in carriers for row in rows)
            found.append(Generation(start, stop, num_carriers, np.array([parents[row.parent] for row in rows])))
            start, parents = stop, {row.atom: place for place, row in enumerate(rows)}
        return tuple(found)

    @cached_property
    def centred_sums(self) -> np.ndarray:
        """(atom, placement): centred positions are the sums of bond vectors by this matrix.

        An atom is the sum of the bonds from the root to it, less the mean of all atoms.
        """
        sums = np.zeros((self.num_atoms, len(self.placements)))
        for place, row in enumerate(self.placements):
            sums[row.atom] = sums[row.parent]
            sums[row.atom, place] = 1.0
        return sums - np.mean(sums, axis=0, keepdims=True)


def zmatrix_of(num_atoms: int, bonds: np.ndarray) -> ZMatrix:
    """The Z-matrix of a connected molecule of at least three atoms.

    Of the atoms on one parent, that with the most atoms behind it gets the torsion of the bond, and the others are
    relative to it.

    Args:
        bonds: pairs of atoms, (bond, 2).
    """
    if num_atoms < 3:
        raise SettingsError(f"a molecule of {num_atoms} atoms; internal coordinates need 3; use Cartesian ones")
    neighbours = neighbours_of(num_atoms, np.asarray(bonds).reshape((-1, 2)).tolist())
    root = _middle(neighbours)
    parents = _tree(neighbours, root)
    sizes = dict.fromkeys([root, *parents], 1)  # atoms behind each atom, itself included
    for atom in reversed(parents):
        sizes[parents[atom]] += sizes[atom]
    children: dict[int, list[int]] = {atom: [] for atom in range(num_atoms)}
    for atom, parent in parents.items():
        children[parent].append(atom)
    for siblings in children.values():
        siblings.sort(key=lambda atom: (-sizes[atom], atom))
    first, second, *rest = children[root]
    placements = [Placement(first, root, -1, -1, "frame"), Placement(second, root, first, -1, "frame")]
    placements += [Placement(atom, root, first, second, "relative") for atom in rest]
    carriers = [first, second, *rest]
    while carriers:
        generation = []
        for parent in (atom for atom in carriers if children[atom]):
            axis, (leading, *others) = parents[parent], children[parent]
            beyond = parents.get(axis, second if parent == first else first)
            # Atoms of the smallest ring that the bond from parent to axis is in, if it is in any.
            ring = 1 + distances_from(neighbours, parent, without=axis).get(axis, _LARGEST_STIFF_RING)
            kind = "stiff" if ring <= _LARGEST_STIFF_RING else "full"
            generation.append(Placement(leading, parent, axis, beyond, kind))
            generation += [Placement(atom, parent, axis, leading, "relative") for atom in others]
        generation.sort(key=lambda row: not children[row.atom])
        placements += generation
        carriers = [row.atom for row in generation]
    return ZMatrix(root, tuple(placements))


def distances_from(neighbours: list[list[int]], start: int, without: int = -1) -> dict[int, int]:
    """Bonds from `start` to every atom within reach; `without` is a neighbour whose bond to it does not count."""
    distance, queue = {start: 0}, deque([start])
    while queue:
        atom = queue.popleft()
        for other in neighbours[atom]:
            if other not in distance and not (atom == start and other == without):
                distance[other] = distance[atom] + 1
                queue.append(other)
    return distance


def _middle(neighbours: list[list[int]]) -> int:
    """The atom whose farthest atom is nearest; among equals that with the most neighbours. It has at least two."""
    reached = distances_from(neighbours, 0)
    apart = [atom for atom in range(len(neighbours)) if atom not in reached]
    if apart:
        shown = ", ".join(map(str, apart[:8])) + (", …" if len(apart) > 8 else "")
        raise SettingsError(
            f"no bonds join {len(apart)} of {len(neighbours)} atoms to atom 0: {shown}; internal coordinates are for "
            "one connected molecule: add the bonds to the topology, or use Cartesian coordinates"
        )
    farthest = [max(distances_from(neighbours, atom).values()) for atom in range(len(neighbours))]
    return min(range(len(neighbours)), key=lambda atom: (farthest[atom], -len(neighbours[atom]), atom))


def _tree(neighbours: list[list[int]], root: int) -> dict[int, int]:
    """Parents by atom, those of near atoms first."""
    parents: dict[int, int] = {}
    queue = deque([root])
    while queue:
        atom = queue.popleft()
        for other in neighbours[atom]:
            if other != root and other not in parents:
                parents[other] = atom
                queue.append(other)
    return parents
