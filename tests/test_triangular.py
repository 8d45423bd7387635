"""Learned charts against brute force: they invert, their volume is their Jacobian's, and folders hold them exactly."""

import dataclasses
import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.exact_sampler import TARGET, moved_denoiser, sampler_of
from support.random_checks import assert_mean, must_fail
from tempering.errors import RunFolderError, SettingsError
from tempering.registry import chart_from
from tempering.sampler.load import load_sampler
from tempering.targets import Inner, Shaped
from tempering.transforms import Composed, Triangular, flat_chart, interval, positive, read_chart
from tempering.transforms.triangular import bounded, num_products, products_of

DIM = 4
KEY = jax.random.key(3)


def chart_of_numbers(dim: int = DIM, seed: int = 0) -> Triangular:
    """Every array away from zero, as far as the order allows."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(dim)
    first, second = products_of(dim)
    place = np.argsort(order)
    may_line = place[None, :] < np.arange(dim)[:, None]
    may_product = np.maximum(place[first], place[second])[None, :] < np.arange(dim)[:, None]
    draw = lambda *shape: rng.normal(size=shape)  # noqa: E731
    arrays = [
        *(draw(dim), np.exp(draw(dim)), draw(dim), 0.5 * draw(dim, dim) * may_line),
        *(0.3 * draw(dim, num_products(dim)) * may_product, 0.3 * draw(dim), 0.3 * draw(dim, dim) * may_line),
        *(0.3 * draw(dim), 0.3 * draw(dim), 0.2 * draw(dim), 0.3 * draw(dim), 0.2 * draw(dim)),
    ]
    return Triangular(jnp.asarray(order, jnp.int32), *(jnp.asarray(array, jnp.float32) for array in arrays))


def _points(num: int = 50, dim: int = DIM):
    return jax.random.normal(KEY, (num, dim))


def _check_inverts(chart, y):
    again = jax.jit(lambda y: jax.vmap(chart.restrict)(jax.vmap(chart.embed)(y)))
    np.testing.assert_allclose(again(y), y, atol=2e-3)


def _check_volume(chart, y):
    both = jax.jit(jax.vmap(lambda y: (jax.jacfwd(chart.embed)(y), chart.log_volume(y))))
    jacobians, log_volume = (np.asarray(array, np.float64) for array in both(y))
    np.testing.assert_allclose(log_volume, np.linalg.slogdet(jacobians)[1], atol=1e-3)


def test_the_chart_inverts_and_its_volume_is_its_jacobians():
    chart = chart_of_numbers()
    _check_inverts(chart, _points())
    _check_volume(chart, _points())
    assert bool(chart.contains(jnp.ones(DIM))) and not bool(chart.contains(jnp.array([1.0, jnp.inf, 0.0, 0.0])))


def test_a_chart_that_is_not_triangular_is_noticed():
    chart = chart_of_numbers()
    late = int(chart.order[-1])
    wrong = eqx.tree_at(lambda c: c.mean_linear, chart, chart.mean_linear.at[0, late].set(1.0))
    with pytest.raises(AssertionError):
        _check_inverts(wrong, _points())


def test_the_identity_changes_nothing():
    chart = Triangular.identity(DIM)
    x, log_volume = jax.jit(jax.vmap(lambda y: (chart.embed(y), chart.log_volume(y))))(_points())
    np.testing.assert_allclose(x, _points(), atol=1e-5)
    np.testing.assert_allclose(log_volume, 0.0, atol=1e-5)


def test_log_widths_are_bounded_and_straight_between():
    values = jnp.array([-1e4, -6.0, 0.0, 5.0, 1e4])
    np.testing.assert_allclose(bounded(values), [-12.0, -6.0, 0.0, 5.0, 12.0], atol=5e-3)


def test_many_dimensions_have_squares_alone():
    assert num_products(22) == 253 and num_products(40) == 40
    first, second = products_of(40)
    assert np.all(first == second)


def test_a_density_keeps_its_mass_in_the_chart():
    """E[exp(log p(x) + log volume - log N(y))] over normal y is the normaliser of p; without the volume it is not."""
    chart = chart_of_numbers(2, seed=1)
    y = jax.random.normal(KEY, (100_000, 2))
    x, volume = jax.jit(jax.vmap(lambda y: (chart.embed(y), chart.log_volume(y))))(y)
    # p is what the chart makes of a narrower normal, by brute force, so that weights are bounded.
    back, slopes = jax.jit(jax.vmap(lambda x: (chart.restrict(x), jax.jacrev(chart.restrict)(x))))(x)
    jacobian = np.linalg.slogdet(np.asarray(slopes, np.float64))[1]
    log_p = np.sum(-0.5 * (np.asarray(back) / 0.8) ** 2 - np.log(0.8), axis=1) + jacobian
    log_normal = np.sum(-0.5 * np.asarray(y) ** 2, axis=1)
    assert_mean(np.exp(log_p + np.asarray(volume) - log_normal), 1.0, key=KEY)
    must_fail(assert_mean, np.exp(log_p - log_normal), 1.0)


def test_folders_hold_a_chart_to_the_last_bit():
    chart = chart_of_numbers()
    stored = json.loads(json.dumps(chart.as_dict(), allow_nan=False))
    assert eqx.tree_equal(chart_from(stored, DIM), chart)
    del stored["skew"]
    with pytest.raises(RunFolderError, match="written by another version"):
        chart_from(stored, DIM)


def test_a_learned_chart_stands_before_one_of_supports():
    outer = flat_chart([positive, None, interval(0.0, 1.0), None], DIM)
    chart = Composed(outer, chart_of_numbers())
    y = 0.5 * _points()
    assert np.all(np.asarray(jax.jit(jax.vmap(chart.embed))(y))[:, [0, 2]] > 0)
    _check_volume(chart, y)
    stored = json.loads(json.dumps(chart.as_dict(), allow_nan=False))
    for own in (None, outer, chart):
        assert eqx.tree_equal(read_chart(stored, DIM, own), chart)


def test_another_support_of_the_target_is_no_matter_but_another_model_is():
    stored = Composed(flat_chart(positive, DIM), chart_of_numbers()).as_dict()
    stored["outer"] = {"name": "some model", "sites": []}
    with pytest.raises(SettingsError, match="whose coordinates the folder does not hold"):
        read_chart(stored, DIM, flat_chart(positive, DIM))


def test_a_shaped_target_is_the_target_in_learned_coordinates():
    target, learned = TARGET, chart_of_numbers(3)
    shaped, y = Shaped(target, learned), jnp.array([0.3, -1.0, 0.7])
    expected = target.log_density(learned.embed(y)) + learned.log_volume(y)
    np.testing.assert_allclose(shaped.log_density(y), expected, rtol=1e-6)
    assert shaped.chart is learned and shaped.geometry is None and shaped.reference is None


def test_a_shaped_target_leads_back_to_the_users_coordinates():
    outer = flat_chart(positive, 3)
    shaped = Shaped(Inner(3, TARGET, outer), chart_of_numbers(3))
    y = jnp.array([0.3, -1.0, 0.7])
    by_hand = TARGET.log_density(shaped.chart.embed(y)) + shaped.chart.log_volume(y)
    np.testing.assert_allclose(shaped.log_density(y), by_hand, rtol=1e-5)


def test_a_sampler_comes_back_with_its_learned_chart(tmp_path):
    learned = chart_of_numbers(3)
    fitted = dataclasses.replace(sampler_of(moved_denoiser()), target=Shaped(TARGET, learned), chart=learned)
    folder = fitted.save(tmp_path / "sampler")
    loaded = load_sampler(folder, TARGET)
    assert eqx.tree_equal(loaded.chart, learned)
    y = jnp.array([0.3, -1.0, 0.7])
    np.testing.assert_allclose(loaded.target.log_density(y), fitted.target.log_density(y), rtol=1e-6)
    np.testing.assert_array_equal(loaded.sample(20, seed=1), fitted.sample(20, seed=1))
    # A target that is shaped already, by another chart, is given the saved one.
    again = load_sampler(folder, Shaped(TARGET, Triangular.identity(3)))
    np.testing.assert_allclose(again.target.log_density(y), fitted.target.log_density(y), rtol=1e-6)
