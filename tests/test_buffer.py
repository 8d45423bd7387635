"""Buffers: what is pooled, taken and joined stays together, and scales are what the docstrings say."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.random_checks import assert_mean, must_fail
from tempering.buffer import (
    ORIGINS,
    Buffer,
    blank_buffer,
    concatenate,
    from_states,
    inner_scale,
    spread,
    subsample,
)
from tempering.kernels import ChainState
from tempering.targets import Gaussian
from tempering.targets.base import evaluate_many


def numbered(num: int, origin: str = "refined", begin: int = 0) -> Buffer:
    """Sample i has i in every field, so that a mixed-up row shows."""
    index = jnp.arange(begin, begin + num, dtype=jnp.float32)
    gradient = jnp.stack([2 * index, index], axis=1)
    return from_states(ChainState(jnp.stack([index, -index], axis=1), index, gradient), origin)


def assert_rows_together(buffer: Buffer) -> None:
    index = np.asarray(buffer.log_density)
    np.testing.assert_array_equal(buffer.position, np.stack([index, -index], axis=1))
    np.testing.assert_array_equal(buffer.log_density_grad, np.stack([2 * index, index], axis=1))


def test_states_of_any_axes_are_pooled():
    index = jnp.arange(12.0).reshape(4, 3)
    states = ChainState(jnp.stack([index, -index], axis=-1), index, jnp.stack([2 * index, index], axis=-1))
    buffer = from_states(states, "generated")
    assert buffer.size == 12
    assert_rows_together(buffer)
    np.testing.assert_array_equal(buffer.origin, np.full(12, ORIGINS.index("generated")))
    with pytest.raises(ValueError, match="not in tuple"):
        from_states(states, "elsewhere")


def test_take_and_states_keep_rows_together():
    taken = numbered(10).take(jnp.array([7, 2, 2]))
    assert_rows_together(taken)
    np.testing.assert_array_equal(taken.log_density, [7.0, 2.0, 2.0])
    states = taken.states()
    np.testing.assert_array_equal(states.position, taken.position)
    np.testing.assert_array_equal(states.log_density_grad, taken.log_density_grad)


def test_joined_buffers_keep_their_origins():
    joined = concatenate(numbered(3, "initial_pt"), numbered(2, "refined", begin=3))
    assert_rows_together(joined)
    np.testing.assert_array_equal(joined.origin, [0, 0, 0, 3, 3])


def test_subsample_is_without_replacement_and_uniform():
    buffer = numbered(40)
    keys = jax.random.split(jax.random.key(0), 2000)
    assert_rows_together(subsample(keys[0], buffer, 7))
    drawn = np.asarray(jax.jit(jax.vmap(lambda key: subsample(key, buffer, 7).log_density))(keys))
    assert all(len(set(row)) == 7 for row in drawn[:200])
    # Every sample is as likely in every place as any other.
    assert_mean(drawn, 19.5, key=keys[0])
    must_fail(assert_mean, np.sort(drawn, axis=1), 19.5)
    assert sorted(np.asarray(subsample(keys[0], buffer, 40).log_density)) == list(range(40))


def test_spread_is_mean_and_standard_deviation():
    location, std = spread(numbered(5))
    np.testing.assert_allclose(location, [2.0, -2.0])
    np.testing.assert_allclose(std, np.sqrt([2.0, 2.0]), rtol=1e-6)


def test_inner_scale_of_a_tempered_gaussian_is_the_conditional_deviation():
    covariance, beta = np.array([[2.0, 1.2], [1.2, 1.0]]), 0.5
    target = Gaussian([3.0, -1.0], covariance)
    x = target.location[None] + (target.sample(jax.random.key(1), 20_000) - target.location[None]) / np.sqrt(beta)
    buffer = Buffer(x, *evaluate_many(target, x), jnp.zeros(20_000, jnp.int32))
    expected = 1 / np.diag(np.linalg.inv(covariance / beta))  # variance of x_i given the others
    squares = (beta * np.asarray(buffer.log_density_grad, np.float64)) ** 2
    assert_mean(squares, 1 / expected, key=jax.random.key(1))
    must_fail(assert_mean, squares / beta**2, 1 / expected)
    observed = inner_scale(buffer, jnp.asarray(beta))
    np.testing.assert_allclose(observed, 1 / np.sqrt(squares.mean(axis=0)), rtol=1e-4)


def test_a_flat_coordinate_has_a_large_finite_inner_scale():
    buffer = Buffer(jnp.zeros((3, 2)), jnp.zeros(3), jnp.array([[1.0, 0.0]] * 3), jnp.zeros(3, jnp.int32))
    scale = np.asarray(inner_scale(buffer, jnp.ones(())))
    assert scale[0] == 1.0 and 1e10 < scale[1] < np.inf


def test_a_blank_buffer_has_the_structure_only():
    blank = blank_buffer(3)
    assert blank.size == 0 and blank.position.shape == (0, 3)
    assert jax.tree.structure(blank) == jax.tree.structure(numbered(2))
    assert [leaf.dtype for leaf in jax.tree.leaves(blank)] == [leaf.dtype for leaf in jax.tree.leaves(numbered(2))]
