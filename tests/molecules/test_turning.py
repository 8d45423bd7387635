"""Turning a molecule about a bond: the dihedral is what was asked for, and nothing else has changed."""

import jax
import numpy as np
import pytest

from tempering.molecules import MoleculeTarget, alanine_dipeptide, backbone_angles, bond_angles, bond_lengths
from tempering.molecules.alanine import ALPHA_CARBON, PHI, PSI
from tempering.molecules.coordinates.dihedrals import signed_volumes
from tempering.molecules.coordinates.turning import OPPOSITE_PHI, opposite_starts, turned
from tempering.molecules.system.record import MoleculeRecord

ALDP = alanine_dipeptide()


@pytest.mark.parametrize(("atoms", "place"), [(PHI, 0), (PSI, 1)])
@pytest.mark.parametrize("angle", [-170.0, -35.0, 60.0, 180.0])
def test_one_dihedral_is_set_and_the_rest_stays(atoms, place, angle):
    found = turned(ALDP, atoms, angle)
    assert found is not None and found.dtype == np.float32
    before, after = (np.degrees(backbone_angles(ALDP, x)[0, 0]) for x in (ALDP.init, found[None]))
    assert abs((after[place] - angle + 180.0) % 360.0 - 180.0) < 1e-3
    assert abs(after[1 - place] - before[1 - place]) < 1e-3
    for measure in (bond_lengths, bond_angles):
        np.testing.assert_allclose(measure(ALDP, found[None]), measure(ALDP, ALDP.init), atol=2e-6)
    assert float(signed_volumes(jax.numpy.asarray(found), np.array([ALPHA_CARBON]))[0]) > 0
    np.testing.assert_allclose(found.reshape(-1, 3).mean(axis=0), 0.0, atol=1e-6)


def test_opposite_starts_are_on_opposite_sides():
    starts = opposite_starts(ALDP)
    assert starts is not None
    np.testing.assert_allclose(np.degrees(backbone_angles(ALDP, starts)[:, 0, 0]), OPPOSITE_PHI, atol=1e-3)


def with_bonds(bonds) -> MoleculeTarget:
    record = ALDP.record
    return MoleculeTarget(
        MoleculeRecord(record.masses, record.atoms, np.asarray(bonds), record.positions, record.terms)
    )


def test_nothing_turns_about_a_bond_of_a_ring_and_without_a_backbone_nothing_is_opposite():
    bonds = np.asarray(ALDP.record.bonds)
    ring = with_bonds(np.concatenate([bonds, [[6, 10]]]))  # as in proline
    assert turned(ring, PHI, 60.0) is None and opposite_starts(ring) is None
    assert opposite_starts(with_bonds(bonds[:3])) is None
