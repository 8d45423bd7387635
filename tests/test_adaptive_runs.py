"""Runs whose ladder is found on the way and whose sizes come from the budget: they end at T = 1 and spend no more.

The networks are tiny and the samplers worthless; the account, the ladder and the resuming must be right.
"""

import dataclasses
from types import SimpleNamespace
from unittest.mock import patch

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import strategies as st

from support.defaults import default_settings
from support.random_checks import must_fail
from support.tiny import Kept, quick_compilation, shrunk, tiny_ptsd
from support.unchecked import unchecked
from support.witness import TARGET, WitnessedLedger, facts_and_arrays
from tempering.buffer import Levels
from tempering.errors import BudgetError
from tempering.methods import stages
from tempering.methods.budget import Plan
from tempering.methods.registry import METHODS
from tempering.parallel_tempering import ladder as ladder_module
from tempering.parallel_tempering import next_temperature
from tempering.runs.ledger import Ledger
from tempering.sampler import Sampler
from tempering.settings import Ladder, Refinement, Resampling


@pytest.fixture(scope="module", autouse=True)
def compiled_quickly():
    with quick_compilation(), unchecked():
        yield


ADAPTIVE = Ladder(hottest=60.0, spacing="adaptive")


def keeping(share: float):
    """Another effective share to keep than the library's, for as long as the context lasts."""
    return patch.object(ladder_module, "KEPT_SHARE", share)


def fit_adaptive(ladder: Ladder, kept_share: float, budget: int | None = None):
    """A fit without refinement, with weights kept: the sampler, the store and the ledger."""
    store, ledger = Kept(), WitnessedLedger(budget)
    weights = Resampling(quantile=None, is_resampled=False)
    settings = tiny_ptsd(ladder=ladder, refinement=Refinement(num_steps=0), resampling=weights)
    with keeping(kept_share):
        sampler = METHODS["ptsd"].fit(TARGET, jax.random.key(1), settings, store=store, ledger=ledger)
    ledger.settle()
    assert dict(ledger.points) == dict(ledger.received) and (budget is None or ledger.total <= budget)
    return sampler, store, ledger


def check_ladder(temperatures: list[float], hottest: float, most_levels: int) -> None:
    assert temperatures[0] == hottest and temperatures[-1] == 1.0, temperatures
    assert all(hot > cold for hot, cold in zip(temperatures, temperatures[1:], strict=False)), temperatures
    assert len(temperatures) <= most_levels, temperatures


def temperatures_of_sampler(sampler: Sampler) -> list[float]:
    return [record.temperature for record in sampler.levels]


@pytest.mark.slow
def test_an_adaptive_ladder_follows_the_buffers():
    sampler, store, _ = fit_adaptive(ADAPTIVE, 0.6)
    temperatures = temperatures_of_sampler(sampler)
    check_ladder(temperatures, 60.0, 64)
    assert len(temperatures) >= 4, "this test needs steps that the buffers decide"
    for level in range(1, len(temperatures) - 1):
        arrays, _ = store.parts[level, "buffer"]
        log_density, weight = jnp.asarray(arrays["cold/log_density"]), jax.nn.softmax(arrays["cold/log_weight"])
        with keeping(0.6):
            aim = next_temperature(log_density, weight, temperatures[level])
        bound = temperatures[level] ** (1.0 - 1.0 / (64 - level - 1))
        assert temperatures[level + 1] == pytest.approx(min(aim, bound), rel=1e-5)
    for saboteur in (temperatures[:-1], [*temperatures[:-1], temperatures[-2], 1.0], temperatures[1:]):
        must_fail(check_ladder, saboteur, 60.0, 64)


@pytest.mark.parametrize("num_levels", [pytest.param(n, marks=pytest.mark.slow) for n in (2, 3, 5)])
def test_an_adaptive_ladder_has_no_more_levels_than_it_may(num_levels):
    # Left alone, it would take steps of a few per cent.
    sampler, _, _ = fit_adaptive(dataclasses.replace(ADAPTIVE, num_levels=num_levels), 0.99)
    temperatures = temperatures_of_sampler(sampler)
    check_ladder(temperatures, 60.0, num_levels)
    assert len(temperatures) == num_levels
    # Evenly spaced then.
    np.testing.assert_allclose(np.diff(np.log(temperatures)), -np.log(60.0) / (num_levels - 1), rtol=1e-5)


def test_an_adaptive_ladder_keeps_the_budget():
    start, level, final = 2 * 32 * (1 + 8), 32, 16
    sampler, _, ledger = fit_adaptive(ADAPTIVE, 0.99, budget=start + 4 * level + final + 5)
    check_ladder(temperatures_of_sampler(sampler), 60.0, 6)
    assert ledger.total == start + 4 * level + final and len(sampler.levels) == 6
    with pytest.raises(BudgetError, match="over 3 levels, more than the budget"):
        fit_adaptive(ADAPTIVE, 0.99, budget=start + level + final - 1)


@hypothesis.given(
    hottest=st.floats(1.001, 1e6),
    second=st.floats(0.0, 1.0),
    most_levels=st.integers(3, 64),
    kept_share=st.floats(0.01, 0.999),
    spread=st.floats(0.0, 1e5),
)
def test_any_adaptive_ladder_comes_to_an_end(hottest, second, most_levels, kept_share, spread):
    settings = tiny_ptsd(ladder=Ladder(spacing="adaptive"))
    energies = spread * np.random.default_rng(0).normal(size=40)
    buffer = SimpleNamespace(states=lambda: SimpleNamespace(log_ratio=energies), weight=np.full(40, 1 / 40))
    first = [hottest, max(1.0, hottest ** (1.0 - 1.0 / (most_levels - 1) - 0.01 * second))]
    journal = SimpleNamespace(ledger=Ledger())
    others = {"target": TARGET, "start": SimpleNamespace(num_kept=0)}
    run = SimpleNamespace(settings=settings, plan=Plan(most_levels=most_levels), journal=journal, **others)
    levels = Levels(tuple(first), (buffer,) * 2, jnp.ones(2), jnp.ones(()))
    with unchecked(), keeping(kept_share):
        while levels.temperature > 1.0:
            levels = levels.towards(stages.next_temperature(run, levels))
            levels = dataclasses.replace(levels, buffers=(*levels.buffers, buffer))
    check_ladder(list(levels.temperatures), hottest, most_levels)


# Sizes from the budget, with everything that the defaults do.


def default_fit(method: str, budget: int, path: str = "automatic", **options):
    """The default settings with a network that takes no time; the search, the pilot and every size are as they are."""
    settings = shrunk(default_settings(method, TARGET.dim))
    settings = dataclasses.replace(settings, atlas=dataclasses.replace(settings.atlas, path=path))
    ledger = WitnessedLedger(budget)
    sampler = METHODS[method].fit(TARGET, jax.random.key(2), settings, ledger=ledger, **options)
    ledger.settle()
    return sampler, ledger


@pytest.fixture(scope="module")
def default_ptsd():
    """A whole run by default settings: sampler, ledger, store, events."""
    store, events = Kept(), []
    sampler, ledger = default_fit("ptsd", 14_000, "temperature", store=store, on_event=events.append)
    return sampler, ledger, store, events


@pytest.fixture(scope="module")
def drawn_from_modes():
    """The same where the density is drawn from its modes."""
    store, events = Kept(), []
    sampler, ledger = default_fit("ptsd", 14_000, store=store, on_event=events.append)
    return sampler, ledger, store, events


def test_a_fit_from_modes_enters_every_evaluation(drawn_from_modes):
    sampler, ledger, _, events = drawn_from_modes
    assert dict(ledger.points) == dict(ledger.received)
    assert set(ledger.points) == {"atlas", "reference", "importance_weights", "final_weights"}
    assert temperatures_of_sampler(sampler) == [1.0] and sampler.checks.path == "reference"
    assert all(event.done <= event.total and event.evaluations <= event.planned <= 14_000 for event in events)


def test_a_fit_from_modes_resumes_from_any_part(drawn_from_modes):
    sampler, ledger, store, _ = drawn_from_modes
    order = list(store.parts)
    assert order == [(0, "atlas"), (0, "buffer"), (0, "model")]
    for num_kept in (1, 2):
        again = Kept()
        again.parts = {place: store.parts[place] for place in order[:num_kept]}
        resumed, spent = default_fit("ptsd", 14_000, store=again)
        assert facts_and_arrays(resumed) == facts_and_arrays(sampler), f"after {num_kept} parts"
        assert dict(spent.points) == dict(ledger.points)


def test_the_defaults_spend_the_budget_and_enter_every_evaluation(default_ptsd):
    sampler, ledger, _, events = default_ptsd
    assert dict(ledger.points) == dict(ledger.received)
    assert set(ledger.points) == {"atlas", "pilot", "initial_pt", "importance_weights", "final_weights"}
    assert ledger.total == sum(ledger.received.values()) == 14_000, "the last level has all that is left"
    check_ladder(temperatures_of_sampler(sampler), sampler.levels[0].temperature, 64)
    assert all(event.done <= event.total and event.evaluations <= event.planned <= 14_000 for event in events)
    # What a level was drawn from is told, with what it promised.
    for record in sampler.levels[2:]:
        assert record.proposal in ("log_T", "T", "conditioned", "log_T, second order")
        assert 0.0 <= record.predicted_ess_fraction <= 1.0


@pytest.mark.slow
def test_the_defaults_of_pt_dm_keep_the_budget():
    _, ledger = default_fit("pt_dm", 9_000)
    assert dict(ledger.points) == dict(ledger.received) and set(ledger.points) == {
        "pilot",
        "initial_pt",
        "final_weights",
    }
    assert 0.8 * 9_000 < ledger.total <= 9_000


@pytest.mark.slow
def test_a_ladder_of_ones_own_needs_no_budget_for_a_pilot():
    settings = shrunk(default_settings("pt_dm", TARGET.dim), ladder=Ladder(temperatures=(4.0, 1.0)))
    ledger = WitnessedLedger(4_000)
    METHODS["pt_dm"].fit(TARGET, jax.random.key(2), settings, ledger=ledger)
    ledger.settle()
    assert dict(ledger.points) == dict(ledger.received) and "pilot" not in ledger.points and ledger.total <= 4_000


@pytest.mark.parametrize("is_whole", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["some", "all"])
def test_the_defaults_resume_from_any_part(default_ptsd, is_whole):
    sampler, ledger, store, _ = default_ptsd
    order = list(store.parts)
    places = range(1, len(order) + 1) if is_whole else (1, 3, len(order) - 2)
    assert order[:2] == [(0, "atlas"), (0, "pilot")] and order[-1] == (len(sampler.levels) - 1, "model")
    for num_kept in places:
        again = Kept()
        again.parts = {place: store.parts[place] for place in order[:num_kept]}
        resumed, spent = default_fit("ptsd", 14_000, "temperature", store=again)
        assert facts_and_arrays(resumed) == facts_and_arrays(sampler), f"after {num_kept} parts"
        assert dict(spent.points) == dict(ledger.points)
