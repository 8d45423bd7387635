"""A molecule as a target: the Boltzmann density of its potential energy at a temperature.

Consumes a record; produces log densities of flat coordinates in nm, atom after atom. Where moving the molecule leaves
its energy alone the density has a normaliser on centred conformations only, and `geometry` has their coordinates.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering.errors import SettingsError
from tempering.molecules.coordinates.dihedrals import chiral_centres, dihedrals, signed_volumes
from tempering.molecules.coordinates.skeleton import skeleton
from tempering.molecules.system.energy import potential_energy
from tempering.molecules.system.record import MoleculeRecord
from tempering.settings.checks import require_kind, require_positive
from tempering.targets.base import Target
from tempering.transforms.centred import Centred
from tempering.types import Array, Float

__all__ = ["GAS_CONSTANT", "HYDROGEN_MASS", "MoleculeTarget"]

GAS_CONSTANT = 0.00831446261815324
"""kJ / (mol K), exact since 2019."""
HYDROGEN_MASS = 4.0
"""Dalton; no other atom is lighter."""


class MoleculeTarget(Target):
    r"""log_density(x) = -U(x) / (k_B T), x in nm.

    Atoms too close for a finite energy or force have log density -inf and gradient 0.

    Args:
        record: the molecule.
        temperature: T, kelvin.
        name: what reports call the target.
        walls: chiral centres, each four atoms (centre, a, b, c), that must keep their hand: the density is 0 unless
            (a - centre) . ((b - centre) x (c - centre)) > 0 for all of them. Empty for none.

    Raises:
        SettingsError: if the temperature is not positive, or a wall names atoms that do not exist.
    """

    dim: int = eqx.field(static=True)
    record: MoleculeRecord = eqx.field(static=True)
    temperature: float = eqx.field(static=True)
    name: str = eqx.field(static=True)
    walls: tuple[tuple[int, ...], ...] = eqx.field(static=True)

    def __init__(
        self,
        record: MoleculeRecord,
        temperature: float = 300.0,
        *,
        name: str = "molecule",
        walls: tuple[tuple[int, ...], ...] = (),
    ):
        require_kind("record", record, MoleculeRecord)
        require_positive("temperature", temperature)
        require_kind("name", name, str)
        for wall in walls:
            if len(wall) != 4 or not all(0 <= atom < record.num_atoms for atom in wall):
                raise SettingsError(
                    f"wall {wall} is not a chiral centre: give four atoms from 0 to {record.num_atoms - 1}"
                )
        self.dim = 3 * record.num_atoms
        self.record = record
        self.temperature = float(temperature)
        self.name = name
        self.walls = tuple(tuple(int(atom) for atom in wall) for wall in walls)

    @property
    def num_atoms(self) -> int:
        """How many atoms."""
        return self.record.num_atoms

    @property
    def geometry(self) -> Centred | None:
        """The coordinates of centred conformations; None where an external force holds the molecule in place."""
        return Centred(self.num_atoms, 3) if self.record.is_translation_invariant and self.num_atoms > 1 else None

    @property
    def init(self) -> Float[np.ndarray, "1 dim"]:
        """The record's own conformation, centred, as starting points for `tp.fit(target, init=target.init)`."""
        positions = self.record.positions
        if self.geometry is not None:
            positions = positions - np.mean(positions, axis=0, keepdims=True)
        return positions.reshape((1, self.dim)).astype(np.float32)

    @property
    def masses(self) -> Float[np.ndarray, " atom"]:
        """The masses chains move with, dalton: the record's, hydrogens raised to `HYDROGEN_MASS`.

        No mass changes the density. A bond to a hydrogen of mass 4 swings half as fast, and steps are twice as long.
        """
        return np.maximum(self.record.masses, HYDROGEN_MASS)

    @property
    def atom_kinds(self) -> tuple[int, ...]:
        """Every atom its own kind, as networks take them.

        Hydrogens of a methyl group are exchangeable by energy, but chains exchange them by turning only, which keeps
        their order: a network that took them for one kind would also make what no chain has seen.
        """
        return tuple(range(self.num_atoms))

    @property
    def bonds(self) -> tuple[tuple[int, int], ...]:
        """Pairs of atoms that the topology joins."""
        return tuple((int(a), int(b)) for a, b in self.record.bonds)

    def invariants(self, x: Float[Array, " dim"]) -> Float[Array, " feature"]:
        """What must have mixed in chains: cosines and sines of torsions, and some distances of atoms.

        Torsions are those about bonds within the skeleton of heavy atoms. Where the density has two hands and chains
        may have either, sines are those of the first one.
        """
        elements = [atom.element for atom in self.record.atoms]
        torsions, first, second = skeleton(self.num_atoms, self.bonds, elements)
        points = x.reshape((self.num_atoms, 3))
        lengths = jnp.sqrt(jnp.sum((points[first] - points[second]) ** 2, axis=1))
        angles, centres = dihedrals(x, torsions), self.chiral_centres
        hand = jnp.ones(())
        if not self.walls and len(centres):
            hand = jnp.sign(signed_volumes(x, centres[:1])[0])
        return jnp.concatenate([jnp.cos(angles), hand * jnp.sin(angles), lengths])

    @property
    def chiral_centres(self) -> np.ndarray:
        """The alpha carbons of its amino acids, (centre, 4), as `reflect` and `walls` take them."""
        atoms = self.record.atoms
        return chiral_centres([atom.name for atom in atoms], [atom.residue_number for atom in atoms])

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        value = -self.energy(x) / (GAS_CONSTANT * self.temperature)
        if not self.walls:
            return value
        volumes = signed_volumes(x, np.array(self.walls))
        return jnp.where(jnp.all(volumes > 0), value, -jnp.inf)

    def energy(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        """The potential energy U, kJ/mol, of one conformation."""
        if x.shape != (self.dim,):
            raise SettingsError(
                f"a conformation of shape {x.shape}; {self.num_atoms} atoms have shape ({self.dim},), flat, atom after "
                "atom, in nm; batch by jax.vmap"
            )
        if self.record.is_translation_invariant:
            # Far from the origin single precision would lose digits of every distance.
            positions = x.reshape((self.num_atoms, 3))
            x = (positions - jax.lax.stop_gradient(jnp.mean(positions, axis=0, keepdims=True))).reshape(-1)
        return potential_energy(self.record, x)
