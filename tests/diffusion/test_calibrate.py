"""Scales read off a buffer: noise range, prior, preconditioning, training data, by hand on small buffers."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tempering.buffer import from_states
from tempering.diffusion.calibrate import (
    dataset_of,
    denoiser_of,
    largest_sigma,
    noise_levels,
    prior_of,
    stack,
    unstack,
)
from tempering.diffusion.networks import make_network
from tempering.kernels import ChainState
from tempering.settings import Network, Noise

BETA = jnp.asarray(0.25)
AUTO = Noise()
NETWORK = Network(width=4, depth=2)


@pytest.fixture(scope="module")
def buffer():
    """Mean (1, -7), standard deviation (2, 5), E[grad^2] = (16, 0.25): inner scales at beta = 1/4 are 1 and 8."""
    position = jnp.array([[-1.0, -12.0], [3.0, -2.0], [-1.0, -2.0], [3.0, -12.0]])
    grad = jnp.array([[4.0, 0.5], [-4.0, -0.5], [4.0, -0.5], [-4.0, 0.5]])
    return from_states(ChainState(position, jnp.zeros(4), grad), "initial_pt")


def data_of(*buffers, use_gradients=True, betas=None, **kwargs):
    betas = jnp.full((len(buffers),), BETA) if betas is None else jnp.asarray(betas)
    return dataset_of(AUTO, buffers, betas, jnp.asarray(25.0), use_gradients=use_gradients, **kwargs)


@pytest.fixture(scope="module")
def network():
    return eqx.filter_jit(make_network)(jax.random.key(0), 2, NETWORK)


def test_sigma_max_is_five_times_the_widest_coordinate(buffer):
    assert largest_sigma(AUTO, buffer) == 25.0
    assert largest_sigma(Noise(sigma_max=80.0), buffer) == 80.0


def test_sigma_min_is_a_share_of_the_inner_scale(buffer):
    sigma_max = jnp.asarray(25.0)
    levels = noise_levels(AUTO, buffer, BETA, sigma_max)
    np.testing.assert_allclose([levels.sigma_min, levels.sigma_max], [0.03, 25.0], rtol=1e-6)
    # Training reaches lower; a colder level's modes are narrower by sqrt(beta).
    np.testing.assert_allclose(noise_levels(AUTO, buffer, BETA, sigma_max, is_training=True).sigma_min, 0.01, rtol=1e-6)
    np.testing.assert_allclose(noise_levels(AUTO, buffer, BETA, sigma_max, colder_by=4.0).sigma_min, 0.015, rtol=1e-6)
    given = Noise(sigma_min=0.5)
    assert noise_levels(given, buffer, BETA, sigma_max, colder_by=4.0, is_training=True).sigma_min == 0.5


def test_a_flat_density_still_gets_a_range(buffer):
    flat = eqx.tree_at(lambda buffer: buffer.log_density_grad, buffer, jnp.zeros((4, 2)))
    np.testing.assert_allclose(noise_levels(AUTO, flat, BETA, jnp.asarray(25.0)).sigma_min, 2.5, rtol=1e-6)
    blend = data_of(flat).levels.blend_variance
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


def test_a_level_gives_the_scales_and_the_temperature_and_leaves_the_weights(buffer, network):
    denoiser = denoiser_of(network, AUTO, buffer, BETA)
    assert denoiser.c_temperature == pytest.approx(np.log(4.0) / 2)
    assert denoiser_of(network, AUTO, buffer, 1.0).c_temperature == 0.0
    np.testing.assert_allclose(denoiser.location, [1.0, -7.0], atol=1e-6)
    np.testing.assert_allclose(denoiser.sigma_data, [2.0, 5.0], rtol=1e-6)
    moved = eqx.tree_at(lambda buffer: buffer.position, buffer, 2 * buffer.position + 1)
    warm = denoiser_of(denoiser.network, AUTO, moved, BETA)
    np.testing.assert_allclose(warm.location, [3.0, -13.0], atol=1e-6)
    np.testing.assert_allclose(warm.sigma_data, [4.0, 10.0], rtol=1e-6)
    assert eqx.tree_equal(warm.network, network)
    # The paper: nothing is centred, and one scale, of all numbers together, serves all coordinates.
    isotropic = denoiser_of(network, Noise(is_isotropic=True), buffer, BETA)
    np.testing.assert_array_equal(isotropic.location, [0.0, 0.0])
    np.testing.assert_allclose(isotropic.sigma_data, np.sqrt([30.5, 30.5]), rtol=1e-6)


def test_a_coordinate_that_does_not_move_keeps_a_positive_scale(buffer, network):
    stuck = eqx.tree_at(lambda buffer: buffer.position, buffer, buffer.position.at[:, 1].set(3.0))
    assert np.all(np.diag(prior_of(AUTO, stuck, jnp.asarray(1e-6)).scale) > 0)
    assert np.all(denoiser_of(network, AUTO, stuck, BETA).sigma_data > 0)


def test_training_data_is_tempered(buffer):
    data = data_of(buffer).levels
    np.testing.assert_allclose(data.tempered_grad[0], 0.25 * np.asarray(buffer.log_density_grad))
    np.testing.assert_allclose(data.blend_variance, [[1.0, 64.0]], rtol=1e-5)
    np.testing.assert_allclose(data.noise.sigma_min, [0.01], rtol=1e-6)
    np.testing.assert_allclose(data.c_temperature, [np.log(4.0) / 2], rtol=1e-6)
    np.testing.assert_array_equal(data_of(buffer, use_gradients=False).levels.blend_variance, [[0.0, 0.0]])


def test_levels_stand_side_by_side_and_padding_weighs_nothing(buffer):
    """Two levels of unlike size and two empty places: what pads is never seen and changes no scale."""
    small = buffer.take(jnp.array([0, 1, 2]))
    data = data_of(small, buffer, betas=[0.25, 1.0], shares=(0.5, 1.0), size=6, num_places=4)
    assert data.levels.position.shape == (4, 6, 2)
    np.testing.assert_array_equal(data.share, [0.5, 1.0, 0.0, 0.0])
    np.testing.assert_array_equal(data.judged, [0.0, 1.0, 0.0, 0.0])
    np.testing.assert_allclose(data.levels.weight[:2], [[1 / 3] * 3 + [0.0] * 3, [1 / 4] * 4 + [0.0] * 2], rtol=1e-6)
    np.testing.assert_allclose(data.levels.location[0], np.mean(small.position, axis=0), rtol=1e-6)
    np.testing.assert_allclose(data.levels.sigma_data[1], [2.0, 5.0], rtol=1e-6)
    np.testing.assert_allclose(data.levels.blend_variance[1], [1 / 16, 4.0], rtol=1e-5)
    assert np.all(np.isfinite(data.levels.position)) and np.all(np.isfinite(data.levels.tempered_grad))
    np.testing.assert_array_equal(data_of(small, small).share, [1.0, 1.0])


def test_a_large_level_takes_several_places_each_with_its_part_of_the_weight(buffer):
    """Four samples in places of three: the second place has one sample and, weighted as here, half of the weight."""
    weighted = eqx.tree_at(lambda tree: tree.log_weight, buffer, jnp.log(jnp.array([1.0, 2.0, 1.0, 4.0])))
    small = buffer.take(jnp.array([0, 1]))
    data = data_of(small, weighted, betas=[0.25, 1.0], shares=(0.5, 1.0), size=3, num_places=5)
    np.testing.assert_allclose(data.share, [0.5, 0.5, 0.5, 0.0, 0.0], rtol=1e-6)
    np.testing.assert_allclose(data.judged, [0.0, 0.5, 0.5, 0.0, 0.0], rtol=1e-6)
    np.testing.assert_allclose(data.levels.weight[1:3], [[1 / 8, 1 / 4, 1 / 8], [1 / 2, 0.0, 0.0]], rtol=1e-6)
    np.testing.assert_array_equal(data.levels.position[1:3, 0], buffer.position[jnp.array([0, 3])])
    whole = data_of(weighted, betas=[1.0]).levels
    for k in (1, 2):  # scales are the level's, not the place's
        np.testing.assert_allclose(data.levels.location[k], whole.location[0], rtol=1e-6)
        np.testing.assert_allclose(data.levels.blend_variance[k], whole.blend_variance[0], rtol=1e-6)
        np.testing.assert_allclose(data.levels.c_temperature[k], 0.0)


def test_scales_are_those_of_the_weights(buffer):
    """Three quarters of the weight on the right: as if those samples were there three times."""
    steeper = eqx.tree_at(lambda tree: tree.log_density_grad, buffer, buffer.log_density_grad.at[:2].multiply(3.0))
    weighted = eqx.tree_at(lambda tree: tree.log_weight, steeper, jnp.log(jnp.array([1.0, 3.0, 1.0, 3.0])))
    repeated = steeper.take(jnp.array([0, 1, 1, 1, 2, 3, 3, 3]))

    def seen(buffer):
        sigma_max = jnp.asarray(25.0)
        return prior_of(AUTO, buffer, sigma_max), noise_levels(AUTO, buffer, BETA, sigma_max)

    for ours, theirs in zip(jax.tree.leaves(seen(weighted)), jax.tree.leaves(seen(repeated)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
    assert abs(float(seen(weighted)[0].location[0] - seen(steeper)[0].location[0])) > 0.5


def test_unstack_undoes_stack(buffer):
    levels = noise_levels(AUTO, buffer, BETA, jnp.asarray(25.0))
    other = noise_levels(AUTO, buffer, BETA, jnp.asarray(50.0))
    stacked = stack(levels, other)
    np.testing.assert_array_equal(stacked.sigma_max, [25.0, 50.0])
    for original, restored in zip((levels, other), unstack(stacked, 2), strict=True):
        assert eqx.tree_equal(original, restored)
