"""Every method keeps the same contract: an exact account, a budget that holds, repeatable results, one compilation.

The runs are tiny; whether the samplers are any good is asked in `test_ptsd_is_right.py`.
"""

import dataclasses
from collections import Counter
from importlib import import_module
from typing import ClassVar

import equinox as eqx
import jax
import numpy as np
import pytest

import tempering.guidance.choose
import tempering.methods.learn
from support.counting import CountingTarget
from support.random_checks import must_fail
from support.tiny import Kept, quick_compilation, tiny_pt_dm, tiny_ptsd, tiny_reweighted
from support.unchecked import unchecked
from support.witness import COUNTER, TARGET, WitnessedLedger, facts_and_arrays
from tempering.errors import BudgetError
from tempering.kernels import kernel_of
from tempering.lab.evaluation import judge
from tempering.methods.budget import planned
from tempering.methods.registry import METHODS
from tempering.parallel_tempering.pilot.heat import planned_evaluations as pilot_evaluations
from tempering.runs.config import MetricsConfig
from tempering.runs.ledger import Ledger
from tempering.sampler import Sampler
from tempering.settings import (
    Exploration,
    Guidance,
    Initial,
    Ladder,
    Network,
    Pilot,
    Refinement,
    Resampling,
)
from tempering.targets import ExactTarget

HMC = Exploration(kernel="hmc", num_leapfrog=3, swap_scheme="sweep", swap_interval=2)
NETWORK = Network(width=8, depth=2, coordinate_width=4, is_shared=True)
ONE_NETWORK = {
    "network": NETWORK,
    "guidance": Guidance("automatic", "log_T", is_anticipating=True),
    "resampling": Resampling(quantile=None, is_resampled=False),
}
PILOT = {
    "ladder": Ladder(num_levels=4, spacing="geometric"),
    "pilot": Pilot(num_chains=8, num_steps=16, growth=2.0, max_rounds=3, max_rhat=1.3),
}
CASES = {
    "PTSD": ("ptsd", tiny_ptsd()),
    "PTSD by HMC": ("ptsd", tiny_ptsd(exploration=HMC)),
    "PTSD without refinement": ("ptsd", tiny_ptsd(refinement=Refinement(num_steps=0))),
    "PTSD, a subset refined and thinned": (
        "ptsd",
        tiny_ptsd(refinement=Refinement(num_steps=9, num_chains=20, thin=2, adapt_fraction=0.3)),
    ),
    "PTSD, last level as generated": ("ptsd", tiny_ptsd(resampling=Resampling(levels="but_last"))),
    "PTSD, all levels as generated": ("ptsd", tiny_ptsd(resampling=Resampling(levels="none"))),
    "PTSD with one network": ("ptsd", tiny_ptsd(**ONE_NETWORK, refinement=Refinement(num_steps=0))),
    "PTSD with one network, refined": ("ptsd", tiny_ptsd(**ONE_NETWORK)),
    "PTSD with one network, a subset joins the weighted": (
        "ptsd",
        tiny_ptsd(**ONE_NETWORK, refinement=Refinement(num_steps=9, num_chains=20, thin=2, adapt_fraction=0.3)),
    ),
    "PTSD by the coldest model": ("ptsd", tiny_ptsd(network=NETWORK, guidance=Guidance("none", is_anticipating=False))),
    "PTSD, levels of unlike size": (
        "ptsd",
        tiny_ptsd(**ONE_NETWORK, refinement=Refinement(num_steps=0), level_size=48, last_buffer_size=80),
    ),
    "PTSD without models on the way": ("reweighted", tiny_reweighted()),
    "PTSD, the last level refined for longer": (
        "ptsd",
        tiny_ptsd(
            **ONE_NETWORK, last_refinement=Refinement(num_steps=7, num_states=3, adapt_fraction=0.1), num_final_draws=0
        ),
    ),
    "PTSD without final draws": ("ptsd", tiny_ptsd(num_final_draws=0)),
    "PTSD, steps that do not divide by thin": (
        "ptsd",
        tiny_ptsd(initial=Initial(num_chains=32, num_steps=10, burn_in=3, thin=3, scale=3.0)),
    ),
    "PTSD over two levels": ("ptsd", tiny_ptsd(ladder=Ladder(temperatures=(3.0, 1.0)))),
    "PT+DM": ("pt_dm", tiny_pt_dm()),
    "PT+DM by HMC": ("pt_dm", tiny_pt_dm(exploration=HMC)),
    "PT+DM without final draws": ("pt_dm", tiny_pt_dm(num_final_draws=0)),
}
SLOW = (
    "PTSD by HMC",
    "PTSD, a subset refined and thinned",
    "PTSD, steps that do not divide by thin",
    "PTSD over two levels",
    "PT+DM by HMC",
    "PTSD with one network",
    "PTSD with one network, a subset joins the weighted",
    "PTSD, levels of unlike size",
    "PTSD without models on the way",
)
"""Of `test_adaptive_runs` and of the other cases each has most."""
by_case = pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.slow) if case in SLOW else case for case in CASES]
)


@pytest.fixture(scope="module", autouse=True)
def compiled_quickly():
    with quick_compilation():
        yield


def fit(case: str, *, seed: int = 0, ledger: Ledger | None = None, **options) -> Sampler:
    method, settings = CASES[case]
    return METHODS[method].fit(TARGET, jax.random.key(seed), settings, ledger=ledger, **options)


def plan_of(case: str) -> dict[str, int]:
    method, settings = CASES[case]
    return {stage: num for stage, num in planned(settings, TARGET.dim).items() if num}


def check_account(ledger: WitnessedLedger, plan: dict[str, int]) -> None:
    """Three accounts of the same run: what was entered, what the host received, what was planned."""
    ledger.settle()
    assert dict(ledger.points) == dict(ledger.received) == plan
    assert ledger.total == COUNTER.total == sum(plan.values())


@by_case
def test_every_evaluation_is_planned_and_entered(case):
    ledger = WitnessedLedger()
    sampler = fit(case, ledger=ledger)
    assert isinstance(sampler, Sampler)
    check_account(ledger, plan_of(case))
    method, settings = CASES[case]
    assert sampler.evaluations == ledger.total and sampler.method == METHODS[method].title
    # The levels' own accounts add up to the same, but for the final weights, which belong to no level.
    levels = Counter()
    for record in sampler.levels:
        levels.update(record.evaluations)
    assert levels == Counter({stage: n for stage, n in plan_of(case).items() if stage != "final_weights"})
    assert (sampler.ess_fraction is not None) == (settings.num_final_draws > 0)
    assert np.all(np.isfinite(sampler.sample(5)))


@pytest.mark.parametrize("stage", ["initial_pt", "importance_weights", "refinement", "final_weights"])
def test_an_entry_forgotten_would_be_noticed(stage):
    ledger = WitnessedLedger(forgets=stage)
    fit("PTSD", ledger=ledger)
    must_fail(check_account, ledger, plan_of("PTSD"))


@pytest.mark.parametrize("case", ["PTSD", "PT+DM"])
def test_a_pilot_is_counted_too_and_within_its_plan(case):
    method, settings = CASES[case]
    settings = dataclasses.replace(settings, **PILOT)
    ledger = WitnessedLedger()
    sampler = METHODS[method].fit(TARGET, jax.random.key(0), settings, ledger=ledger)
    ledger.settle()
    assert dict(ledger.points) == dict(ledger.received)
    assert 0 < ledger.points["pilot"] <= pilot_evaluations(settings.pilot, kernel_of(settings.exploration, TARGET.dim))
    # Once the ladder is known the rest is exactly as planned.
    known = dataclasses.replace(settings, ladder=Ladder(temperatures=tuple(r.temperature for r in sampler.levels)))
    rest = {stage: n for stage, n in planned(known, TARGET.dim).items() if n}
    assert {stage: n for stage, n in ledger.points.items() if stage != "pilot"} == rest


@by_case
def test_a_budget_below_the_plan_is_refused_before_anything_is_evaluated(case):
    total = sum(plan_of(case).values())
    ledger = WitnessedLedger(budget=total - 1)
    with pytest.raises(BudgetError, match=rf"needs {total:,} evaluations.*budget of {total - 1:,}.*raise the budget"):
        fit(case, ledger=ledger)
    ledger.settle()
    assert COUNTER.total == 0 and ledger.points == {}


@pytest.mark.parametrize("case", ["PTSD", "PT+DM"])
def test_a_budget_of_exactly_the_plan_is_enough(case):
    ledger = WitnessedLedger(budget=sum(plan_of(case).values()))
    fit(case, ledger=ledger)
    check_account(ledger, plan_of(case))


def test_a_budget_that_the_pilot_uses_up_is_not_exceeded():
    _, settings = CASES["PTSD"]
    settings = dataclasses.replace(settings, **PILOT)
    ledger = WitnessedLedger(budget=pilot_evaluations(settings.pilot, kernel_of(settings.exploration, TARGET.dim)) + 1)
    with pytest.raises(BudgetError):
        METHODS["ptsd"].fit(TARGET, jax.random.key(0), settings, ledger=ledger)
    ledger.settle()
    assert ledger.received == {"pilot": ledger.points["pilot"]} and COUNTER.total <= ledger.budget


@pytest.mark.parametrize(
    "case", ["PTSD", pytest.param("PTSD, a subset refined and thinned", marks=pytest.mark.slow), "PT+DM"]
)
def test_the_same_seed_gives_the_same_bits_and_another_seed_others(case):
    first, again, other = (facts_and_arrays(fit(case, seed=seed)) for seed in (3, 3, 4))
    assert first == again
    weights = [name for name in first[1] if "network" in name and len(set(first[1][name])) > 1]
    assert weights and all(first[1][name] != other[1][name] for name in weights)


@pytest.mark.parametrize("case", ["PTSD", "PT+DM"])
def test_events_and_a_store_change_nothing(case):
    events, store = [], Kept()
    watched = facts_and_arrays(fit(case, on_event=events.append, store=store))
    assert watched == facts_and_arrays(fit(case))
    assert events[-1].evaluations == events[-1].planned - CASES[case][1].num_final_draws
    assert all(event.done <= event.total and event.evaluations <= event.planned for event in events)
    assert {event.num_levels for event in events} == {4}
    # A second fit from the same store computes no part anew.
    ledger = WitnessedLedger()
    assert facts_and_arrays(fit(case, store=store, ledger=ledger)) == watched
    ledger.settle()
    assert dict(ledger.received) == {"final_weights": 16}


class CountedExact(ExactTarget):
    """`TARGET` with the exact facts of the density inside it."""

    counting: CountingTarget
    dim: int = eqx.field(static=True)
    regions_partition: ClassVar[bool] = False

    def log_density(self, x):
        return self.counting.log_density(x)

    def sample(self, key, num):
        return self.counting.inner.sample(key, num)

    def log_z(self):
        return self.counting.inner.log_z()

    def mean(self):
        return self.counting.inner.mean()

    def second_moment(self):
        return self.counting.inner.second_moment()

    def region_weights(self):
        return self.counting.inner.region_weights()

    def region_indicators(self, x):
        return self.counting.inner.region_indicators(x)


def test_what_metrics_evaluate_is_counted_apart():
    ledger = WitnessedLedger(budget=0)
    sampler = dataclasses.replace(fit("PTSD"), target=CountedExact(TARGET, TARGET.dim), ledger=ledger)
    COUNTER.reset()
    config = MetricsConfig(num_samples=32, num_transport=16, num_weighted=16, num_likelihood=16)
    metrics, _ = judge(sampler, jax.random.key(1), config)
    ledger.settle()
    assert dict(ledger.points) == {"metrics": COUNTER.total}
    assert ledger.total == 0 and set(metrics) >= {"log_likelihood", "ess_fraction", "log_z_error", "w2"}


TRACED = {
    "advance and collect": ("tempering.parallel_tempering.run", "_step"),
    "_draw_chunk": ("tempering.diffusion.solve", "_draw_one"),
    "_train_block": ("tempering.diffusion.fit", "_train_step"),
}
"""What runs in Python only while the named functions are traced."""


@pytest.fixture
def traces(monkeypatch):
    """How often each of `TRACED` has run since the last `clear`."""
    counts: Counter[str] = Counter()

    def counted(name, function):
        def wrapper(*args, **kwargs):
            counts[name] += 1
            return function(*args, **kwargs)

        return wrapper

    for name, (path, attribute) in TRACED.items():
        module = import_module(path)
        monkeypatch.setattr(module, attribute, counted(name, getattr(module, attribute)))
    return counts


def fit_levels(num_levels: int, **changes) -> None:
    settings = tiny_ptsd(ladder=Ladder(hottest=8.0, num_levels=num_levels), **changes)
    METHODS["ptsd"].fit(TARGET, jax.random.key(0), settings)


def check_levels_compile_nothing(traces, **changes) -> None:
    """After four levels, seven need nothing compiled: the number of traces does not depend on the number of levels."""
    fit_levels(4, **changes)
    traces.clear()
    fit_levels(7, **changes)
    assert not traces, f"three more levels took these traces: {dict(traces)}"


@pytest.mark.slow
def test_more_levels_with_a_subset_refined_compile_nothing_more(traces):
    check_levels_compile_nothing(traces, refinement=Refinement(num_steps=9, num_chains=20, thin=2, adapt_fraction=0.3))


def test_more_levels_compile_nothing_more(traces):
    check_levels_compile_nothing(traces)
    traces.clear()
    # The witness is awake: another batch size is another program.
    fit_levels(3, training=dataclasses.replace(tiny_ptsd().training, batch_size=15))
    assert set(traces) == {"_train_block"}


class GuidedByAConstant(eqx.Module):
    """Guidance whose weight is part of the program, not an argument of it."""

    models: tuple
    weights: tuple[float, ...] = eqx.field(static=True)

    def __init__(self, models, weights):
        self.models, self.weights = models, tuple(float(weight) for weight in weights)

    def __call__(self, x_noisy, sigma):
        """The extrapolated denoiser."""
        return sum(weight * model(x_noisy, sigma) for weight, model in zip(self.weights, self.models, strict=True))


@pytest.mark.slow
def test_a_constant_that_differs_by_level_would_be_noticed(traces, monkeypatch):
    monkeypatch.setattr(tempering.guidance.choose, "Guided", GuidedByAConstant)
    with unchecked():
        message = must_fail(check_levels_compile_nothing, traces)
    assert "_draw_chunk" in message and "_train_block" not in message


class Counted(Kept):
    """A store that notes how much had been traced when each part was done."""

    def __init__(self, traces):
        super().__init__()
        self.traces, self.counts = traces, {}

    def save(self, level, part, arrays, note):
        """Keep a part and the counts."""
        super().save(level, part, arrays, note)
        self.counts[level, part] = dict(self.traces)


def check_one_network_compiles_once(traces, batch_size: int) -> None:
    """Of five levels, the last one larger, the first learning and the first guided draws compile; no later ones do."""
    changes = {**ONE_NETWORK, "guidance": Guidance("conditioned", is_anticipating=True)}
    training = dataclasses.replace(tiny_ptsd().training, batch_size=batch_size)
    ladder, store = Ladder(hottest=8.0, num_levels=5), Counted(traces)
    settings = tiny_ptsd(**changes, training=training, ladder=ladder, refinement=Refinement(num_steps=0))
    settings = dataclasses.replace(settings, last_buffer_size=5 * settings.buffer_size // 2)
    METHODS["ptsd"].fit(TARGET, jax.random.key(0), settings, store=store)
    counts = store.counts
    assert counts[1, "model"]["_train_block"] > 0, "this batch size must be new, or nothing is seen"
    assert counts[2, "model"] == counts[3, "model"] == counts[4, "model"], f"traces by part: {counts}"


@pytest.mark.slow
def test_one_network_for_all_levels_compiles_once(traces, monkeypatch):
    check_one_network_compiles_once(traces, 13)
    # The saboteur: a dataset that grows with every level.
    monkeypatch.setattr(tempering.methods.learn, "_num_places", lambda *arguments: 0)
    assert "_train_block" in must_fail(check_one_network_compiles_once, traces, 14)
