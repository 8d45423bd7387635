"""What fits ask of a molecule: where chains start, what must have mixed, who its atoms are; without OpenMM."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.defaults import default_settings
from support.random_checks import must_fail
from support.tiny import quick_compilation
from tempering.methods.start import own_start
from tempering.molecules import alanine_dipeptide
from tempering.molecules.coordinates.skeleton import skeleton
from tempering.parallel_tempering.pilot.heat import _features
from tempering.targets import in_inner_coordinates

MIRROR = np.tile(np.array([1.0, 1.0, -1.0], np.float32), 22)


@pytest.fixture(scope="module", autouse=True)
def compiled_quickly():
    with quick_compilation():
        yield


@pytest.fixture(scope="module")
def aldp():
    return alanine_dipeptide()


def test_the_skeleton_of_alanine_dipeptide(aldp):
    torsions, first, second = skeleton(22, aldp.bonds, [atom.element for atom in aldp.record.atoms])
    # omega, phi (to CB, a third of a turn from C), psi and omega again, in whatever order the bonds have.
    wanted = {(1, 4, 6, 8), (4, 6, 8, 10), (6, 8, 14, 15), (8, 14, 16, 18)}
    assert {tuple(four) for four in torsions.tolist()} == wanted
    heavy = {1, 4, 5, 6, 8, 10, 14, 15, 16, 18}
    assert set(torsions.ravel()) | set(first) | set(second) <= heavy
    assert len(first) == len(second) == 12 and np.all(first != second)


def test_small_molecules_have_a_skeleton_too():
    water = skeleton(3, ((0, 1), (0, 2)), ["O", "H", "H"])
    assert water[0].shape == (0, 4) and (water[1].tolist(), water[2].tolist()) == ([1], [2])
    pair = skeleton(2, ((0, 1),), ["H", "H"])
    assert (pair[1].tolist(), pair[2].tolist()) == ([0], [1])
    ring = skeleton(3, ((0, 1), (1, 2), (2, 0)), ["C", "C", "C"])
    assert ring[0].shape == (0, 4) and len(ring[1]) == 3


def test_what_must_mix_knows_the_basins_and_no_symmetry(aldp):
    left = alanine_dipeptide(chirality="L")
    of = {target: jax.jit(target.invariants) for target in (aldp, left)}
    x = jnp.asarray(aldp.init[0] + 0.003 * np.random.default_rng(0).normal(size=66), jnp.float32)
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
    turn = (turn * np.sign(np.linalg.det(turn))).astype(np.float32)
    turned = (x.reshape((22, 3)) @ turn.T + jnp.asarray([[1.0, -2.0, 0.5]], jnp.float32)).reshape(-1)
    for target in (aldp, left):
        np.testing.assert_allclose(of[target](turned), of[target](x), atol=2e-5)
    # The density with both hands takes a conformation and its mirror image for one; the other has no mirror image.
    np.testing.assert_allclose(of[aldp](MIRROR * x), of[aldp](x), atol=1e-5)
    must_fail(np.testing.assert_allclose, of[left](MIRROR * x), of[left](x), atol=1e-5)
    assert of[left](x).shape == (4 + 4 + 12,)


def test_a_fit_starts_from_the_conformation_and_watches_its_torsions(aldp):
    inner = in_inner_coordinates(aldp)
    key = jax.random.key(0)
    rows = own_start(None, inner, 1.0, prefers_own=True)(key, 3)
    np.testing.assert_allclose(rows, np.repeat(np.asarray(inner.init), 3, axis=0))
    assert float(jnp.max(jnp.abs(own_start(None, inner, 1.0)(key, 3) - rows))) > 0.5
    # Features for R-hat: the target's own, and not quantiles of sorted distances.
    features = eqx.filter_jit(_features)(inner, jnp.broadcast_to(inner.init[None], (2, 1, 63)))
    np.testing.assert_allclose(features[0, 0], jax.jit(aldp.invariants)(jnp.asarray(aldp.init[0])), atol=1e-5)


def test_default_settings_of_a_molecule_know_its_atoms(aldp):
    inner = in_inner_coordinates(aldp)
    assert inner.atom_kinds == tuple(range(22)) and len(inner.bonds) == 21
    network = default_settings("ptsd", inner.dim, inner.geometry, inner.atom_kinds, inner.bonds).network
    assert network.atoms == inner.atom_kinds and network.bonds == inner.bonds and network.is_chiral
    alike = default_settings("ptsd", inner.dim, inner.geometry).network
    assert alike.atoms == () == alike.bonds and not alike.is_chiral
