"""The initial parallel tempering: exact draws of every level, for exactly the planned evaluations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.random_checks import assert_mean, assert_std, must_fail
from support.tiny import quick_compilation
from tempering.kernels import HMC, MALA
from tempering.parallel_tempering.initial import initial_draws, normal_start, planned_evaluations
from tempering.runs.ledger import Ledger
from tempering.settings import Exploration, Initial

INITIAL = Initial(num_chains=100, num_steps=301, burn_in=100, thin=4)
KEY = jax.random.key(95)


@pytest.fixture(scope="module", autouse=True)
def compiled_quickly():
    with quick_compilation():
        yield


@pytest.fixture(
    scope="module", params=[MALA(), pytest.param(HMC(num_leapfrog=3), marks=pytest.mark.slow)], ids=["mala", "hmc"]
)
def outcome(request, counted, betas):
    """The result, its kernel and ledger, and the points really evaluated."""
    target, counter = counted
    counter.reset()
    kernel, ledger = request.param, Ledger()
    arguments = KEY, target, kernel, normal_start(2, 3.0), betas, INITIAL, Exploration(swap_interval=2)
    result = initial_draws(*arguments, ledger=ledger)
    return result, kernel, ledger, counter.wait(result)


def test_it_costs_what_was_planned(outcome):
    _, kernel, ledger, counted = outcome
    assert counted == ledger.total == planned_evaluations(INITIAL, 3, kernel)
    assert ledger.points == {"initial_pt": counted} and ledger.value_only == {}
    # Steps that would not complete a thinned state are not made: 100 + 50 * 4 of the 301.
    assert counted == 3 * 100 * (1 + 300 * kernel.evaluations_per_step)


def _check_levels(gaussian, draws, betas) -> None:
    """Whitened, the chain means of every level are those of N(0, I), and so is the spread. Chains are independent."""
    whitening, location = np.asarray(gaussian.whitening, np.float64), np.asarray(gaussian.location, np.float64)
    for level, beta in enumerate(np.asarray(betas, np.float64)):
        white = np.sqrt(beta) * (np.asarray(draws[level], np.float64) - location) @ whitening.T
        assert_mean(white.mean(axis=0), 0.0, name=f"chain means of level {level}", key=KEY)
        assert_mean((white**2).mean(axis=0), 1.0, name=f"chain mean squares of level {level}", key=KEY)
        assert_std(white.reshape((-1, 2)), 1.0, ess=100, name=f"spread of level {level}", key=KEY)


def test_every_level_is_sampled(outcome, gaussian, betas):
    result, _, _, _ = outcome
    assert result.draws.position.shape == (3, 50, 100, 2)
    assert result.num_replaced == 0
    _check_levels(gaussian, result.draws.position, betas)
    must_fail(_check_levels, gaussian, result.draws.position[::-1], betas)
    must_fail(_check_levels, gaussian, result.draws.position, 0.6 * betas)


def test_what_is_stored_belongs_to_the_positions(outcome, gaussian):
    draws = outcome[0].draws
    values, grads = jax.vmap(jax.vmap(jax.vmap(jax.value_and_grad(gaussian.log_density))))(draws.position)
    np.testing.assert_allclose(draws.log_density, values, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(draws.log_density_grad, grads, rtol=1e-4, atol=1e-4)


def test_the_tally_covers_the_kept_part(outcome):
    result, kernel, _, _ = outcome
    assert int(result.tally.num_steps) == 200
    assert np.all(np.abs(np.asarray(result.tally.acceptance_rate) - kernel.optimal_acceptance) < 0.08)
    assert np.all((result.tally.swap_rate > 0.1) & (result.tally.swap_rate < 0.9))
    # A hundred swap rounds of a hundred ladders with three levels: replicas went down and came back.
    assert int(result.tally.round_trips) > 100
    assert np.all(np.asarray(result.tally.num_nonfinite) == 0)


@pytest.mark.parametrize(("num_steps", "burn_in", "thin", "steps"), [(10, 0, 1, 10), (11, 2, 4, 10), (9, 8, 1, 9)])
def test_the_plan_in_numbers(num_steps, burn_in, thin, steps):
    initial = Initial(num_chains=7, num_steps=num_steps, burn_in=burn_in, thin=thin)
    assert planned_evaluations(initial, 3, MALA()) == 3 * 7 * (1 + steps)
    assert planned_evaluations(initial, 3, HMC(num_leapfrog=4)) == 3 * 7 * (1 + 4 * steps)


def test_the_same_key_gives_the_same_draws(counted, betas, outcome):
    result, kernel, _, _ = outcome
    target, _ = counted
    arguments = KEY, target, kernel, normal_start(2, 3.0), betas, INITIAL, Exploration(swap_interval=2)
    again = initial_draws(*arguments, ledger=Ledger())
    assert jnp.array_equal(again.draws.position, result.draws.position)
