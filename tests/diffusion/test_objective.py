"""The regression target against quadrature: unbiased for every blend, without variance where it can be."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.oracle import GaussianDenoiser, quadrature_denoiser
from support.random_checks import must_fail
from tempering.diffusion import Denoiser, NoiseLevels
from tempering.diffusion.objective import denoising_loss, regression_target
from tempering.targets import GaussianMixture
from tempering.targets.base import evaluate_many

TEMPERATURE = 2.5
NOISY = jnp.array([[-3.0, 0.5], [0.2, 1.0], [2.5, -2.5], [6.0, 3.0]])


@pytest.fixture(scope="module")
def tempered():
    """A lopsided mixture at T = 2.5 on a lattice, and the untempered gradients at its nodes."""
    covariances = [[[1.0, 0.6], [0.6, 0.8]], [[0.4, -0.2], [-0.2, 0.9]]]
    target = GaussianMixture([[1.0, 2.0], [-3.0, 0.5]], weights=[2.0, 1.0], covariances=covariances)
    oracle = quadrature_denoiser(target, TEMPERATURE, low=(-14.0, -12.0), high=(13.0, 14.0), num=240)
    _, gradients = evaluate_many(target, oracle.nodes)
    return oracle, gradients


@eqx.filter_jit
def mean_target(oracle, tempered_grads, noisy, sigma, blend):
    """E[target | x_noisy], summed over the lattice."""
    weights = jnp.exp(oracle.log_posterior(noisy, sigma))
    target = partial(regression_target, x_noisy=noisy, sigma=sigma, blend_variance=blend)
    targets = jax.vmap(lambda x, grad: target(x, tempered_grad=grad))(oracle.nodes, tempered_grads)
    return jnp.matmul(weights, targets, precision="highest")


def check_unbiased(oracle, tempered_grads, sigma, blend):
    for noisy in NOISY:
        observed = mean_target(oracle, tempered_grads, noisy, jnp.asarray(sigma), blend)
        np.testing.assert_allclose(observed, oracle(noisy, jnp.asarray(sigma)), atol=2e-3)


@pytest.mark.parametrize("blend", [[0.0, 0.0], [0.3, 2.0], [50.0, 50.0]])
@pytest.mark.parametrize("sigma", [0.4, 1.5, 6.0])
def test_every_blend_is_unbiased(tempered, sigma, blend):
    oracle, gradients = tempered
    check_unbiased(oracle, gradients / TEMPERATURE, sigma, jnp.asarray(blend))


def test_a_forgotten_beta_is_biased(tempered):
    oracle, gradients = tempered
    for sigma in (0.4, 1.5, 6.0):
        must_fail(check_unbiased, oracle, gradients, sigma, jnp.array([0.3, 2.0]))


def test_no_blend_is_the_sample_itself():
    x, noisy = jnp.array([1.1, -0.3]), jnp.array([5.0, 2.0])
    observed = regression_target(x, noisy, jnp.array([7.0, 1e6]), jnp.asarray(0.3), jnp.zeros(2))
    np.testing.assert_array_equal(observed, x)


@pytest.mark.parametrize("sigma", [0.05, 1.0, 30.0])
def test_a_gaussian_with_its_own_variance_leaves_no_noise(sigma):
    mean, variance, temperature = np.array([2.0, -5.0]), np.array([0.3, 6.0]), 1.7
    x = jnp.asarray(mean + np.random.default_rng(0).normal(size=(50, 2)) * np.sqrt(temperature * variance), jnp.float32)
    tempered_grads = jnp.asarray(-(np.asarray(x) - mean) / (temperature * variance), jnp.float32)
    noisy = jnp.array([3.0, -1.0])

    def targets(blend):
        one = partial(regression_target, x_noisy=noisy, sigma=jnp.asarray(sigma), blend_variance=blend)
        return jax.vmap(lambda point, grad: one(point, tempered_grad=grad))(x, tempered_grads)

    exact = GaussianDenoiser(mean, np.diag(variance), temperature)(noisy, jnp.asarray(sigma))
    blend = jnp.asarray(temperature * variance, jnp.float32)
    np.testing.assert_allclose(targets(blend), np.broadcast_to(exact, (50, 2)), rtol=2e-5, atol=2e-5)
    # With the variance of another temperature the noise is back.
    assert np.std(targets(blend / 1.7), axis=0).max() > 1e-3


def test_the_loss_is_the_error_in_units_of_the_output_scale():
    """A denoiser that returns the location: its error, written out by hand."""
    location, sigma_data, x = jnp.array([1.0, -2.0]), jnp.array([0.5, 4.0]), jnp.array([1.3, -6.0])
    sigma = 0.7
    numbers = (jnp.asarray(n, jnp.float32) for n in (sigma, sigma * (1 + 1e-6), 0.0, 1.0, 7.0))
    levels = NoiseLevels(*numbers, "log_uniform")

    class Cancels(eqx.Module):
        """F = -c_skip (x - location) / c_out, so that D = location; c_skip / c_out c_in is sigma_data / sigma."""

        def __call__(self, scaled, c_noise):
            del c_noise
            return -scaled * sigma_data / sigma

    loss = denoising_loss(
        Denoiser(Cancels(), location, sigma_data), jax.random.key(0), x, jnp.zeros(2), levels, jnp.zeros(2)
    )
    scale = sigma * np.asarray(sigma_data) / np.sqrt(sigma**2 + np.asarray(sigma_data) ** 2)
    np.testing.assert_allclose(loss, np.mean((np.asarray(location - x) / scale) ** 2), rtol=1e-4)
