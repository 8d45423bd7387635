"""Molecules: an OpenMM system, read once, as a density that JAX evaluates for whole batches."""

from tempering.molecules.alanine import alanine_dipeptide, phi_psi
from tempering.molecules.conversion import from_openmm
from tempering.molecules.coordinates.dihedrals import chiral_centres, dihedrals, is_mirrored, reflect, signed_volumes
from tempering.molecules.coordinates.internal import (
    InternalChart,
    alanine_in_internal_coordinates,
    internal_coordinates,
)
from tempering.molecules.exporting import load_molecule, save_molecule
from tempering.molecules.loaders import from_amber, from_pdb, from_system_xml
from tempering.molecules.observables import backbone, backbone_angles, bond_angles, bond_lengths
from tempering.molecules.target import MoleculeTarget
from tempering.molecules.trajectories import save_trajectory, to_mdtraj

__all__ = [
    "InternalChart",
    "MoleculeTarget",
    "alanine_dipeptide",
    "alanine_in_internal_coordinates",
    "backbone",
    "backbone_angles",
    "bond_angles",
    "bond_lengths",
    "chiral_centres",
    "dihedrals",
    "from_amber",
    "from_openmm",
    "from_pdb",
    "from_system_xml",
    "internal_coordinates",
    "is_mirrored",
    "load_molecule",
    "phi_psi",
    "reflect",
    "save_molecule",
    "save_trajectory",
    "signed_volumes",
    "to_mdtraj",
]
