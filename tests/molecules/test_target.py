"""Molecules as targets: the contract, batches and chunks, atoms at one place, mirror images, bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.molecules import case, with_terms
from support.tiny import quick_compilation
from tempering.errors import SettingsError
from tempering.molecules import MoleculeTarget, alanine_dipeptide, from_openmm, reflect, signed_volumes
from tempering.molecules.alanine import ALPHA_CARBON
from tempering.molecules.system import energy
from tempering.registry import make_target
from tempering.targets import evaluate, in_inner_coordinates

pytest.importorskip("openmm")


@pytest.fixture(scope="module", autouse=True)
def compiled_quickly():
    with quick_compilation():
        yield


@pytest.fixture(scope="module")
def ethane():
    """Its bonds and pairs alone, which compile fast."""
    given = case("ethane")
    terms = [term for term in given.record.terms if term.kind in ("harmonic_bond", "nonbonded")]
    return MoleculeTarget(with_terms(given.record, *terms), 300.0, name="ethane")


@pytest.fixture(scope="module")
def points():
    return jnp.asarray(case("ethane").conformations.reshape((-1, 24)), jnp.float32)


def test_batches_and_chunks_change_nothing(ethane, points, monkeypatch):
    alone = jnp.stack([jax.jit(ethane.energy)(point) for point in points])
    batch, slopes = jax.jit(jax.vmap(jax.value_and_grad(ethane.energy)))(points)
    np.testing.assert_allclose(batch, alone, atol=1e-3)
    monkeypatch.setattr(energy, "_chunk_size", lambda record: 2)
    chunked = jax.jit(jax.vmap(jax.value_and_grad(ethane.energy)))(points[:5])  # two chunks and a rest
    np.testing.assert_allclose(chunked[0], batch[:5], atol=1e-3)
    np.testing.assert_allclose(chunked[1], slopes[:5], rtol=1e-4, atol=0.05)


def test_levels_of_chains_keep_their_order(ethane, points):
    both = jax.jit(jax.vmap(jax.vmap(ethane.energy)))(points.reshape((2, 3, 24)))
    np.testing.assert_allclose(both.reshape(-1), jax.jit(jax.vmap(ethane.energy))(points), atol=1e-3)


def test_inner_coordinates_are_centred(ethane, points):
    inner = in_inner_coordinates(ethane)
    assert inner.dim == 21
    y = jax.jit(inner.chart.restrict)(points[0])
    value, slope = jax.jit(lambda y: evaluate(inner, y))(y)
    np.testing.assert_allclose(value, jax.jit(ethane.log_density)(points[0]), rtol=1e-4)
    assert slope.shape == (21,) and np.all(np.isfinite(slope))


@pytest.mark.slow
def test_second_derivatives(ethane, points):
    with jax.enable_x64(True):
        x, step = jnp.asarray(points[0], jnp.float64), 1e-5
        direction = jnp.asarray(np.random.default_rng(0).normal(size=24))
        gradient = jax.jit(jax.grad(ethane.energy))
        difference = (gradient(x + step * direction) - gradient(x - step * direction)) / (2 * step)
        for hessian in (jax.hessian, lambda fn: jax.jacrev(jax.jacrev(fn))):
            product = jax.jit(hessian(ethane.energy))(x) @ direction
            np.testing.assert_allclose(product, difference, atol=1e-6 * float(np.max(np.abs(difference))))


def test_atoms_at_one_place_have_no_density_and_no_nan(ethane, points):
    both = jax.jit(lambda x: evaluate(ethane, x))
    clash = points[0].at[3:6].set(points[0][21:24])
    value, slope = both(clash)
    assert value == -jnp.inf and not np.any(np.asarray(slope))
    assert jax.jit(ethane.log_density)(clash) == -jnp.inf
    heap, slope = both(jnp.zeros(24))
    assert heap == -jnp.inf and np.all(np.isfinite(slope))
    near = points[0].at[3:6].set(points[0][21:24] + 1e-5)
    value, slope = both(near)
    assert not np.isnan(value) and np.all(np.isfinite(slope))
    assert np.isnan(both(points[0].at[0].set(jnp.nan))[0])


def alanine_pairs() -> MoleculeTarget:
    """Alanine dipeptide with its pairs alone."""
    record = alanine_dipeptide().record
    return MoleculeTarget(with_terms(record, *(term for term in record.terms if term.kind == "nonbonded")))


def test_alanine_is_a_target_by_name():
    target = make_target("aldp", chirality="L", temperature=600.0)
    assert target.dim == 66 and target.geometry.dim == 63 and target.name == "ALDP" and target.temperature == 600.0
    assert target.walls == (ALPHA_CARBON,) and make_target("aldp").walls == ()
    assert target.chiral_centres.tolist() == [list(ALPHA_CARBON)]
    assert signed_volumes(jnp.asarray(target.init[0]), np.array([ALPHA_CARBON]))[0] > 0
    with pytest.raises(SettingsError, match="chirality"):
        make_target("aldp", chirality="D")


def test_a_wall_keeps_to_one_hand():
    free = alanine_pairs()
    target = MoleculeTarget(free.record, 300.0, walls=(ALPHA_CARBON,))
    x = jnp.asarray(free.init[0])
    both = jnp.stack([x, x * jnp.tile(jnp.asarray([-1.0, 1.0, 1.0]), 22)])
    values, slopes = jax.jit(jax.vmap(lambda x: evaluate(target, x)))(both)
    assert values[1] == -jnp.inf and not np.any(slopes[1])
    np.testing.assert_allclose(jax.jit(jax.vmap(free.log_density))(both), jnp.stack([values[0]] * 2), rtol=1e-5)
    with pytest.raises(SettingsError, match="not a chiral centre"):
        MoleculeTarget(free.record, walls=((0, 1, 2, 22),))


def test_reflection_keeps_densities_in_their_rows():
    target = alanine_pairs()
    noise = np.random.default_rng(2).normal(0.0, 0.01, (6, 66))
    x = jnp.asarray(target.init + noise, jnp.float32)
    is_turned = np.array([False, True, True, False, True, False])
    mirror = np.where(is_turned[:, None], np.tile([1.0, -1.0, 1.0], 22)[None], 1.0)
    mixed = x * jnp.asarray(mirror, jnp.float32)
    density = jax.jit(jax.vmap(target.log_density))
    before = density(mixed)
    centres = np.array([ALPHA_CARBON])
    reflected, which = reflect(mixed, centres)
    np.testing.assert_array_equal(which, is_turned)
    np.testing.assert_allclose(density(reflected), before, rtol=1e-5)
    assert not np.any(reflect(reflected, centres)[1])
    np.testing.assert_array_equal(reflected[~is_turned], mixed[~is_turned])
    # The saboteur reorders as the paper's code does: L-forms first, then the reflected ones.
    reordered = jnp.concatenate([reflected[~is_turned], reflected[is_turned]])
    assert np.max(np.abs(density(reordered) - before) / np.abs(before)) > 1e-2


def test_a_reflection_without_a_centre_is_refused():
    with pytest.raises(SettingsError, match="at least one chiral centre"):
        reflect(jnp.zeros((2, 66)), np.zeros((0, 4), int))


def bad_positions():
    positions = case("ethane").conformations[0]
    from openmm import unit

    broken, clash = positions.copy(), positions.copy()
    broken[3, 1] = np.nan
    clash[2] = clash[6]
    return {
        "too few": (positions[:-1], r"shape \(7, 3\); the System has 8 atoms"),
        "flat": (positions.reshape(-1), "not a list of points"),
        "NaN": (broken, "not finite, first at atom 3"),
        "overlap": (clash, "atoms 2 and 6 overlap.*minimise"),
        "ångström": (10 * positions, "another unit.*divide ångström by 10"),
        "kelvin": (positions * unit.kelvin, "in kelvin; give a length"),
        "text": ("here", "not a list of points"),
    }


@pytest.mark.parametrize("name", ["too few", "flat", "NaN", "overlap", "ångström", "kelvin", "text"])
def test_bad_positions_are_refused(name):
    given, (positions, message) = case("ethane"), bad_positions()[name]
    with pytest.raises(SettingsError, match=message):
        from_openmm(given.system, given.topology, positions)


def test_positions_with_units_are_converted():
    from openmm import Vec3, unit

    given = case("ethane")
    positions = given.conformations[0]
    plain = from_openmm(given.system, given.topology, positions)
    angstrom = from_openmm(given.system, given.topology, [Vec3(*row) for row in 10 * positions] * unit.angstrom)
    np.testing.assert_allclose(angstrom.init, plain.init, atol=1e-7)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"temperature": -1.0}, "temperature = -1.0"),
        ({"temperature": "warm"}, "temperature = 'warm'"),
        ({"unsupported": "ignore"}, "unsupported = 'ignore'"),
        ({"system": "system.xml"}, "system is a string"),
        ({"topology": 3}, "topology is an int"),
    ],
)
def test_other_bad_arguments_are_refused(arguments, message):
    given = case("ethane")
    good = {"system": given.system, "topology": given.topology, "positions": given.conformations[0]}
    with pytest.raises(SettingsError, match=message):
        from_openmm(**{**good, **arguments})


def test_a_temperature_in_another_unit_is_refused():
    from openmm import unit

    given = case("ethane")
    with pytest.raises(SettingsError, match="give it in kelvin"):
        from_openmm(given.system, given.topology, given.conformations[0], 300 * unit.nanometer)
    target = from_openmm(given.system, given.topology, given.conformations[0], 450 * unit.kelvin)
    assert isinstance(target, MoleculeTarget) and target.temperature == 450.0


def test_shapes_are_checked(ethane):
    with pytest.raises(SettingsError, match=r"8 atoms have shape \(24,\)"):
        ethane.energy(jnp.zeros(21))
