"""Dihedrals, bonds and angles of whole sets of conformations, against MDTraj, JAX and geometry by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.molecules import turned_alanine
from tempering.errors import SettingsError
from tempering.molecules import MoleculeTarget, backbone, backbone_angles, bond_angles, bond_lengths, phi_psi, to_mdtraj
from tempering.molecules.alanine import PHI, PSI
from tempering.molecules.observables import angle_atoms, atoms_label
from tempering.molecules.system.record import Atom, MoleculeRecord
from tempering.registry import make_target

ALDP = make_target("aldp")
DEGREES = np.array([[-80.0, 140.0], [60.0, -170.0], [-179.5, 179.5], [170.0, -10.0], [-60.0, -40.0]])
POINTS = turned_alanine(ALDP, *np.radians(DEGREES).T)


def _record(names: list[tuple[str, int]], bonds: list[tuple[int, int]]) -> MoleculeTarget:
    """Atoms (name, residue) and bonds without any energy."""
    atoms = tuple(Atom(name, name[0], "GLY", number) for name, number in names)
    places = np.random.default_rng(0).normal(size=(len(atoms), 3))
    return MoleculeTarget(MoleculeRecord(np.ones(len(atoms)), atoms, np.array(bonds).reshape((-1, 2)), places, ()))


def test_the_backbone_of_alanine_is_the_papers():
    (found,) = backbone(ALDP)
    assert (found.residue, found.phi, found.psi) == ("ALA2", PHI, PSI)


def test_a_backbone_follows_bonds_and_not_the_order_of_residues():
    # Residue 1 follows 2 in the chain; 0 is a cap before 2 and 3 one after 1; 4 is not bound to anything.
    names = [
        ("C", 0),
        ("N", 1),
        ("CA", 1),
        ("C", 1),
        ("N", 2),
        ("CA", 2),
        ("C", 2),
        ("N", 3),
        ("N", 4),
        ("CA", 4),
        ("C", 4),
    ]
    bonds = [(0, 4), (4, 5), (5, 6), (6, 1), (1, 2), (2, 3), (3, 7), (8, 9), (9, 10)]
    first, second = backbone(_record(names, bonds))
    assert (first.phi, first.psi) == ((6, 1, 2, 3), (1, 2, 3, 7))
    assert (second.phi, second.psi) == ((0, 4, 5, 6), (4, 5, 6, 1))


def test_phi_and_psi_are_those_that_were_set():
    found = backbone_angles(ALDP, POINTS)
    assert found.shape == (5, 1, 2) and found.dtype == np.float64
    np.testing.assert_allclose(np.degrees(found[:, 0]), DEGREES, atol=1e-3)
    in_jax = jax.vmap(phi_psi)(jnp.asarray(POINTS, jnp.float32))
    np.testing.assert_allclose(found[:, 0], in_jax, atol=1e-5)
    # The saboteur: swapped.
    assert np.max(np.abs(np.degrees(found[:, 0, ::-1]) - DEGREES)) > 10


def test_bonds_and_angles_are_mdtrajs():
    mdtraj = pytest.importorskip("mdtraj")
    noisy = POINTS + np.random.default_rng(1).normal(0.0, 0.004, POINTS.shape)
    trajectory, bonds, triples = to_mdtraj(ALDP, noisy), ALDP.record.bonds, angle_atoms(ALDP)
    assert len(bonds) == 21 and len(triples) == 36
    theirs = mdtraj.compute_distances(trajectory, bonds), mdtraj.compute_angles(trajectory, triples)
    lengths, angles = bond_lengths(ALDP, noisy), bond_angles(ALDP, noisy)
    np.testing.assert_allclose(lengths, theirs[0], rtol=1e-5)
    np.testing.assert_allclose(angles, theirs[1], atol=1e-5)
    assert 0.09 < lengths.min() and lengths.max() < 0.17  # nm: ångström would be ten times as much
    # The saboteur: the first atom in the middle.
    assert np.max(np.abs(mdtraj.compute_angles(trajectory, triples[:, [1, 0, 2]]) - angles)) > 0.5


def test_shapes_and_chunks_change_nothing(monkeypatch):
    as_atoms = POINTS.reshape((-1, 22, 3))
    whole = backbone_angles(ALDP, POINTS), bond_lengths(ALDP, jnp.asarray(POINTS, jnp.float32))
    monkeypatch.setattr("tempering.molecules.observables._CHUNK", 2)
    np.testing.assert_array_equal(backbone_angles(ALDP, as_atoms), whole[0])
    np.testing.assert_allclose(bond_lengths(ALDP, as_atoms), whole[1], atol=1e-6)


def test_a_lost_draw_loses_itself_only():
    lost = POINTS.copy()
    lost[1, 0] = np.inf  # a hydrogen of the cap, which no dihedral knows
    lost[2] = np.nan
    angles, lengths = backbone_angles(ALDP, lost), bond_lengths(ALDP, lost)
    assert np.isfinite(angles).all(axis=(1, 2)).tolist() == [True, True, False, True, True]
    assert np.isfinite(lengths).sum(axis=1).tolist() == [21, 20, 0, 21, 21]


def test_labels():
    assert atoms_label(ALDP, [4, 6]) == "ACE1 C–ALA2 N"
    assert atoms_label(ALDP, (6, 8, 14)) == "ALA2 N–CA–C"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: backbone_angles(ALDP, POINTS[:, :63]), r"shape \(5, 63\).*\(num, 66\) or \(num, 22, 3\)"),
        (lambda: bond_lengths(ALDP, POINTS[0]), r"shape \(66,\)"),
        (lambda: bond_angles(ALDP, POINTS[:0]), "at least one"),
        (lambda: backbone_angles(make_target("dw4"), np.zeros((2, 8))), "is a .*; give a molecule"),
        (lambda: backbone_angles(_record([("C", 0), ("H", 0)], [(0, 1)]), np.zeros((1, 6))), "no residue"),
        (lambda: bond_lengths(_record([("C", 0), ("H", 0)], []), np.zeros((1, 6))), "no bonds"),
    ],
)
def test_refusals(call, words):
    with pytest.raises(SettingsError, match=words):
        call()
