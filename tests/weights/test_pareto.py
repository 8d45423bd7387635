"""Pareto's k against ArviZ and known tails."""

import warnings

import numpy as np
import pytest

from support.random_checks import assert_mean, must_fail
from tempering.weights.pareto import pareto_k, unseen_mass


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


def test_the_mass_beyond_the_largest_weight_is_what_a_tail_holds():
    rng = np.random.default_rng(0)
    # A tail with nothing in it, of 20,000 weights near 1 and one of 5: k says that there is no mean.
    harmless = np.log1p(5e-7 * ((np.arange(20_000) + 0.5) / 20_000) ** -1.5)
    assert pareto_k(harmless) > 1.0 and unseen_mass(harmless) < 0.01
    # Three draws that stand for a tenth of the mass: k sees no harm in them.
    harmful = np.append(0.25 * rng.normal(size=2000), np.log([40.0, 67.0, 90.0]))
    assert pareto_k(harmful) < 0.7 and unseen_mass(harmful) > 0.03
    assert unseen_mass(harmful + 500.0) == pytest.approx(unseen_mass(harmful))
    assert np.isnan(unseen_mass(np.full(100, -np.inf))) and unseen_mass(np.zeros(100)) == pytest.approx(0.01)


@pytest.mark.parametrize("k", [0.3, 0.5, 0.7])
def test_the_mass_beyond_the_largest_weight_of_an_exact_tail(k):
    # Weights s^-k for even s: beyond the largest of n lies the integral of s^-k from 1 / (100 n) to 1 / n.
    num = 20_000
    log_weights = -k * np.log((np.arange(num) + 0.5) / num)
    expected = num ** (k - 1.0) * (1.0 - 100.0 ** (k - 1.0))
    mean = np.mean(np.exp(log_weights))
    assert 0.8 * expected < unseen_mass(log_weights) * mean * (1.0 - k) < 2.0 * expected


def of_two_kinds(rng, share: float, num: int = 60_000) -> np.ndarray:
    """Weights near 1, and a share of them evenly between 10 and 30: a region of which a proposal has too little."""
    log_weights = rng.normal(-0.01, 0.15, num)
    is_rare = rng.random(num) < share
    log_weights[is_rare] = np.log(rng.uniform(10.0, 30.0, np.sum(is_rare)))
    return log_weights


def test_a_tail_that_ends_is_not_carried_on_by_what_lies_under_it(monkeypatch):
    # Hundreds of draws show where the largest weights end. One tail through both kinds says that they have no mean.
    sets = [of_two_kinds(np.random.default_rng(seed), 0.006) for seed in range(5)]

    def ends() -> None:
        assert all(pareto_k(own) < 0.5 and unseen_mass(own) < 0.01 for own in sets)

    ends()
    real = [-1.2 * np.log(np.random.default_rng(seed).uniform(size=60_000)) for seed in range(5)]
    before = [pareto_k(own) for own in real]
    monkeypatch.setattr("tempering.weights.pareto._LEAST_REFITTED", np.inf)
    must_fail(ends)
    # A tail that goes on is left as it is, and so is one whose end too few draws show.
    assert [pareto_k(own) for own in real] == before and min(before) > 1.0


def even_of_two_kinds(rng, num: int) -> np.ndarray:
    """Log weights of a model that is nearly right: most at the top of one mode, some of another a little above it."""
    top = -1e-5 * rng.exponential(size=num)
    above = np.where(rng.uniform(size=num) < 0.06, rng.uniform(0.0, 0.1, size=num), 0.0)
    return np.where(rng.uniform(size=num) < 0.3, top + above, -0.1 - 0.05 * rng.exponential(size=num))


def check_even_weights_are_no_alarm(weights_of) -> None:
    unseen = [unseen_mass(weights_of(np.random.default_rng(seed), 2000)) for seed in range(20)]
    assert max(unseen) < 0.01, unseen


def test_even_weights_of_two_kinds_are_no_alarm(monkeypatch):
    """A fit to both kinds at once makes of a tenth above the mean a tail without end."""
    check_even_weights_are_no_alarm(even_of_two_kinds)
    monkeypatch.setattr("tempering.weights.pareto._STANDS_OUT", 0.0)
    must_fail(check_even_weights_are_no_alarm, even_of_two_kinds)


def check_a_lost_mode_is_an_alarm(weights_of) -> None:
    """Where k has no mean to offer, most of the time, although no weight is twice the mean."""
    sets = [weights_of(np.random.default_rng(seed), num) for num in (500, 2000, 8000) for seed in range(20)]
    assert all(np.max(own) < np.log(2.0 * np.mean(np.exp(own))) for own in sets)
    # Measured over 100 sets of each size: 0.89, 0.98 and 0.88; a rule that looks at the largest weight alone has 0.05.
    assert np.mean([pareto_k(own) > 1.0 and unseen_mass(own) > 0.03 for own in sets]) > 0.6


def beside_a_lost_mode(rng, num: int) -> np.ndarray:
    """Log weights of draws of one of two equal modes, nine widths apart, by a model that is that one exactly."""
    return np.logaddexp(np.log(0.5), np.log(0.5) + 9.0 * rng.normal(size=num).clip(max=3.5) - 0.5 * 9.0**2)


def test_the_flank_of_a_mode_that_was_not_drawn_stays_an_alarm():
    check_a_lost_mode_is_an_alarm(beside_a_lost_mode)
    must_fail(check_a_lost_mode_is_an_alarm, even_of_two_kinds)


def test_few_draws_of_a_rare_region_stay_an_alarm():
    for seed in range(5):
        assert pareto_k(of_two_kinds(np.random.default_rng(seed), 0.0005)) > 0.5
        assert unseen_mass(of_two_kinds(np.random.default_rng(seed), 0.003, 2000)) > 0.01
