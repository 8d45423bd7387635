"""Networks on a mixture: its denoiser is exact, training leaves it alone, and a folder keeps it."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.random_checks import assert_mean, must_fail
from tempering.diffusion import Denoiser, fit_networks
from tempering.diffusion.calibrate import blank_dataset, stack, unstack
from tempering.diffusion.networks import make_network
from tempering.diffusion.networks.mixture import GaussianMixture, OnMixture
from tempering.runs.storage import arrays_of, tree_from
from tempering.sampler.load import model_like
from tempering.settings import Network, Training

NETWORK = Network(width=8, depth=2, coordinate_width=0, num_components=3)
COVARIANCES = np.asarray([[[2.0, 0.7], [0.7, 0.5]], [[0.3, -0.1], [-0.1, 0.9]], [[1.0, 0.0], [0.0, 1.0]]])
MEANS = np.asarray([[-3.0, 1.0], [2.0, -1.0], [0.0, 4.0]])
WEIGHTS = np.asarray([0.6, 0.3, 0.1])
made_network = eqx.filter_jit(make_network)


def mixture(weights=WEIGHTS) -> GaussianMixture:
    variance, axes = np.linalg.eigh(COVARIANCES)
    return GaussianMixture(*(jnp.asarray(part, jnp.float32) for part in (np.log(weights), MEANS, variance, axes)))


def test_the_denoiser_of_a_mixture_is_the_mean_of_what_was_noised():
    """E[(x0 - D(x)) f(x)] = 0 for every f: the definition of a conditional mean, on exact draws of the pair."""
    rng, num, sigma = np.random.default_rng(4), 40_000, 1.3
    which = rng.choice(3, num, p=WEIGHTS)
    x = MEANS[which] + np.einsum("nij,nj->ni", np.linalg.cholesky(COVARIANCES)[which], rng.normal(size=(num, 2)))
    noisy = x + sigma * rng.normal(size=(num, 2))
    tests = np.stack([np.ones(num), noisy[:, 0], noisy[:, 1], np.sin(noisy[:, 0]), noisy[:, 0] > 0], axis=1)

    def products(own: GaussianMixture, level: float) -> np.ndarray:
        denoised = jax.jit(jax.vmap(lambda row: own.denoise(row, jnp.asarray(level))))(jnp.asarray(noisy, jnp.float32))
        return ((x - np.asarray(denoised))[:, :, None] * tests[:, None, :]).reshape((num, -1))

    assert_mean(products(mixture(), sigma), 0.0, key="rng 4")
    must_fail(assert_mean, products(mixture(), 1.1 * sigma), 0.0)
    must_fail(assert_mean, products(mixture(WEIGHTS[::-1]), sigma), 0.0)
    swapped = eqx.tree_at(lambda own: own.axes, mixture(), mixture().axes[:, ::-1])
    must_fail(assert_mean, products(swapped, sigma), 0.0)


def test_an_untrained_network_on_a_mixture_denoises_as_the_mixture():
    made = made_network(jax.random.key(0), 2, NETWORK)
    network = eqx.tree_at(lambda own: own.mixture, made, mixture())
    x, sigma = jnp.asarray([1.0, -2.0]), jnp.asarray(0.7)

    @eqx.filter_jit
    def denoised(network):
        return Denoiser(network, jnp.zeros(2), jnp.full(2, 3.0), jnp.zeros(()))(x, sigma)

    np.testing.assert_allclose(denoised(network), eqx.filter_jit(mixture().denoise)(x, sigma), rtol=1e-6)
    assert np.max(np.abs(denoised(network.network) - denoised(network))) > 0.1


def test_training_moves_the_network_and_not_the_mixture():
    network = eqx.tree_at(lambda own: own.mixture, made_network(jax.random.key(0), 2, NETWORK), mixture())
    data = blank_dataset(2, 64)
    position = jnp.asarray(np.random.default_rng(1).normal(size=data.levels.position.shape), jnp.float32)
    data = eqx.tree_at(lambda own: own.levels.position, data, position)
    training = Training(num_steps=4, batch_size=16, check_every=2)
    keys = jax.random.split(jax.random.key(2), 1)
    fitted, info = fit_networks(keys, stack(network), stack(data), training, num_steps=4)
    (after,) = unstack(fitted, 1)
    assert int(info.num_steps[0]) == 4 and isinstance(after, OnMixture)
    assert eqx.tree_equal(after.mixture, network.mixture)
    assert not eqx.tree_equal(after.network, network.network)


def test_a_model_on_a_mixture_is_stored_and_read():
    like = model_like(2, NETWORK)
    network = eqx.tree_at(lambda own: own.mixture, made_network(jax.random.key(0), 2, NETWORK), mixture())
    model = jax.tree.map(lambda leaf: jnp.full(leaf.shape, 0.5, leaf.dtype), like)
    model = eqx.tree_at(lambda own: own.denoise.network, model, network)
    again = tree_from(like, {name: np.asarray(array) for name, array in arrays_of(model).items()})
    assert eqx.tree_equal(jax.tree.map(np.asarray, again), jax.tree.map(np.asarray, model))


@pytest.mark.parametrize("num", [0, 3])
def test_the_settings_say_whether_there_is_a_mixture(num):
    made = make_network(jax.random.key(0), 2, dataclasses.replace(NETWORK, num_components=num))
    assert isinstance(made, OnMixture) == (num > 0)
