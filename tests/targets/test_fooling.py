"""Targets made to fool: their exact facts are right, for a benchmark of honesty rests on them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fooling_targets import FOOLING, Banana, Funnel, Ring, StudentMixture

from support.random_checks import assert_mean, must_fail
from support.tiny import quick_compilation
from tempering.targets import ExactTarget

NUM = 50_000
NEW = {name: FOOLING[name] for name in ("funnel-5", "banana", "student-mixture", "ring")}
REACH = {"banana": (-9.0, 11.0, -5.0, 35.0), "ring": (-11.0, 15.0, -14.0, 12.0)}


@pytest.fixture(scope="module", autouse=True)
def compiled_quickly():
    with quick_compilation():
        yield


@eqx.filter_jit
def _judged(target, points):
    values, grads = jax.vmap(jax.value_and_grad(target.log_density))(points)
    return values, grads, jax.vmap(target.region_indicators)(points)


@pytest.fixture(scope="module", params=NEW, ids=list(NEW))
def judged(request):
    """A target, exact samples of it, and what it says of them."""
    target = NEW[request.param]()
    points = eqx.filter_jit(lambda target, key: target.sample(key, NUM))(target, jax.random.key(11))
    return target, np.asarray(points), *(np.asarray(value) for value in _judged(target, points))


def test_every_one_is_an_exact_target():
    for make in FOOLING.values():
        target = make()
        assert isinstance(target, ExactTarget)
        assert np.isfinite(target.log_z()) and np.all(np.asarray(target.region_weights()) > 0)


def test_samples_have_the_facts(judged):
    target, points, _, _, indicators = judged
    assert_mean(indicators, target.region_weights(), name="region weights", key=11)
    if not isinstance(target, Funnel | StudentMixture):  # whose second moments have no variance to speak of
        assert_mean(points, target.mean(), name="mean", key=11)
        assert_mean(np.sum(points**2, axis=1), target.second_moment(), name="E|x|^2", key=11)


def check_virial(target, points, grads) -> None:
    """x . grad log p has mean -dim under the density, by integration by parts: samples and density belong together."""
    assert_mean(np.sum(points.astype(np.float64) * grads, axis=1), -target.dim, name="virial", key=11)


def test_samples_belong_to_the_density(judged):
    target, points, _, grads, _ = judged
    check_virial(target, points, grads)
    must_fail(check_virial, target, points, 2.0 * grads)


@pytest.mark.parametrize("name", REACH)
def test_log_z_by_quadrature(name):
    target = NEW[name]()
    left, right, low, high = REACH[name]
    x, y = np.linspace(left, right, 600), np.linspace(low, high, 600)
    grid = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1).reshape(-1, 2)
    mass = np.exp(np.asarray(_judged(target, jnp.asarray(grid))[0], np.float64)) * (x[1] - x[0]) * (y[1] - y[0])
    assert abs(np.log(mass.sum()) - target.log_z()) < 1e-3
    assert np.sum(mass[:, None] * grid, axis=0) / mass.sum() == pytest.approx(np.asarray(target.mean()), abs=2e-3)


def test_the_funnel_and_the_students_are_normalised():
    """log p - log q for an exact conditional factorisation of the funnel, and the Student's density from SciPy."""
    from scipy.stats import multivariate_t, norm

    funnel = Funnel(3)
    x = np.asarray(funnel.sample(jax.random.key(2), 20), np.float64)
    exact = norm.logpdf(x[:, 0], 0.5, 3.0) + norm.logpdf(x[:, 1:], 0.0, np.exp(0.5 * x[:, :1])).sum(axis=1)
    np.testing.assert_allclose(jax.jit(jax.vmap(funnel.log_density))(jnp.asarray(x)), exact + 0.7, rtol=1e-4, atol=1e-4)
    means, scales, weights = [[-3.0, 2.0], [5.0, -1.0]], [1.0, 0.7], [0.6, 0.4]
    target = StudentMixture(means, scales, weights)
    x = np.asarray(target.sample(jax.random.key(2), 20), np.float64)
    parts = [
        w * multivariate_t.pdf(x, m, s**2 * np.eye(2), df=3) for m, s, w in zip(means, scales, weights, strict=True)
    ]
    np.testing.assert_allclose(
        jax.jit(jax.vmap(target.log_density))(jnp.asarray(x)), np.log(sum(parts)), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("target", [Funnel(4), Banana(), Ring(), NEW["student-mixture"]()], ids=list(NEW))
def test_far_away_nothing_is_nan(target):
    judged = jax.jit(jax.value_and_grad(target.log_density))
    for far in (1e3, -1e3, 1e15, -1e15):
        value, grad = judged(np.full(target.dim, far, np.float32))
        assert not np.isnan(value) or isinstance(target, Funnel), far
        assert isinstance(target, Funnel | Banana) or np.all(np.isfinite(grad))
