"""phi, psi and chirality against MDTraj and geometry by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.molecules import case
from tempering.molecules import chiral_centres, dihedrals, phi_psi, signed_volumes
from tempering.molecules.alanine import ALPHA_CARBON


def test_the_convention():
    """A dihedral of +90 degrees: looking along the middle bond, the far one is turned clockwise."""
    x = jnp.asarray([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 1.0]]).reshape(-1)
    np.testing.assert_allclose(dihedrals(x, np.array([[0, 1, 2, 3], [3, 2, 1, 0]])), np.pi / 2, rtol=1e-6)


def test_phi_and_psi_are_mdtrajs():
    pytest.importorskip("openmm")
    mdtraj = pytest.importorskip("mdtraj")
    given = case("alanine, OBC1")
    trajectory = mdtraj.Trajectory(given.conformations, mdtraj.Topology.from_openmm(given.topology))
    (phi_atoms, phi), (psi_atoms, psi) = mdtraj.compute_phi(trajectory), mdtraj.compute_psi(trajectory)
    assert phi_atoms.tolist() == [[4, 6, 8, 14]] and psi_atoms.tolist() == [[6, 8, 14, 16]]
    ours = jax.vmap(phi_psi)(jnp.asarray(given.conformations.reshape((-1, 66)), jnp.float32))
    np.testing.assert_allclose(ours, np.concatenate([phi, psi], axis=1), atol=1e-5)
    # The saboteur: one atom further.
    wrong = jax.vmap(lambda x: dihedrals(x, np.array([[4, 6, 8, 10], [6, 8, 14, 15]])))(
        jnp.asarray(given.conformations.reshape((-1, 66)), jnp.float32)
    )
    assert np.max(np.abs(wrong - np.concatenate([phi, psi], axis=1))) > 0.1


def test_the_l_form_has_a_positive_volume():
    """CORN: seen from the hydrogen, CO, R and N of an L-amino acid follow each other clockwise."""
    carbon, names = np.zeros(3), ["CA", "N", "C", "CB"]
    # Seen from above, where the hydrogen is, clockwise: C, CB, N.
    clockwise = [np.array([np.cos(angle), np.sin(angle), -0.3]) for angle in (0.0, -2 * np.pi / 3, -4 * np.pi / 3)]
    carbonyl, side_chain, nitrogen = clockwise
    x = jnp.asarray(np.concatenate([carbon, nitrogen, carbonyl, side_chain]))
    centres = chiral_centres(names, [0, 0, 0, 0])
    assert centres.tolist() == [[0, 1, 2, 3]]
    assert float(signed_volumes(x, centres)[0]) > 0
    assert float(signed_volumes(-x, centres)[0]) < 0


def test_the_chiral_centre_of_alanine_is_found():
    pytest.importorskip("openmm")
    atoms = case("alanine, OBC1").record.atoms
    found = chiral_centres([atom.name for atom in atoms], [atom.residue_number for atom in atoms])
    assert found.tolist() == [list(ALPHA_CARBON)]
