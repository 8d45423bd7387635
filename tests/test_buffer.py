"""Buffers: what is pooled, taken and joined stays together, and scales are what the docstrings say."""

import equinox as eqx
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
    covariance,
    from_states,
    in_units,
    out_of_units,
    padded,
    reweighted,
    spread,
    subsample,
)
from tempering.kernels import ChainState
from tempering.targets import Gaussian, Scaled, Units
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


def with_weights(buffer: Buffer, weights) -> Buffer:
    return eqx.tree_at(lambda tree: tree.log_weight, buffer, jnp.log(jnp.asarray(weights)) + 700.0)


def test_weighted_scales_are_those_of_repeated_samples():
    points = jnp.array([[0.0, 1.0], [2.0, -3.0], [5.0, 4.0]])
    buffer = from_states(ChainState(points, jnp.zeros(3), points[:, ::-1] + 1.0), "weighted")
    weighted = with_weights(buffer, [1.0, 4.0, 0.0])
    np.testing.assert_allclose(weighted.weight, [0.2, 0.8, 0.0], rtol=1e-4)
    repeated = buffer.take(jnp.array([0, 1, 1, 1, 1]))
    for ours, theirs in zip(spread(weighted), spread(repeated), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4)
    np.testing.assert_allclose(covariance(weighted), np.cov(np.asarray(repeated.position).T, ddof=0), rtol=1e-4)


def test_reweighted_samples_have_the_moments_of_the_other_temperature():
    target, beta, beta_next, key = Gaussian([3.0, -1.0], [[2.0, 1.2], [1.2, 1.0]]), 0.5, 0.8, jax.random.key(2)
    x = target.location[None] + (target.sample(key, 20_000) - target.location[None]) / np.sqrt(beta)
    buffer = from_states(ChainState(x, *evaluate_many(target, x)), "refined")
    moved = reweighted(buffer, jnp.asarray(beta), jnp.asarray(beta_next))
    square = 20_000 * np.asarray(moved.weight)[:, None] * (np.asarray(x) - np.asarray(target.location)) ** 2

    def check(square, beta):
        assert_mean(square, np.diag(np.asarray(target.covariance())) / beta, key=key)

    check(square, beta_next)
    must_fail(check, square, beta)
    # There and back again, and in two steps: log weights add up.
    again = reweighted(reweighted(moved, jnp.asarray(beta_next), jnp.ones(())), jnp.ones(()), jnp.asarray(beta))
    np.testing.assert_allclose(again.log_weight, 0.0, atol=1e-5)


def test_padding_weighs_nothing():
    buffer = with_weights(numbered(4), [1.0, 2.0, 3.0, 4.0])
    longer = padded(buffer, 7)
    assert longer.size == 7 and padded(buffer, 3).size == 4
    assert_rows_together(longer)
    np.testing.assert_allclose(longer.weight, [0.1, 0.2, 0.3, 0.4, 0.0, 0.0, 0.0], rtol=1e-4)
    np.testing.assert_allclose(spread(longer), spread(buffer), rtol=1e-5)


def test_other_units_are_those_of_the_scaled_target_and_come_back():
    target, units = Gaussian([3.0, -1.0], [[2.0, 1.2], [1.2, 1.0]]), Units(jnp.array([0.5, 4.0]))
    x = target.sample(jax.random.key(1), 50)
    buffer = with_weights(from_states(ChainState(x, *evaluate_many(target, x)), "refined"), np.arange(1.0, 51.0))
    inside = in_units(buffer, units)
    np.testing.assert_allclose(inside.position, np.asarray(x) / np.array([0.5, 4.0]), rtol=1e-6)
    scaled = Scaled(target, units)
    assert scaled.dim == 2
    log_density, gradient = evaluate_many(scaled, inside.position)
    np.testing.assert_allclose(inside.log_density, log_density, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(inside.log_density_grad, gradient, rtol=1e-4, atol=1e-4)
    assert np.max(np.abs(np.asarray(buffer.log_density_grad) - gradient)) > 0.1  # un-scaled gradients would be wrong
    for ours, theirs in zip(jax.tree.leaves(out_of_units(inside, units)), jax.tree.leaves(buffer), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    # States of any leading axes.
    states = ChainState(
        x.reshape(5, 10, 2), buffer.log_density.reshape(5, 10), buffer.log_density_grad.reshape(5, 10, 2)
    )
    np.testing.assert_array_equal(states.in_units(units).position.reshape(50, 2), inside.position)


def test_a_blank_buffer_has_the_structure_only():
    blank = blank_buffer(3)
    assert blank.size == 0 and blank.position.shape == (0, 3)
    assert jax.tree.structure(blank) == jax.tree.structure(numbered(2))
    assert [leaf.dtype for leaf in jax.tree.leaves(blank)] == [leaf.dtype for leaf in jax.tree.leaves(numbered(2))]
