"""What networks know of a molecule: kinds of atoms, how many bonds apart they are, which four have a hand.

Consumes the plain numbers of the settings; produces constant arrays. Nothing here is learned.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tempering.settings import Network

__all__ = ["Topology", "topology_of"]

_NEAR = 3
"""Bonds apart: bonded, 1-3 (an angle) and 1-4 (a torsion) pairs; force fields treat all others alike."""


@dataclass(frozen=True)
class Topology:
    """Atoms and bonds, and what follows from them.

    Args:
        atoms: the kind of every atom.
        bonds: pairs of atoms.
    """

    atoms: tuple[int, ...]
    bonds: tuple[tuple[int, int], ...]

    @cached_property
    def kinds(self) -> np.ndarray:
        """The kind of every atom, (atom,), numbered from 0 without gaps."""
        return np.unique(np.asarray(self.atoms), return_inverse=True)[1].reshape(-1)

    @property
    def num_kinds(self) -> int:
        """How many kinds of atoms."""
        return int(self.kinds.max()) + 1

    @cached_property
    def relations(self) -> np.ndarray:
        """Bonds on the shortest way between two atoms, (atom, atom); 0 for more than three and for an atom itself."""
        num = len(self.atoms)
        joined = np.zeros((num, num), bool)
        for a, b in self.bonds:
            joined[a, b] = joined[b, a] = True
        found, reached, frontier = np.zeros((num, num), np.int32), np.eye(num, dtype=bool), np.eye(num, dtype=bool)
        for steps in range(1, _NEAR + 1):
            frontier = (frontier.astype(np.int32) @ joined.astype(np.int32) > 0) & ~reached
            found[frontier] = steps
            reached |= frontier
        return found

    @property
    def num_relations(self) -> int:
        """How many values `relations` may have."""
        return _NEAR + 1

    @cached_property
    def pair_kinds(self) -> np.ndarray:
        """A number for each near pair, (atom, atom): the same for two pairs of the same kinds, as far apart; else 0."""
        kinds, relations = self.kinds, self.relations
        low, high = np.minimum(kinds[:, None], kinds[None]), np.maximum(kinds[:, None], kinds[None])
        code = (low * self.num_kinds + high) * self.num_relations + relations
        near = relations > 0
        found = np.zeros(relations.shape, np.int32)
        found[near] = 1 + np.unique(code[near], return_inverse=True)[1].reshape(-1)
        return found

    @property
    def num_pair_kinds(self) -> int:
        """How many kinds of near pairs; `pair_kinds` goes up to it."""
        return int(self.pair_kinds.max(initial=0))

    @cached_property
    def tetrahedra(self) -> np.ndarray:
        """Four atoms each whose signed volume says which hand, (tetrahedron, 4).

        Of an atom with four neighbours these, of one with three these and the atom itself; and of every bond between
        two atoms that have further neighbours, the ends and the neighbour of each that has most neighbours itself: its
        sign is that of a torsion.
        """
        neighbours: list[list[int]] = [[] for _ in self.atoms]
        for a, b in self.bonds:
            neighbours[a].append(b)
            neighbours[b].append(a)
        of = [sorted(set(found)) for found in neighbours]
        corners = [[*found, centre][:4] for centre, found in enumerate(of) if len(found) >= 3]

        def further(atom: int, but: int) -> int:
            return max((other for other in of[atom] if other != but), key=lambda other: len(of[other]))

        corners += [[further(a, b), a, b, further(b, a)] for a, b in self.bonds if len(of[a]) > 1 < len(of[b])]
        return np.asarray([four for four in corners if len(set(four)) == 4], np.int32).reshape((-1, 4))


def topology_of(network: Network) -> Topology | None:
    """The molecule of the settings; None where all particles are alike."""
    if not network.atoms:
        return None
    return Topology(tuple(map(int, network.atoms)), tuple((int(a), int(b)) for a, b in network.bonds))
