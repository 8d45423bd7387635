"""Small molecules from OpenMM's own force-field files, conformations of theirs, and OpenMM's energies and forces."""

import io
from dataclasses import dataclass
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from building import layout_of_bonds, peptide_topology

from tempering.molecules.coordinates.dihedrals import dihedrals
from tempering.molecules.system.energy import potential
from tempering.molecules.system.reading import read_system
from tempering.molecules.system.record import MoleculeRecord, Term

__all__ = [
    "CASES",
    "Case",
    "case",
    "disagreement",
    "energy_is_off",
    "jax_energies",
    "jax_values",
    "openmm_values",
    "turned_alanine",
    "with_terms",
    "worst",
]

ENERGY, FORCES = 1e-10, 1e-9
"""What energies and forces may differ by, relative to their size."""

# In the manner of OPLS: two torsion terms of different kinds on the same atoms.
_ETHANE = """<ForceField>
 <AtomTypes><Type name="C" class="C" element="C" mass="12.011"/><Type name="H" class="H" element="H" mass="1.008"/>
 </AtomTypes>
 <Residues><Residue name="ETH">
  <Atom name="C1" type="C"/><Atom name="H11" type="H"/><Atom name="H12" type="H"/><Atom name="H13" type="H"/>
  <Atom name="C2" type="C"/><Atom name="H21" type="H"/><Atom name="H22" type="H"/><Atom name="H23" type="H"/>
  <Bond from="0" to="1"/><Bond from="0" to="2"/><Bond from="0" to="3"/><Bond from="0" to="4"/>
  <Bond from="4" to="5"/><Bond from="4" to="6"/><Bond from="4" to="7"/>
 </Residue></Residues>
 <HarmonicBondForce>
  <Bond class1="C" class2="C" length="0.1529" k="224262"/><Bond class1="C" class2="H" length="0.109" k="284512"/>
 </HarmonicBondForce>
 <HarmonicAngleForce>
  <Angle class1="H" class2="C" class3="H" angle="1.8815" k="276.1"/>
  <Angle class1="C" class2="C" class3="H" angle="1.9321" k="313.8"/>
 </HarmonicAngleForce>
 <RBTorsionForce><Proper class1="H" class2="C" class3="C" class4="H" c0="0.6276" c1="1.8828" c2="0.3" c3="-2.5104"
  c4="0.1" c5="-0.2"/></RBTorsionForce>
 <NonbondedForce coulomb14scale="0.5" lj14scale="0.5">
  <Atom type="C" charge="-0.18" sigma="0.35" epsilon="0.276144"/>
  <Atom type="H" charge="0.06" sigma="0.25" epsilon="0.12552"/>
 </NonbondedForce>
</ForceField>"""

CASES = {
    "alanine, OBC1": (("ACE", "ALA", "NME"), ("amber96.xml", "implicit/obc1.xml"), {}),
    "ethane": (("ETH",), ("ethane",), {}),
    "phenylalanine, GBn2": (("ACE", "PHE", "NME"), ("amber14-all.xml", "implicit/gbn2.xml"), {}),
    "proline with maps, GBn": (("ACE", "PRO", "NME"), ("amber19-all.xml", "implicit/gbn.xml"), {}),
    "aspartate, HCT": (("ACE", "ASP", "NME"), ("amber99sbildn.xml", "implicit/hct.xml"), {}),
    "lysine, OBC2 in salt": (
        ("ACE", "LYS", "NME"),
        ("amber03.xml", "implicit/obc2.xml"),
        {"implicitSolventKappa": 1.0},
    ),
    "histidine, GBSAOBCForce": (("ACE", "HIP", "NME"), ("amber99sb.xml", "amber99_obc.xml"), {}),
}
"""Residues, force-field files, and further arguments of `createSystem`."""


@dataclass(frozen=True)
class Case:
    """A System, and conformations of it, (conformation, atom, 3), nm: the first half at 300 K, the other at 1500 K."""

    system: object
    topology: object
    conformations: np.ndarray
    record: MoleculeRecord


@cache
def case(name: str, num_each: int = 3) -> Case:
    """One of `CASES`; every force is in a group of its own, in the order of the System."""
    import openmm
    from openmm import app

    residues, files, options = CASES[name]
    force_field = app.ForceField(io.StringIO(_ETHANE)) if files == ("ethane",) else app.ForceField(*files)
    topology = peptide_topology(residues, force_field)
    system = force_field.createSystem(
        topology, nonbondedMethod=app.NoCutoff, constraints=None, removeCMMotion=False, **options
    )
    for group, force in enumerate(system.getForces()):
        force.setForceGroup(group)
    bonds = np.array([(bond[0].index, bond[1].index) for bond in topology.bonds()])
    integrator = openmm.LangevinMiddleIntegrator(300, 10, 0.0005)
    integrator.setRandomNumberSeed(1)
    context = openmm.Context(system, integrator, openmm.Platform.getPlatform("Reference"))
    context.setPositions(layout_of_bonds(topology.getNumAtoms(), bonds))
    openmm.LocalEnergyMinimizer.minimize(context, 1.0, 500)
    conformations = []
    for temperature in (300, 1500):
        integrator.setTemperature(temperature)
        context.setVelocitiesToTemperature(temperature, 1)
        for _ in range(num_each):
            integrator.step(60)
            state = context.getState(getPositions=True)
            conformations.append(np.array(state.getPositions(asNumpy=True)._value))
    return Case(system, topology, np.array(conformations), read_system(system, topology, conformations[0]))


def openmm_values(system, conformations: np.ndarray, groups: set[int] | None = None):
    """Energies and forces by the Reference platform, of all forces or of those in some groups."""
    import openmm

    context = openmm.Context(system, openmm.VerletIntegrator(0.001), openmm.Platform.getPlatform("Reference"))
    energies, forces = [], []
    for positions in conformations:
        context.setPositions(positions)
        state = context.getState(getEnergy=True, getForces=True, groups=-1 if groups is None else groups)
        energies.append(state.getPotentialEnergy()._value)
        forces.append(np.array(state.getForces(asNumpy=True)._value))
    return np.array(energies), np.array(forces)


def jax_values(record: MoleculeRecord, conformations: np.ndarray):
    """Energies and forces by JAX in double precision."""

    @jax.jit
    def both(positions):
        energies, pull_back = jax.vjp(lambda given: potential(record, given), positions)
        return energies, -pull_back(jnp.ones_like(energies))[0]

    with jax.enable_x64(True):
        energies, forces = both(jnp.asarray(np.transpose(conformations), jnp.float64))
        return np.asarray(energies), np.transpose(np.asarray(forces))


def jax_energies(record: MoleculeRecord, conformations: np.ndarray) -> np.ndarray:
    """Energies alone, which compile in half the time."""
    with jax.enable_x64(True):
        positions = jnp.asarray(np.transpose(conformations), jnp.float64)
        return np.asarray(jax.jit(lambda given: potential(record, given))(positions))


def disagreement(ours, theirs) -> tuple[float, float]:
    """The largest difference of energies and of forces, relative to their size, energies at least 1 kJ/mol."""
    energy = np.max(np.abs(ours[0] - theirs[0]) / np.maximum(np.abs(theirs[0]), 1.0))
    return float(energy), float(np.max(np.abs(ours[1] - theirs[1])) / np.max(np.abs(theirs[1])))


def energy_is_off(energies: np.ndarray, theirs) -> bool:
    """Whether energies alone are wrong by far more than is allowed: what a saboteur must be caught by."""
    return bool(np.max(np.abs(energies - theirs[0]) / np.maximum(np.abs(theirs[0]), 1.0)) > 10 * ENERGY)


def worst(ours, theirs) -> float:
    """The larger one in units of what is allowed: at most 1 is agreement."""
    energy, forces = disagreement(ours, theirs)
    return max(energy / ENERGY, forces / FORCES)


def with_terms(record: MoleculeRecord, *terms: Term) -> MoleculeRecord:
    """The same atoms with other terms."""
    return MoleculeRecord(record.masses, record.atoms, record.bonds, record.positions, terms)


def turned_alanine(target, phi, psi, noise: float = 0.0, seed: int = 0) -> np.ndarray:
    """Conformations (num, 66) of alanine dipeptide with the given dihedrals, radians, by turning its structure.

    `noise`, nm, is then added to all coordinates; it moves the dihedrals by a few degrees for each 0.003.
    """
    angles = np.stack([np.asarray(phi, np.float64), np.asarray(psi, np.float64)], axis=1)
    x = np.repeat(target.init.astype(np.float64).reshape((1, -1, 3)), len(angles), axis=0)
    for column, (atoms, first) in enumerate((((4, 6, 8, 14), 9), ((6, 8, 14, 16), 15))):
        now = np.asarray(dihedrals(jnp.asarray(x[0].reshape(-1), jnp.float32), np.array([atoms])), np.float64)[0]
        start, end = x[:, atoms[1]], x[:, atoms[2]]
        axis = (end - start) / np.linalg.norm(end - start, axis=1, keepdims=True)
        # Rodrigues' formula, about the middle bond, of all atoms behind it: AMBER numbers them in that order.
        by, arms = (angles[:, column] - now)[:, None, None], x[:, first:] - end[:, None]
        axis = axis[:, None] + np.zeros_like(arms)
        along = np.sum(axis * arms, axis=2, keepdims=True) * axis
        turned = along + np.cos(by) * (arms - along) + np.sin(by) * np.cross(axis, arms)
        x = np.concatenate([x[:, :first], end[:, None] + turned], axis=1)
        # The dihedral before is that of the structure for all of them: the next one is turned from there, too.
    return x.reshape((len(angles), -1)) + np.random.default_rng(seed).normal(0.0, 1.0, (len(angles), 66)) * noise
