"""The population of the rare mode: its value, and errors that are as large as the scatter they speak of."""

import math

import numpy as np
import pytest
from rare_mode import population_of_two_stages

from support.random_checks import assert_mean, must_fail
from tempering.lab.metrics import MetricError
from tempering.lab.metrics.populations import Population, population, rare_mode

NUM_REPEATS = 400


def _scores(found: list[Population], truth: float) -> np.ndarray:
    """Squared deviations in units of the errors: 1 on average where the errors are right."""
    return np.array([((each.share - truth) / each.error) ** 2 for each in found])


def test_the_interval_is_open_and_does_not_wrap():
    phi = np.radians([-170.0, -1.0, 1.0, 60.0, 119.0, 121.0, 170.0, 180.0, -180.0, 60.0 + 360.0])
    found = rare_mode(phi)
    assert (found.num_inside, found.num_samples, found.share) == (4, 10, pytest.approx(0.4))
    # The saboteur: phi > 0 takes the beta basin, which goes on through 180 degrees, for the rare mode.
    assert np.mean(phi > 0) > 0.6


def test_independent_draws_have_the_binomial_error():
    inside = np.arange(2_000) < 46
    found = population(inside)
    assert found.share == pytest.approx(0.023)
    assert found.error == pytest.approx(math.sqrt(0.023 * 0.977 / 1_999), rel=1e-9)
    assert found.num_effective == pytest.approx(2_000)


def test_free_energy():
    found = Population(0.0023, 0.0003, 23, 10_000, 10_000.0)
    value, error = found.free_energy(300.0)
    thermal = 8.31446261815324e-3 * 300.0
    assert value == pytest.approx(thermal * math.log(0.9977 / 0.0023))  # 15.1 kJ/mol: rare modes are above zero
    # By a small change of the share, not by the formula.
    shifted = Population(0.0023 - 3e-7, 0.0, 0, 1, 1.0).free_energy(300.0)[0]
    assert error == pytest.approx((shifted - value) * 1e3, rel=1e-3)
    assert population(np.zeros(50, bool)).free_energy(300.0) == (math.inf, math.inf)
    assert population(np.ones(50, bool)).free_energy(300.0) == (-math.inf, math.inf)


def test_none_seen_is_no_proof_of_none():
    assert population(np.zeros(400, bool)).error == pytest.approx(1 / 400)
    log_weights = np.where(np.arange(400) < 10, 0.0, -np.inf)  # ten draws hold all the weight
    assert population(np.zeros(400, bool), log_weights=log_weights).error == pytest.approx(0.1)
    assert population(np.zeros((4, 100), bool)).error == pytest.approx(1 / 40)  # forty blocks of ten


def test_weighted_draws_have_the_error_of_their_weights():
    """A model that draws the mode ten times too seldom: its few draws there have weights ten times as large."""
    truth, drawn = 0.2, 0.02
    rng = np.random.default_rng(0)
    weight = np.log([(1 - truth) / (1 - drawn), truth / drawn])
    sets = [rng.random(2_000) < drawn for _ in range(NUM_REPEATS)]
    found = [population(inside, log_weights=weight[inside.astype(int)]) for inside in sets]
    assert_mean([each.share for each in found], truth, name="share")
    scores = _scores(found, truth)
    assert 0.7 < scores.mean() < 1.4  # the estimate's own scatter moves the errors, so that 1 is not exact
    # The saboteurs: weights ignored, and one effective sample size for all, inside and outside alike.
    must_fail(assert_mean, [population(inside).share for inside in sets], truth)
    by_size = [math.sqrt(each.share * (1 - each.share) / each.num_effective) for each in found]
    assert np.mean([((each.share - truth) / error) ** 2 for each, error in zip(found, by_size, strict=True)]) > 2


def test_weights_are_multiplicities():
    inside = np.array([True, False, False, True, False])
    counts = np.array([2, 1, 3, 1, 1])
    assert population(inside, log_weights=np.log(counts)).share == pytest.approx(
        population(np.repeat(inside, counts)).share
    )


def _visits(rng: np.random.Generator, num_chains: int, num_draws: int, share: float, stay: float) -> np.ndarray:
    """Two-state chains in equilibrium: a draw is fresh with probability 1 - stay, and else the one before."""
    is_fresh = rng.random((num_chains, num_draws)) > stay
    is_fresh[:, 0] = True
    fresh = rng.random((num_chains, num_draws)) < share
    last = np.maximum.accumulate(np.where(is_fresh, np.arange(num_draws)[None], 0), axis=1)
    return np.take_along_axis(fresh, last, axis=1)


@pytest.mark.parametrize("num_chains", [1, 8])
def test_chains_have_an_error_of_their_own(num_chains):
    rng, truth = np.random.default_rng(1), 0.1
    sets = [_visits(rng, num_chains, 2_500, truth, 0.8) for _ in range(NUM_REPEATS)]
    found = [population(inside) for inside in sets]
    assert_mean([each.share for each in found], truth, name="share")
    scores = _scores(found, truth)
    assert 0.6 < scores.mean() < 1.5
    assert np.mean([each.num_effective for each in found]) < 0.2 * num_chains * 2_500  # exact: 1/9
    # The saboteur: as if the draws were independent, errors are a third of what they should be.
    assert np.mean(_scores([population(inside.ravel()) for inside in sets], truth)) > 5


def test_chains_that_never_move_are_counted_as_chains():
    inside = np.repeat(np.arange(20) < 5, 1_000).reshape((20, 1_000))
    found = population(inside)
    assert found.error == pytest.approx(math.sqrt(0.25 * 0.75 / 19))
    assert found.num_effective == pytest.approx(19.0)
    assert population(inside.T.copy()).error < found.error  # the saboteur: (draw, chain)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: rare_mode(np.array([60.0, -80.0])), "radians, not degrees"),
        (lambda: population(np.zeros(4)), "give booleans"),
        (lambda: population(np.zeros(1, bool)), "at least two"),
        (lambda: population(np.zeros((2, 3), bool), log_weights=np.zeros(6)), "must agree"),
    ],
)
def test_refusals(call, words):
    with pytest.raises(MetricError, match=words):
        call()


def _two_stages(rng, num: int, num_outside: int, share: float, ratio: float) -> Population:
    """Draws of a model that has `share` of a mode whose weights are `ratio` times as large, all of them scattered."""
    inside = rng.random(num) < share
    logs = 0.8 * rng.normal(size=num) + np.where(inside, math.log(ratio), 0.0) + 700.0
    return population_of_two_stages(inside, logs[inside], logs[~inside][:num_outside])


@pytest.mark.parametrize("share", [0.01, 0.4])
def test_two_stages_find_the_population_with_the_right_error(share):
    rng, ratio = np.random.default_rng(3), 2.5
    truth = ratio * share / (ratio * share + 1.0 - share)
    found = [_two_stages(rng, 20_000, 300, share, ratio) for _ in range(NUM_REPEATS)]
    assert_mean(np.array([each.share for each in found]), truth)
    assert_mean(_scores(found, truth), 1.0)
    # The saboteurs: the plain share, and an error that is a third too small.
    must_fail(assert_mean, np.array([each.num_inside / each.num_samples for each in found]), truth)
    must_fail(assert_mean, _scores(found, truth) * 1.5**2, 1.0)


def test_two_stages_count_how_many_are_inside_as_random():
    """Where all weights are equal and all are weighed, the error is the binomial one."""
    inside = np.arange(1_000) < 500
    found = population_of_two_stages(inside, np.zeros(500), np.zeros(500))
    assert (found.share, found.error) == (0.5, pytest.approx(math.sqrt(0.25 / 1_000), rel=1e-9))


def test_two_stages_never_claim_more_than_they_saw():
    """One draw inside that weighs next to nothing, and one beside which all others do."""
    one = np.arange(100_000) < 1
    little = population_of_two_stages(one, np.array([-12.0]), np.zeros(1_000))
    assert little.share < 1e-9 and little.error == pytest.approx(1e-5, rel=1e-3)
    much = population_of_two_stages(one, np.array([0.0]), np.full(1_000, -800.0))
    assert much.share == 1.0 and 0.0 < much.error < 1.0


def test_two_stages_agree_with_one_where_all_are_weighed():
    rng = np.random.default_rng(4)
    inside = np.arange(5_000) < 400
    logs = 0.5 * rng.normal(size=5_000)
    found = population_of_two_stages(inside, logs[inside], logs[~inside])
    whole = population(inside, log_weights=logs)
    assert found.share == pytest.approx(whole.share, rel=1e-9)
    assert found.error == pytest.approx(whole.error, rel=0.1)
    assert found.num_effective == pytest.approx(whole.num_effective, rel=0.1)


def test_two_stages_that_see_nothing_claim_no_zero():
    found = population_of_two_stages(np.zeros(1_000, bool), np.zeros(0), np.zeros(50))
    assert (found.share, found.error, found.num_inside) == (0.0, pytest.approx(1e-3), 0)


@pytest.mark.parametrize(
    ("inside", "within", "without", "message"),
    [
        (np.zeros(9), np.zeros(0), np.zeros(4), "booleans"),
        (np.arange(9) < 2, np.zeros(3), np.zeros(4), r"\(3,\) log weights inside"),
        (np.arange(9) < 2, np.zeros(2), np.zeros(1), "2 or more outside"),
        (np.arange(9) < 2, np.zeros(2), np.zeros(8), "outside"),
        (np.arange(9) < 2, np.array([0.0, np.nan]), np.zeros(4), "finite or -inf"),
        (np.arange(9) < 2, np.zeros(2), np.full(4, -np.inf), "not all of those outside"),
    ],
)
def test_two_stages_refuse_what_is_no_population(inside, within, without, message):
    with pytest.raises(MetricError, match=message):
        population_of_two_stages(inside, within, without)
