"""The energy of a record: the sum of its terms, for one conformation or a batch of them."""

from collections.abc import Callable

import jax.numpy as jnp

from tempering.molecules.system import bonded, pairwise
from tempering.molecules.system.cmap import cmap_torsion
from tempering.molecules.system.layout import Pairs
from tempering.molecules.system.record import MoleculeRecord
from tempering.types import Array, Float

__all__ = ["BONDED", "PAIRWISE", "potential"]

BONDED: dict[str, Callable[..., Array]] = {
    "harmonic_bond": bonded.harmonic_bond,
    "harmonic_angle": bonded.harmonic_angle,
    "periodic_torsion": bonded.periodic_torsion,
    "ryckaert_bellemans": bonded.ryckaert_bellemans,
    "cmap_torsion": cmap_torsion,
    "custom_bond": bonded.custom_bond,
    "custom_angle": bonded.custom_angle,
    "custom_torsion": bonded.custom_torsion,
    "custom_external": bonded.custom_external,
}
"""Terms of few atoms each."""

PAIRWISE: dict[str, Callable[..., Array]] = {
    "nonbonded": pairwise.nonbonded,
    "custom_nonbonded": pairwise.custom_nonbonded,
    "generalised_born": pairwise.generalised_born,
}
"""Terms of all pairs, whose distances they share."""


def potential(record: MoleculeRecord, positions: Float[Array, "3 atom *batch"]) -> Float[Array, "*batch"]:
    """The potential energy, kJ/mol, of conformations in nm. Non-finite where atoms are too close for the precision."""
    energy = jnp.zeros(positions.shape[2:], positions.dtype)
    pairs = Pairs(positions) if any(term.kind in PAIRWISE for term in record.terms) else None
    for term in record.terms:
        if term.kind in PAIRWISE:
            energy = energy + PAIRWISE[term.kind](term, positions, pairs)
        else:
            energy = energy + BONDED[term.kind](term, positions)
    return energy
