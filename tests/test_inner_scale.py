"""The within-mode scale without gradients agrees with the one that has them, also where modes lie far apart."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.random_checks import must_fail
from tempering.buffer import Buffer, concatenate, from_states, inner_scale, inner_scale_of_values, reweighted, spread
from tempering.diffusion.calibrate import noise_levels
from tempering.kernels import ChainState
from tempering.settings import Noise
from tempering.targets import anisotropic_gaussian, mog40
from tempering.targets.base import evaluate_many

ONE = jnp.ones(())


def buffer_of(target, num: int = 1_000) -> Buffer:
    points = target.sample(jax.random.key(0), num)
    return from_states(ChainState(points, *evaluate_many(target, points)), "initial_pt")


def check_smallest(found, buffer: Buffer, beta: jax.Array = ONE) -> None:
    """Between two thirds and three halves of what gradients say: sigma_min is a small share of it."""
    ratio = float(jnp.min(found) / jnp.min(inner_scale(buffer, beta)))
    assert 0.66 < ratio < 1.5, ratio


@pytest.mark.parametrize("target", [anisotropic_gaussian(3, seed=1), mog40()], ids=["gaussian", "forty modes"])
def test_values_and_gradients_agree(target):
    buffer = buffer_of(target)
    check_smallest(inner_scale_of_values(buffer, ONE), buffer)
    # The weights of another temperature are heeded. Copies, as resampling makes them, say nothing.
    cold = reweighted(buffer, ONE, 1.5 * ONE)
    check_smallest(inner_scale_of_values(cold, 1.5 * ONE), cold, 1.5 * ONE)
    half = buffer.take(jnp.arange(500))
    check_smallest(inner_scale_of_values(concatenate(half, half), ONE), half)


def test_the_spread_would_not_do():
    buffer = buffer_of(mog40())
    must_fail(check_smallest, spread(buffer)[1], buffer)


def test_coordinates_of_unlike_width_are_told_apart():
    # Two modes far apart along the first coordinate: its spread is that of the distance, its inner scale is not.
    normal = jax.random.normal(jax.random.key(1), (1_000, 2)) * jnp.asarray([[0.5, 2.0]])
    points = normal + jnp.where(jnp.arange(1_000) % 2 == 0, 30.0, 0.0)[:, None] * jnp.asarray([[1.0, 0.0]])
    value = -0.5 * jnp.sum((normal / jnp.asarray([[0.5, 2.0]])) ** 2, axis=1)
    buffer = from_states(ChainState(points, value, jnp.zeros_like(points)), "initial_pt")
    found = np.asarray(inner_scale_of_values(buffer, ONE))
    assert 0.33 < found[0] < 0.75 and 1.0 < found[1] < 6.0, found


@pytest.mark.parametrize("points", [np.zeros((4, 2)), np.eye(2), np.zeros((1, 2))])
def test_degenerate_buffers_give_a_noise_range(points):
    points = jnp.asarray(points, jnp.float32)
    buffer = from_states(ChainState(points, jnp.zeros(points.shape[0]), jnp.zeros_like(points)), "initial_pt")
    levels = noise_levels(Noise(), buffer, ONE, ONE, has_gradients=False)
    assert 0 < float(levels.sigma_min) <= 0.1 + 1e-6
