"""iDEM and BNEM: estimates against the exact noised density, bootstraps, symmetries, and what they cost."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

import tempering as tp
from support.counting import counting_target
from support.random_checks import assert_mean, assert_std, must_fail
from tempering.baselines import train
from tempering.baselines.bnem import BNEM, bootstrapped, less_noise, parts_of
from tempering.baselines.contract import Cost
from tempering.baselines.estimator import clipped, fast_normal, noised_parts, noised_score, time_of, variance
from tempering.baselines.idem import IDEM
from tempering.baselines.noised import Replay, reverse_sde
from tempering.baselines.score_networks import energy_network, score_network
from tempering.baselines.units import Rescaled
from tempering.errors import SettingsError
from tempering.settings import BNEMSettings, IDEMSettings
from tempering.targets import Target
from tempering.targets.densities.gaussian_mixture import GaussianMixture
from tempering.targets.densities.particles import lennard_jones
from tempering.targets.inner import in_inner_coordinates
from tempering.transforms.centred import Centred

SMALL = {"num_mc": 10, "batch_size": 6, "num_inner": 3, "num_new": 4, "num_first": 7, "buffer_size": 10}
SMALL |= {"num_sde_steps": 5, "width": 8}
MEANS, WEIGHTS = [[-1.0, 0.5], [1.2, -0.3]], [0.7, 0.3]
COVARIANCES = np.asarray([[[0.6, 0.2], [0.2, 0.3]], [[0.3, 0.0], [0.0, 0.9]]])
POINT = jnp.asarray([-1.0, 2.0])
"""On a flank: there the density depends on the noise."""
H = 0.5


def mixture(h: float = 0.0) -> GaussianMixture:
    """A lopsided mixture with noise of variance h."""
    return GaussianMixture(MEANS, weights=WEIGHTS, covariances=COVARIANCES + h * np.eye(2), log_constant=0.4)


def cluster():
    return in_inner_coordinates(lennard_jones(5, smoothing=0.65))


class Molecule(Target):
    """Particles that are told apart, in a harmonic trap."""

    dim: int = eqx.field(static=True)
    geometry: Centred
    atom_kinds: tuple = eqx.field(static=True)
    bonds: tuple = eqx.field(static=True)

    def log_density(self, x):
        return -0.5 * jnp.sum(x**2)


def molecule():
    """Four atoms, of which two are of one kind."""
    geometry = lennard_jones(4).geometry
    return in_inner_coordinates(Molecule(geometry.full_dim, geometry, (0, 1, 1, 2), ((0, 1), (0, 2), (0, 3))))


def perturbed(network, seed: int = 0):
    """A network whose every layer does something."""
    arrays, rest = eqx.partition(network, eqx.is_inexact_array)
    leaves, tree = jax.tree.flatten(arrays)
    rng = np.random.default_rng(seed)
    moved = [leaf + np.asarray(0.1 * rng.standard_normal(leaf.shape), leaf.dtype) for leaf in leaves]
    return eqx.combine(jax.tree.unflatten(tree, moved), rest)


def test_noise_has_the_variance_and_the_rate_it_says():
    settings = IDEMSettings(sigma_min=0.1, sigma_max=3.0)
    t = jnp.asarray([0.0, 0.3, 1.0])
    h = variance(t, settings)
    np.testing.assert_allclose(h, 0.01 * (30.0 ** (2 * np.asarray(t)) - 1.0), rtol=1e-5)
    np.testing.assert_allclose(time_of(h, settings), t, atol=1e-6)


def test_the_estimated_score_is_that_of_the_noised_mixture():
    exact = jax.jit(jax.grad(mixture(H).log_density))(POINT)
    noise = fast_normal(jax.random.key(0), (40, 20_000, 2))
    one = lambda part: noised_score(mixture(), POINT, jnp.asarray(H), part)  # noqa: E731
    scores = jax.jit(lambda noise: jax.lax.map(one, noise))(noise)
    # The bias, of order 1 / 20,000, is far below the error of 40 means.
    assert_mean(scores, np.asarray(exact, np.float64), name="noised score")
    # The saboteur: a mean of gradients that forgets the densities.
    points = POINT[None, None] + np.sqrt(H) * noise
    plain = jnp.mean(jax.jit(jax.vmap(jax.vmap(jax.grad(mixture().log_density))))(points), axis=1)
    must_fail(assert_mean, plain, np.asarray(exact, np.float64))


def test_the_estimated_energy_is_that_of_the_noised_mixture():
    """exp of the estimate has the noised density as its mean, for any number of points."""
    exact = mixture(H).log_density(POINT)
    noise = jax.random.normal(jax.random.key(1), (4_000, 7, 2))
    parts_fn = parts_of(mixture(), False)
    estimates = jax.jit(lambda h: jax.vmap(lambda one: noised_parts(parts_fn, POINT, h, one)[0])(noise) - exact)

    def ratios(h):
        return np.exp(np.asarray(estimates(jnp.asarray(h)), np.float64))

    assert_mean(ratios(H), 1.0, name="noised density")
    must_fail(assert_mean, ratios(0.5 * H), 1.0)  # the saboteur: too little noise


def test_a_bootstrap_from_the_exact_density_at_less_noise_is_unbiased():
    h_u, exact = 0.3, mixture(H).log_density(POINT)
    noise = jax.random.normal(jax.random.key(2), (4_000, 5, 2))
    own = jax.random.normal(jax.random.key(3), (4_000, 3, 2))

    def ratios(between):
        def one(own, noise):
            mean_log = noised_parts(parts_of(mixture(), False), POINT, jnp.asarray(H), own)
            taught = jax.vmap(mixture(h_u).log_density)(POINT[None] + jnp.sqrt(between) * noise)
            return bootstrapped(mean_log, 3, taught[:, None])[0]

        return np.exp(np.asarray(jax.jit(jax.vmap(one))(own, noise) - exact, np.float64))

    assert_mean(ratios(H - h_u), 1.0, name="bootstrapped density")
    must_fail(assert_mean, ratios(H), 1.0)  # the saboteur: all the noise once more


def test_points_of_less_noise_have_the_noise_they_are_said_to_have():
    """The network is judged at u where points of the buffer with noise of h_u are, in the bin below that of t."""
    settings = BNEMSettings(sigma_min=0.01, sigma_max=1.0, bootstrap_variance=0.1)
    t = jnp.concatenate([jnp.full(4_000, 0.97), jnp.full(4_000, 0.8)])
    clean = jnp.asarray([[0.7, -1.1]]) * jnp.ones((8_000, 1))
    x_u, u, has_bin = jax.jit(lambda key: less_noise(key, clean, t, settings))(jax.random.key(7))
    h, h_u = (np.asarray(variance(one, settings), np.float64) for one in (t, u))
    low = np.floor(h / 0.1) - 1
    assert np.all(has_bin) and np.all(h_u >= 0.1 * low - 1e-5) and np.all(h_u <= 0.1 * (low + 1) + 1e-5)
    squared = (np.asarray(x_u - clean, np.float64)) ** 2 / h_u[:, None]
    assert_mean(squared, np.ones(2), name="noise of x_u")
    # The saboteur: noise upon x_t, as of the points that the teacher is asked at.
    must_fail(assert_mean, (squared * ((2 * h - h_u) / h_u)[:, None])[:4_000], np.ones(2))
    t = jnp.full(8_000, 0.2)
    _, same, has_none = jax.jit(lambda key: less_noise(key, clean, t, settings))(jax.random.key(7))
    np.testing.assert_allclose(same, 0.2)
    assert not np.any(has_none)


def test_pooling_is_one_mean_over_all():
    values = jnp.asarray([[0.3], [-1.0], [2.0], [0.1], [0.7]])
    pooled = jax.jit(lambda v: bootstrapped(jax.nn.logsumexp(v[:2], axis=0) - jnp.log(2.0), 2, v[2:]))(values)
    np.testing.assert_allclose(pooled, logsumexp(values, axis=0) - np.log(5.0), rtol=1e-5)


def test_the_reverse_sde_recovers_a_gaussian_from_its_exact_score():
    settings = IDEMSettings(sigma_min=0.05, sigma_max=6.0, num_sde_steps=400)
    mean, std = jnp.asarray([0.7, -0.4]), 0.8

    def draws(factor, num=4_000):
        score = lambda x, t: factor * (mean - x) / (std**2 + variance(t, settings))  # noqa: E731
        keys = jax.random.split(jax.random.key(4), 4_000)[:num]
        return jax.jit(lambda keys: reverse_sde(keys, score, 2, settings))(keys)

    x = draws(1.0)
    # The largest noise does not forget the mean wholly, and 400 steps are not infinitely many.
    assert np.all(np.abs(np.mean(x, axis=0) - mean) < 0.06)
    np.testing.assert_allclose(np.std(x, axis=0), std, rtol=0.05)
    np.testing.assert_allclose(draws(1.0, 3), x[:3], rtol=1e-4, atol=1e-4)
    must_fail(assert_std, draws(0.5), std)


def test_the_buffer_is_first_in_first_out():
    rows = lambda *values: jnp.asarray(values, jnp.float32)[:, None]  # noqa: E731
    replay = Replay.of(rows(1, 2, 3), 4)
    assert set(np.asarray(replay.batch(jax.random.key(0), 200))[:, 0]) == {1.0, 2.0, 3.0}
    for _ in range(5):
        replay = replay.joined(rows(4, 5, jnp.nan, 99), reach=10.0)
    # Four a time: the third and fourth never get in, and what was there stays.
    assert set(np.asarray(replay.points)[:, 0]) <= {1.0, 2.0, 3.0, 4.0, 5.0}
    assert set(np.asarray(replay.batch(jax.random.key(0), 200))[:, 0]) == set(np.asarray(replay.points)[:, 0])
    full = Replay.of(rows(1, 2, 3, 4), 4).joined(rows(5, 6))
    assert sorted(np.asarray(full.points)[:, 0]) == [3.0, 4.0, 5.0, 6.0]


def turned(geometry, y, order, rotation):
    points = geometry.embed(y).reshape(geometry.num_particles, 3)[order]
    return geometry.restrict((points @ rotation.T).reshape(-1))


@pytest.fixture(scope="module")
def motion():
    rotation, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))
    return np.asarray([3, 0, 4, 1, 2]), jnp.asarray(rotation, jnp.float32)


@pytest.mark.slow
def test_scores_turn_and_energies_stay(motion):
    made = eqx.filter_jit
    target, settings, t = cluster(), IDEMSettings(width=8, depth=2, sigma_min=0.5, sigma_max=4.0), jnp.asarray(0.4)
    y = jax.random.normal(jax.random.key(5), (target.dim,))
    geometry = target.geometry
    move = jax.jit(lambda y: turned(geometry, y, *motion))
    score = made(perturbed(made(score_network)(jax.random.key(0), target, settings)))
    assert float(jnp.linalg.norm(score(y, t))) > 1e-3
    np.testing.assert_allclose(score(move(y), t), move(score(y, t)), rtol=2e-3, atol=1e-4)
    assert not np.allclose(score(move(y), t), score(y, t), rtol=1e-2, atol=1e-3)  # the saboteur
    parts = made(perturbed(made(energy_network)(jax.random.key(0), target, settings, True)))
    whole = made(perturbed(made(energy_network)(jax.random.key(0), target, settings, False)))
    np.testing.assert_allclose(parts(move(y), t), parts(y, t)[motion[0]], rtol=2e-3, atol=1e-4)
    np.testing.assert_allclose(whole(move(y), t), whole(y, t), rtol=2e-3, atol=1e-4)
    np.testing.assert_allclose(jnp.sum(parts(y, t)), whole(y, t)[0], rtol=1e-4)
    clip = jax.jit(lambda y: clipped(y, 0.7, geometry))
    np.testing.assert_allclose(clip(move(y)), move(clip(y)), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_atoms_of_a_molecule_are_told_apart():
    """Exchanging the two of one kind changes nothing, exchanging others does."""
    target = molecule()
    settings, t = IDEMSettings(width=8, depth=2, sigma_min=0.5, sigma_max=4.0), jnp.asarray(0.4)
    y = jax.random.normal(jax.random.key(5), (target.dim,))
    for one in (target, Rescaled(target.dim, target, 2.0)):
        energy = perturbed(eqx.filter_jit(energy_network)(jax.random.key(0), one, settings, False))
        value = eqx.filter_jit(lambda y, energy=energy: energy(y, t)[0])
        alike, others = (
            turned(one.geometry, y, np.asarray(order), jnp.eye(3)) for order in ([0, 2, 1, 3], [0, 3, 2, 1])
        )
        np.testing.assert_allclose(value(alike), value(y), rtol=1e-4)
        assert abs(float(value(others) - value(y))) > 1e-3


@pytest.mark.slow
def test_a_sampler_of_a_molecule_is_read_without_its_density(tmp_path):
    target = molecule()
    sampler = train.fit(target, jax.random.key(0), BNEMSettings(**{**SMALL, "num_steps": 1, "depth": 2}))
    sampler.save(tmp_path / "one")
    loaded = tp.load(tmp_path / "one")
    np.testing.assert_array_equal(loaded.sample(2), sampler.sample(2))
    loaded.save(tmp_path / "two")
    np.testing.assert_array_equal(tp.load(tmp_path / "two").sample(2), sampler.sample(2))


def test_parts_of_particles_add_up():
    target = cluster()
    y = jax.random.normal(jax.random.key(6), (target.dim,))
    both = jax.jit(lambda y: (jnp.sum(parts_of(target, True)(y)), target.log_density(y)))(y)
    np.testing.assert_allclose(*both, rtol=1e-5)


CASES = {
    "idem": (IDEM(), IDEMSettings(**SMALL, is_first_estimated=True), Cost(7 * 5 * 10), Cost(3 * 6 * 10)),
    "nem": (BNEM(), BNEMSettings(**SMALL), Cost(), Cost(3 * 6 * 11, 3 * 6 * 11)),
    "bnem": (
        BNEM(),
        BNEMSettings(**SMALL, num_bootstrap_after=1, num_bootstrap=4, ema=0.9, clean_weight=0.0),
        Cost(),
        Cost(3 * 6 * 10, 3 * 6 * 10),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_first_buffers_steps_and_draws_cost_what_they_say(name):
    method, settings, first, each = CASES[name]
    counting, counter = counting_target(mixture())
    state = eqx.filter_jit(method.init)(jax.random.key(0), counting, settings)
    assert counter.wait(state) == first.points == method.init_cost(settings, 2).points
    step = eqx.filter_jit(method.step)
    for loop in range(2):  # the second is bootstrapped, and costs the same
        counter.reset()
        state, info = step(jax.random.key(loop), state, counting, settings)
        assert counter.wait((state, info)) == each.points
        assert counter.value_only == each.value_only
        assert each == method.step_cost(settings, 2)
        assert np.isfinite(float(info["loss"]))
    counter.reset()
    keys = jax.random.split(jax.random.key(9), 3)
    assert counter.wait(method.draw(keys, state.model, counting, settings)) == 0


def test_descent_at_the_end_is_paid_by_the_draw():
    settings = IDEMSettings(**SMALL, num_final_descent=3)
    counting, counter = counting_target(mixture())
    state = IDEM().init(jax.random.key(0), counting, settings)
    x = IDEM().draw(jax.random.split(jax.random.key(1), 2), state.model, counting, settings)
    assert counter.wait(x) == 2 * IDEM().draw_cost(settings, 2).points == 6


def test_what_cannot_be_served_is_refused():
    with pytest.raises(SettingsError, match="is for particles"):
        BNEM().check(BNEMSettings(is_factorised=True), mixture())
    counting, _ = counting_target(mixture())
    with pytest.raises(SettingsError, match="one part for each particle"):
        parts_of(counting, True)
    BNEM().check(BNEMSettings(is_factorised=True), cluster())
