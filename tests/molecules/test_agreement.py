"""Energies and forces against OpenMM's Reference platform, term by term, with a saboteur for every term."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.molecules import CASES, case, energy_is_off, jax_energies, jax_values, openmm_values, with_terms, worst
from support.tiny import quick_compilation
from tempering.molecules import MoleculeTarget, alanine_dipeptide

pytest.importorskip("openmm")

FAST = ("ethane",)


@pytest.fixture(scope="module", autouse=True)
def compiled_quickly():
    with quick_compilation():
        yield


@pytest.mark.parametrize(
    "name", [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in CASES]
)
def test_whole_molecules_agree(name):
    given = case(name)
    theirs = openmm_values(given.system, given.conformations)
    assert worst(jax_values(given.record, given.conformations), theirs) <= 1


def altered(term, name, place, change):
    array = term.arrays[name].copy()
    array[place] = change(array[place])
    return replace(term, arrays={**term.arrays, name: array})


def missing_pair(term):
    """One pair left out of the Born radii."""
    values = [[name, text, "pair" if kind == "all pairs" else kind] for name, text, kind in term.settings["values"]]
    arrays = {**term.arrays, "exclusions": np.array([[4, 15]], np.int32)}
    return replace(term, arrays=arrays, settings={**term.settings, "values": values})


def scaled_exception(term):
    """The first exception that is not an exclusion, a pair 1-4, a thousandth stronger."""
    which = int(np.argmax(term.arrays["exception_charge"] != 0))
    return altered(term, "exception_charge", which, lambda charge: charge * 1.001)


def swapped_index(term):
    """The strongest torsion with its first two atoms swapped; of the middle two the planes would stay the same."""
    which = int(np.argmax(np.abs(term.arrays["strength"])))
    return altered(term, "atoms", which, lambda atoms: atoms[[1, 0, 2, 3]])


SABOTEURS = {
    "harmonic_bond": lambda term: altered(term, "strength", 3, lambda k: k * 1.000001),
    "harmonic_angle": lambda term: altered(term, "angle", 5, lambda angle: angle + 1e-6),
    "periodic_torsion": swapped_index,
    "nonbonded": scaled_exception,
    "generalised_born": missing_pair,
}


@pytest.mark.parametrize("kind", SABOTEURS)
def test_terms_of_alanine_agree_and_their_saboteurs_do_not(kind):
    given = case("alanine, OBC1")
    place = next(place for place, term in enumerate(given.record.terms) if term.kind == kind)
    term = given.record.terms[place]
    theirs = openmm_values(given.system, given.conformations, {place})
    assert worst(jax_values(with_terms(given.record, term), given.conformations), theirs) <= 1
    broken = with_terms(given.record, SABOTEURS[kind](term))
    assert energy_is_off(jax_energies(broken, given.conformations), theirs)


def test_the_packaged_alanine_is_what_openmm_makes_now():
    given, packaged = case("alanine, OBC1").record, alanine_dipeptide().record
    assert packaged.atoms == given.atoms
    np.testing.assert_array_equal(packaged.bonds, given.bonds)
    assert replace(given, positions=packaged.positions) == packaged


def test_plain_jax_of_alanine_is_within_two_thousandths():
    given = case("alanine, OBC1")
    energies, _ = openmm_values(given.system, given.conformations)
    target = MoleculeTarget(given.record)
    x = jnp.asarray(given.conformations.reshape((-1, target.dim)), jnp.float32)
    ours = jax.jit(jax.vmap(target.log_density))(jnp.concatenate([x, x[:1] + 5.0]))
    assert ours.dtype == jnp.float32
    in_kj = -0.00831446261815324 * 300 * np.asarray(ours, np.float64)
    np.testing.assert_allclose(in_kj[:-1], energies, atol=2e-3, rtol=0)
    # Five nm away a coordinate has fewer digits; what is left of them the target centres again.
    np.testing.assert_allclose(in_kj[-1], energies[0], atol=0.05, rtol=0)


@pytest.mark.slow
def test_plain_jax_forces_of_alanine():
    given = case("alanine, OBC1", 20)
    _, forces = openmm_values(given.system, given.conformations)
    target = MoleculeTarget(given.record)
    x = jnp.asarray(given.conformations.reshape((-1, target.dim)), jnp.float32)
    ours = jax.jit(jax.vmap(lambda point: -jax.grad(target.energy)(point)))(x)
    np.testing.assert_allclose(ours, forces.reshape(x.shape), atol=1e-5 * np.max(np.abs(forces)), rtol=0)
