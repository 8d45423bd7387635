"""DiKL: the posterior's draws give the score of the noised density, and both losses are those of the paper."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from support.random_checks import assert_mean, assert_std, must_fail
from tempering.baselines.dikl import chain_of, mixed_score, posterior_draw, score_loss
from tempering.settings import DiKLSettings
from tempering.targets import Target

SETTINGS = DiKLSettings(num_noises=5, most_beta=0.3, num_particles=4, num_levels=6, num_mala=8, mala_step_size=0.15)
MEAN, VARIANCE = 0.7, 1.3


class Normal(Target):
    dim: int = eqx.field(static=True)

    def log_density(self, x):
        return -0.5 * jnp.sum((x - MEAN) ** 2) / VARIANCE


@pytest.fixture(scope="module")
def posterior():
    """Draws of x_0 given one x_t at the third step of the chain."""
    chain, x_t = chain_of(SETTINGS), jnp.array([1.1, -0.4])
    a, s = chain.a[3], chain.s[3]
    keys = jax.random.split(jax.random.key(8), 8000)
    run = eqx.filter_jit(lambda keys: jax.vmap(lambda key: posterior_draw(key, x_t, a, s, Normal(2), SETTINGS))(keys))
    return (*run(keys), x_t, a, s)


def test_the_chain_keeps_the_variance():
    chain = chain_of(SETTINGS)
    np.testing.assert_allclose(chain.a**2 + chain.s**2, 1.0, rtol=1e-6)
    assert float(chain.a[0]) == pytest.approx(np.sqrt(1 - 1e-4))


def test_draws_are_those_of_the_posterior(posterior):
    x_0, gradient, accepted, x_t, a, s = posterior
    precision = a**2 / s**2 + 1 / VARIANCE
    mean = (a * np.asarray(x_t) / s**2 + MEAN / VARIANCE) / precision
    assert_mean(x_0, mean, name="posterior mean")
    assert_std(x_0, np.full(2, precision**-0.5), name="posterior spread")
    must_fail(assert_mean, x_0, np.asarray(x_t) / a, name="the mean under a flat density")
    np.testing.assert_allclose(gradient, -(x_0 - MEAN) / VARIANCE, atol=1e-4)
    assert float(jnp.mean(accepted)) > 0.2


def test_the_mixed_score_is_that_of_the_noised_density(posterior):
    x_0, gradient, _, x_t, a, s = posterior
    exact = -(np.asarray(x_t) - a * MEAN) / (a**2 * VARIANCE + s**2)
    assert_mean(jax.vmap(lambda x, g: mixed_score(x, g, x_t, a))(x_0, gradient), exact, name="score of p_t")
    broken = jax.vmap(lambda x, g: mixed_score(x, 0.5 * g, x_t, a))(x_0, gradient)
    must_fail(assert_mean, broken, exact, name="with half the target's score")


def test_the_score_loss_is_least_at_the_score():
    chain, num = chain_of(SETTINGS), 20_000
    keys = jax.random.split(jax.random.key(4), num)
    x = MEAN + np.sqrt(VARIANCE) * jax.random.normal(jax.random.key(5), (num, 2))

    def loss(factor):
        def network(x_t, time):
            step = jnp.round(time * SETTINGS.num_noises).astype(int)
            a, s = chain.a[step], chain.s[step]
            return -factor * (x_t - a * MEAN) / (a**2 * VARIANCE + s**2)

        return float(score_loss(network, keys, x, SETTINGS))

    a, s = (np.asarray(part)[1:] for part in chain)
    exact = np.mean(1 - s**2 / (a**2 * VARIANCE + s**2))  # E|eps + s score|^2 of a Gaussian, over the steps
    assert loss(1.0) == pytest.approx(exact, abs=0.02)
    assert loss(0.5) > loss(1.0) + 0.02 and loss(1.5) > loss(1.0) + 0.02


@pytest.mark.slow
def test_it_learns_a_gaussian():
    settings = dataclasses.replace(
        SETTINGS, num_steps=600, width=32, depth=2, batch_size=128, num_score_steps=20, num_mala=4
    )
    settings = dataclasses.replace(settings, learning_rate=2e-3, score_learning_rate=1e-3)
    sampler = tp.fit(Normal(2), method="dikl", settings=settings, progress=False)
    draws = sampler.sample(4000)
    assert np.abs(draws.mean(axis=0) - MEAN).max() < 0.15
    assert np.abs(draws.std(axis=0) / np.sqrt(VARIANCE) - 1).max() < 0.15
