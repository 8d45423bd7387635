"""Solvers against the exact flow of a Gaussian: points, log densities, order of convergence, directions, saboteurs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.compilations import compilations
from support.random_checks import assert_mean, assert_std, must_fail
from tempering.diffusion import DiffusionModel, NoiseLevels, VariancePreserving, draw, sigma_grid
from tempering.diffusion.solve import Method, _keys_from, flow, in_chunks, method_of
from tempering.settings import Sampling

NUM = 64  # the same shapes wherever it can be: a new one is a new program to compile
NUM_STEPS = {"euler": 2000, "heun": 60, "sde": 1000}
ODE_SOLVERS = ("euler", "heun")
TOLERANCE = {"euler": 2e-2, "heun": 5e-3}


def method(solver, divergence="exact", num_probes=1):
    return Method(solver, divergence, num_probes)


def draws_of(exact, solver, *, num=NUM, num_steps=None, divergence="exact", seed=0, num_probes=1, chunk_size=None):
    grid = sigma_grid(exact.levels, num_steps or NUM_STEPS[solver])
    how = method(solver, "none" if solver == "sde" else divergence, num_probes)
    return draw(jax.random.key(seed), num, exact.denoise, exact.prior, grid, how, chunk_size=chunk_size or num)


def starts_of(exact, num, seed=0):
    """The prior points that `draw` starts from: the first half of each particle's own key."""
    first = jax.jit(jax.vmap(lambda key: exact.prior.sample(jax.random.split(key)[0])))
    return np.asarray(first(jax.random.split(jax.random.key(seed), num)), np.float64)


def check_log_q(exact, x, log_q, tolerance):
    error = np.max(np.abs(np.asarray(log_q, np.float64) - exact.log_prob(x)))
    assert error < tolerance, f"log q is off by {error:.4g}"


@pytest.mark.parametrize("solver", ODE_SOLVERS)
@pytest.mark.parametrize("name", ["diagonal", "correlated"])
def test_points_and_log_densities_are_exact(request, name, solver):
    exact = request.getfixturevalue(name)
    x, log_q = draws_of(exact, solver)
    expected = exact.mean + (starts_of(exact, NUM) - exact.mean) @ exact.transport.T
    np.testing.assert_allclose(x, expected, atol=TOLERANCE[solver])
    check_log_q(exact, x, log_q, 2 * TOLERANCE[solver])


def test_the_exact_end_is_the_noised_density(diagonal):
    np.testing.assert_allclose(diagonal.covariance, diagonal.denoise.covariance_at(0.05), rtol=1e-6)
    np.testing.assert_allclose(diagonal.covariance, [[0.4 * 1.7 + 0.0025, 0], [0, 3 * 1.7 + 0.0025]], rtol=1e-6)


@pytest.mark.parametrize("solver", ["heun", "sde"])
def test_samples_have_the_exact_moments(diagonal, solver):
    """The whole chain once with random numbers; the SDE has no density and is judged by this alone."""
    x, log_q = draws_of(diagonal, solver, num=8000, divergence="none", seed=3)
    assert np.all(np.isnan(log_q))
    key = jax.random.key(3)
    assert_mean(x, diagonal.mean, key=key)
    assert_std(x, np.sqrt(np.diag(diagonal.covariance)), key=key)
    cross = np.prod(np.asarray(x, np.float64) - diagonal.mean, axis=1)
    assert_mean(cross, 0.0, key=key)
    must_fail(assert_std, x, np.sqrt(np.diag(diagonal.covariance) / 1.7))  # the temperature forgotten
    must_fail(assert_mean, x, -diagonal.mean)


def test_the_sde_mixes_correlated_coordinates(correlated):
    x, _ = draws_of(correlated, "sde", num=8000, seed=4)
    centred = np.asarray(x, np.float64) - correlated.mean
    expected = correlated.denoise.covariance_at(0.05)
    # The prior's missing correlation at sigma_max is forgotten by the noise of the way down.
    assert_mean(np.prod(centred, axis=1), expected[0, 1], key=jax.random.key(4))
    must_fail(assert_mean, np.prod(centred * [1, -1], axis=1), expected[0, 1])


@pytest.mark.parametrize(("solver", "order"), [("euler", 1), ("heun", 2)])
def test_order_of_convergence(correlated, solver, order):
    expected = correlated.mean + (starts_of(correlated, NUM) - correlated.mean) @ correlated.transport.T
    errors = []
    for num_steps in (NUM_STEPS[solver] // 2, NUM_STEPS[solver]):
        x, log_q = draws_of(correlated, solver, num_steps=num_steps)
        change = np.asarray(log_q, np.float64) - correlated.log_prob(expected)
        errors.append([np.max(np.abs(np.asarray(x) - expected)), np.max(np.abs(change))])
    np.testing.assert_allclose(np.log2(np.array(errors[0]) / np.array(errors[1])), order, atol=0.2)


def test_saboteurs_of_the_log_density(correlated):
    x, log_q = draws_of(correlated, "heun")
    log_prior = jax.vmap(correlated.prior.log_prob)(jnp.asarray(starts_of(correlated, NUM), jnp.float32))
    change = log_q - log_prior
    check_log_q(correlated, x, log_prior + change, 1e-2)
    must_fail(check_log_q, correlated, x, log_prior - change, 1e-2)  # the sign of the divergence
    must_fail(check_log_q, correlated, x, change, 1e-2)  # the prior's term
    must_fail(check_log_q, correlated, x, log_prior, 1e-2)  # no divergence at all


def test_the_wrong_direction_of_time_is_rejected(correlated):
    grid = sigma_grid(correlated.levels, 60)
    starts = jnp.asarray(starts_of(correlated, NUM), jnp.float32)
    expected = correlated.mean + (np.asarray(starts, np.float64) - correlated.mean) @ correlated.transport.T

    @jax.jit
    def moved(sigmas):
        return jax.vmap(lambda x: flow(correlated.denoise, x, sigmas, jax.random.key(0), method("heun")))(starts)[0]

    def check(sigmas):
        assert np.max(np.abs(moved(sigmas) - expected)) < 5e-3

    check(grid)
    must_fail(check, grid[::-1])


def test_flow_up_undoes_flow_down(correlated):
    grid, point = sigma_grid(correlated.levels, 200), jnp.array([4.0, -1.0])
    carry = jax.jit(lambda x, sigmas: flow(correlated.denoise, x, sigmas, jax.random.key(0), method("heun")))
    down, gained = carry(point, grid)
    up, lost = carry(down, grid[::-1])
    np.testing.assert_allclose(up, point, atol=2e-3)
    np.testing.assert_allclose(gained + lost, 0.0, atol=2e-3)
    np.testing.assert_allclose(gained, -np.linalg.slogdet(correlated.transport)[1], atol=2e-3)


def test_hutchinson_log_densities_are_unbiased(correlated):
    """The trace of a Gaussian's denoiser is the same everywhere, so the exact change is one number for all points."""
    x, log_q = draws_of(correlated, "heun", num=2000, divergence="hutchinson", num_probes=2)
    same_x, exact = draws_of(correlated, "heun")
    np.testing.assert_allclose(x[:NUM], same_x, rtol=1e-5, atol=1e-5)
    log_prior = jax.vmap(correlated.prior.log_prob)(jnp.asarray(starts_of(correlated, 2000), jnp.float32))
    change = np.asarray(exact - log_prior[:NUM], np.float64)
    assert np.ptp(change) < 1e-3
    assert_mean(log_q - log_prior, change.mean(), key=jax.random.key(0))
    assert np.std(log_q - log_prior) > 0.05
    must_fail(assert_mean, log_q - log_prior, change.mean() + 0.1)


@pytest.mark.parametrize("solver", ["heun", "sde"])
def test_a_sample_depends_on_nothing_but_its_key(correlated, solver):
    reference, reference_log_q = draws_of(correlated, solver)
    # 64 in chunks of 24 pads the last one; 24 alone is a shorter run of the same samples.
    for num in (NUM, 24):
        x, log_q = draws_of(correlated, solver, num=num, chunk_size=24)
        assert x.shape == (num, 2) and log_q.shape == (num,)
        np.testing.assert_allclose(x, reference[:num], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(log_q, reference_log_q[:num], rtol=1e-4, atol=1e-4)
    other, _ = draws_of(correlated, solver, seed=1)
    assert np.max(np.abs(other - reference)) > 0.1


def test_keys_of_a_part_are_those_of_the_whole():
    key = jax.random.key(3)
    whole = jax.random.key_data(jax.random.split(key, 11))
    part = jax.random.key_data(_keys_from(key, jnp.asarray(4), 5))
    np.testing.assert_array_equal(part, whole[4:9])
    assert not np.array_equal(part, jax.random.key_data(_keys_from(key, jnp.asarray(5), 5)))


def test_any_number_of_draws_is_one_program(correlated):
    """Draws of one chunk size compile nothing that depends on their number; densities of points likewise."""
    model = DiffusionModel(correlated.denoise, correlated.prior, correlated.levels)
    sampling = Sampling(num_steps=3, chunk_size=200)

    def work(num: int):
        x, _ = model.draw(jax.random.key(num), num, sampling, with_density=False)
        points = jax.device_put(np.zeros((num, 2), np.float32))
        return x.shape, model.log_prob(jax.random.key(num), points, sampling).shape

    shapes = [((num, 2), (num,)) for num in (151, 199, 202, 777)]
    work(150)
    with compilations() as made:
        assert [work(num) for num in (151, 199, 202, 777)] == shapes
    assert made == []
    with compilations() as made:
        jax.random.split(jax.random.key(0), 153)
    assert made  # of one number alone


def test_chunks_are_padded_and_told():
    seen, told = [], []

    def double(part):
        seen.append(part.shape[0])
        return 2 * part, part + 1

    doubled, raised = in_chunks(double, jnp.arange(7), 3, told.append)
    np.testing.assert_array_equal(doubled, 2 * np.arange(7))
    np.testing.assert_array_equal(raised, np.arange(7) + 1)
    assert seen == [3, 3, 3] and told == [3, 6, 7]


def test_the_settings_name_the_method():
    sampling = Sampling(solver="euler", divergence="hutchinson", num_probes=3)
    assert method_of(sampling, with_density=True, dim=2) == Method("euler", "hutchinson", 3)
    assert method_of(sampling, with_density=False, dim=2) == Method("euler", "none", 3)


def test_automatic_divergence_is_exact_in_few_dimensions():
    sampling = Sampling(divergence="automatic")
    found = [method_of(sampling, with_density=True, dim=dim).divergence for dim in (1, 16, 17, 1000)]
    assert found == ["exact", "exact", "hutchinson", "hutchinson"]
    assert method_of(sampling, with_density=False, dim=2).divergence == "none"


def test_the_papers_density_is_the_integral_of_the_divergence(correlated):
    """Euler's sum of the trace: right as steps grow, off by the square of a step, and not log |det| of the steps."""
    num_steps, num = 200, 2000
    x, log_q = draws_of(correlated, "euler", num=num, num_steps=num_steps, divergence="integrated", num_probes=2)
    same, exact = draws_of(correlated, "euler", num_steps=num_steps)
    np.testing.assert_allclose(x[:NUM], same, rtol=1e-5, atol=1e-5)
    log_prior = jax.vmap(correlated.prior.log_prob)(jnp.asarray(starts_of(correlated, num), jnp.float32))
    grid = np.asarray(sigma_grid(correlated.levels, num_steps), np.float64)
    variances = np.linalg.eigvalsh(correlated.denoise.covariance_at(0.0))
    traces = np.sum(grid[:-1, None] / (variances + grid[:-1, None] ** 2), axis=1)  # of d velocity / dx, by node
    expected = -np.sum(np.diff(grid) * traces)
    assert_mean(log_q - log_prior, expected, key=jax.random.key(0))
    discrete = float(np.mean(exact - log_prior[:NUM]))
    assert discrete - expected > 0.02  # log(1 - h) < -h: the integral says less than the steps do
    must_fail(assert_mean, log_q - log_prior, discrete)
    must_fail(assert_mean, log_prior - log_q, expected)


def test_the_papers_density_of_the_other_process(correlated):
    """In y = s x the integral is that of y's divergence, and x is stretched against y."""
    process = VariancePreserving.ending_at(correlated.levels.sigma_max, 0.1, 8.0)
    grid = sigma_grid(NoiseLevels(correlated.levels.sigma_min, correlated.levels.sigma_max, process), 400)

    def mean_change(divergence):
        how = Method("euler", divergence, 2, None, process)
        x, log_q = draw(jax.random.key(0), NUM, correlated.denoise, correlated.prior, grid, how, chunk_size=NUM)
        return np.mean(np.asarray(log_q - correlated.log_prob(x), np.float64))

    assert abs(mean_change("integrated")) < 0.1 and abs(mean_change("exact")) < 0.1
