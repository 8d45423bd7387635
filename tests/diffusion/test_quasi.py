"""Quasi-random normals: each one standard normal, together more even than chance, and without bias over keys."""

import sys
import threading

import jax
import numpy as np
import pytest
import scipy
from scipy import stats

from support.random_checks import assert_mean, assert_same_distribution_ks, must_fail
from tempering.diffusion import DiffusionModel
from tempering.diffusion.quasi import begin_loading, quasi_normal
from tempering.settings import Sampling

NUM_KEYS, NUM, DIM = 300, 50, 3  # 50 is no power of two
DIRECTION = np.array([1.0, -0.7, 0.4])


@pytest.fixture(scope="module")
def sets():
    """Axes (key, point, coordinate)."""
    keys = jax.random.split(jax.random.key(0), NUM_KEYS)
    return np.stack([np.asarray(quasi_normal(key, NUM, DIM), np.float64) for key in keys])


def test_every_point_is_standard_normal(sets):
    """One place of the sequence over independent keys: its coordinates, a direction, and the radius."""

    def check(points):
        for axis in range(DIM):
            assert_same_distribution_ks(points[:, axis], stats.norm.cdf, key=jax.random.key(0))
        slant = points @ DIRECTION / np.linalg.norm(DIRECTION)
        assert_same_distribution_ks(slant, stats.norm.cdf, key=jax.random.key(0))
        assert_same_distribution_ks(np.sum(points**2, axis=1), stats.chi2(DIM).cdf, key=jax.random.key(0))

    for place in (0, 3, NUM - 1):
        check(sets[:, place])
    unscrambled = stats.norm.ppf(np.clip(stats.qmc.Sobol(DIM, scramble=False).random_base2(6)[3], 1e-9, 1 - 1e-9))
    must_fail(check, np.tile(unscrambled, (NUM_KEYS, 1)))
    must_fail(check, 1.4 * sets[:, 0])


def means_of(points) -> np.ndarray:
    """Of a smooth and of a discontinuous function, one for each key."""
    along = points @ DIRECTION
    return np.stack([np.cos(along + 0.3).mean(axis=1), (along > 0.5).mean(axis=1)], axis=1)


def test_means_are_unbiased_and_vary_less(sets):
    square = np.sum(DIRECTION**2)
    exact = np.array([np.cos(0.3) * np.exp(-square / 2), stats.norm.sf(0.5 / np.sqrt(square))])
    assert_mean(means_of(sets), exact, key=jax.random.key(0))
    must_fail(assert_mean, means_of(sets + 0.1), exact)

    independent = np.asarray(jax.random.normal(jax.random.key(1), sets.shape), np.float64)
    of_chance = np.var(means_of(independent), axis=0)

    def check_variance(points):
        assert np.all(np.var(means_of(points), axis=0) < [0.2, 0.6] * of_chance)

    check_variance(sets)
    must_fail(check_variance, np.asarray(jax.random.normal(jax.random.key(2), sets.shape), np.float64))


def test_a_key_is_a_set(sets):
    assert np.array_equal(sets[0], quasi_normal(jax.random.split(jax.random.key(0), NUM_KEYS)[0], NUM, DIM))
    assert np.max(np.abs(sets[0] - sets[1])) > 0.1
    assert quasi_normal(jax.random.key(0), 1, 2).shape == (1, 2)


def test_the_flow_carries_them_to_even_samples(diagonal):
    """The same law and densities as independent starts, whatever the chunks, and means with less noise."""
    model = DiffusionModel(diagonal.denoise, diagonal.prior, diagonal.levels)
    key, num = jax.random.key(3), 64

    def drawn(**kwargs):
        sampling = Sampling(num_steps=60, chunk_size=kwargs.pop("chunk_size", num))
        return model.draw(key, num, sampling, with_density=True, **kwargs)

    x, log_q = drawn(is_quasi_random=True)
    np.testing.assert_allclose(log_q, diagonal.log_prob(x), atol=2e-2)
    for ours, theirs in zip(drawn(is_quasi_random=True, chunk_size=24), (x, log_q), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)
    error = np.sqrt(np.diag(diagonal.covariance) / num)

    def check(x):
        assert np.all(np.abs(np.mean(np.asarray(x, np.float64), axis=0) - diagonal.mean) < 0.25 * error)

    check(x)
    keys = jax.random.split(jax.random.key(4), 4)
    others = [model.draw(k, num, Sampling(num_steps=60, chunk_size=num), with_density=True)[0] for k in keys]
    must_fail(
        lambda: [check(x) for x in others]
    )  # independent: four are within a quarter of a sigma by a chance of 1e-6


def test_every_tenth_point_is_like_the_others():
    """Held-out samples are every tenth of a buffer; in Sobol's own order they would all lie in one half of space."""
    num, dim = 4000, 2

    def check(points):
        held_out = points[::10]
        assert_same_distribution_ks(held_out[:, 0], stats.norm.cdf, key=jax.random.key(0))
        assert_same_distribution_ks(held_out[:, 1], stats.norm.cdf, key=jax.random.key(0))

    check(np.asarray(quasi_normal(jax.random.key(4), num, dim), np.float64))
    ordered = stats.qmc.Sobol(dim, scramble=True, rng=np.random.default_rng(4)).random_base2(12)[:num]
    must_fail(check, stats.norm.ppf(np.clip(ordered, 1e-9, 1 - 1e-9)))


# What SciPy takes to load is loaded beside training.


@pytest.fixture
def threads(monkeypatch):
    """Every thread that is started; SciPy's module is not loaded, and neither has its loading begun."""
    started, start = [], threading.Thread.start

    def noted(self):
        started.append(self)
        start(self)

    monkeypatch.setattr(threading.Thread, "start", noted)
    monkeypatch.delitem(sys.modules, "scipy.stats")
    monkeypatch.delattr(scipy, "stats")
    begin_loading.cache_clear()
    yield started
    begin_loading.cache_clear()


def test_loading_begins_once_and_beside(threads, monkeypatch):
    begin_loading()
    begin_loading()
    (thread,) = threads
    assert thread.daemon, "a process that ends does not wait for it"
    thread.join(60)
    assert sys.modules["scipy.stats"] is not stats, "it was loaded anew"
    expected = np.asarray(quasi_normal(jax.random.key(0), 5, 2))
    begin_loading.cache_clear()
    begin_loading()  # when everything is loaded
    threads[-1].join(60)
    monkeypatch.undo()
    np.testing.assert_array_equal(quasi_normal(jax.random.key(0), 5, 2), expected)


def test_what_cannot_be_loaded_is_told_where_it_is_needed(threads, monkeypatch):
    told = []
    monkeypatch.setattr(threading, "excepthook", told.append)
    monkeypatch.setitem(sys.modules, "scipy.stats", None)  # as of a package that cannot be imported
    begin_loading()
    threads[0].join(60)
    assert not told, "nobody waits for what this thread finds"
    with pytest.raises(ImportError, match="scipy.stats"):
        quasi_normal(jax.random.key(0), 5, 2)
