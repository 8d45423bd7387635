"""Whole fits of a black box: what the callable really received is what the ledger says, stage by stage.

The fits are tiny and the samplers worthless, but for the last, slow one: is a sampler without any gradient any good?
"""

from collections import Counter
from dataclasses import replace

import jax
import numpy as np
import pytest

import tempering as tp
from support.black_boxes import CENTRE, WIDTH, Counted
from support.defaults import default_settings
from support.random_checks import assert_mean, must_fail
from support.tiny import quick_compilation, shrunk, tiny_pt_dm, tiny_ptsd
from support.unchecked import unchecked
from tempering.adapters import from_callable
from tempering.errors import BudgetError, SettingsError
from tempering.methods.budget import planned
from tempering.methods.registry import METHODS
from tempering.runs.ledger import Ledger
from tempering.settings import Exploration, Ladder, Pilot
from tempering.targets.cost import points_per_gradient

AUTOMATIC = Exploration(kernel="automatic")
SHORT = Ladder(hottest=8.0, num_levels=3)
PILOT = {"ladder": Ladder(num_levels=3), "pilot": Pilot(num_chains=8, num_steps=16, max_rounds=4)}
MODES = {"none": ("value", "none"), "finite": ("value", "finite"), "returned": ("pair", "returned")}
CASES = {
    "PTSD, none": ("ptsd", "none", tiny_ptsd(exploration=AUTOMATIC, ladder=SHORT)),
    "PTSD, finite": ("ptsd", "finite", tiny_ptsd(exploration=AUTOMATIC, ladder=SHORT)),
    "PTSD, returned": ("ptsd", "returned", tiny_ptsd(exploration=AUTOMATIC, ladder=SHORT)),
    "PT+DM, none": ("pt_dm", "none", tiny_pt_dm(exploration=AUTOMATIC, ladder=SHORT)),
    "PT+DM, finite": ("pt_dm", "finite", tiny_pt_dm(exploration=AUTOMATIC, ladder=SHORT)),
    "PT+DM, returned": ("pt_dm", "returned", tiny_pt_dm(exploration=AUTOMATIC, ladder=SHORT)),
    "PTSD with a pilot, none": ("ptsd", "none", tiny_ptsd(exploration=AUTOMATIC, **PILOT)),
    "PTSD with a pilot, finite": ("ptsd", "finite", tiny_ptsd(exploration=AUTOMATIC, **PILOT)),
    "PT+DM with a pilot, returned": ("pt_dm", "returned", tiny_pt_dm(exploration=AUTOMATIC, **PILOT)),
}
FAST = ("PT+DM, none",)
by_case = pytest.mark.parametrize(
    "case", [case if case in FAST else pytest.param(case, marks=pytest.mark.slow) for case in CASES]
)


@pytest.fixture(scope="module", autouse=True)
def compiled_quickly():
    with quick_compilation(), unchecked():
        yield


class ReceivedLedger(Ledger):
    """A ledger that notes what the callable received between one entry and the next, by the stage that asked."""

    def __init__(self, counted: Counted):
        super().__init__()
        self.counted, self.stage, self.seen = counted, "", 0
        self.received: Counter[str] = Counter()

    def spend(self, stage, num_points, *, with_gradient=True):
        """Enter, after what was asked for before has arrived."""
        self.settle()
        self.stage = stage
        super().spend(stage, num_points, with_gradient=with_gradient)

    def settle(self) -> None:
        """Give the points received since the last entry to the stage that made it."""
        jax.block_until_ready(jax.live_arrays())
        if self.counted.points > self.seen:
            self.received[self.stage] += self.counted.points - self.seen
        self.seen = self.counted.points


def check_account(ledger: ReceivedLedger) -> None:
    ledger.settle()
    assert dict(ledger.points) == dict(ledger.received)


@by_case
def test_the_callable_receives_what_the_ledger_says(case):
    method, mode, settings = CASES[case]
    gives, gradient = MODES[mode]
    counted = Counted(gives)
    target, ledger = from_callable(counted, 2, gradient=gradient), ReceivedLedger(counted)
    sampler = METHODS[method].fit(target, jax.random.key(0), settings, ledger=ledger)
    check_account(ledger)
    each = points_per_gradient(target)
    assert (each > 1) == (mode == "finite")
    if "pilot" not in case:
        plan = planned(settings, 2)
        assert dict(ledger.points) == {stage: each * num for stage, num in plan.items() if num}
    assert ledger.value_only == ({} if mode == "returned" else ledger.points)
    levels = Counter()
    for record in sampler.levels:
        levels.update(record.evaluations)
    assert levels == Counter({k: n for k, n in ledger.points.items() if k not in ("pilot", "final_weights")})
    assert mode != "none" or all(record.virial is None for record in sampler.levels), "zeros are no gradients"
    # What the finished sampler spends is entered too.
    before = counted.points
    draws, log_weights = sampler.sample_weighted(16)
    assert np.all(np.isfinite(draws)) and log_weights.shape == (16,)
    assert counted.points - before == ledger.points["sampling"] == 16 * each
    ledger.counted.points += 1
    must_fail(check_account, ledger)


def test_exceptions_of_a_fit_are_raised_as_they_are():
    def failing(x):
        raise FileNotFoundError("table.dat")

    for settings in (None, tiny_ptsd(exploration=AUTOMATIC)):
        with pytest.raises(FileNotFoundError, match=r"^table\.dat$"):
            tp.fit(from_callable(failing, 2), settings=settings, progress=False)


def test_a_kernel_that_needs_gradients_is_refused():
    for kernel in ("mala", "hmc"):
        with pytest.raises(SettingsError, match=f"kernel = '{kernel}' .*random_walk.*gradient='finite'"):
            settings = tiny_ptsd(exploration=Exploration(kernel=kernel))
            tp.fit(from_callable(Counted(), 2), settings=settings, progress=False)


def test_a_budget_counts_the_points_of_finite_differences():
    target = from_callable(Counted(), 2, gradient="finite")
    needed = 3 * sum(planned(tiny_ptsd(), 2).values())
    with pytest.raises(BudgetError, match=f"needs {needed:,} evaluations"):
        tp.fit(target, settings=tiny_ptsd(), budget=needed - 1, progress=False)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["none", "finite"])
def test_a_budget_is_never_exceeded(mode):
    counted = Counted()
    target = from_callable(counted, 2, gradient=mode)
    sampler = tp.fit(target, settings=shrunk(default_settings("ptsd", 2)), budget=60_000, progress=False)
    assert counted.points == sampler.evaluations <= 60_000
    assert sampler.evaluations > 50_000, "and it is used"


@pytest.mark.slow
@pytest.mark.telling
def test_a_sampler_without_gradients_is_right():
    class TwoModes:
        """Weights 0.7 and 0.3, five standard deviations of the wider coordinate apart."""

        def __call__(self, x):
            far = CENTRE + np.asarray([5.0, 4.0])
            near, other = (-0.5 * np.sum(((x - c) / WIDTH) ** 2, axis=1) for c in (CENTRE, far))
            return np.logaddexp(np.log(0.7) + near, np.log(0.3) + other)

    base = default_settings("ptsd", 2)
    settings = replace(
        base,
        network=replace(base.network, width=64, depth=2),
        training=replace(base.training, num_steps=1500, num_finetune_steps=500, batch_size=256),
    )
    target = from_callable(TwoModes(), 2, batched=True)
    sampler = tp.fit(target, budget=60_000, settings=settings, seed=0, progress=False)
    draws, log_weights = sampler.sample_weighted(20_000, seed=1)
    weights = np.exp(log_weights - np.max(log_weights))
    share = np.sum(weights * (draws[:, 0] > CENTRE[0] + 2.5)) / np.sum(weights)
    assert abs(share - 0.3) < 0.03, share
    log_z = np.log(2 * np.pi * np.prod(WIDTH))
    assert abs(sampler.log_z - log_z) < max(0.05, 5 * sampler.log_z_error), (sampler.log_z, log_z)
    assert sampler.ess_fraction > 0.3 and all(record.virial is None for record in sampler.levels)
    assert_mean(sampler.sample_exact(5_000, seed=2)[::5], CENTRE + 0.3 * np.asarray([5.0, 4.0]), name="mean", key=2)
