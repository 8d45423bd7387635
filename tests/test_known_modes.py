"""The mixture under the network: what samples show of the modes, and where a fit takes it."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.random_checks import assert_mean, assert_std, must_fail
from tempering.atlas.mixture import mixture_of
from tempering.buffer import ORIGINS, Buffer
from tempering.diffusion.networks.mixture import OnMixture
from tempering.diffusion.precondition import Denoiser
from tempering.methods.known_modes import linear_mixture, mixture_of_buffer, places_for, with_components
from tempering.settings import Network

MEANS = np.asarray([[-6.0, 1.0], [5.0, -2.0]])
COVARIANCES = np.asarray([[[2.0, 0.9], [0.9, 0.8]], [[0.3, -0.1], [-0.1, 1.5]]])
WEIGHTS = np.asarray([0.75, 0.25])
NUM = 20_000


def buffer_of(which_weights, log_weight) -> tuple[Buffer, np.ndarray]:
    """Draws with components in these shares, and the component of each."""
    rng = np.random.default_rng(11)
    which = rng.choice(2, NUM, p=which_weights)
    x = MEANS[which] + np.einsum("nij,nj->ni", np.linalg.cholesky(COVARIANCES)[which], rng.normal(size=(NUM, 2)))
    numbers = jnp.zeros((NUM,))
    origin = jnp.full((NUM,), ORIGINS.index("reference"), jnp.int32)
    position = jnp.asarray(x, jnp.float32)
    return Buffer(
        position, numbers, jnp.zeros_like(position), origin, jnp.asarray(log_weight(which), jnp.float32)
    ), which


def test_a_mixture_has_the_masses_means_and_covariances_of_weighted_samples():
    """Samples of the wrong masses, weighted for the right ones; the reference is off in place and width."""
    shares = np.asarray([0.4, 0.6])
    buffer, which = buffer_of(shares, lambda which: np.log(WEIGHTS / shares)[which])
    reference = mixture_of(np.asarray([0.5, 0.5]), MEANS + 0.5, 2.0 * COVARIANCES, 8.0)
    found = mixture_of_buffer(reference, buffer, 8)
    assert found.log_weight.shape == (8,)
    mass = np.exp(np.asarray(found.log_weight, np.float64))
    np.testing.assert_allclose(mass[:2], WEIGHTS, atol=0.02)
    assert 0 < mass[2] < 1e-5 and np.all(mass[3:] == 0.0)
    for k in range(2):
        own = np.asarray(buffer.position, np.float64)[which == k]
        white = (own - np.asarray(found.mean)[k]) @ np.asarray(found.axes)[k] / np.sqrt(np.asarray(found.variance)[k])
        assert_mean(white, 0.0, key="rng 11")
        assert_std(white, 1.0, key="rng 11")
        must_fail(assert_mean, own - np.asarray(reference.mean)[k], 0.0)
    unweighted = mixture_of_buffer(reference, dataclasses.replace(buffer, log_weight=jnp.zeros((NUM,))), 8)
    assert abs(np.exp(float(unweighted.log_weight[0])) - WEIGHTS[0]) > 0.2


def test_a_mode_without_samples_keeps_what_the_reference_has():
    buffer, _ = buffer_of(np.asarray([1.0, 0.0]), lambda which: np.zeros(NUM))
    far = np.concatenate([MEANS, [[500.0, 500.0]]])
    reference = mixture_of(np.full(3, 1 / 3), far, np.concatenate([COVARIANCES, [np.eye(2)]]), 8.0)
    found = mixture_of_buffer(reference, buffer, 8)
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(found))
    np.testing.assert_allclose(found.mean[2], far[2], rtol=1e-3)
    assert np.all(np.isfinite(found.denoise(jnp.asarray([400.0, 400.0]), jnp.asarray(0.1))))


@pytest.mark.parametrize(("num_modes", "dim", "places"), [(1, 2, 8), (7, 2, 8), (8, 2, 16), (300, 2, 256), (40, 64, 0)])
def test_places_are_few_sizes_and_a_large_mixture_is_left_out(num_modes, dim, places):
    assert places_for(num_modes, dim) == places


def test_of_more_components_than_places_the_heaviest_are_kept():
    weights, means = np.array([0.001, 0.5, 0.009, 0.49]), np.array([[-6.0], [-2.0], [2.0], [6.0]])
    reference = mixture_of(weights, means, np.full((4, 1, 1), 0.01), 8.0)
    rng = np.random.default_rng(0)
    which = rng.choice(4, 4000, p=weights)
    points = jnp.asarray(means[which] + 0.1 * rng.normal(size=(4000, 1)), jnp.float32)
    zero = jnp.zeros((4000,))
    buffer = Buffer(points, zero, jnp.zeros_like(points), jnp.zeros((4000,), jnp.int32), zero)
    found = mixture_of_buffer(reference, buffer, 3)
    np.testing.assert_allclose(found.mean[:2, 0], [-2.0, 6.0], atol=0.05)


def test_networks_of_particles_and_those_that_are_told_so_have_no_mixture():
    network = Network()
    assert with_components(network, 2, 3).num_components == 8
    assert with_components(network, 2, 0).num_components == 0
    assert with_components(dataclasses.replace(network, is_on_modes=False), 2, 3).num_components == 0
    assert with_components(Network("egnn", num_particles=3, spatial_dim=2), 4, 3).num_components == 0


def test_one_mode_alone_starts_from_the_linear_denoiser():
    """The saboteur is a mixture of another width."""
    location, sigma_data = np.asarray([3.0, -40.0], np.float32), np.asarray([0.2, 7.0], np.float32)
    still = lambda x, c_noise, c_temperature: 0.1 * x  # noqa: E731
    plain = Denoiser(still, jnp.asarray(location), jnp.asarray(sigma_data), jnp.zeros(()))
    points = [jnp.asarray(location + shift * sigma_data) for shift in (-3.0, 0.5, 20.0)]
    for factor, is_same in ((1.0, True), (1.3, False)):
        mixture = linear_mixture(location, np.float32(factor) * sigma_data, 8)
        on_mixture = dataclasses.replace(plain, network=OnMixture(still, mixture))
        gaps = [
            np.abs(np.asarray(on_mixture(x, sigma) - plain(x, sigma)) / sigma_data)
            for x in points
            for sigma in map(jnp.asarray, (0.01, 1.0, 300.0))
        ]
        assert (np.max(gaps) < 1e-4) == is_same
