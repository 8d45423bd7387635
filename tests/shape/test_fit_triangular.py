"""Charts from exact draws: the order is found, terms enter where they belong, and a normal stays affine."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tempering.errors import SettingsError
from tempering.shape import fit, fit_triangular
from tempering.shape.order import best_order
from tempering.shape.tails import STRAIGHT, fit_bend
from tempering.transforms.triangular import Triangular, products_of

restrict_all = jax.jit(jax.vmap(lambda chart, x: chart.restrict(x), in_axes=(None, 0)))
"""One program for all charts of a dimension."""
RNG = np.random.default_rng(11)


def _funnel(num, dim, neck):
    v = 3.0 * RNG.normal(size=num)
    return np.insert(np.exp(v / 2)[:, None] * RNG.normal(size=(num, dim - 1)), neck, v, axis=1)


def _valley(num):
    """x0 ~ N(1, 10), and twice x1 near x0^2 and x2 near x1^2: hybrid Rosenbrock, in a shuffled order."""
    x0 = 1.0 + np.sqrt(10.0) * RNG.normal(size=num)
    columns = [x0]
    for _ in range(2):
        x1 = x0**2 + np.sqrt(0.1) * RNG.normal(size=num)
        columns += [x1, x1**2 + np.sqrt(0.1) * RNG.normal(size=num)]
    return np.stack(columns, axis=1)[:, [4, 1, 0, 3, 2]]


def _normality(chart, points):
    """Covariance and fourth moments of points in the chart's coordinates."""
    y = np.asarray(restrict_all(chart, jnp.asarray(points, jnp.float32)), np.float64)
    return np.cov(y.T), np.mean(y**4, axis=0)


@cache
def _chart_of_funnel(neck):
    return fit_triangular(_funnel(800, 6, neck), np.zeros(800))


@cache
def _chart_of_valley():
    return fit_triangular(_valley(800), np.zeros(800))


@pytest.mark.parametrize("neck", [0, *(pytest.param(neck, marks=pytest.mark.slow) for neck in (3, 5))])
def test_the_neck_of_a_funnel_is_found_wherever_it_stands(neck):
    chart = _chart_of_funnel(neck)
    assert int(chart.order[0]) == neck
    slopes = np.asarray(chart.log_scale_linear)[1:, neck] / np.asarray(chart.width)[neck]
    np.testing.assert_allclose(slopes, 0.5, atol=0.06)
    covariance, fourth = _normality(chart, _funnel(4000, 6, neck))
    np.testing.assert_allclose(covariance, np.eye(6), atol=0.25)
    assert np.all(fourth < 5.0)  # 3 of a normal; thousands of the funnel itself


def test_the_length_of_a_valley_comes_before_its_walls():
    chart = _chart_of_valley()
    place = np.argsort(np.asarray(chart.order))
    assert place[2] < min(place[1], place[3]) and place[1] < place[4] and place[3] < place[0]
    covariance, _ = _normality(chart, _valley(4000))
    np.testing.assert_allclose(covariance, np.eye(5), atol=0.3)


def test_a_normal_stays_affine():
    factor = RNG.normal(size=(8, 8))
    points = 3.0 + RNG.normal(size=(600, 8)) @ factor
    chart = fit_triangular(points, np.zeros(600))
    assert not np.any(chart.mean_products) and not np.any(chart.log_scale_linear)
    assert not np.any(chart.skew) and not np.any(chart.log_tail)
    covariance, _ = _normality(chart, 3.0 + RNG.normal(size=(4000, 8)) @ factor)
    np.testing.assert_allclose(covariance, np.eye(8), atol=0.35)


def test_one_heavy_point_far_off_bends_nothing():
    points = RNG.normal(size=(400, 3))
    points[7] = [2.5, -1.5, -9.0]
    log_weights = np.zeros(400)
    log_weights[7] = 2.0
    chart = fit_triangular(points, log_weights)
    assert not np.any(chart.mean_products) and not np.any(chart.log_scale_linear)


def test_weights_count():
    wide = 3.0 * RNG.normal(size=(4000, 2))
    log_weights = np.sum(-0.5 * ((wide - 1.0) / 0.7) ** 2 + 0.5 * (wide / 3.0) ** 2, axis=1)
    chart = fit_triangular(wide, log_weights)
    np.testing.assert_allclose(chart.centre, 1.0, atol=0.2)
    np.testing.assert_allclose(chart.width, 0.7, atol=0.12)
    flat = fit_triangular(wide, np.zeros(4000))
    assert np.all(np.asarray(flat.width) > 2.5)


def test_hopeless_weights_leave_a_wide_chart():
    """One point has all the weight: the chart is then of many, not of that one."""
    points = RNG.normal(size=(500, 3))
    log_weights = np.zeros(500)
    log_weights[0] = 1000.0
    assert np.all(np.asarray(fit_triangular(points, log_weights).width) > 0.3)


def test_a_coordinate_that_does_not_vary_is_no_accident():
    points = RNG.normal(size=(300, 2))
    points[:, 1] = 4.0
    chart = fit_triangular(points, np.zeros(300))
    assert np.all(np.isfinite(restrict_all(chart, jnp.asarray(points, jnp.float32))))


def test_points_without_weight_are_refused():
    with pytest.raises(SettingsError, match="1 of 3 points are finite and have weight"):
        fit_triangular(np.zeros((3, 2)), np.array([0.0, -np.inf, np.nan]))


def test_the_same_points_give_the_same_chart():
    points = RNG.normal(size=(5000, 2))
    one, other = (fit_triangular(points, np.zeros(5000)) for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True))


def test_a_chain_of_gains_is_put_in_order():
    gains = np.zeros((4, 4))
    gains[1, 3], gains[0, 1], gains[2, 0], gains[3, 0] = 9.0, 8.0, 7.0, 2.0  # 3 explains 1 explains 0 explains 2
    assert best_order(gains) == [3, 1, 0, 2]
    assert best_order(np.zeros((4, 4))) == [0, 1, 2, 3]


def test_a_bend_makes_a_skewed_coordinate_normal():
    z = RNG.normal(size=3000)
    shift, skew, log_tail, log_width = fit_bend(np.sinh(0.8 * np.arcsinh(z) + 0.5), np.ones(3000))
    assert abs(skew - 0.5) < 0.15 and abs(np.exp(log_tail) - 0.8) < 0.1
    assert abs(shift) < 0.2 and abs(log_width) < 0.2
    assert fit_bend(z, np.ones(3000)) == STRAIGHT


def test_products_are_those_of_coordinates_before():
    chart = _chart_of_valley()
    first, second = products_of(5)
    place = np.argsort(np.asarray(chart.order))
    row, column = np.nonzero(np.asarray(chart.mean_products))
    assert len(row) >= 4
    assert np.all(np.maximum(place[first[column]], place[second[column]]) < row)


def test_a_coordinate_that_does_not_vary_ends_in_no_error():
    points = np.random.default_rng(0).normal(size=(400, 3))
    points[:, 1] = 2.0
    chart = fit_triangular(points, np.zeros(400))
    assert all(np.all(np.isfinite(array)) for array in jax.tree.leaves(chart))


def _levels(num, dim):
    """Logarithms of positive levels, half of the one before beside an exponential: long tails to the left."""
    rng = np.random.default_rng(3)
    x = rng.exponential(size=(num, dim))
    for k in range(1, dim):
        x[:, k] += 0.5 * x[:, k - 1]
    return np.log(x)


def test_skewed_coordinates_are_bent_before_they_are_told_from_others():
    chart = fit_triangular(_levels(1500, 5), np.zeros(1500), is_bent=False)
    assert np.all(np.asarray(chart.own_skew) < -0.1)
    covariance, fourth = _normality(chart, _levels(4000, 5))
    np.testing.assert_allclose(covariance, np.eye(5), atol=0.25)
    assert np.all(fourth < 4.0)


def test_without_a_bend_of_their_own_skewed_coordinates_stay_skewed(monkeypatch):
    monkeypatch.setattr(fit, "fit_bend", lambda *_: STRAIGHT)
    chart = fit_triangular(_levels(1500, 5), np.zeros(1500), is_bent=False)
    assert np.max(_normality(chart, _levels(4000, 5))[1]) > 4.5


def test_neither_a_funnel_nor_a_valley_is_bent_as_a_whole():
    """What is skewed or heavy there is so given the others: bent beforehand it would have no closed form."""
    for chart in (_chart_of_funnel(0), _chart_of_valley()):
        assert not np.any(chart.own_skew)


def test_a_bent_chart_has_an_inverse_a_volume_and_a_kept_form():
    chart = fit_triangular(_levels(600, 3), np.zeros(600), is_bent=False)
    assert np.any(chart.own_skew) and np.any(chart.own_log_tail)
    y = jnp.asarray([0.7, -1.9, 0.4])

    @jax.jit
    def looked_at(chart):
        x = chart.embed(y)
        return x, chart.restrict(x), chart.log_volume(y), jax.jacfwd(chart.embed)(y)

    x, back, log_volume, jacobian = looked_at(chart)
    np.testing.assert_allclose(back, y, atol=1e-4)
    np.testing.assert_allclose(log_volume, np.linalg.slogdet(np.asarray(jacobian, np.float64))[1], atol=1e-4)
    np.testing.assert_array_equal(looked_at(Triangular.from_dict(chart.as_dict()))[0], x)
    older = {name: value for name, value in chart.as_dict().items() if not name.startswith("own_")}
    assert not np.any(Triangular.from_dict(older).own_skew)
