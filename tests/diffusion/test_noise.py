"""Noise levels, the sampling grid and the prior against their formulas."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from support.random_checks import assert_mean, assert_same_distribution_ks, assert_std, must_fail
from tempering.diffusion import NoiseLevels, Prior, sigma_grid


def levels_of(sigma_min, sigma_max):
    return NoiseLevels(*(jnp.asarray(n, jnp.float32) for n in (sigma_min, sigma_max)))


@given(sigma_min=st.floats(1e-4, 1.0), factor=st.floats(2.0, 1e5), num_steps=st.sampled_from([2, 7, 60]))
def test_grid_falls_from_sigma_max_to_sigma_min(sigma_min, factor, num_steps):
    grid = np.asarray(sigma_grid(levels_of(sigma_min, sigma_min * factor), num_steps), np.float64)
    assert grid.shape == (num_steps + 1,)
    assert np.all(np.diff(grid) < 0)
    np.testing.assert_allclose(grid[0], sigma_min * factor, rtol=1e-5)
    # Near sigma_min the root is a difference of numbers as large as that of sigma_max, and the power multiplies.
    np.testing.assert_allclose(grid[-1], sigma_min, rtol=7e-6 * factor ** (1 / 7) + 1e-5)


def test_grid_is_evenly_spaced_in_the_seventh_root():
    grid = np.asarray(sigma_grid(levels_of(0.1, 20.0), 12), np.float64)
    fraction = np.arange(13) / 12

    def check(rho):  # Eq. 5, Karras et al.
        expected = (20.0 ** (1 / rho) + fraction * (0.1 ** (1 / rho) - 20.0 ** (1 / rho))) ** rho
        np.testing.assert_allclose(grid, expected, rtol=2e-5)

    check(7.0)
    must_fail(check, 8.0)


def test_training_levels_are_uniform_in_the_logarithm():
    levels, key = levels_of(0.05, 30.0), jax.random.key(0)
    sigma = np.asarray(jax.jit(jax.vmap(levels.sample))(jax.random.split(key, 20_000)), np.float64)
    assert sigma.min() >= 0.05 * (1 - 1e-6) and sigma.max() <= 30.0 * (1 + 1e-6)
    assert_same_distribution_ks(np.log(sigma), stats.uniform(np.log(0.05), np.log(600.0)).cdf, key=key)
    must_fail(assert_same_distribution_ks, np.log(sigma), stats.uniform(np.log(0.1), np.log(600.0)).cdf)


SCALE = np.array([[0.2, 0.0, 0.0], [1.5, 4.0, 0.0], [-7.0, 3.0, 30.0]])


def test_prior_density_is_scipys():
    prior = Prior(jnp.array([1.0, -3.0, 0.5]), jnp.asarray(SCALE, jnp.float32))
    points = np.random.default_rng(0).normal(size=(20, 3)) @ (1.5 * SCALE.T) + [1.5, -3.0, 0.0]
    expected = stats.multivariate_normal([1.0, -3.0, 0.5], SCALE @ SCALE.T).logpdf(points)
    observed = jax.vmap(prior.log_prob)(jnp.asarray(points, jnp.float32))
    np.testing.assert_allclose(observed, expected, rtol=2e-5, atol=2e-5)


def test_prior_draws_from_its_density():
    prior = Prior(jnp.array([1.0, -3.0, 0.5]), jnp.asarray(SCALE, jnp.float32))
    key = jax.random.key(2)
    draws = np.asarray(jax.vmap(prior.sample)(jax.random.split(key, 10_000)))
    whitened = np.linalg.solve(SCALE, (draws - [1.0, -3.0, 0.5]).T).T
    assert_mean(whitened, [0.0, 0.0, 0.0], key=key)
    assert_std(whitened, [1.0, 1.0, 1.0], key=key)
    assert_mean(whitened[:, 0] * whitened[:, 2], 0.0, key=key)
    transposed = np.linalg.solve(SCALE.T, (draws - [1.0, -3.0, 0.5]).T).T
    must_fail(assert_std, transposed, [1.0, 1.0, 1.0])
