"""Pareto's k against ArviZ and known tails."""

import warnings

import numpy as np
import pytest

from support.random_checks import assert_mean, must_fail
from tempering.weights.pareto import pareto_k


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
