"""Pareto's k against ArviZ and known tails, and errors of log Z that cover the truth where the plain ones do not."""

import warnings

import numpy as np
import pytest

from support.random_checks import assert_mean, must_fail
from tempering.weights.pareto import log_z_with_tail, pareto_k


def log_normal(rng, std: float, size) -> np.ndarray:
    """Log weights of mean weight 1 whose logarithms are normal, as those of a model that errs in many dimensions."""
    return std * rng.normal(size=size) - std**2 / 2


def pareto(rng, k: float, size) -> np.ndarray:
    """Log weights of mean weight 1 whose upper tail is exactly w^(-1/k)."""
    return -k * np.log(rng.uniform(size=size)) + np.log1p(-k)


SETS = {
    "narrow": lambda rng, n: log_normal(rng, 0.1, n) + 50.0,
    "log-normal": lambda rng, n: log_normal(rng, 1.5, n),
    "wide": lambda rng, n: log_normal(rng, 10.0, n) - 1e5,
    "pareto": lambda rng, n: pareto(rng, 0.8, n),
    "bounded": lambda rng, n: np.log(rng.uniform(0.5, 2.0, n)),
    "student": lambda rng, n: rng.standard_t(3, n),
    "a third outside": lambda rng, n: np.where(rng.uniform(size=n) < 1 / 3, -np.inf, rng.normal(size=n)),
}


@pytest.mark.parametrize("num", [30, 400, 3000])
@pytest.mark.parametrize("name", SETS)
def test_k_is_that_of_arviz(name, num):
    arviz = pytest.importorskip("arviz")
    log_weights = SETS[name](np.random.default_rng(num), num)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = float(arviz.psislw(log_weights.copy())[1])
    assert pareto_k(log_weights) == pytest.approx(expected, abs=1e-6)
    assert pareto_k(log_weights[::-1] + 7.0) == pytest.approx(expected, abs=1e-6)


def check_k(log_weights, k) -> None:
    """Mean k over the sets; ten imagined observations at 1/2 among the tail's own are taken out."""
    found = np.array([pareto_k(row) for row in log_weights])
    num_tail = int(np.ceil(3 * np.sqrt(log_weights.shape[1])))
    assert_mean((found * (num_tail + 10) - 5) / num_tail, k, name=f"k of {k}")


@pytest.mark.parametrize("k", [0.3, 0.7, 1.2])
def test_k_of_known_tails(k):
    log_weights = -k * np.log(np.random.default_rng(5).uniform(size=(60, 3000)))
    check_k(log_weights, k)
    must_fail(check_k, log_weights, k + 0.15)
    must_fail(check_k, 0.6 * log_weights, k)


def test_k_of_hardly_any_weights():
    none = np.full(100, -np.inf)
    assert pareto_k(np.zeros(100)) == -np.inf
    assert pareto_k(np.concatenate([np.zeros(50), none])) == -np.inf
    assert np.isnan(pareto_k(none))
    assert np.isnan(pareto_k(np.concatenate([np.arange(4.0), none])))
    assert np.isnan(pareto_k(np.arange(20.0))) and np.isfinite(pareto_k(np.arange(21.0)))
    assert np.isnan(pareto_k(np.concatenate([np.arange(50.0), [np.nan]])))
    assert np.isnan(pareto_k(np.concatenate([np.arange(50.0), [np.inf]])))
    with np.errstate(all="raise"):
        assert pareto_k(np.linspace(-1e5, 0.0, 1000, dtype=np.float32)) > 10.0


def plain_error(log_weights) -> float:
    weights = np.exp(log_weights - np.max(log_weights))
    return float(np.std(weights) / np.mean(weights) / np.sqrt(len(weights)))


def check_coverage(log_z, errors) -> None:
    """Of estimates of 0, at least 95 in a hundred lie within three standard errors: 99 do, of the plain ones 80."""
    share = np.mean(np.abs(log_z) < 3 * errors)
    assert share > 0.95, f"{share:.3f} within three standard errors"


def test_errors_of_heavy_tails_cover_the_truth():
    log_weights = log_normal(np.random.default_rng(1), 3.0, (300, 800))
    found = np.array([log_z_with_tail(row) for row in log_weights])
    check_coverage(*found.T)
    must_fail(check_coverage, found[:, 0], np.array([plain_error(row) for row in log_weights]))


def test_errors_of_light_tails_are_the_plain_ones():
    log_weights = log_normal(np.random.default_rng(2), 0.5, (100, 2000)) + 1e3
    found = np.array([log_z_with_tail(row) for row in log_weights])
    assert_mean(np.exp(found[:, 0] - 1e3), 1.0)
    must_fail(assert_mean, np.exp(found[:, 0] - 1e3), 1.01)
    ratio = found[:, 1] / np.array([plain_error(row) for row in log_weights])
    assert np.all(ratio >= 1.0 - 1e-12) and np.mean(ratio) < 1.05


def test_log_z_of_hardly_any_weights():
    assert log_z_with_tail(np.full(30, 1.5)) == pytest.approx((1.5, 0.0))
    log_z, error = log_z_with_tail(np.full(30, -np.inf))
    assert log_z == -np.inf and np.isnan(error)
    few = np.log([1.0, 3.0])
    assert log_z_with_tail(few) == pytest.approx((np.log(2.0), 0.5 / np.sqrt(2)))
    assert log_z_with_tail(log_normal(np.random.default_rng(3), 10.0, 1000))[1] > 1.0
