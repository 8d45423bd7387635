"""log q of given points against the exact density and against what `draw` said of its own samples."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.oracle import GaussianDenoiser
from support.random_checks import must_fail
from tempering.diffusion import DiffusionModel, Prior, log_likelihood, sigma_grid
from tempering.diffusion.solve import Method, flow
from tempering.numerics import compensated_add
from tempering.settings import Sampling

NUM = 40


def likelihood_of(exact, x, *, num_steps=60, chunk_size=NUM, divergence="exact"):
    method = Method("heun", divergence, 1)
    grid = sigma_grid(exact.levels, num_steps)
    return log_likelihood(jax.random.key(0), x, exact.denoise, exact.prior, grid, method, chunk_size=chunk_size)


@pytest.fixture(scope="module")
def points(correlated):
    """Spread wider than the density itself, so that the tails are asked too."""
    noise = np.random.default_rng(1).normal(size=(NUM, 2))
    return jnp.asarray(correlated.mean + 1.5 * noise @ np.linalg.cholesky(correlated.covariance).T, jnp.float32)


def test_likelihood_is_the_exact_density(correlated, points):
    np.testing.assert_allclose(likelihood_of(correlated, points), correlated.log_prob(points), atol=2e-2)


def test_chunks_that_do_not_divide_the_points_change_nothing(correlated, points):
    whole = likelihood_of(correlated, points)
    np.testing.assert_allclose(likelihood_of(correlated, points, chunk_size=16), whole, atol=1e-4)


def test_likelihood_agrees_with_the_log_density_of_draws(correlated):
    """Through the model, with the settings' names. Up and down a finite grid agree to the order of the solver."""
    model = DiffusionModel(correlated.denoise, correlated.prior, correlated.levels)
    sampling = Sampling(num_steps=60, chunk_size=NUM)
    x, log_q = model.draw(jax.random.key(1), NUM, sampling, with_density=True)

    def check(points):
        assert np.max(np.abs(model.log_prob(jax.random.key(2), points, sampling) - log_q)) < 1e-2

    check(x)
    must_fail(check, x + 0.1)


def test_saboteurs_of_the_likelihood(correlated, points):
    expected = correlated.log_prob(points)

    def check(values):
        assert np.max(np.abs(values - expected)) < 2e-2

    @jax.jit
    def parts(x):
        grid = sigma_grid(correlated.levels, 60)
        climb = partial(flow, correlated.denoise, key=jax.random.key(0), method=Method("heun", "exact", 1))
        noisy, change = jax.vmap(lambda point: climb(point, grid[::-1]))(x)
        _, change_down = jax.vmap(lambda point: climb(point, grid))(x)
        return jax.vmap(correlated.prior.log_prob)(noisy), change, change_down

    log_prior, change, change_down = parts(points)
    check(log_prior - change)
    must_fail(check, log_prior + change)  # the sign
    must_fail(check, -change)  # no prior
    must_fail(check, log_prior - change_down)  # the wrong direction of time


def test_one_trace_for_models_of_equal_structure(correlated, points):
    """What differs between levels is an array: drawing and weighing with other models compiles nothing."""
    traces = []

    class Counting(eqx.Module):
        inner: GaussianDenoiser

        def __call__(self, x_noisy, sigma):
            traces.append(1)
            return self.inner(x_noisy, sigma)

    sampling = Sampling(num_steps=10, chunk_size=NUM)
    counts = []
    for temperature in (1.0, 2.0, 5.0):
        denoise = Counting(GaussianDenoiser([temperature, 0.0], np.eye(2), temperature))
        prior = Prior.diagonal(jnp.array([temperature, 0.0]), jnp.full(2, 10.0 * temperature))
        levels = eqx.tree_at(lambda levels: levels.sigma_max, correlated.levels, jnp.asarray(10.0 * temperature))
        model = DiffusionModel(denoise, prior, levels)
        model.draw(jax.random.key(0), NUM, sampling, with_density=True)
        model.log_prob(jax.random.key(0), points, sampling)
        counts.append(len(traces))
    assert counts[0] > 0 and counts == [counts[0]] * 3, counts


def adversarial_terms() -> np.ndarray:
    """20,000 terms like those of a long flow: a total of some hundreds, most terms far below its last digit."""
    rng = np.random.default_rng(3)
    terms = rng.uniform(0.0, 4e-5, size=20_000)
    terms[0], terms[-1] = 3e3, -2.9e3  # what is swallowed while the total is large must still be there at the end
    return terms.astype(np.float32)


def compensated_total(terms):
    def add(carry, term):
        return compensated_add(*carry, term), None

    return jax.jit(lambda terms: jax.lax.scan(add, (jnp.zeros(()), jnp.zeros(())), terms)[0])(jnp.asarray(terms))[0]


def plain_total(terms):
    def add(total, term):
        return total + term, None

    return jax.jit(lambda terms: jax.lax.scan(add, jnp.zeros(()), terms)[0])(jnp.asarray(terms))


def test_compensated_sums_are_as_good_as_float64():
    terms = adversarial_terms()
    exact = np.sum(terms.astype(np.float64))

    def check(total):
        assert abs(float(total) - exact) < 1e-4

    check(compensated_total(terms))
    must_fail(check, plain_total(terms))
    assert abs(float(plain_total(terms)) - exact) > 0.1
