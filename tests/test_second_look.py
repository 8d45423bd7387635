"""More draws where a few large weights alone speak against a sampler: alarms over nothing end, and real ones stay."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.exact_sampler import LOG_Z, TARGET, linear_denoiser
from support.exact_sampler import sampler_of as exact_sampler
from support.random_checks import must_fail
from support.unchecked import unchecked
from support.verdicts import CHECKS, HOTTEST, LAST, NEXT
from tempering.methods.second_look import look_again
from tempering.runs.clock import Clock
from tempering.runs.ledger import Ledger
from tempering.runs.records import Checks
from tempering.sampler.diagnosis.findings import weight_findings
from tempering.sampler.diagnosis.thresholds import MUCH_UNSEEN, MUCH_UNSEEN_AGAIN
from tempering.sampler.paid import FIT
from tempering.weights.pareto import unseen_mass
from tempering.weights.weigh import weigh

NUM, KEY = 2000, jax.random.key(3)


@pytest.fixture(scope="module", autouse=True)
def types_unchecked():
    with unchecked():
        yield


class Draws:
    """Draws with the weights that a test gives them, batch by batch."""

    def __init__(self, *batches):
        self.batches, self.keys = list(batches), []

    def __call__(self, key, num):
        self.keys.append(tuple(np.asarray(jax.random.key_data(key)).tolist()))
        log_weights = self.batches[len(self.keys) - 1]
        assert len(log_weights) == num
        x = jax.random.normal(key, (num, 3))
        return x, jax.vmap(TARGET.log_density)(x) - LOG_Z - jnp.asarray(log_weights, jnp.float32)


def even(seed: int, *heavy: float, num: int = NUM) -> np.ndarray:
    """Log weights that are nearly even, with some heavy ones among them."""
    log_weights = np.random.default_rng(seed).normal(-0.01, 0.15, num)
    log_weights[: len(heavy)] = np.log(heavy)
    return log_weights


def look(*batches, budget: int | None = 50_000, checks=None, limit: float | None = None, held_back: int = 0):
    """The sampler and all weights after a second look, with the ledger and the source of draws."""
    changes = {"checks": Checks(**{**CHECKS, **(checks or {})}), "levels": [HOTTEST, NEXT, LAST]}
    ledger, draws = Ledger(budget=budget, points={"importance_weights": 20_000}), Draws(*batches)
    ledger.clock = Clock(limit, now=iter(range(1000)).__next__)
    sampler = exact_sampler(linear_denoiser(), ledger=ledger, **changes)
    x, log_q = draws(KEY, len(batches[0]))
    first = weigh(TARGET, x, log_q, jnp.ones(()), ledger=ledger, stage="final_weights")
    sampler, weighted = look_again(KEY, sampler, first, draws, TARGET, ledger, held_back)
    return sampler, weighted, ledger, draws


def final(sampler, weighted):
    """The finding that the verdict has of these weights."""
    checks = dataclasses.replace(sampler.checks, num_final_draws=len(weighted.log_weights))
    sampler = dataclasses.replace(sampler, checks=checks, ess_fraction=weighted.ess_fraction)
    sampler.paid.note(FIT, weighted)
    return weight_findings(sampler)[0]


def test_one_large_weight_that_more_draws_do_not_confirm_is_no_alarm():
    sampler, weighted, ledger, draws = look(even(0, 50.0), even(1), even(2), even(3))
    found = final(sampler, weighted)
    assert found.status == "good" and len(weighted.log_weights) == 4 * NUM
    assert "of 8,000 draws" in found.measured and "by the first 2,000 draws" in found.measured
    assert sampler.checks.num_first_draws == NUM and sampler.checks.unseen_first > MUCH_UNSEEN
    assert ledger.points["final_weights"] == 4 * NUM and len(set(draws.keys)) == 4
    # Every draw keeps its own weight and place.
    np.testing.assert_allclose(
        weighted.log_weights - LOG_Z, np.concatenate([even(0, 50.0), even(1), even(2), even(3)]), atol=1e-3
    )
    np.testing.assert_allclose(
        weighted.states.log_density, jax.vmap(TARGET.log_density)(weighted.states.position), atol=1e-3
    )


def test_without_more_draws_it_is_an_alarm():
    sampler, weighted, *_ = look(even(0, 50.0), budget=23_000)
    assert final(sampler, weighted).status == "doubtful" and sampler.checks.num_first_draws is None


def test_a_tail_that_more_draws_confirm_stays_doubtful():
    sampler, weighted, *_ = look(even(0, 90.0), even(1, 90.0), even(2), even(3, 90.0))
    found = final(sampler, weighted)
    assert found.status == "doubtful" and "by the first 2,000 draws" in found.measured


@pytest.mark.parametrize(("budget", "batches"), [(50_000, 3), (27_999, 2), (24_000, 1), (23_999, 0), (None, 3)])
def test_it_keeps_within_the_budget(budget, batches):
    sampler, weighted, ledger, _ = look(even(0, 50.0), even(1), even(2), even(3), budget=budget)
    assert ledger.points["final_weights"] == (1 + batches) * NUM == len(weighted.log_weights)
    assert budget is None or ledger.total <= budget


def test_it_leaves_what_is_held_back():
    _, weighted, ledger, _ = look(even(0, 50.0), even(1), even(2), budget=28_000, held_back=500)
    assert len(weighted.log_weights) == 3 * NUM and ledger.total + 500 <= 28_000


def test_it_ends_with_the_time():
    """Every look at the clock takes a second: one before the first batch, one before each of the others."""
    for limit, batches in ((1.5, 1), (2.5, 2), (9.5, 3)):
        assert len(look(*(even(seed, 50.0) for seed in range(4)), limit=limit)[1].log_weights) == (1 + batches) * NUM


def test_nobody_looks_again_where_that_would_change_nothing():
    for options in (
        {"checks": {"pilot_is_mixed": False}},  # something else speaks against the fit
        {"limit": 0.5},  # the time is over
    ):
        assert len(look(even(0, 50.0), even(1), even(2), even(3), **options)[1].log_weights) == NUM
    assert len(look(even(0))[1].log_weights) == NUM, "all is well at once"
    assert len(look(even(0, 2000.0))[1].log_weights) == NUM, "half of the mass in one draw"
    assert len(look(np.random.default_rng(0).normal(0, 4.0, NUM))[1].log_weights) == NUM, "more would be as poor"


def test_too_few_draws_are_joined_by_more():
    few = [even(seed, num=80) for seed in range(4)]
    sampler, weighted, *_ = look(*few)
    assert len(weighted.log_weights) == 320 and final(sampler, weighted).status == "good"


def withdrawn(mass: float, met: float, most: float, num_alarms: int = 60) -> tuple[float, float]:
    """Of alarms over a region of some mass that the first draws meet so often: those that a second look takes back, and
    those of them with a log Z that is off by more than 0.05."""
    rng, alarms = np.random.default_rng(0), []
    share = met / NUM
    while len(alarms) < num_alarms:
        log_weights = rng.normal(-0.01, 0.15, 4 * NUM) + np.log((1 - mass) / (1 - share))
        is_met = rng.random(4 * NUM) < share
        log_weights[is_met] = np.log(mass / share) + rng.normal(-0.045, 0.3, np.sum(is_met))
        if unseen_mass(log_weights[:NUM]) > MUCH_UNSEEN:
            is_taken_back = unseen_mass(log_weights) <= most
            alarms.append((is_taken_back, is_taken_back and abs(np.log(np.mean(np.exp(log_weights)))) > 0.05))
    return tuple(np.mean(alarms, axis=0).tolist())


def test_a_second_look_does_not_make_a_wrong_answer_green():
    # Regions that the model hardly draws: 3 % of the mass, which may be left out without being wrong, and 10 %.
    def holds(most: float) -> None:
        assert withdrawn(0.03, 0.5, most)[0] < 0.2
        assert withdrawn(0.10, 1.0, most)[1] == 0.0

    holds(MUCH_UNSEEN_AGAIN)
    must_fail(holds, MUCH_UNSEEN)
    # And it is of use: a region of half a per cent, which one draw met by chance, is no reason for an alarm.
    assert withdrawn(0.005, 0.2, MUCH_UNSEEN_AGAIN)[0] > 0.5
