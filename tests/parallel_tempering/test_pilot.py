"""The pilot: it heats until the chains mix and no further, and spends what it says."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.counting import CountingTarget, counting_target
from support.random_checks import assert_fraction, must_fail
from support.tiny import quick_compilation
from tempering.errors import BudgetError
from tempering.kernels import HMC, MALA
from tempering.parallel_tempering import heat
from tempering.parallel_tempering.pilot import heat as pilot_module
from tempering.parallel_tempering.pilot.heat import planned_evaluations
from tempering.parallel_tempering.pilot.relax import NUM_STEPS
from tempering.runs.ledger import Ledger
from tempering.settings import Pilot
from tempering.targets import Gaussian, GaussianMixture, ManyWell

PILOT = Pilot(num_chains=32, num_steps=62, growth=2.0, max_rounds=12, max_rhat=1.3)
KERNEL = MALA()
_, COUNTER = counting_target(GaussianMixture([[0.0, 0.0]], 1.0))


@pytest.fixture(scope="module", autouse=True)
def compiled_quickly():
    with quick_compilation():
        yield


def _two_modes(distance: float) -> CountingTarget:
    """Two unit normals; at distance 0 they are one Gaussian, in the same compilation."""
    return CountingTarget(GaussianMixture([[1.0, -2.0], [1.0 + distance, -2.0]], 1.0), 2, COUNTER)


def _heat(target: CountingTarget, pilot: Pilot = PILOT, ledger: Ledger | None = None):
    """The pilot's result, its ledger and what it told, from starts spread over both modes."""
    COUNTER.reset()
    positions = target.inner.sample(jax.random.key(90), pilot.num_chains)
    ledger, told = ledger or Ledger(), []
    arguments = jax.random.key(91), target, KERNEL, positions, pilot, KERNEL.optimal_acceptance, ledger
    return heat(*arguments, can_scout=False, on_round=lambda *values: told.append(values)), ledger, told


def _check_spent(result, ledger: Ledger, pilot: Pilot) -> None:
    """The ledger holds what was really evaluated, which is what the rounds come to."""
    steps = 4 * (pilot.num_steps // 4)
    assert COUNTER.wait(result.positions) == ledger.total == ledger.points["pilot"]
    assert ledger.total == pilot.num_chains * (1 + steps * len(result.rhats))
    assert ledger.total <= planned_evaluations(pilot, KERNEL)


@pytest.mark.slow
def test_one_mode_takes_the_first_temperature_above_one():
    result, ledger, told = _heat(_two_modes(0.0))
    assert result.is_mixed and result.hottest == 2.0
    assert [temperature for temperature, _ in result.rhats] == [1.0, 2.0]
    assert [(temperature, rhat) for _, temperature, rhat in told] == list(result.rhats)
    assert result.positions.shape == (32, 2) and np.all(np.isfinite(result.positions))
    _check_spent(result, ledger, PILOT)


def test_two_far_modes_are_heated_until_they_mix():
    result, ledger, _ = _heat(_two_modes(20.0))
    rhats = dict(result.rhats)
    assert result.is_mixed
    # The barrier is 50: at T = 2 nothing crosses, and at T = 200 there is none left to speak of.
    assert 8.0 <= result.hottest <= 512.0
    assert rhats[1.0] > 2.0 and rhats[2.0] > 2.0
    assert rhats[result.hottest] < PILOT.max_rhat
    # Every temperature tried before had not mixed, or it would have stopped there.
    assert all(rhat >= PILOT.max_rhat for temperature, rhat in result.rhats if 1.0 < temperature < result.hottest)
    # The chains it leaves are a start for both modes.
    assert_fraction(np.asarray(result.positions[:, 0] > 11.0), 0.5, name="chains in the right mode")
    _check_spent(result, ledger, PILOT)


def test_modes_too_far_apart_spend_the_plan_and_say_so():
    result, ledger, _ = _heat(_two_modes(3000.0))
    assert not result.is_mixed
    assert len(result.rhats) == PILOT.max_rounds
    assert result.hottest == 2.0 ** (PILOT.max_rounds - 1)
    # The plan allows for starting points in a wall, which these are not.
    assert ledger.total == planned_evaluations(PILOT, KERNEL) - PILOT.num_chains * (1 + NUM_STEPS)
    _check_spent(result, ledger, PILOT)


def assert_some_stay_cool(num: int = 8) -> None:
    """Short rounds on many wells: at T = 64 one of two coordinates is four times as wide as the other, at 4 alike."""
    target, pilot = ManyWell(dim=32), Pilot(num_chains=13, num_steps=24, growth=4.0, max_rounds=8, max_rhat=1.4)
    kernel, hottest = HMC(num_leapfrog=4), []
    for seed in range(num):
        ledger, positions = Ledger(), jax.random.normal(jax.random.key(92 + seed), (13, 32))
        result = heat(jax.random.key(seed), target, kernel, positions, pilot, kernel.optimal_acceptance, ledger)
        assert ledger.total == 13 * (1 + 24 * 4 * (len(result.rhats) + 2))  # scouts take two rounds
        hottest.append(result.hottest)
    # Three quarters do on the average; with the units of the round before none of 48 did.
    assert sum(temperature <= 64.0 for temperature in hottest) >= 3, hottest


def test_short_rounds_are_not_held_up_by_units_of_the_round_before(monkeypatch):
    assert_some_stay_cool()
    bake = pilot_module._Oven.bake
    monkeypatch.setattr(pilot_module._Oven, "bake", lambda self, *given, is_hotter=False: bake(self, *given))
    must_fail(assert_some_stay_cool)


def test_a_single_round_still_names_a_temperature_above_one():
    pilot = Pilot(num_chains=32, num_steps=62, max_rounds=1, growth=3.0)
    result, ledger, _ = _heat(_two_modes(0.0), pilot)
    assert result.hottest == 3.0 and len(result.rhats) == 1
    _check_spent(result, ledger, pilot)


@pytest.mark.parametrize("num_steps", [16, 17, 19])
def test_the_shortest_pilot_can_tell_that_chains_mix(num_steps):
    pilot = Pilot(num_chains=32, num_steps=num_steps, max_rounds=2, max_rhat=100.0)
    result, ledger, _ = _heat(_two_modes(0.0), pilot)
    assert result.is_mixed and all(np.isfinite(rhat) for _, rhat in result.rhats)
    _check_spent(result, ledger, pilot)


def test_a_budget_stops_the_pilot_before_it_is_exceeded():
    ledger = Ledger(budget=32 * 50)
    with pytest.raises(BudgetError, match="pilot"):
        _heat(_two_modes(0.0), ledger=ledger)
    jax.effects_barrier()
    assert COUNTER.total <= ledger.total <= 32 * 50


STD = np.array([0.05, 1.0, 12.0])


def check_scale(scale, temperature: float) -> None:
    """The spread of a Gaussian at T is sqrt(T) times its own."""
    ratio = np.asarray(scale) / (np.sqrt(temperature) * STD)
    assert np.all(np.abs(ratio - 1.0) < 0.3), f"scale over the spread: {ratio}"


@pytest.mark.slow
def test_the_scale_is_the_spread_of_every_coordinate():
    target = Gaussian([2.0, -1.0, 5.0], np.diag(STD**2))
    pilot = Pilot(num_chains=32, num_steps=200, max_rounds=8, max_rhat=1.2)
    # Starts that know nothing of the density: too wide for one coordinate, too narrow for another.
    positions = jax.random.normal(jax.random.key(3), (32, 3))
    arguments = jax.random.key(4), target, KERNEL, positions, pilot, KERNEL.optimal_acceptance, Ledger()
    result = heat(*arguments, can_scout=False)
    assert result.is_mixed
    check_scale(result.units.scale, result.hottest)
    must_fail(check_scale, jnp.std(positions, axis=0), result.hottest)
    must_fail(check_scale, result.units.scale, 3.0 * result.hottest)
    must_fail(check_scale, result.units.scale[::-1], result.hottest)
    assert np.all(np.isfinite(result.positions)) and result.positions.shape == (32, 3)
    # Positions are in the target's own units.
    assert np.all(np.abs(np.std(np.asarray(result.positions), axis=0) / (np.sqrt(result.hottest) * STD) - 1) < 0.6)


def test_copies_of_one_start_have_no_spread_but_that_of_rounding():
    target = _two_modes(0.0)
    copies = jnp.tile(jnp.asarray([[0.7193, -1.3377]]), (32, 1))
    assert 0 < float(jnp.max(jnp.std(copies, axis=0))) < 1e-6  # what must not become a unit
    pilot = Pilot(num_chains=32, num_steps=62, max_rounds=1)
    result = heat(jax.random.key(91), target, KERNEL, copies, pilot, KERNEL.optimal_acceptance, Ledger())
    assert np.all(np.asarray(result.units.scale) > 0.3) and np.all(np.asarray(result.units.scale) < 3.0)
