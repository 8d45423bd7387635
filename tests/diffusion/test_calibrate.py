"""Scales read off a buffer: noise range, prior, preconditioning, training data, by hand on small buffers."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tempering.buffer import Buffer
from tempering.diffusion.calibrate import (
    adjust,
    dataset_of,
    largest_sigma,
    new_denoiser,
    noise_levels,
    prior_of,
    stack,
    unstack,
)
from tempering.settings import Network, Noise

BETA = jnp.asarray(0.25)
AUTO = Noise()
NETWORK = Network(width=4, depth=2, num_frequencies=2)


@pytest.fixture(scope="module")
def buffer():
    """Mean (1, -7), standard deviation (2, 5), E[grad^2] = (16, 0.25): inner scales at beta = 1/4 are 1 and 8."""
    position = jnp.array([[-1.0, -12.0], [3.0, -2.0], [-1.0, -2.0], [3.0, -12.0]])
    grad = jnp.array([[4.0, 0.5], [-4.0, -0.5], [4.0, -0.5], [-4.0, 0.5]])
    return Buffer(position, jnp.zeros(4), grad, jnp.zeros(4, jnp.int32))


def test_sigma_max_is_five_times_the_widest_coordinate(buffer):
    assert largest_sigma(AUTO, buffer) == 25.0
    assert largest_sigma(Noise(sigma_max=80.0), buffer) == 80.0


def test_sigma_min_is_a_share_of_the_inner_scale(buffer):
    sigma_max = jnp.asarray(25.0)
    levels = noise_levels(AUTO, buffer, BETA, sigma_max)
    np.testing.assert_allclose([levels.sigma_min, levels.sigma_max], [0.03, 25.0], rtol=1e-6)
    np.testing.assert_allclose([levels.log_mean, levels.log_std, levels.rho], [-1.2, 1.2, 7.0], rtol=1e-6)
    # Training reaches lower; a colder level's modes are narrower by sqrt(beta).
    np.testing.assert_allclose(noise_levels(AUTO, buffer, BETA, sigma_max, is_training=True).sigma_min, 0.01, rtol=1e-6)
    np.testing.assert_allclose(noise_levels(AUTO, buffer, BETA, sigma_max, colder_by=4.0).sigma_min, 0.015, rtol=1e-6)
    given = Noise(sigma_min=0.5)
    assert noise_levels(given, buffer, BETA, sigma_max, colder_by=4.0, is_training=True).sigma_min == 0.5


def test_a_flat_density_still_gets_a_range(buffer):
    flat = eqx.tree_at(lambda buffer: buffer.log_density_grad, buffer, jnp.zeros((4, 2)))
    np.testing.assert_allclose(noise_levels(AUTO, flat, BETA, jnp.asarray(25.0)).sigma_min, 2.5, rtol=1e-6)
    blend = dataset_of(AUTO, flat, BETA, jnp.asarray(25.0), True).blend_variance
    assert np.all(np.isfinite(blend))


@pytest.mark.parametrize(
    "noise",
    [AUTO, Noise(is_isotropic=True)],  # how the network is scaled is no matter of where sampling starts
)
def test_the_matched_prior_has_the_noised_buffers_mean_and_covariance(buffer, noise):
    tilted = eqx.tree_at(
        lambda buffer: buffer.position, buffer, buffer.position @ jnp.array([[1.0, 0.6], [0.0, 1.0]], jnp.float32)
    )
    prior = prior_of(noise, tilted, jnp.asarray(30.0))
    points = np.asarray(tilted.position, np.float64)
    np.testing.assert_allclose(prior.location, points.mean(axis=0), rtol=1e-5)
    expected = np.cov(points, rowvar=False, ddof=0) + 30.0**2 * np.eye(2)
    np.testing.assert_allclose(prior.scale @ prior.scale.T, expected, rtol=1e-5)
    assert abs(expected[0, 1]) > 1.0  # there is something off the diagonal to get wrong


def test_the_noise_prior_is_the_papers(buffer):
    prior = prior_of(Noise(prior="noise"), buffer, jnp.asarray(30.0))
    np.testing.assert_array_equal(prior.location, [0.0, 0.0])
    np.testing.assert_allclose(prior.scale, 30.0 * np.eye(2))


def test_a_warm_start_keeps_the_weights_and_takes_the_scales(buffer):
    denoiser = eqx.filter_jit(new_denoiser)(jax.random.key(0), NETWORK, AUTO, buffer)
    np.testing.assert_allclose(denoiser.location, [1.0, -7.0], atol=1e-6)
    np.testing.assert_allclose(denoiser.sigma_data, [2.0, 5.0], rtol=1e-6)
    moved = eqx.tree_at(lambda buffer: buffer.position, buffer, 2 * buffer.position + 1)
    warm = adjust(denoiser, AUTO, moved)
    np.testing.assert_allclose(warm.location, [3.0, -13.0], atol=1e-6)
    np.testing.assert_allclose(warm.sigma_data, [4.0, 10.0], rtol=1e-6)
    assert eqx.tree_equal(warm.network, denoiser.network)
    # The paper: nothing is centred, and one scale, of all numbers together, serves all coordinates.
    isotropic = adjust(denoiser, Noise(is_isotropic=True), buffer)
    np.testing.assert_array_equal(isotropic.location, [0.0, 0.0])
    np.testing.assert_allclose(isotropic.sigma_data, np.sqrt([30.5, 30.5]), rtol=1e-6)


def test_a_coordinate_that_does_not_move_keeps_a_positive_scale(buffer):
    stuck = eqx.tree_at(lambda buffer: buffer.position, buffer, buffer.position.at[:, 1].set(3.0))
    assert np.all(np.diag(prior_of(AUTO, stuck, jnp.asarray(1e-6)).scale) > 0)
    assert np.all(eqx.filter_jit(new_denoiser)(jax.random.key(0), NETWORK, AUTO, stuck).sigma_data > 0)


def test_training_data_is_tempered(buffer):
    data = dataset_of(AUTO, buffer, BETA, jnp.asarray(25.0), True)
    np.testing.assert_allclose(data.tempered_grad, 0.25 * np.asarray(buffer.log_density_grad))
    np.testing.assert_allclose(data.blend_variance, [1.0, 64.0], rtol=1e-5)
    np.testing.assert_allclose(data.levels.sigma_min, 0.01, rtol=1e-6)
    np.testing.assert_array_equal(dataset_of(AUTO, buffer, BETA, jnp.asarray(25.0), False).blend_variance, [0.0, 0.0])


def test_unstack_undoes_stack(buffer):
    levels = noise_levels(AUTO, buffer, BETA, jnp.asarray(25.0))
    other = noise_levels(AUTO, buffer, BETA, jnp.asarray(50.0))
    stacked = stack(levels, other)
    np.testing.assert_array_equal(stacked.sigma_max, [25.0, 50.0])
    for original, restored in zip((levels, other), unstack(stacked, 2), strict=True):
        assert eqx.tree_equal(original, restored)
