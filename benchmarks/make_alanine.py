"""Makes the packaged alanine dipeptide: `python benchmarks/make_alanine.py`; no download.

Consumes amber96.xml and implicit/obc1.xml as OpenMM ships them; produces data/aldp.npz and data/aldp.json. The
structure is the lowest minimum that a few random starts come to, in the L-form, with both amides trans.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from building import layout_of_bonds, peptide_topology

from tempering.errors import require_extra
from tempering.molecules.alanine import ALPHA_CARBON, DATA, PHI, PSI
from tempering.molecules.exporting import save_molecule
from tempering.molecules.system.reading import read_system
from tempering.molecules.target import MoleculeTarget

__all__ = ["alanine_system", "main", "minimised_alanine"]

FILES = ("amber96.xml", "implicit/obc1.xml")
_OMEGAS = ((1, 4, 6, 8), (8, 14, 16, 18))
_NUM_STARTS = 24
_TOLERANCE: Any = 0.001
"""kJ/(mol nm) of force that a minimum may have left."""


def alanine_system() -> tuple[Any, Any]:
    """The System and the topology of alanine dipeptide."""
    require_extra("openmm", "Systems of OpenMM")
    from openmm import app

    force_field = app.ForceField(*FILES)
    topology = peptide_topology(("ACE", "ALA", "NME"), force_field)
    return force_field.createSystem(topology, nonbondedMethod=app.NoCutoff, constraints=None), topology


def minimised_alanine(system: Any, topology: Any) -> np.ndarray:
    """Positions (22, 3), nm, of the lowest minimum found, centred."""
    import openmm

    bonds = np.array([(bond[0].index, bond[1].index) for bond in topology.bonds()])
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), openmm.Platform.getPlatform("Reference"))
    best, lowest = None, np.inf
    for seed in range(_NUM_STARTS):
        context.setPositions(layout_of_bonds(topology.getNumAtoms(), bonds, seed))
        openmm.LocalEnergyMinimizer.minimize(context, _TOLERANCE)
        positions, energy = _state(context)
        if _is_trans(positions) and energy < lowest:
            best, lowest = positions, energy
    if best is None:
        raise RuntimeError("no start came to a minimum with both amides trans; raise the number of starts")
    centre, a, b, c = (best[atom] for atom in ALPHA_CARBON)
    if (a - centre) @ np.cross(b - centre, c - centre) < 0:
        best = best * np.array([1.0, 1.0, -1.0])
    return best - np.mean(best, axis=0, keepdims=True)


def _state(context: Any) -> tuple[np.ndarray, float]:
    from openmm import unit

    state = context.getState(getPositions=True, getEnergy=True)
    positions = state.getPositions(asNumpy=True).value_in_unit_system(unit.md_unit_system)
    return np.array(positions), state.getPotentialEnergy().value_in_unit(unit.kilojoule_per_mole)


def _is_trans(positions: np.ndarray) -> bool:
    return all(abs(_dihedral(positions, atoms)) > 2.6 for atoms in _OMEGAS)


def _dihedral(positions: np.ndarray, atoms: tuple[int, ...]) -> float:
    a, b, c, d = (positions[atom] for atom in atoms)
    n1, n2 = np.cross(b - a, c - b), np.cross(c - b, d - c)
    return float(np.arctan2((b - a) @ n2 * np.linalg.norm(c - b), n1 @ n2))


def main() -> None:
    """Write the files and say what is in them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=DATA, help="where to write, without the ending")
    out = parser.parse_args().out
    import openmm

    system, topology = alanine_system()
    positions = minimised_alanine(system, topology)
    target = MoleculeTarget(read_system(system, topology, positions), 300.0, name="ALDP")
    source = f"{' + '.join(FILES)} of OpenMM {openmm.__version__}, python benchmarks/make_alanine.py"
    save_molecule(target, out, source=source)
    phi, psi = (np.degrees(_dihedral(positions, atoms)) for atoms in (PHI, PSI))
    energy = float(target.energy(target.init[0]))
    print(f"{out}: {target.num_atoms} atoms, phi = {phi:.1f}, psi = {psi:.1f} degrees, U = {energy:.3f} kJ/mol")


if __name__ == "__main__":
    main()
