"""Masses by units: trajectories as with an explicit mass matrix, the same distribution, every gradient counted.

The stiff system is three unlike particles in the plane joined by unlike springs: its precision is K kron I_2 with K a
Laplacian, so that its energy, its draws and the mean squared force on each particle are known.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.counting import Counter, CountingTarget
from support.random_checks import assert_mean, must_fail
from support.tempered import check_tempered, tempered_draws, walk
from support.tiny import Kept, quick_compilation, tiny_pt_dm, tiny_ptsd
from tempering.errors import SettingsError
from tempering.kernels import HMC, MALA, Kernel, init
from tempering.kernels.base import accept_or_stay
from tempering.methods import ptsd
from tempering.methods.budget import planned
from tempering.methods.pilot import prepare
from tempering.parallel_tempering import heat
from tempering.parallel_tempering.initial import initial_draws
from tempering.runs.checkpoint import Journal, Nowhere
from tempering.runs.ledger import Ledger
from tempering.settings import Exploration, Initial, Pilot
from tempering.targets import Gaussian, Inner, Scaled, Target, Units, anisotropic_gaussian
from tempering.targets.units import chosen_units, force_masses, units_of_masses
from tempering.transforms.centred import Centred

SPRINGS = {(0, 1): 40.0, (0, 2): 3.0, (1, 2): 0.5}
LAPLACIAN = np.zeros((3, 3))
for (i, j), strength in SPRINGS.items():
    LAPLACIAN[[i, j], [j, i]] -= strength
    LAPLACIAN[[i, j], [i, j]] += strength
GEOMETRY, MASSES = Centred(3, 2), (1.0, 9.0, 4.0)
KEY = jax.random.key(40)


class Springs(Target):
    """-1/2 sum_ij K_ij x_i . x_j, of particles that bring masses."""

    dim: int = eqx.field(static=True, default=6)

    @property
    def geometry(self):
        return GEOMETRY

    @property
    def masses(self):
        return MASSES

    def log_density(self, x):
        particles = x.reshape((3, 2))
        return -0.5 * jnp.sum(particles * (jnp.asarray(LAPLACIAN, x.dtype) @ particles))


PRECISION = np.kron(GEOMETRY.basis.T @ LAPLACIAN @ GEOMETRY.basis, np.eye(2))
SPRINGS_INNER = Inner(4, Springs(), GEOMETRY)
STIFF = Gaussian([3.0, -1.0, 0.5, 2.0], np.linalg.inv(PRECISION))
HEAVY = units_of_masses(np.asarray(MASSES), 4, GEOMETRY)
# Neither symmetric nor orthogonal: a transpose in the wrong place shows.
SKEW = Units(
    jnp.asarray([0.5, 1.0, 2.0, 0.7]),
    jnp.asarray([[1.0, 0.6], [0.0, 0.4]]),
    jnp.asarray(np.linalg.inv([[1.0, 0.6], [0.0, 0.4]]), jnp.float32),
)


def full_matrix(units: Units) -> np.ndarray:
    """L of x = L z."""
    return np.asarray(jax.vmap(units.outward)(jnp.eye(units.dim)), np.float64).T


@pytest.fixture(scope="module", autouse=True)
def quickly_compiled():
    """These programs run for a second."""
    with quick_compilation():
        yield


# Units.


@pytest.mark.parametrize(
    "units", [HEAVY, SKEW, Units(jnp.asarray([0.1, 1.0, 2.0, 9.0]))], ids=["mass", "skew", "plain"]
)
def test_units_there_and_back(units):
    states = jax.vmap(lambda x: init(x, STIFF))(STIFF.sample(KEY, 5))
    inside = states.in_units(units)
    there = jax.vmap(lambda z: init(z, Scaled(STIFF, units)))(inside.position)
    for ours, theirs in zip(jax.tree.leaves(inside), jax.tree.leaves(there), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=2e-4)
    for ours, theirs in zip(jax.tree.leaves(inside.out_of_units(units)), jax.tree.leaves(states), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=2e-4)
    np.testing.assert_allclose(jax.vmap(units.outward)(inside.position), units.outward(inside.position), rtol=1e-6)


def test_units_of_masses_are_a_root_of_the_inverse_mass():
    root = full_matrix(HEAVY)
    expected = GEOMETRY.basis.T @ np.diag(np.mean(MASSES) / np.asarray(MASSES)) @ GEOMETRY.basis
    np.testing.assert_allclose(root @ root.T, np.kron(expected, np.eye(2)), atol=1e-6)
    coordinates = units_of_masses(np.asarray([1.0, 4.0]), 6)
    np.testing.assert_allclose(coordinates.scale, np.sqrt(2.5) * np.repeat([1.0, 0.5], 3), rtol=1e-6)
    assert coordinates.matrix is None
    np.testing.assert_allclose(full_matrix(units_of_masses(np.full(3, 7.0), 4, GEOMETRY)), np.eye(4), atol=1e-6)


def test_turning_particles_turns_their_units():
    turn = np.kron(np.eye(2), [[0.6, -0.8], [0.8, 0.6]])
    np.testing.assert_allclose(full_matrix(HEAVY) @ turn, turn @ full_matrix(HEAVY), atol=1e-6)


# Trajectories.


class ExplicitHMC(Kernel):
    """HMC with a mass matrix written out: momentum root @ N(0, I), which is N(0, M) where root root^T = M."""

    inverse_mass: jax.Array
    root: jax.Array
    num_leapfrog: int = eqx.field(static=True)
    evaluations_per_step: int = eqx.field(static=True, default=1)
    optimal_acceptance: float = eqx.field(static=True, default=0.8)
    scale_power: float = eqx.field(static=True, default=1.0)

    def step(self, key, state, target, *, beta, step_size):
        """One transition."""
        key_momentum, key_accept = jax.random.split(key)
        start = momentum = self.root @ jax.random.normal(key_momentum, state.position.shape)
        here = state
        for _ in range(self.num_leapfrog):
            momentum = momentum + 0.5 * step_size * here.tempered_grad(beta)
            here = init(here.position + step_size * (self.inverse_mass @ momentum), target)
            momentum = momentum + 0.5 * step_size * here.tempered_grad(beta)
        kinetic = lambda p: 0.5 * jnp.dot(p, self.inverse_mass @ p)  # noqa: E731
        log_ratio = here.tempered(beta) - state.tempered(beta) - kinetic(momentum) + kinetic(start)
        return accept_or_stay(jax.random.uniform(key_accept), state, here, log_ratio)


def explicit(units: Units, root: np.ndarray | None = None) -> ExplicitHMC:
    matrix = full_matrix(units)
    root = np.linalg.inv(matrix).T if root is None else root
    return ExplicitHMC(jnp.asarray(matrix @ matrix.T, jnp.float32), jnp.asarray(root, jnp.float32), 3)


@pytest.mark.parametrize("units", [HEAVY, SKEW], ids=["mass", "skew"])
def test_unit_mass_in_units_is_an_explicit_mass_matrix(units):
    x, beta, size = STIFF.sample(KEY, 200), jnp.asarray(0.7), jnp.asarray(0.1)
    mine, info = walk(KEY, Scaled(STIFF, units), HMC(num_leapfrog=3), units.inward(x), beta, size)
    theirs, their_info = walk(KEY, STIFF, explicit(units), x, beta, size)
    # Rounding turns a decision once in about 1e4 steps.
    is_same = np.all(np.asarray(info.is_accepted) == np.asarray(their_info.is_accepted), axis=0)
    assert np.mean(is_same) > 0.97 and 0.3 < np.mean(info.is_accepted) < 1.0
    np.testing.assert_allclose(units.outward(mine.position)[is_same], theirs.position[is_same], atol=2e-3)


def test_trajectories_are_those_of_the_particles_seen_from_their_centre():
    y = np.asarray(jax.random.normal(KEY, (4,)), np.float64)
    velocity = np.asarray(jax.random.normal(jax.random.fold_in(KEY, 1), (3, 2)), np.float64)
    masses = np.asarray(MASSES)[:, None] / np.mean(MASSES)
    particles = (GEOMETRY.basis @ y.reshape(2, 2)).copy()
    own, size = velocity.copy(), 0.05
    for _ in range(20):
        own -= 0.5 * size * (LAPLACIAN @ particles) / masses
        particles += size * own
        own -= 0.5 * size * (LAPLACIAN @ particles) / masses
    matrix = full_matrix(HEAVY)
    z, speed = np.linalg.solve(matrix, y), np.linalg.solve(matrix, (GEOMETRY.basis.T @ velocity).reshape(-1))
    for _ in range(20):
        speed -= 0.5 * size * matrix.T @ PRECISION @ matrix @ z
        z += size * speed
        speed -= 0.5 * size * matrix.T @ PRECISION @ matrix @ z
    found = GEOMETRY.basis @ (matrix @ z).reshape(2, 2)
    np.testing.assert_allclose(found, particles - particles.mean(axis=0), atol=1e-5)
    assert np.max(np.abs(particles - GEOMETRY.basis @ y.reshape(2, 2))) > 0.3


# The distribution.


@pytest.mark.parametrize("beta", [0.4, 3.0])
@pytest.mark.parametrize("kernel", [HMC(num_leapfrog=3), MALA()], ids=["hmc", "mala"])
def test_masses_leave_the_tempered_density_invariant(kernel, beta):
    x = tempered_draws(STIFF, KEY, 20_000, beta)
    # The stiffest direction has curvature 220 in these units: steps of 0.1 are three quarters of the stable ones.
    size = jnp.asarray({1.0: 0.1 / np.sqrt(beta), 2.0: 0.005 / beta}[kernel.scale_power])
    moved, info = walk(
        jax.random.fold_in(KEY, 2), Scaled(STIFF, HEAVY), kernel, HEAVY.inward(x), jnp.asarray(beta), size
    )
    check_tempered(STIFF, beta, HEAVY.outward(moved.position), KEY)
    assert 0.3 < float(jnp.mean(info.is_accepted)) < 0.97


@pytest.mark.parametrize("beta", [0.4, 3.0])
def test_momentum_of_another_mass_is_rejected(beta):
    x, size = tempered_draws(STIFF, KEY, 20_000, beta), jnp.asarray(0.1 / np.sqrt(beta))
    right, _ = walk(jax.random.fold_in(KEY, 2), STIFF, explicit(HEAVY), x, jnp.asarray(beta), size)
    check_tempered(STIFF, beta, right.position, KEY)
    wrong, _ = walk(jax.random.fold_in(KEY, 2), STIFF, explicit(HEAVY, np.eye(4)), x, jnp.asarray(beta), size)
    must_fail(check_tempered, STIFF, beta, wrong.position, KEY)


def test_tempering_with_masses_stays_centred_has_the_exact_energy_and_counts():
    counter = Counter()
    target = Inner(4, CountingTarget(Springs(), 6, counter), GEOMETRY)
    ledger, betas = Ledger(), jnp.asarray([0.5, 1.0])
    initial = Initial(num_chains=200, num_steps=60, burn_in=40, thin=10)
    found = initial_draws(
        KEY, Scaled(target, HEAVY), HMC(num_leapfrog=4), lambda key, num: jax.random.normal(key, (num, 4)), betas,
        initial, Exploration(), ledger=ledger,
    )  # fmt: skip
    assert counter.wait(found.draws) == ledger.total == 2 * 200 * (1 + 60 * 4)
    cold = jax.tree.map(lambda leaf: leaf[1], found.draws).out_of_units(HEAVY)
    full = jax.vmap(jax.vmap(GEOMETRY.embed))(cold.position).reshape((-1, 3, 2))
    np.testing.assert_allclose(jnp.mean(full, axis=1), 0.0, atol=1e-5)
    again = jax.vmap(Springs().log_density)(full.reshape((-1, 6)))
    np.testing.assert_allclose(cold.log_density.reshape(-1), again, rtol=1e-3, atol=1e-3)
    last = -np.asarray(cold.log_density[-1], np.float64)  # a draw a chain: independent
    assert_mean(last, 2.0, name="energy of four directions")
    must_fail(assert_mean, last, 3.0, name="energy of six directions")


# Masses that are measured.


def test_masses_by_force_are_the_stiffness_of_each_particle():
    draws = (STIFF.sample(KEY, 20_000) - STIFF.location[None]).astype(jnp.float32)
    gradients = -draws @ jnp.asarray(PRECISION, jnp.float32)
    expected = np.diag(LAPLACIAN) / np.mean(np.diag(LAPLACIAN))
    np.testing.assert_allclose(force_masses(GEOMETRY, gradients), expected, rtol=0.04)
    # What a spread would say: the two that the stiff spring joins move together, far from the third.
    assert np.max(np.abs(force_masses(GEOMETRY, draws) - expected)) > 0.3
    np.testing.assert_array_equal(force_masses(GEOMETRY, jnp.zeros((3, 4))), np.ones(3))


@pytest.mark.slow
@pytest.mark.parametrize("measure", ["forces", "together", "coordinates"])
def test_a_pilot_measures_what_it_is_told_and_counts(measure):
    counter = Counter()
    target = Inner(4, CountingTarget(Springs(), 6, counter), GEOMETRY)
    if measure == "coordinates":
        target = CountingTarget(anisotropic_gaussian(4, seed=3), 4, counter)
    pilot, ledger = Pilot(num_chains=64, num_steps=40, max_rounds=3, ceiling=2.0), Ledger()
    kernel, positions = HMC(num_leapfrog=4), 0.3 * jax.random.normal(KEY, (64, 4))
    found = heat(KEY, target, kernel, positions, pilot, 0.8, ledger, measure=measure)
    assert counter.wait(found.positions) == ledger.total
    root = full_matrix(found.units)
    if measure == "coordinates":
        exact = np.sqrt(2.0 * np.diag(target.inner.covariance()))
        np.testing.assert_allclose(np.diag(root), exact, rtol=0.35)
        assert exact.max() / exact.min() > 2.0
        return
    masses = np.linalg.inv((root @ root.T)[::2, ::2])
    stiff, even = GEOMETRY.basis.T @ np.diag(1 / np.diag(LAPLACIAN)) @ GEOMETRY.basis, np.eye(2)
    expected = np.linalg.inv(stiff) if measure == "forces" else even
    np.testing.assert_allclose(masses / np.trace(masses), expected / np.trace(expected), atol=0.06)


# What a run takes.


@pytest.mark.parametrize(
    ("exploration", "expected"),
    [
        (Exploration(), HEAVY),
        (Exploration(mass="target"), HEAVY),
        (Exploration(mass="unit"), Units.plain(4)),
        (Exploration(mass="unit", masses=(1.0, 9.0, 4.0)), HEAVY),
    ],
)
def test_a_given_ladder_takes_the_masses_that_are_asked_for(exploration, expected):
    progress = Journal(Ledger(), Nowhere())
    settings = tiny_ptsd(exploration=exploration)
    _, prepared = prepare(KEY, SPRINGS_INNER, settings, None, progress, lambda *event, **numbers: None)
    np.testing.assert_allclose(full_matrix(prepared.units), full_matrix(expected), atol=1e-6)
    assert progress.ledger.total == 0 and "pilot" not in planned(settings, SPRINGS_INNER.dim)


@pytest.mark.slow
def test_adapted_masses_run_a_pilot_below_a_given_ladder():
    progress = Journal(Ledger(), Nowhere())
    settings = tiny_pt_dm(
        exploration=Exploration(mass="adapted"), pilot=Pilot(num_chains=16, num_steps=16, max_rounds=3)
    )
    settings, prepared = prepare(KEY, SPRINGS_INNER, settings, None, progress, lambda *event, **numbers: None)
    assert prepared.units.matrix is not None and prepared.temperatures[0] == 8.0
    assert 0 < progress.ledger.points["pilot"] <= planned(settings, SPRINGS_INNER.dim)["pilot"]


def test_masses_that_do_not_fit_are_refused():
    with pytest.raises(SettingsError, match="brings no masses"):
        chosen_units(STIFF, "target")
    with pytest.raises(SettingsError, match="one for each of 3 particles"):
        chosen_units(SPRINGS_INNER, "unit", (1.0, 2.0))
    with pytest.raises(SettingsError, match="one for each of 4 coordinates"):
        chosen_units(STIFF, "unit", (1.0, 2.0, 3.0))


@pytest.mark.slow
@pytest.mark.parametrize("given", [{"masses": MASSES}, {"mass": "adapted"}], ids=["given", "adapted"])
def test_a_fit_with_masses_counts_every_gradient_and_resumes(given):
    counter, store = Counter(), Kept()
    target = Inner(4, CountingTarget(Springs(), 6, counter), GEOMETRY)
    exploration = Exploration(kernel="hmc", num_leapfrog=2, **given)
    settings = tiny_ptsd(exploration=exploration, pilot=Pilot(num_chains=16, num_steps=16, max_rounds=3))
    sampler = ptsd.fit(target, KEY, settings, store=store)
    assert counter.wait(sampler.sample(2)) == sampler.evaluations
    assert ("pilot" in sampler.ledger.points) == ("mass" in given)
    del store.parts[max(place for place in store.parts if place[1] == "buffer")]
    again = ptsd.fit(target, KEY, settings, store=store)
    assert again.evaluations == sampler.evaluations
    np.testing.assert_array_equal(again.sample(4, seed=1), sampler.sample(4, seed=1))
