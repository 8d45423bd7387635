"""Errors of expectations, of region weights, and the likelihood: exact cases and refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.random_checks import assert_mean, must_fail
from tempering.lab.metrics import (
    MetricError,
    estimated_region_weights,
    expected_mean_error,
    max_region_error,
    region_tv,
    second_moment_error,
)
from tempering.targets import GaussianMixture, ManyWell

APART = GaussianMixture([[-20.0, 0.0], [20.0, 0.0], [0.0, 30.0]], 1.0, [0.5, 0.3, 0.2])
AT_MEANS = np.asarray(APART.means, np.float64)


def test_second_moment_error_is_absolute():
    points = [[1.0, 2.0], [3.0, 0.0]]
    assert second_moment_error(points, 7.0) == pytest.approx(0.0)
    assert second_moment_error(points, 9.0) == second_moment_error(points, 5.0) == pytest.approx(2.0)
    assert second_moment_error(jnp.asarray(points), 5.0) == pytest.approx(2.0)


def test_second_moment_error_refuses_what_is_not_finite():
    with pytest.raises(MetricError, match="1 of the 2 rows"):
        second_moment_error([[1.0], [np.nan]], 1.0)
    with pytest.raises(MetricError, match="second_moment"):
        second_moment_error([[1.0]], np.inf)


@pytest.mark.parametrize("num_reference", [None, 60])
def test_the_floor_of_a_mean_is_its_expected_error(num_reference):
    rng = np.random.default_rng(4)
    values = rng.gamma(4.0, 1.0, size=200_000)
    truth = 4.0 if num_reference is None else rng.gamma(4.0, 1.0, size=(4000, num_reference)).mean(axis=1)
    errors = np.abs(rng.gamma(4.0, 1.0, size=(4000, 100)).mean(axis=1) - truth)
    assert_mean(errors, expected_mean_error(values, 100, num_reference), key=4)
    must_fail(assert_mean, errors, expected_mean_error(values, 100, 20))


def test_weights_of_separate_modes_are_counts():
    estimated = estimated_region_weights(APART, AT_MEANS[[0, 0, 1, 2]])
    np.testing.assert_allclose(estimated, [0.5, 0.25, 0.25], atol=1e-6)
    exact = APART.region_weights()
    assert region_tv(estimated, exact) == pytest.approx(0.05, abs=1e-6)
    assert max_region_error(estimated, exact) == pytest.approx(0.05, abs=1e-6)


def test_a_missing_mode_costs_its_weight():
    estimated = estimated_region_weights(APART, AT_MEANS[[0, 0, 0, 0, 0, 1, 1, 1]])
    assert region_tv(estimated, APART.region_weights()) == pytest.approx(0.2, abs=1e-6)


def test_nonfinite_points_are_missing_mass():
    broken = AT_MEANS[[0, 0, 1, 2]]
    broken[1:] = np.nan
    estimated = estimated_region_weights(APART, broken)
    np.testing.assert_allclose(estimated, [0.25, 0.0, 0.0], atol=1e-6)
    assert region_tv(estimated, APART.region_weights()) == pytest.approx(0.75, abs=1e-6)
    nowhere = estimated_region_weights(APART, np.full((5, 2), np.inf))
    assert region_tv(nowhere, APART.region_weights()) == pytest.approx(1.0, abs=1e-6)


def test_wells_are_no_partition():
    target = ManyWell(4)
    estimated = estimated_region_weights(target, target.sample(jax.random.key(0), 10_000))
    assert 0 < max_region_error(estimated, target.region_weights()) < 5 * 0.5 / np.sqrt(10_000)
    with pytest.raises(MetricError, match="not a partition"):
        region_tv(estimated, target.region_weights())


def test_region_weights_refuse_what_does_not_fit():
    with pytest.raises(MetricError, match="dimensions"):
        estimated_region_weights(APART, np.zeros((4, 3)))
    for error in (region_tv, max_region_error):
        with pytest.raises(MetricError, match="shapes"):
            error([0.5, 0.5], [1.0])
