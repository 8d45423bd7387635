"""Weighing model samples: what counts as usable, what is counted, and what it costs."""

import jax.numpy as jnp
import numpy as np
import pytest

from support.counting import counting_target
from support.random_checks import assert_mean, must_fail
from support.weights import Odd
from tempering.errors import BudgetError
from tempering.runs.ledger import Ledger
from tempering.targets import Gaussian
from tempering.weights.weigh import weigh

BETA = jnp.asarray(0.5)


def test_only_a_finite_sample_has_a_weight(odd):
    weighted, _ = odd
    expected = np.full(8, -np.inf)
    expected[0] = 0.5 * -3.0 - 0.25
    np.testing.assert_allclose(weighted.log_weights, expected)


def test_what_should_not_happen_is_counted(odd):
    """Being outside the support is legal; NaN, +inf, no gradient and a log q that is not finite are not."""
    weighted, _ = odd
    assert weighted.num_nonfinite == 6
    assert np.isneginf(weighted.states.log_density[1]) and np.isnan(weighted.states.log_density[2])


def test_every_point_is_entered_once(odd):
    _, ledger = odd
    assert ledger.points == {"importance_weights": 8} and ledger.value_only == {}
    with pytest.raises(BudgetError, match="needs 3 evaluations"):
        weigh(Odd(), jnp.zeros((3, 2)), jnp.zeros(3), BETA, ledger=Ledger(budget=2), stage="final_weights")


@pytest.mark.parametrize("num", [1, 7, 10_001])
def test_the_ledger_is_what_the_target_received(num):
    target, counter = counting_target(Gaussian([0.0, 1.0], np.eye(2)))
    ledger = Ledger()
    weighted = weigh(target, jnp.ones((num, 2)), jnp.zeros(num), BETA, ledger=ledger, stage="sampling")
    assert counter.wait(weighted.log_weights) == num == ledger.points["sampling"]
    assert counter.value_only == 0


def test_log_z_of_a_tempered_gaussian(tempered_gaussian):
    weighted, log_z, _, _ = tempered_gaussian
    weights = np.exp(np.asarray(weighted.log_weights, np.float64) - log_z)
    assert_mean(weights, 1.0, key="rng 5")
    must_fail(assert_mean, weights * np.exp(0.05), 1.0)
    estimate, error = weighted.log_z
    assert estimate == pytest.approx(log_z, abs=5 * error) and error < 0.01
    assert weighted.ess_fraction == pytest.approx(np.sum(weights) ** 2 / np.sum(weights**2) / 20_000, rel=1e-4)
