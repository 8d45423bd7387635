"""Alanine dipeptide (ACE-ALA-NME), 22 atoms, AMBER ff96 in OBC1 implicit solvent, without constraints and cutoff.

Its parameters and a minimised structure come with the package; `python benchmarks/make_alanine.py` made them
from OpenMM's own force-field files. Atoms are numbered as in AMBER: ACE 0-5, ALA 6-15, NME 16-21.
"""

from pathlib import Path

import numpy as np

from tempering.molecules.coordinates.dihedrals import dihedrals
from tempering.molecules.exporting import load_molecule
from tempering.molecules.target import MoleculeTarget
from tempering.settings.checks import require_choice, require_positive
from tempering.types import Array, Float

__all__ = ["ALPHA_CARBON", "DATA", "PHI", "PSI", "alanine_dipeptide", "phi_psi"]

PHI = (4, 6, 8, 14)
"""C of ACE, N, CA, C of ALA."""
PSI = (6, 8, 14, 16)
"""N, CA, C of ALA, N of NME."""
ALPHA_CARBON = (8, 6, 14, 10)
"""CA, N, C, CB: (N - CA) . ((C - CA) x (CB - CA)) > 0 is the L-form."""

DATA = Path(__file__).parent / "data" / "aldp"
"""Where the parameters are, without the ending."""


def alanine_dipeptide(temperature: float = 300.0, chirality: str = "both") -> MoleculeTarget:
    """The target: log density -U(x) / (k_B T) of 66 coordinates in nm.

    Args:
        temperature: kelvin.
        chirality: both: the density as it is, the same for a conformation and its mirror image. L: 0 for D-forms.

    Raises:
        SettingsError: for settings outside what is allowed.
    """
    require_positive("temperature", temperature)
    require_choice("chirality", chirality, ("both", "L"))
    made = load_molecule(DATA, temperature=float(temperature))
    walls = (ALPHA_CARBON,) if chirality == "L" else ()
    return MoleculeTarget(made.record, float(temperature), name=made.name, walls=walls)


def phi_psi(x: Float[Array, " dim"]) -> Float[Array, "2"]:
    """phi and psi of one conformation of alanine dipeptide, from -pi to pi."""
    return dihedrals(x, np.array([PHI, PSI]))
