"""Particles through the whole library: what is random or a volume lives in the centred subspace, and users see x.

The judge is a basis of the subspace by brute force (QR of the projector), never the library's own.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from support.defaults import default_settings
from support.oracle import GaussianDenoiser
from support.random_checks import assert_mean, assert_std, must_fail
from support.tiny import quick_compilation, tiny_ptsd
from tempering.buffer import from_states
from tempering.diffusion import Denoiser, DiffusionModel
from tempering.diffusion.calibrate import prior_of
from tempering.diffusion.networks import make_network
from tempering.diffusion.noise import NoiseLevels, Prior
from tempering.errors import SettingsError
from tempering.kernels import init, kernel_of
from tempering.lab.evaluation import judge, langevin
from tempering.parallel_tempering.pilot.relax import NUM_STEPS, climb, is_steep
from tempering.registry import make_target
from tempering.runs.config import MetricsConfig
from tempering.runs.ledger import Ledger
from tempering.sampler import Sampler
from tempering.sampler.load import load_sampler
from tempering.settings import Exploration, Network, Noise, Sampling
from tempering.targets import PairPotential, in_inner_coordinates, lennard_jones
from tempering.transforms.centred import Centred

NUM, AXES, SPRING = 4, 2, 0.4
GEOMETRY = Centred(NUM, AXES)
VARIANCE = 1.0 / (SPRING * NUM)
"""Of every inner coordinate: sum_{i<j} k r^2 / 2 = (k n / 2) |x - xbar|^2."""
LOG_Z = 0.5 * GEOMETRY.dim * np.log(2.0 * np.pi * VARIANCE)


@pytest.fixture(scope="module", autouse=True)
def compiled_quickly():
    with quick_compilation():
        yield


def springs() -> PairPotential:
    return PairPotential(lambda r: 0.5 * SPRING * r**2, NUM, AXES)


def brute_basis() -> np.ndarray:
    """Orthonormal columns that span centred configurations, (n d, (n-1) d)."""
    projector = np.kron(np.eye(NUM) - 1.0 / NUM, np.eye(AXES))
    vectors, values, _ = np.linalg.svd(projector)
    return vectors[:, values > 0.5]


def check_in_subspace(x, variance: float, ess: int | None = None) -> None:
    """Centred, and normal with one variance along every direction of the subspace."""
    np.testing.assert_allclose(np.mean(x.reshape(-1, NUM, AXES), axis=1), 0.0, atol=1e-5)
    inner = np.asarray(x, np.float64) @ brute_basis()
    assert_mean(inner, np.zeros(GEOMETRY.dim), ess=ess)
    assert_std(inner, np.full(GEOMETRY.dim, np.sqrt(variance)), ess=ess)


def embedded(y) -> np.ndarray:
    return np.asarray(jax.jit(jax.vmap(GEOMETRY.embed))(y))


def test_inner_coordinates_are_those_of_centred_configurations():
    target, inner = springs(), in_inner_coordinates(springs())
    y = jax.random.normal(jax.random.key(0), (GEOMETRY.dim,))
    moved = GEOMETRY.embed(y).reshape(NUM, AXES) + jnp.array([[3.0, -7.0]])
    assert inner.dim == GEOMETRY.dim and in_inner_coordinates(inner) is inner
    np.testing.assert_allclose(inner.log_density(y), target.log_density(moved.reshape(-1)), rtol=1e-4)
    plain = make_target("mog40")
    assert in_inner_coordinates(plain) is plain


@pytest.mark.parametrize("kind", ["mala", "hmc"])
def test_kernels_move_in_the_subspace(kind):
    target = in_inner_coordinates(springs())
    assert_invariant(target, kind, embedded)


def test_a_kernel_that_forgets_the_subspace_is_caught():
    must_fail(assert_invariant, springs(), "mala", np.asarray)


def assert_invariant(target, kind: str, outer) -> None:
    """Exact samples stay exact under 20 steps; in full coordinates the centre of mass would wander."""
    kernel = kernel_of(Exploration(kind, 3), target.dim)
    scale = np.sqrt(VARIANCE)
    y = jax.random.normal(jax.random.key(1), (2000, GEOMETRY.dim)) * scale
    start = y if target.dim == GEOMETRY.dim else jax.jit(jax.vmap(GEOMETRY.embed))(y)
    step_size = jnp.asarray(0.5 * scale if kind == "hmc" else 0.3 * VARIANCE)

    def chain(key, position):
        def step(state, key):
            return kernel.step(key, state, target, beta=jnp.ones(()), step_size=step_size)[0], None

        return jax.lax.scan(step, init(position, target), jax.random.split(key, 20))[0].position

    check_in_subspace(outer(jax.jit(jax.vmap(chain))(jax.random.split(jax.random.key(2), 2000), start)), VARIANCE)


def oracle_sampler(sampling: Sampling) -> Sampler:
    """The finished sampler of the springs with the exact denoiser in place of a network."""
    denoiser = GaussianDenoiser(np.zeros(GEOMETRY.dim), VARIANCE * np.eye(GEOMETRY.dim))
    levels = NoiseLevels(*(jnp.asarray(n) for n in (0.002, 4.0)))
    prior = Prior.diagonal(jnp.zeros(GEOMETRY.dim), jnp.full((GEOMETRY.dim,), np.sqrt(16.0 + VARIANCE)))
    target = in_inner_coordinates(springs())
    model = DiffusionModel(denoiser, prior, levels)
    return Sampler(model, target, "PTSD", Network(), sampling, [], Ledger(), chart=GEOMETRY)


@pytest.mark.parametrize("divergence", ["exact", "hutchinson"])
def test_draws_densities_and_log_z_are_those_of_the_subspace(divergence):
    sampler = oracle_sampler(Sampling(num_steps=60, divergence=divergence, num_probes=8))
    x, log_weights = sampler.sample_weighted(2000, seed=3)
    assert x.shape == (2000, NUM * AXES) == (2000, sampler.dim)
    check_in_subspace(x, VARIANCE)
    assert_mean(np.exp(log_weights - LOG_Z), 1.0)
    inner = np.asarray(x[:5], np.float64) @ brute_basis()
    exact = -0.5 * np.sum(inner**2, axis=1) / VARIANCE - LOG_Z
    shifted = x[:5] + np.tile([2.0, -1.0], NUM).astype(np.float32)
    np.testing.assert_allclose(sampler.log_prob(shifted), exact, atol=0.1)
    full = -0.5 * np.sum(x[:5] ** 2, axis=1) / VARIANCE - 0.5 * NUM * AXES * np.log(2 * np.pi * VARIANCE)
    assert np.all(np.abs(full - exact) > 0.2), "a density on all coordinates would have passed"


def test_the_prior_and_the_start_are_isotropic_and_centred():
    states = jax.jit(jax.vmap(lambda y: init(y, in_inner_coordinates(springs()))))(
        jax.random.normal(jax.random.key(4), (4000, GEOMETRY.dim)) * np.sqrt(VARIANCE)
    )
    prior = prior_of(Noise(prior="isotropic", is_isotropic=True), from_states(states, "initial_pt"), jnp.asarray(2.0))
    np.testing.assert_array_equal(prior.scale, prior.scale[0, 0] * np.eye(GEOMETRY.dim))
    draws = jax.jit(jax.vmap(prior.sample))(jax.random.split(jax.random.key(5), 4000))
    check_in_subspace(embedded(draws), float(prior.scale[0, 0]) ** 2)
    np.testing.assert_allclose(prior.scale[0, 0] ** 2, 4.0 + VARIANCE, rtol=0.02)


def tiny_settings(kind: str):
    base = default_settings("ptsd", GEOMETRY.dim, GEOMETRY)
    network = dataclasses.replace(base.network, kind=kind, width=8, depth=2)
    return dataclasses.replace(tiny_ptsd(), network=network, noise=base.noise)


@pytest.fixture(
    scope="module", params=[pytest.param(kind, marks=pytest.mark.slow) for kind in ("egnn", "particle_transformer")]
)
def fitted(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("particles") / "run"
    start = np.random.default_rng(0).normal(5.0, 1.0, (40, NUM * AXES))
    return tp.fit(springs(), settings=tiny_settings(request.param), init=start, out=folder, progress=False), folder


def test_a_user_hands_over_a_pair_potential_and_sees_configurations(fitted):
    sampler, folder = fitted
    x = sampler.sample(6)
    assert x.shape == (6, NUM * AXES)
    np.testing.assert_allclose(np.mean(x.reshape(6, NUM, AXES), axis=1), 0.0, atol=1e-5)
    loaded = tp.load(folder, springs())
    np.testing.assert_array_equal(loaded.sample(6), x)
    assert loaded.geometry == GEOMETRY and loaded.sample_weighted(4)[0].shape == (4, NUM * AXES)
    assert load_sampler(folder).log_prob(x).shape == (6,)


def test_the_model_is_equivariant(fitted):
    sampler, _ = fitted
    angle = 0.7
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    y = jax.random.normal(jax.random.key(6), (GEOMETRY.dim,))
    x = np.asarray(GEOMETRY.embed(y)).reshape(NUM, AXES)
    changed = GEOMETRY.restrict(jnp.asarray((x @ turn.T)[[2, 0, 3, 1]].reshape(-1), jnp.float32))
    sigma = jnp.asarray(0.8)
    plain = np.asarray(GEOMETRY.embed(sampler.model.denoise(y, sigma))).reshape(NUM, AXES)
    after = np.asarray(GEOMETRY.embed(sampler.model.denoise(changed, sigma))).reshape(NUM, AXES)
    np.testing.assert_allclose(after, (plain @ turn.T)[[2, 0, 3, 1]], atol=2e-5)
    assert isinstance(sampler.model.denoise, Denoiser)


@pytest.mark.slow
def test_configurations_are_judged_up_to_their_symmetries(fitted):
    sampler, _ = fitted
    trusted = embedded(jax.random.normal(jax.random.key(7), (80, GEOMETRY.dim)) * np.sqrt(VARIANCE))
    config = MetricsConfig(num_samples=40, num_transport=20, num_weighted=10, num_likelihood=0, num_langevin=8)
    before = sampler.ledger.points.get("metrics", 0)
    metrics, arrays = judge(sampler, jax.random.key(8), config, trusted=trusted)
    assert {"energy_tvd", "distance_tvd", "aligned_w2", "permuted_w2", "ess_fraction"} <= metrics.keys()
    assert metrics["permuted_w2"]["floor"] < metrics["aligned_w2"]["floor"] and "w1" not in metrics
    assert arrays["draws"].shape == arrays["moved"].shape == (40, NUM * AXES)
    assert {"energy_tvd_langevin", "distance_tvd_langevin"} <= metrics.keys()
    judged_twice, steps, weighted = 2 * 3 * 40, 40 * 9, 10
    assert sampler.ledger.points["metrics"] - before == judged_twice + steps + weighted + 2 * 40


def check_after_langevin(num_steps: int) -> None:
    """Draws twice too wide come right."""
    target, ledger = in_inner_coordinates(springs()), Ledger()
    wide = jax.random.normal(jax.random.key(11), (2000, GEOMETRY.dim)) * np.sqrt(4.0 * VARIANCE)
    moved, num_replaced = langevin(jax.random.key(12), target, wide, num_steps, ledger)
    assert num_replaced == 0
    assert ledger.points == {"metrics": 2000 * (num_steps + 1)}
    check_in_subspace(embedded(moved), VARIANCE)


@pytest.mark.slow
@pytest.mark.telling
def test_langevin_steps_mend_what_is_local():
    check_after_langevin(60)
    must_fail(check_after_langevin, 2)


@pytest.mark.slow
def test_draws_that_langevin_steps_cannot_start_from_are_counted():
    target = in_inner_coordinates(springs())
    draws = jnp.full((6, GEOMETRY.dim), 0.1).at[2].set(jnp.nan)
    moved, num_replaced = langevin(jax.random.key(13), target, draws, 2, Ledger())
    assert num_replaced == 1 and np.all(np.isfinite(moved))


def test_overlapping_starts_are_moved_apart_and_paid_for():
    target, ledger = in_inner_coordinates(lennard_jones(13)), Ledger()
    points = jax.random.normal(jax.random.key(9), (8, target.dim))
    gradients = jax.jit(jax.vmap(jax.grad(target.log_density)))  # op by op it takes twenty seconds
    assert is_steep(gradients(points))
    moved = climb(target, points, ledger, "pilot")
    assert ledger.points == {"pilot": 8 * NUM_STEPS} and not is_steep(gradients(moved))
    log_densities = jax.jit(jax.vmap(target.log_density))
    before, after = (-np.asarray(log_densities(x)) for x in (points, moved))
    assert np.all(after < 0) and np.median(before) > 1e4


def test_starts_outside_walls_are_told_from_those_inside():
    gradients = jax.jit(jax.vmap(jax.grad(in_inner_coordinates(springs()).log_density)))
    assert not is_steep(gradients(jax.random.normal(jax.random.key(10), (8, GEOMETRY.dim))))


def test_a_network_of_particles_needs_particles():
    with pytest.raises(SettingsError, match="num_particles = 0"):
        make_network(jax.random.key(0), 6, Network(kind="egnn"))
    with pytest.raises(SettingsError, match="6 inner coordinates where the density has 5"):
        make_network(jax.random.key(0), 5, Network(kind="particle_transformer", num_particles=4, spatial_dim=2))


@pytest.mark.parametrize("init", [np.zeros((3, 6)), np.zeros((3, 9))], ids=["inner", "other"])
def test_starting_points_are_configurations(init):
    with pytest.raises(SettingsError, match=r"\(n, 8\)"):
        tp.fit(springs(), init=init, progress=False)
