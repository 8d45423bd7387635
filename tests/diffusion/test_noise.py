"""Noise levels, the sampling grid and the prior against their formulas."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from support.random_checks import assert_fraction, assert_mean, assert_same_distribution_ks, assert_std, must_fail
from tempering.diffusion import NoiseLevels, Prior, sigma_grid


def levels_of(sigma_min=0.02, sigma_max=50.0, log_mean=-1.2, log_std=1.2, rho=7.0, distribution="log_uniform"):
    return NoiseLevels(
        *(jnp.asarray(n, jnp.float32) for n in (sigma_min, sigma_max, log_mean, log_std, rho)), distribution
    )


@given(
    sigma_min=st.floats(1e-4, 1.0),
    factor=st.floats(2.0, 1e5),
    rho=st.floats(1.0, 10.0),
    num_steps=st.sampled_from([2, 7, 60]),
)
def test_grid_falls_from_sigma_max_to_sigma_min(sigma_min, factor, rho, num_steps):
    grid = np.asarray(sigma_grid(levels_of(sigma_min, sigma_min * factor, rho=rho), num_steps), np.float64)
    assert grid.shape == (num_steps + 1,)
    assert np.all(np.diff(grid) < 0)
    np.testing.assert_allclose(grid[0], sigma_min * factor, rtol=1e-5)
    # Near sigma_min the root is a difference of numbers as large as that of sigma_max, and the power multiplies.
    np.testing.assert_allclose(grid[-1], sigma_min, rtol=1e-6 * rho * factor ** (1 / rho) + 1e-5)


@pytest.mark.parametrize("rho", [1.0, 3.0, 7.0])
def test_grid_is_evenly_spaced_in_the_root(rho):
    grid = np.asarray(sigma_grid(levels_of(0.1, 20.0, rho=rho), 12), np.float64)
    fraction = np.arange(13) / 12
    expected = (20.0 ** (1 / rho) + fraction * (0.1 ** (1 / rho) - 20.0 ** (1 / rho))) ** rho  # Eq. 5, Karras et al.
    np.testing.assert_allclose(grid, expected, rtol=2e-5)
    assert abs(grid[6] / sigma_grid(levels_of(0.1, 20.0, rho=rho + 1), 12)[6] - 1) > 0.05


@pytest.mark.parametrize("distribution", ["log_uniform", "log_normal"])
def test_training_levels_stay_within_the_range(distribution):
    # The normal is wide and off to one side: a quarter of it lies outside the range and must be held at its ends.
    levels = levels_of(0.05, 30.0, log_mean=2.0, log_std=2.0, distribution=distribution)
    key = jax.random.key(0)
    sigma = np.asarray(jax.jit(jax.vmap(levels.sample))(jax.random.split(key, 20_000)), np.float64)
    assert sigma.min() >= 0.05 * (1 - 1e-6) and sigma.max() <= 30.0 * (1 + 1e-6)
    if distribution == "log_uniform":
        reference = stats.uniform(np.log(0.05), np.log(600.0)).cdf
        assert_same_distribution_ks(np.log(sigma), reference, key=key)
        must_fail(assert_same_distribution_ks, np.log(sigma), stats.uniform(np.log(0.1), np.log(600.0)).cdf)
        return
    inside = stats.norm(2.0, 2.0).cdf(np.log(30.0))
    below = stats.norm(2.0, 2.0).cdf(np.log(0.05))
    for held, probability in ((sigma > 29.999, 1 - inside), (sigma < 0.0500001, below)):
        assert_fraction(held, probability, key=key)
    must_fail(assert_fraction, sigma > 29.999, 0.0)


def test_log_normal_levels_have_their_moments():
    levels = levels_of(1e-6, 1e6, log_mean=-1.2, log_std=0.7, distribution="log_normal")
    key = jax.random.key(1)
    log_sigma = np.log(np.asarray(jax.jit(jax.vmap(levels.sample))(jax.random.split(key, 20_000)), np.float64))
    assert_mean(log_sigma, -1.2, key=key)
    assert_std(log_sigma, 0.7, key=key)
    must_fail(assert_std, log_sigma, 0.7**2)


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
