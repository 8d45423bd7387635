"""Equally weighted points in place of a user's weighted draws: counts, evenness, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tempering as tp
from support.random_checks import must_fail
from tempering import DensityError, SettingsError
from tempering.weights.resample import resample


@given(st.integers(1, 30), st.integers(0, 2**32 - 1))
@settings(max_examples=60)
def test_every_draw_comes_as_often_as_its_weight_says_rounded_up_or_down(num, seed):
    generator = np.random.default_rng(seed)
    log_weights = np.where(generator.uniform(size=9) < 0.3, -np.inf, 3.0 * generator.normal(size=9))
    log_weights[4] = 700.0 + generator.normal()  # a common factor beyond exp
    log_weights[2] = 699.0
    draws = np.arange(9.0)[:, None]
    expected = np.exp(log_weights - np.logaddexp.reduce(log_weights)) * num
    counts = np.bincount(resample(draws, log_weights, num, seed=seed)[:, 0].astype(int), minlength=9)
    assert counts.sum() == num
    assert np.all(counts >= np.floor(expected - 1e-9)) and np.all(counts <= np.ceil(expected + 1e-9))


def test_counts_are_right_on_average():
    log_weights = np.log([0.05, 0.15, 0.0, 0.5, 0.3], where=np.array([1, 1, 0, 1, 1]) > 0, out=np.full(5, -np.inf))
    draws = np.random.default_rng(0).normal(size=(5, 2))
    counts = np.zeros(5)
    for seed in range(2_000):
        points = resample(draws, log_weights, 3, seed=seed)
        counts += np.sum(np.all(points[:, None] == draws, axis=-1), axis=0)
    np.testing.assert_allclose(counts / 6_000, np.exp(log_weights), atol=0.01)
    assert counts[2] == 0


def mixture(generator, num, dim):
    """Nine modes of unequal weight, and the weights by which they become equal."""
    weights = np.arange(1.0, 10.0) / 45.0
    mode = generator.choice(9, size=num, p=weights)
    centres = 20.0 * np.random.default_rng(7).uniform(size=(9, dim))
    return centres[mode] + generator.normal(size=(num, dim)), -np.log(weights[mode]), mode


def check_evenness(dim: int, picked_by) -> None:
    """Shares of modes and means of coordinates vary a small part of what they do over independent picks.

    Args:
        picked_by: (draws, log_weights, num, seed) -> indices of draws.
    """
    generator = np.random.default_rng(dim)
    draws, log_weights, mode = mixture(generator, 4_000, dim)
    share = np.exp(log_weights - np.logaddexp.reduce(log_weights))
    table = np.concatenate([draws, np.eye(9)[mode]], axis=1)
    errors = {"even": [], "independent": []}
    for seed in range(20):
        picks = {"even": picked_by(draws, log_weights, 500, seed), "independent": generator.choice(4_000, 500, p=share)}
        for kind, picked in picks.items():
            errors[kind].append(np.mean(table[picked], axis=0) - share @ table)
    even, independent = (np.mean(np.square(errors[kind]), axis=0) for kind in ("even", "independent"))
    assert np.sum(independent[dim:]) > 10.0 * np.sum(even[dim:])
    assert np.sum(independent[:dim]) > 10.0 * np.sum(even[:dim])


def by_resample(draws, log_weights, num, seed):
    index_of = {point.tobytes(): index for index, point in enumerate(draws)}
    return np.array([index_of[point.tobytes()] for point in resample(draws, log_weights, num, seed=seed)])


def in_the_order_they_come(draws, log_weights, num, seed):
    cumulative = np.cumsum(np.exp(log_weights))
    places = (np.arange(num) + np.random.default_rng(seed).uniform()) / num * cumulative[-1]
    return np.searchsorted(cumulative, places)


@pytest.mark.parametrize("dim", [2, 5, 12])
def test_points_are_closer_to_the_weighted_draws_than_independent_picks(dim):
    check_evenness(dim, by_resample)
    must_fail(check_evenness, dim, in_the_order_they_come)


def test_trees_keep_their_form_and_seeds_their_points():
    generator = np.random.default_rng(0)
    draws = {"mu": generator.normal(size=(40, 2)), "tau": (generator.normal(size=40),)}
    log_weights = generator.normal(size=40)
    points = tp.resample(draws, log_weights, 25, seed=3)
    assert jax.tree.map(np.shape, points) == {"mu": (25, 2), "tau": ((25,),)}
    rows = [np.flatnonzero(np.all(draws["mu"] == mu, axis=1))[0] for mu in points["mu"]]
    np.testing.assert_array_equal(points["tau"][0], draws["tau"][0][rows])
    again, other = tp.resample(draws, log_weights, 25, seed=3), tp.resample(draws, log_weights, 25, seed=4)
    np.testing.assert_array_equal(points["mu"], again["mu"])
    assert not np.array_equal(points["mu"], other["mu"])


def test_types_stay_as_they_are():
    draws = {"half": jnp.zeros((4, 2), jnp.bfloat16), "count": np.arange(4, dtype=np.uint8), "flag": np.ones(4, bool)}
    points = resample(draws, np.zeros(4, np.float16), 3)
    assert jax.tree.map(lambda leaf: leaf.dtype, points) == jax.tree.map(lambda leaf: leaf.dtype, draws)
    assert all(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves(points))


def test_draws_without_weight_may_be_anything():
    draws = np.array([[np.nan, np.inf], [1.0, 2.0], [3.0, 4.0]])
    points = resample(draws, [-np.inf, 0.0, 0.0], 2)
    np.testing.assert_array_equal(np.sort(points, axis=0), [[1.0, 2.0], [3.0, 4.0]])


@pytest.mark.parametrize(
    ("draws", "log_weights", "num", "said"),
    [
        (np.zeros((3, 2)), np.zeros(4), 2, "first axis is that of the 4 log weights"),
        (np.zeros((3, 2)), np.zeros((3, 1)), 2, "one number per draw"),
        ({}, np.zeros(0), 2, "draws"),
        ([[1.0, 2.0], [3.0, 4.0]], np.zeros(2), 2, "np.asarray"),
        (np.array(["a", "b"]), np.zeros(2), 2, "real numbers"),
        (np.zeros(2, complex), np.zeros(2), 2, "real numbers"),
        (np.zeros(2), [None, 0.0], 2, "real numbers"),
        (np.array([[np.nan], [1.0]]), np.zeros(2), 2, "finite where they have weight"),
        (np.full((2, 9), np.inf), np.zeros(2), 2, "takes a draw out"),
        (np.zeros((3, 2)), [0.0, np.nan, 0.0], 2, "-inf for a draw without weight"),
        (np.zeros((3, 2)), [0.0, np.inf, 0.0], 2, "-inf for a draw without weight"),
        (np.zeros((3, 2)), np.zeros(3), 0, "num"),
        (np.float64(1.0), np.zeros(1), 2, "draws"),
    ],
)
def test_what_does_not_fit_is_refused(draws, log_weights, num, said):
    with pytest.raises(SettingsError, match=said):
        resample(draws, log_weights, num)


def test_no_weight_at_all_is_an_error():
    with pytest.raises(DensityError, match="none of the 3 draws"):
        resample(np.zeros((3, 2)), np.full(3, -np.inf), 2)
