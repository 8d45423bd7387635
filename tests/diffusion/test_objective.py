"""The regression target against quadrature: unbiased for every blend, without variance where it can be."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.oracle import GaussianDenoiser, quadrature_denoiser
from support.random_checks import must_fail
from tempering.buffer import from_states
from tempering.diffusion import Denoiser, NoiseLevels
from tempering.diffusion.calibrate import inner_scale
from tempering.diffusion.objective import denoising_loss, regression_target
from tempering.kernels import ChainState
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


@eqx.filter_jit
def left_variance(oracle, tempered_grads, noisy, sigma, blend):
    """E Var[target | x_noisy] over noised points: what no denoiser can learn, for each coordinate."""

    def one(noisy):
        weights = jnp.exp(oracle.log_posterior(noisy, sigma))
        target = partial(regression_target, x_noisy=noisy, sigma=sigma, blend_variance=blend)
        targets = jax.vmap(lambda x, grad: target(x, tempered_grad=grad))(oracle.nodes, tempered_grads)
        mean = jnp.matmul(weights, targets, precision="highest")
        return jnp.matmul(weights, (targets - mean[None]) ** 2, precision="highest")

    return jnp.mean(jax.lax.map(one, noisy), axis=0)


def test_the_blend_of_the_inner_scale_is_never_noisier_than_the_sample(tempered):
    """By quadrature on the mixture, at every noise level; a blend that is too strong is."""
    oracle, gradients = tempered
    tempered_grads, mass = gradients / TEMPERATURE, jax.nn.softmax(oracle.log_mass)
    inner = 1 / jnp.matmul(mass, tempered_grads**2, precision="highest")  # what `inner_scale` reads off a buffer
    key_node, key_noise = jax.random.split(jax.random.key(0))
    clean = oracle.nodes[jax.random.choice(key_node, mass.shape[0], (60,), p=mass)]
    noise = jax.random.normal(key_noise, clean.shape)

    def ratios(blend):
        pairs = [
            [left_variance(oracle, tempered_grads, clean + s * noise, jnp.asarray(s), b) for b in (blend, jnp.zeros(2))]
            for s in (0.3, 0.8, 2.0, 5.0, 20.0)
        ]
        return np.array([ours / plain for ours, plain in pairs])

    def check(found):
        assert np.max(found) < 1.02, found

    found = ratios(inner)
    check(found)
    assert np.min(found) < 0.3  # and where noise is small, far less noisy
    must_fail(check, ratios(10.0 * inner))


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
    numbers = (jnp.asarray(n, jnp.float32) for n in (sigma, sigma * (1 + 1e-6)))
    levels = NoiseLevels(*numbers)

    class Cancels(eqx.Module):
        """F = -c_skip (x - location) / c_out, so that D = location; c_skip / c_out c_in is sigma_data / sigma."""

        def __call__(self, scaled, c_noise, c_temperature):
            del c_noise, c_temperature
            return -scaled * sigma_data / sigma

    denoiser = Denoiser(Cancels(), location, sigma_data, jnp.zeros(()))
    loss = denoising_loss(denoiser, jax.random.key(0), x, jnp.zeros(2), levels, jnp.zeros(2))
    scale = sigma * np.asarray(sigma_data) / np.sqrt(sigma**2 + np.asarray(sigma_data) ** 2)
    np.testing.assert_allclose(loss, np.mean((np.asarray(location - x) / scale) ** 2), rtol=1e-4)


def excess_variance(sigma: float, blend_variance: float | None) -> float:
    """E Var(target | x_noisy) over that of plain denoising score matching, minus 1, for p(x) = exp(-sqrt|x|) / 4.

    Its gradient is 1 / sqrt|x| / 2 near the origin: the second moment that the blend is made from is infinite. Every
    target has the same conditional mean, so that second moments differ by as much as variances do.
    """
    rng = np.random.default_rng(0)
    x = rng.gamma(2.0, size=200_000) ** 2 * rng.choice([-1.0, 1.0], 200_000)
    gradient = -0.5 * np.sign(x) / np.sqrt(np.abs(x))
    states = ChainState(
        *(jnp.asarray(v, jnp.float32) for v in (x[:4000, None], -np.sqrt(np.abs(x[:4000])), gradient[:4000, None]))
    )
    blend = inner_scale(from_states(states, "initial_pt"), jnp.ones(())) ** 2
    blend = blend if blend_variance is None else jnp.asarray([blend_variance])
    noisy = x + sigma * rng.normal(size=x.size)
    target = np.asarray(
        jax.vmap(lambda *point: regression_target(*point, jnp.asarray(sigma), blend))(
            *(jnp.asarray(v[:, None], jnp.float32) for v in (x, noisy, gradient))
        ),
        np.float64,
    )[:, 0]
    cells = np.digitize(noisy, np.quantile(noisy, np.linspace(0.0, 1.0, 401)[1:-1]))
    count = np.bincount(cells)
    conditional = np.bincount(cells, x) / count  # the variance of x0 inside a cell, but for the cell's own width
    plain = np.mean((x - conditional[cells]) ** 2)
    return float((np.mean(target**2) - np.mean(x**2)) / plain)


@pytest.mark.parametrize("sigma", [0.05, 0.5, 3.0, 20.0])
def test_gradients_without_a_second_moment_do_no_harm(sigma):
    assert excess_variance(sigma, None) < 0.05


def test_a_blend_that_does_not_look_at_the_gradients_does():
    assert excess_variance(3.0, 100.0) > 0.5
