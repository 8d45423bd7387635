"""The judge is judged: right samples pass, each fault is rejected, the stated false-failure rates are the real ones."""

import jax
import numpy as np
import pytest
from scipy import stats

from support import random_checks
from support.random_checks import assert_fraction, assert_mean, assert_same_distribution_ks, assert_std, must_fail

MEAN, STD = np.array([-1.5, 0.25, 40.0]), np.array([0.5, 2.0, 7.0])


@pytest.fixture
def rng():
    return np.random.default_rng(20240607)


@pytest.fixture
def draws(rng):
    return MEAN + STD * rng.normal(size=(4_000, 3))


def _correlated(rng, num, persistence):
    """A stationary AR(1) with unit variance; its ESS is num (1 - persistence) / (1 + persistence)."""
    noise = rng.normal(size=num) * np.sqrt(1.0 - persistence**2)
    chain = np.empty(num)
    chain[0] = rng.normal()
    for step in range(1, num):
        chain[step] = persistence * chain[step - 1] + noise[step]
    return chain


def test_the_budget_is_what_the_module_says():
    assert random_checks.FALSE_FAILURE_PER_CALL == pytest.approx(5.733e-7, rel=1e-3)
    assert random_checks.MAX_CALLS == 1_744


def test_right_samples_pass(draws):
    assert_mean(draws, MEAN)
    assert_mean(draws[:, 1], 0.25)
    assert_std(draws, STD)
    assert_fraction(draws < MEAN, 0.5)
    assert_fraction(draws[:, 0] > 1e3, 0.0)
    assert_same_distribution_ks(draws[:, 2], stats.norm(40.0, 7.0).cdf)
    assert_same_distribution_ks(draws[:2_500], draws[2_500:])


def test_a_bias_of_a_fifth_of_the_spread_is_rejected(draws):
    # 0.4 is 13 standard errors, against a limit of 5.2: whichever way the draws fell, this cannot pass.
    biased = draws + np.array([0.0, 0.4, 0.0])
    message = must_fail(assert_mean, biased, MEAN, name="offset", key=jax.random.key(3))
    for part in ("offset", "column 1", "observed", "expected 0.25", "standard error", "ESS 4000", "key<fry>"):
        assert part in message
    assert "in 1 of 3 columns" in message
    must_fail(assert_mean, -draws[:, 0], MEAN[0])
    must_fail(assert_mean, draws - np.array([0.0, 0.4, 0.0]), MEAN)


@pytest.mark.parametrize("factor", [0.85, 1.15])
def test_a_spread_off_by_a_seventh_is_rejected_on_either_side(draws, factor):
    assert "column 2" in must_fail(assert_std, draws, STD * np.array([1.0, 1.0, factor]))


@pytest.mark.parametrize("probability", [0.4, 0.6])
def test_a_wrong_fraction_is_rejected_on_either_side(draws, probability):
    must_fail(assert_fraction, draws < MEAN, probability)


def test_one_impossible_event_is_rejected():
    hits = np.zeros(1_000, dtype=bool)
    hits[17] = True
    must_fail(assert_fraction, hits, 0.0)
    must_fail(assert_fraction, ~hits, 1.0)


def test_the_wrong_shape_of_a_distribution_is_rejected(draws):
    # Same mean and variance, other shape: only a test of the whole distribution sees it.
    must_fail(assert_same_distribution_ks, draws[:, 2], stats.expon(33.0, 7.0).cdf)
    must_fail(assert_same_distribution_ks, draws[:2_000] * np.array([1.0, 2.0, 1.0]), draws[2_000:])


def test_the_distances_are_those_of_scipy(draws):
    distance = random_checks._distance_to_cdf(draws[:, 2], stats.norm(40.0, 7.0).cdf)
    assert distance == pytest.approx(stats.kstest(draws[:, 2], stats.norm(40.0, 7.0).cdf).statistic)
    distance = random_checks._distance_between(draws[:1_500, 1], draws[1_500:, 1])
    assert distance == pytest.approx(stats.ks_2samp(draws[:1_500, 1], draws[1_500:, 1]).statistic)


def test_correlated_samples_cost_evidence(rng):
    chain = 0.15 + _correlated(rng, 20_000, 0.9)
    # A shift of 0.15 is 21 standard errors if the draws were independent, and 4.9 with the 1,053 they are worth.
    must_fail(assert_mean, chain, 0.0)
    must_fail(assert_mean, chain, -0.2, ess=1_053)
    assert_mean(chain, 0.15, ess=1_053)


CALIBRATED = {
    "mean": lambda x: assert_mean(x, 0.0),
    "std": lambda x: assert_std(x, 1.0),
    "ks_cdf": lambda x: assert_same_distribution_ks(x, stats.norm.cdf),
    "ks_samples": lambda x: assert_same_distribution_ks(x[:200], x[200:]),
    "mean_of_columns": lambda x: assert_mean(x.reshape(100, 4), 0.0),
}


def _rejection_rate(monkeypatch, check, sample_fn, repeats=1_500):
    """Whether `check` rejected each of many fresh samples, at a level of 0.05 that can be seen in so few."""
    monkeypatch.setattr(random_checks, "FALSE_FAILURE_PER_CALL", 0.05)
    rejected = np.zeros(repeats, dtype=bool)
    for repeat in range(repeats):
        try:
            check(sample_fn())
        except AssertionError:
            rejected[repeat] = True
    monkeypatch.undo()
    return rejected


@pytest.mark.parametrize("name", CALIBRATED)
def test_the_false_failure_rate_is_the_stated_one(monkeypatch, rng, name):
    rejected = _rejection_rate(monkeypatch, CALIBRATED[name], lambda: rng.normal(size=400))
    assert_fraction(rejected, 0.05, name=f"false failures of {name}")


def test_the_binomial_is_never_too_quick_to_reject(monkeypatch, rng):
    tail = stats.norm.cdf(-1.5)
    rejected = _rejection_rate(
        monkeypatch, lambda x: assert_fraction(x < -1.5, tail), lambda: rng.normal(size=400), repeats=800
    )
    assert 0.01 < rejected.mean() < 0.06


def test_ignored_correlation_would_show_in_the_false_failure_rate(monkeypatch, rng):
    rejected = _rejection_rate(monkeypatch, CALIBRATED["mean"], lambda: _correlated(rng, 400, 0.5), repeats=400)
    must_fail(assert_fraction, rejected, 0.05)


@pytest.mark.parametrize(
    ("check", "args", "kwargs"),
    [
        (assert_mean, (np.full(100, np.nan), 0.0), {}),
        (assert_mean, (np.zeros(10), 0.0), {}),
        (assert_mean, (np.zeros(100), 0.0), {"ess": 101}),
        (assert_mean, (np.zeros((100, 3)), np.zeros(2)), {}),
        (assert_mean, (np.zeros((100, 3, 2)), 0.0), {}),
        (assert_std, (np.zeros(100), 1.0), {}),
        (assert_fraction, (np.zeros(100), 0.5), {}),
        (assert_fraction, (np.zeros(100, dtype=bool), 1.5), {}),
        (assert_same_distribution_ks, (np.zeros((100, 2)), stats.norm.cdf), {}),
        (assert_same_distribution_ks, (np.zeros(100), lambda x: x + 2.0), {}),
    ],
)
def test_malformed_input_is_no_rejection(check, args, kwargs):
    with pytest.raises(ValueError):
        must_fail(check, *args, **kwargs)


def test_constant_samples_are_compared_exactly():
    assert_mean(np.full(100, 0.1), 0.1)
    must_fail(assert_mean, np.full(100, 0.1), 0.1001)


def test_a_saboteur_that_survives_is_reported():
    with pytest.raises(AssertionError, match="assert_mean accepted what it must reject"):
        must_fail(assert_mean, np.linspace(-1.0, 1.0, 100), 0.0)
