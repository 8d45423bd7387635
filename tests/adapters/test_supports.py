"""Supports and their charts, against brute force: Jacobians, round trips, integrals, the ends of single precision."""

import itertools
import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special, stats

import tempering as tp
from support.random_checks import assert_mean, assert_std, must_fail
from support.unchecked import unchecked
from tempering.adapters import FunctionTarget
from tempering.errors import RunFolderError, SettingsError
from tempering.targets import Gaussian, Referenced, in_inner_coordinates
from tempering.transforms import Block, Constrained, chart_of, flat_chart, read_chart
from tempering.transforms.centred import Centred

SUPPORTS = {
    "real": tp.real,
    "positive": tp.positive,
    "above": tp.above(-2.5),
    "below": tp.below(3.0),
    "interval": tp.interval(-1.0, 4.0),
    "simplex": tp.simplex,
    "ordered": tp.ordered,
}
EACH = pytest.mark.parametrize("support", SUPPORTS.values(), ids=SUPPORTS.keys())
SIZE = 4


def inner_point(support, seed: int = 0):
    return np.random.default_rng(seed).normal(0.3, 1.2, support.num_inner(SIZE)).astype(np.float32)


def log_determinant(function, y) -> float:
    return float(np.linalg.slogdet(np.asarray(jax.jit(jax.jacfwd(function))(y), np.float64))[1])


def check_volume(support, log_volume) -> None:
    """log |det| of the first entries, by brute force: all of them, but for the one that a simplex has too many."""
    num = support.num_inner(SIZE)
    for seed in range(5):
        y = inner_point(support, seed)
        np.testing.assert_allclose(log_volume(y), log_determinant(lambda y: support.embed(y)[:num], y), atol=2e-4)


@EACH
def test_the_volume_is_that_of_the_jacobian(support):
    check_volume(support, jax.jit(support.log_volume))
    if support != tp.real:
        must_fail(check_volume, support, lambda y: 0.0)


@EACH
def test_there_and_back(support):
    points = np.stack([inner_point(support, seed) for seed in range(50)])
    x = jax.jit(jax.vmap(support.embed))(points)
    assert x.shape == (50, SIZE) and np.all(jax.jit(jax.vmap(support.contains))(x))
    np.testing.assert_allclose(jax.jit(jax.vmap(support.restrict))(x), points, atol=2e-4)


def log_gamma(x):
    return stats.gamma(2.5, scale=0.7).logpdf(x)


def log_normal_pair(x):
    """Two different normals, given that the first is the smaller."""
    parts = stats.norm(0.5, 1.0).logpdf(x[..., 0]) + stats.norm(1.5, 0.6).logpdf(x[..., 1])
    return parts - stats.norm.logcdf(1.0 / math.hypot(1.0, 0.6))


def log_dirichlet(x):
    alpha = np.array([2.0, 3.5, 1.5])
    normaliser = special.gammaln(alpha.sum()) - special.gammaln(alpha).sum()
    return normaliser + np.sum((alpha - 1) * np.log(x), axis=-1)


INTEGRALS = {
    "positive": (tp.positive, 1, log_gamma),
    "above": (tp.above(2.0), 1, lambda x: log_gamma(x - 2.0)),
    "below": (tp.below(-1.0), 1, lambda x: log_gamma(-1.0 - x)),
    "interval": (tp.interval(-1.0, 4.0), 1, lambda x: stats.beta(2.0, 3.5, loc=-1.0, scale=5.0).logpdf(x)),
    "ordered": (tp.ordered, 2, log_normal_pair),
    "simplex": (tp.simplex, 3, log_dirichlet),
}


def check_integral(support, size: int, log_density, has_volume: bool) -> None:
    grid = np.linspace(-14.0, 9.0, 300 if size > 1 else 5000, dtype=np.float32)
    num = support.num_inner(size)
    axes = np.stack(np.meshgrid(*[grid] * num, indexing="ij"), axis=-1).reshape(-1, num)
    x = np.asarray(jax.jit(jax.vmap(support.embed))(axes), np.float64)
    volume = np.asarray(jax.jit(jax.vmap(support.log_volume))(axes), np.float64) if has_volume else 0.0
    with np.errstate(divide="ignore", invalid="ignore"):  # points that round to the boundary have density 0
        value = np.exp(log_density(x if size > 1 else x[:, 0]) + volume).reshape([grid.size] * num)
    for _ in range(num):
        value = integrate.trapezoid(np.nan_to_num(value), grid, axis=0)
    assert float(value) == pytest.approx(1.0, abs=2e-3)


@pytest.mark.parametrize(("support", "size", "log_density"), INTEGRALS.values(), ids=INTEGRALS.keys())
def test_a_density_still_integrates_to_one(support, size, log_density):
    check_integral(support, size, log_density, True)
    must_fail(check_integral, support, size, log_density, False)


def test_volumes_are_exact_far_out_where_points_round_to_the_boundary():
    far = jnp.asarray([-60.0, 60.0])
    np.testing.assert_allclose(
        jax.vmap(lambda y: tp.interval(0.0, 5.0).log_volume(y[None]))(far), np.log(5.0) - 60.0, rtol=1e-6
    )
    assert float(tp.interval(0.0, 5.0).embed(far)[1]) == 5.0
    np.testing.assert_allclose(tp.positive.log_volume(far), 0.0, atol=1e-5)
    one = jnp.asarray([-40.0, 50.0])
    exact = sum(-np.logaddexp(0, z) - np.logaddexp(0, -z) for z in (-40.0 - np.log(2.0), 50.0))
    np.testing.assert_allclose(tp.simplex.log_volume(one), exact, rtol=1e-6)
    assert np.all(np.isfinite(jax.grad(tp.simplex.log_volume)(one)))


def test_an_interval_keeps_its_precision_at_either_end():
    y = jnp.asarray([-30.0, 30.0])
    np.testing.assert_allclose(tp.interval(0.0, 2.0).embed(y)[0], 2.0 * np.exp(-30.0), rtol=1e-5)
    np.testing.assert_allclose(tp.interval(-2.0, 0.0).embed(y)[1], -2.0 * np.exp(-30.0), rtol=1e-5)
    np.testing.assert_allclose(tp.interval(-2.0, 0.0).restrict(tp.interval(-2.0, 0.0).embed(y))[1], 30.0, rtol=1e-4)


def test_the_origin_is_the_middle():
    np.testing.assert_allclose(tp.simplex.embed(jnp.zeros(6)), np.full(7, 1 / 7), rtol=1e-5)
    np.testing.assert_allclose(tp.interval(-1.0, 4.0).embed(jnp.zeros(1)), 1.5)
    np.testing.assert_allclose(tp.ordered.embed(jnp.zeros(3)), [0.0, 1.0, 2.0])


@pytest.mark.parametrize(
    ("support", "x"),
    [
        (tp.real, [0.0, np.nan]),
        (tp.positive, [1.0, 0.0]),
        (tp.positive, [1.0, np.inf]),
        (tp.above(2.0), [3.0, 2.0]),
        (tp.below(2.0), [1.0, 2.0]),
        (tp.interval(0.0, 1.0), [0.5, 1.0]),
        (tp.interval(0.0, 1.0), [0.5, np.nan]),
        (tp.simplex, [0.5, 0.6]),
        (tp.simplex, [1.0, 0.0]),
        (tp.simplex, [1.5, -0.5]),
        (tp.ordered, [1.0, 1.0]),
        (tp.ordered, [1.0, 0.0]),
        (tp.ordered, [0.0, np.inf]),
    ],
)
def test_the_boundary_and_what_lies_beyond_are_outside(support, x):
    assert not bool(support.contains(jnp.asarray(x, jnp.float32)))


# Charts.


def test_a_chart_of_several_blocks():
    blocks = (Block(tp.positive, 1, 2), Block(tp.simplex, 2, 3), Block(tp.real, 1, 1))
    chart = Constrained(blocks)
    assert (chart.dim, chart.full_dim) == (7, 9)
    y = jnp.asarray(np.random.default_rng(1).normal(size=7), jnp.float32)
    x, simplex = np.array(jax.jit(chart.embed)(y)), jax.jit(tp.simplex.embed)
    parts = [np.exp(y[:2]), simplex(y[2:4]), simplex(y[4:6]), y[6:]]
    np.testing.assert_allclose(x, np.concatenate(parts), rtol=1e-6)
    np.testing.assert_allclose(jax.jit(chart.restrict)(x), y, atol=1e-4)
    kept = np.array([0, 1, 2, 3, 5, 6, 8])
    expected = log_determinant(lambda y: chart.embed(y)[kept], y)
    np.testing.assert_allclose(jax.jit(chart.log_volume)(y), expected, atol=1e-4)
    beyond = x.copy()
    beyond[7] += 0.5
    contains = jax.jit(chart.contains)
    assert bool(contains(x)) and not bool(contains(beyond))
    assert "positive for 2 coordinates" in str(chart)


def test_a_target_in_a_charts_coordinates_has_the_jacobian():
    target = Gaussian(np.array([1.0, 2.0]), np.array([[1.0, 0.3], [0.3, 2.0]]))
    chart = flat_chart([None, tp.positive], 2)
    inner = in_inner_coordinates(target, chart)
    y = jnp.asarray([0.4, -0.7])
    np.testing.assert_allclose(
        inner.log_density(y), target.log_density(jnp.asarray([0.4, np.exp(-0.7)])) - 0.7, rtol=1e-5
    )
    assert inner.geometry is None and in_inner_coordinates(inner) is inner
    geometry = Centred(3, 2)
    assert float(geometry.log_volume(jnp.ones(4))) == 0.0 and bool(geometry.contains(jnp.ones(6)))
    basis = np.asarray(jax.jacfwd(geometry.embed)(jnp.ones(4)))
    np.testing.assert_allclose(np.linalg.slogdet(basis.T @ basis)[1], 0.0, atol=1e-5)


def test_a_reference_in_the_users_coordinates_stays_normalised():
    chart, reference = flat_chart(tp.positive, 1), LogNormal()
    inner = in_inner_coordinates(Referenced(1, FunctionTarget(1, lambda x: -jnp.sum(x)), reference), chart)
    y = np.linspace(-2.0, 3.0, 7, dtype=np.float32)[:, None]
    expected = stats.norm(0.5, 0.7).logpdf(y[:, 0])
    np.testing.assert_allclose(jax.vmap(inner.reference.log_density)(y), expected, rtol=1e-4)
    draws = inner.reference.sample(jax.random.key(4), 2000)
    assert_mean(draws, 0.5, key=4)
    assert_std(draws, 0.7, key=4)
    must_fail(assert_mean, reference.sample(jax.random.key(4), 2000), 0.5)
    assert in_inner_coordinates(FunctionTarget(1, jnp.sum), chart).reference is None


class LogNormal:
    """exp of a normal, as a user would write it."""

    def log_density(self, x):
        z = (jnp.log(x[0]) - 0.5) / 0.7
        return -0.5 * z**2 - jnp.log(x[0]) - np.log(0.7) - 0.5 * np.log(2 * np.pi)

    def sample(self, key, num):
        return jnp.exp(0.5 + 0.7 * jax.random.normal(key, (num, 1)))


def test_neighbours_with_one_support_are_one_block_and_all_real_is_no_chart():
    assert flat_chart(None, 3) is None and flat_chart([None, tp.real, None], 3) is None
    assert flat_chart([tp.positive, tp.positive, None], 3).blocks == (Block(tp.positive, 1, 2), Block(tp.real, 1, 1))
    assert len(chart_of([Block(tp.simplex, 1, 3)] * 2).blocks) == 2, "two simplices are not one"
    assert flat_chart(tp.simplex, 3).blocks == (Block(tp.simplex, 1, 3),)


def test_charts_are_told_apart_and_read_back_from_json():
    charts = [flat_chart(support, 3) for support in SUPPORTS.values() if support != tp.real]
    charts += [flat_chart(tp.interval(0.0, high), 3) for high in (1.0, 1.5)]
    assert tp.positive == tp.above(0) and hash(tp.positive) == hash(tp.above(0.0))
    for first, second in itertools.combinations(charts, 2):
        assert first != second and first.as_dict() != second.as_dict()
    for chart in charts:
        assert read_chart(json.loads(json.dumps(chart.as_dict())), 3) == chart
    assert read_chart(None, 3) is None


@pytest.mark.parametrize(
    "change",
    [
        {"support": {"name": "os.system", "low": "ls"}},
        {"support": {"name": "interval", "low": 0.0}},
        {"support": {"name": "interval", "low": 1.0, "high": 0.0}},
        {"support": None},
        {"size": "2"},
    ],
)
def test_a_file_in_other_words_is_refused(change):
    block = {"support": {"name": "simplex"}, "num": 1, "size": 3, **change}
    with unchecked(), pytest.raises(RunFolderError, match="support|another version"):
        read_chart({"name": "supports", "blocks": [block]}, 3)


def test_a_chart_that_only_the_model_has_must_come_with_it():
    with pytest.raises(SettingsError, match=r"tp.load\(folder, tp.from_numpyro"):
        read_chart({"name": "numpyro"}, 3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tp.interval(1.0, 1.0), r"interval\(1.0, 1.0\) is not allowed"),
        (lambda: tp.interval(-3e38, 3e38), "hold their difference"),
        (lambda: tp.interval(2.0, 1.0), "low must be less than high"),
        (lambda: tp.interval(1e9, 1e9 + 1), "single precision"),
        (lambda: tp.interval(0.0, np.inf), "high = inf is not allowed"),
        (lambda: tp.above(np.nan), "low = nan is not allowed"),
        (lambda: tp.below("3"), "high = '3' is not allowed"),
        (lambda: tp.below(True), "high = True is not allowed"),
        (lambda: tp.above(1e300), "is not allowed"),
        (lambda: flat_chart("positive", 2), "support is a string; give one such as tp.positive"),
        (lambda: flat_chart({"x": tp.positive}, 2), "names need like="),
        (lambda: flat_chart([tp.positive], 2), "1 entries for 2 coordinates"),
        (lambda: flat_chart([tp.positive, "real"], 2), r"support\[1\] is a string"),
        (lambda: flat_chart([tp.simplex, None], 2), r"support\[0\] = simplex is of a vector"),
        (lambda: flat_chart(tp.simplex, 1), "at least 2 entries"),
        (lambda: flat_chart(tp.interval, 1), "support is a function"),
    ],
)
def test_bad_supports_are_refused(make, message):
    with unchecked(), pytest.raises(SettingsError, match=message):
        make()
