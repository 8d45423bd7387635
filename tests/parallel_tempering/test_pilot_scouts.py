"""Scouts: chains that all start in one mode do not keep the pilot from seeing another."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fooling_targets import StudentMixture

from support.counting import CountingTarget, counting_target
from support.random_checks import must_fail
from support.tiny import quick_compilation
from tempering.adapters import as_target, from_callable
from tempering.adapters.prior import posterior_of
from tempering.kernels import MALA, RandomWalk
from tempering.parallel_tempering import heat
from tempering.parallel_tempering.mixing import drift, virial
from tempering.parallel_tempering.pilot.heat import planned_evaluations
from tempering.parallel_tempering.pilot.scouts import is_running_away, most_remote
from tempering.priors import Normal
from tempering.runs.ledger import Ledger
from tempering.settings import Pilot
from tempering.targets import GaussianMixture

KERNEL = MALA()
NUM_CHAINS, NUM_STEPS = 16, 60
_, COUNTER = counting_target(GaussianMixture([[0.0, 0.0]], 1.0))


@pytest.fixture(scope="module", autouse=True)
def compiled_quickly():
    with quick_compilation():
        yield


def pilot_of(**changes) -> Pilot:
    """The size that a budget of 40,000 evaluations gives."""
    numbers = {"num_chains": NUM_CHAINS, "num_steps": NUM_STEPS, "growth": 4.0, "max_rounds": 8, "max_rhat": 1.4}
    return Pilot(**{**numbers, **changes})


def two_modes(distance: float) -> CountingTarget:
    """Widths 1 and 0.6, the first around the starts; at distance 0 one sits inside the other."""
    return CountingTarget(
        GaussianMixture([[0.3, -0.2], [0.3 + distance, -0.2 + 0.6 * distance]], [1.0, 0.6], [0.7, 0.3]), 2, COUNTER
    )


def heated(target, pilot: Pilot, seed: int = 0, *, can_scout: bool = True):
    """The pilot's result from starts around the origin, its ledger checked against what was evaluated."""
    COUNTER.reset()
    ledger = Ledger()
    positions = jax.random.normal(jax.random.key(50 + seed), (pilot.num_chains, 2))
    key = jax.random.key(60 + seed)
    result = heat(key, target, KERNEL, positions, pilot, KERNEL.optimal_acceptance, ledger, can_scout=can_scout)
    assert COUNTER.wait(result.positions) == ledger.total == ledger.points["pilot"]
    assert ledger.total <= planned_evaluations(pilot, KERNEL)
    return result, ledger


def check_second_mode(result) -> None:
    """The ladder starts where the barrier of 65 to 180 is no obstacle, with chains from both modes."""
    assert result.is_mixed and result.hottest >= 16.0, f"the ladder starts at T = {result.hottest}"
    assert np.asarray(result.positions)[:, 0].max() > 12.0, "no chain in the second mode"


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_scouts_find_the_mode_that_no_chain_started_in(seed):
    target = two_modes(20.0)
    result, _ = heated(target, pilot_of(), seed)
    check_second_mode(result)
    assert result.scout_rhat > 1.4 and result.scout_reach >= 16.0
    # The saboteur: without scouts the pilot is sure of itself and has seen one mode.
    blind, _ = heated(target, pilot_of(), seed, can_scout=False)
    assert blind.is_mixed and np.isnan(blind.scout_rhat)
    must_fail(check_second_mode, blind)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_where_there_is_nothing_to_find_the_ladder_stays(seed):
    target = two_modes(0.0)
    blind, without = heated(target, pilot_of(), seed, can_scout=False)
    result, ledger = heated(target, pilot_of(), seed)
    assert result.is_mixed and not result.is_running_away
    assert result.hottest == blind.hottest == 4.0 and result.rhats == blind.rhats
    assert result.scout_rhat < 1.4 and result.scout_reach == 4.0**6
    # Two rounds' worth, a third of what six rounds take.
    assert 0 < ledger.total - without.total <= 2 * NUM_CHAINS * NUM_STEPS
    assert result.positions.shape == (2 * NUM_CHAINS, 2)
    np.testing.assert_allclose(result.units.scale, blind.units.scale)


@pytest.mark.parametrize("change", [{"ceiling": 4.0}, pytest.param({"max_rounds": 3}, marks=pytest.mark.slow)])
def test_scouts_are_not_sent_where_no_rounds_are_left_or_a_ceiling_is_set(change):
    result, _ = heated(two_modes(0.0), pilot_of(**change))
    assert np.isnan(result.scout_rhat) and np.isnan(result.scout_reach)


@pytest.mark.parametrize(("has_prior", "hottest"), [(True, 1024.0), pytest.param(False, 4.0, marks=pytest.mark.slow)])
def test_without_a_gradient_chains_begin_at_the_prior_if_there_is_one(has_prior, hottest):
    likelihood = from_callable(lambda x: float(-0.5 * np.sum(x**2)), dim=2)
    target = posterior_of(likelihood, None, None, Normal(0.0, 1.0), None) if has_prior else as_target(likelihood)
    kernel, positions = RandomWalk(), jax.random.normal(jax.random.key(50), (NUM_CHAINS, 2))
    own = (pilot_of(num_steps=120), kernel.optimal_acceptance, Ledger())
    result = heat(jax.random.key(60), target, kernel, positions, *own)
    assert result.is_mixed and result.hottest == hottest and np.isnan(result.scout_rhat)


def test_a_mode_too_far_to_mix_leaves_a_doubt():
    # Scouts see it; three rounds are not enough to join the two.
    result, _ = heated(two_modes(40.0), pilot_of(max_rounds=5, growth=1.5))
    assert result.scout_rhat > 1.4 and not result.is_mixed


def test_heavy_tails_are_told_and_not_followed():
    tails = StudentMixture([[0.0, 0.5], [4.0, -1.0]], [1.0, 0.7], [0.6, 0.4], freedom=1.5)
    result, _ = heated(CountingTarget(tails, 2, COUNTER), pilot_of())
    assert result.is_running_away
    # p^(1/T) is proper below T = (1.5 + 2) / 2 = 1.75.
    assert result.hottest <= 16.0 and np.all(np.isfinite(result.positions))


def test_the_virial_knows_equilibrium():
    draws = jnp.array([0.5, 3.0])[None, None] * jax.random.normal(jax.random.key(1), (50, 40, 2)) + 7.0
    gradient = -(draws - 7.0) / jnp.array([0.25, 9.0])[None, None]
    value, error = virial(draws, gradient)
    assert abs(float(value) - 1.0) < 5.0 * float(error) and float(error) < 0.05
    # Chains half as wide as they should be.
    narrow, _ = virial(7.0 + 0.5 * (draws - 7.0), 0.5 * gradient)
    assert abs(float(narrow) - 0.25) < 0.05


def test_drift_sees_a_shift_and_a_growth_and_neither_where_there_is_none():
    draws = jax.random.normal(jax.random.key(2), (40, 50, 3))
    shift, growth = drift(draws)
    assert shift < 5.0 and abs(float(growth) - 1.0) < 0.1
    late = jnp.arange(40)[:, None, None] >= 20
    assert drift(draws + jnp.where(late, 0.5, 0.0))[0] > 5.0
    assert drift(draws * jnp.where(late, 1.5, 1.0))[1] > 1.25
    assert drift(jnp.zeros((40, 50, 3))) == (0.0, 1.0)


def test_running_away_needs_a_low_virial_and_a_growing_spread():
    assert is_running_away(0.1, 2.0)
    assert not is_running_away(0.1, 1.0), "a box"
    assert not is_running_away(0.5, 2.0), "a lagging chain"


def test_the_most_remote_points_are_spread_out():
    stayed = jnp.zeros((4, 1))
    points = jnp.array([[1.0], [9.0], [9.1], [-5.0], [100.0]])
    usable = jnp.array([True, True, True, True, False])
    assert list(np.asarray(most_remote(stayed, points, usable, 5))) == [2, 3, 0, 1, -1]
