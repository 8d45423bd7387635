"""The contract of targets, over the table of all of them, and the agreement of samples, density and facts."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.random_checks import assert_mean, must_fail
from support.tiny import quick_compilation
from tempering.targets import ExactTarget, Gaussian, GaussianMixture, ManyWell, anisotropic_gaussian

NUM_SAMPLES = 50_000
sampled = eqx.filter_jit(lambda target, key, num: target.sample(key, num))


@pytest.fixture(scope="module", autouse=True)
def compiled_quickly():
    with quick_compilation():
        yield


def test_shapes_and_dtypes(target, drawn):
    num_regions = target.region_weights().shape[0]
    assert isinstance(target, ExactTarget)
    assert drawn.points.shape == drawn.grads.shape == (NUM_SAMPLES, target.dim) and drawn.points.dtype == np.float32
    assert drawn.log_densities.shape == (NUM_SAMPLES,) and drawn.log_densities.dtype == np.float32
    assert drawn.indicators.shape == (NUM_SAMPLES, num_regions) and drawn.indicators.dtype == np.float32
    assert isinstance(target.log_z(), float) and isinstance(target.second_moment(), float)
    assert target.mean().shape == (target.dim,)


def test_every_array_is_a_leaf_and_nothing_else_is(target):
    _, rest = eqx.partition(target, eqx.is_inexact_array)
    assert jax.tree.leaves(rest) == []


def test_targets_of_one_structure_share_one_trace():
    num_traces = 0

    @eqx.filter_jit
    def density(target, x):
        nonlocal num_traces
        num_traces += 1
        return target.log_density(x)

    pairs = [(anisotropic_gaussian(3, 0), anisotropic_gaussian(3, 1)), (ManyWell(4), ManyWell(4))]
    pairs.append((GaussianMixture([[0.0], [1.0]], 1.0), GaussianMixture([[3.0], [5.0]], 2.0, [1.0, 2.0])))
    for first, second in pairs:
        density(first, jnp.ones(first.dim))
        density(second, jnp.ones(second.dim))
    assert num_traces == len(pairs)


def test_samples_depend_on_the_key_alone(target):
    first, same, other = (np.asarray(sampled(target, jax.random.key(seed), 5)) for seed in (1, 1, 2))
    assert np.array_equal(first, same) and not np.any(first == other)


def test_one_point_is_judged_as_in_a_batch(target, drawn):
    density = eqx.filter_jit(lambda target, x: target.log_density(x))
    alone = [density(target, x) for x in drawn.points[:3]]
    np.testing.assert_allclose(alone, drawn.log_densities[:3], rtol=1e-5, atol=1e-5)


def test_far_away_the_gradient_is_finite_and_points_home(target, judge):
    distances = np.array([1e3, -1e3, 1e6, -1e6, 1e9, -1e9], np.float32)
    far = judge(target, np.tile(distances[:, None], target.dim))
    assert np.all(far.log_densities < -np.abs(distances)) and np.all(np.isfinite(far.grads))
    assert np.all(np.sum(far.grads * np.sign(distances)[:, None], axis=1) < 0)


def test_where_float32_overflows_nothing_is_nan(target, judge):
    far = judge(target, np.tile(np.array([1e15, -1e19, 1e25, -1e30], np.float32)[:, None], target.dim))
    assert np.all(far.log_densities < -1e25) and not np.any(np.isnan(far.grads))
    assert np.all((far.indicators >= 0) & (far.indicators <= 1))


def test_gradient_is_the_slope_of_the_density(target, drawn, judge):
    x = drawn.points[0]
    direction, step = np.cos(np.arange(target.dim)).astype(np.float32), np.float32(1e-2)
    upper, lower = judge(target, np.stack([x + step * direction, x - step * direction])).log_densities
    slope = (upper - lower) / (2 * step)
    # The third derivative is below 150 a well, so the difference is off by 150 step^2 / 6 a well; rounding adds 5e-3.
    assert abs(slope - drawn.grads[0] @ direction) < 1e-2 + 2.5e-3 * target.dim


def test_indicators_are_between_zero_and_one(target, drawn):
    assert np.all((drawn.indicators >= 0) & (drawn.indicators <= 1 + 1e-6))
    if target.regions_partition:
        np.testing.assert_allclose(drawn.indicators.sum(axis=1), 1.0, rtol=1e-5)
        np.testing.assert_allclose(np.asarray(target.region_weights()).sum(), 1.0, rtol=1e-5)


def test_samples_have_the_facts(target, drawn):
    squares = np.sum(drawn.points.astype(np.float64) ** 2, axis=1)
    assert_mean(drawn.points, target.mean(), name="mean", key=11)
    assert_mean(squares, target.second_moment(), name="E|x|^2", key=11)
    assert_mean(drawn.indicators, target.region_weights(), name="region weights", key=11)


def test_samples_belong_to_the_density(target, drawn):
    assert_mean(drawn.grads, 0.0, name="mean score", key=11)
    assert_mean(drawn.virials(), -target.dim, name="virial", key=11)


SABOTEURS = {
    "gaussian sampled with the transposed factor": lambda: eqx.tree_at(
        lambda t: t.cholesky, anisotropic_gaussian(5, 1), anisotropic_gaussian(5, 1).cholesky.T
    ),
    "gaussian 3 % too wide": lambda: eqx.tree_at(
        lambda t: t.cholesky, Gaussian([1.0], [[2.0]]), 1.03 * Gaussian([1.0], [[2.0]]).cholesky
    ),
    "many-well mirrored": lambda: eqx.tree_at(
        lambda t: (t.table_u, t.table_cdf), ManyWell(6), (-ManyWell(6).table_u[::-1], 1 - ManyWell(6).table_cdf[::-1])
    ),
    "many-well 1 % too wide": lambda: eqx.tree_at(lambda t: t.table_u, ManyWell(6), 1.01 * ManyWell(6).table_u),
    "many-well drawn uniformly": lambda: eqx.tree_at(
        lambda t: t.table_cdf, ManyWell(2), jnp.linspace(0, 1, ManyWell(2).table_cdf.size)
    ),
}


@pytest.mark.parametrize("make", SABOTEURS.values(), ids=SABOTEURS.keys())
def test_a_sampler_of_another_density_is_caught(make, judge):
    broken = make()
    virials = judge(broken, broken.sample(jax.random.key(11), NUM_SAMPLES)).virials()
    must_fail(assert_mean, virials, -broken.dim)


def test_wrong_facts_are_caught(judge):
    honest = GaussianMixture([[1.0, 2.0], [-3.0, 0.5]], [0.5, 1.0], [0.2, 0.8])
    wrong = eqx.tree_at(lambda t: t.weights, honest, jnp.full(2, 0.5))
    drawn = judge(honest, honest.sample(jax.random.key(11), NUM_SAMPLES))
    must_fail(assert_mean, drawn.points, wrong.mean())
    must_fail(assert_mean, np.sum(drawn.points**2, axis=1), wrong.second_moment())
    must_fail(assert_mean, drawn.indicators, wrong.region_weights())
