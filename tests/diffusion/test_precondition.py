"""The identities of EDM preconditioning, per coordinate and off-centre."""

from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.oracle import GaussianDenoiser
from tempering.diffusion import Denoiser
from tempering.diffusion.networks import MLP, ResidualMLP, make_network
from tempering.diffusion.precondition import output_scale
from tempering.settings import Network

LOCATION, SIGMA_DATA = jnp.array([2.0, -5.0, 0.3]), jnp.array([0.5, 3.0, 20.0])
POINT = jnp.array([2.4, -1.0, -14.0])
C_TEMPERATURE = jnp.asarray(0.7)


class IgnoresNoise(eqx.Module):
    """A network that does not look at c_noise: only then is the denoiser equivariant to scale."""

    inner: MLP

    def __call__(self, x, c_noise, c_temperature):
        return self.inner(x, jnp.zeros_like(c_noise), c_temperature)


@eqx.filter_jit
def denoised(network, location, sigma_data, x, sigma):
    """Compiled, because a network run operation by operation takes seconds."""
    return Denoiser(network, location, sigma_data, C_TEMPERATURE)(x, sigma)


def awake(network: eqx.Module) -> eqx.Module:
    """The network with all weights moved at random, those that start at zero included."""
    rng = np.random.default_rng(9)
    arrays, rest = eqx.partition(network, eqx.is_inexact_array)
    moved = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf) + 0.3 * rng.normal(size=leaf.shape)), arrays)
    return eqx.combine(moved, rest)


@cache
def network_of(kind: str) -> eqx.Module:
    network = Network(kind=kind, width=8, depth=2)
    return eqx.filter_jit(make_network)(jax.random.key(0), 3, network)


@pytest.mark.parametrize("sigma", [0.05, 0.7, 5.0, 400.0])
def test_an_untrained_residual_network_is_the_best_linear_denoiser(sigma):
    sigma = jnp.asarray(sigma)
    observed = denoised(network_of("residual"), LOCATION, SIGMA_DATA, POINT, sigma)
    exact = GaussianDenoiser(LOCATION, np.diag(np.asarray(SIGMA_DATA) ** 2))(POINT, sigma)
    np.testing.assert_allclose(observed, exact, rtol=1e-5, atol=1e-5)
    forgotten = denoised(network_of("residual"), 0 * LOCATION, SIGMA_DATA, POINT, sigma)
    assert np.max(np.abs(forgotten - exact)) > 1e-2


def test_the_output_scale_is_the_error_of_the_best_linear_denoiser():
    for sigma in (0.1, 2.0, 50.0):
        variance = np.asarray(SIGMA_DATA, np.float64) ** 2
        posterior = variance * sigma**2 / (variance + sigma**2)
        np.testing.assert_allclose(output_scale(jnp.asarray(sigma), SIGMA_DATA), np.sqrt(posterior), rtol=1e-5)


@pytest.mark.parametrize("kind", ["mlp", "residual"])
def test_shifting_data_and_location_shifts_the_output(kind):
    network, sigma, shift = awake(network_of(kind)), jnp.asarray(0.8), jnp.array([4.0, -8.0, 16.0])
    here = denoised(network, LOCATION, SIGMA_DATA, POINT, sigma)
    there = denoised(network, LOCATION + shift, SIGMA_DATA, POINT + shift, sigma)
    np.testing.assert_allclose(there, here + shift, rtol=1e-4, atol=1e-4)
    unmoved = denoised(network, LOCATION, SIGMA_DATA, POINT + shift, sigma)
    assert np.max(np.abs(unmoved - (here + shift))) > 0.1


def test_scaling_data_sigma_data_and_sigma_scales_the_output():
    sigma, factor = jnp.asarray(0.8), 8.0
    blind, seeing = IgnoresNoise(awake(network_of("mlp"))), awake(network_of("mlp"))

    def outputs(network):
        here = denoised(network, LOCATION, SIGMA_DATA, POINT, sigma)
        there = denoised(network, factor * LOCATION, factor * SIGMA_DATA, factor * POINT, factor * sigma)
        return np.asarray(factor * here), np.asarray(there)

    np.testing.assert_allclose(*outputs(blind), rtol=1e-5)
    here, there = outputs(seeing)
    assert np.max(np.abs(here - there)) > 1e-2, "the noise level must reach the network"


def test_the_error_vanishes_with_the_noise():
    observed = denoised(awake(network_of("mlp")), LOCATION, SIGMA_DATA, POINT, jnp.asarray(1e-6))
    np.testing.assert_allclose(observed, POINT, atol=1e-4)


@pytest.mark.parametrize("kind", ["mlp", "residual"])
def test_networks_see_point_and_noise(kind):
    network = awake(network_of(kind))
    assert isinstance(network, MLP if kind == "mlp" else ResidualMLP)
    x, c_noise = jnp.array([0.1, -0.4, 1.0]), jnp.asarray(-0.3)
    jacobians = eqx.filter_jit(lambda network: jax.jacobian(network.__call__, (0, 1))(x, c_noise, C_TEMPERATURE))
    by_point, by_noise = jacobians(network)
    assert by_point.shape == (3, 3) and np.all(np.abs(by_point) > 1e-6)
    assert by_noise.shape == (3,) and np.all(np.abs(by_noise) > 1e-6)
