"""Settings chosen for a density nobody has tuned for: within the budget, whatever dimension and ladder, or refused."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from support.unchecked import unchecked
from tempering.automatic import automatic_settings, default_budget, pilot_settings
from tempering.errors import BudgetError
from tempering.experiments.methods import METHODS
from tempering.kernels import MALA
from tempering.parallel_tempering import temperatures_of
from tempering.parallel_tempering.pilot import planned_evaluations as pilot_evaluations
from tempering.settings import Ladder

DIMS = st.integers(1, 128)
METHOD_NAMES = st.sampled_from(sorted(METHODS))
LADDERS = st.builds(
    lambda hottest, num_levels: temperatures_of(Ladder(hottest=hottest, num_levels=num_levels), dim=1),
    st.floats(1.1, 1e4),
    st.none() | st.integers(2, 40),
)
BUDGETS = st.integers(1, 3_000_000)


@pytest.fixture(scope="module", autouse=True)
def as_users_run_it():
    with unchecked():
        yield


@given(method=METHOD_NAMES, dim=DIMS, temperatures=LADDERS, budget=BUDGETS)
@example(method="ptsd", dim=128, temperatures=(4.0, 2.0, 1.0), budget=20_000)
@example(method="ptsd", dim=2, temperatures=(4.0, 1.0), budget=1_000)
@example(method="pt_dm", dim=2, temperatures=(4.0, 1.0), budget=2_200)
def test_the_plan_is_within_the_budget_or_the_budget_is_refused(method, dim, temperatures, budget):
    try:
        settings = automatic_settings(method, dim=dim, temperatures=temperatures, budget=budget, scale=2.5)
    except BudgetError as refusal:
        assert f"{budget:,} evaluations" in str(refusal) and "raise the budget" in str(refusal)
        return
    planned = sum(METHODS[method].plan(settings, dim).values())
    assert planned <= budget, f"planned {planned:,} of {budget:,}"
    assert planned >= 0.25 * budget or settings.buffer_size >= 1500, "most of the budget lies idle"
    assert settings.ladder.temperatures == temperatures and settings.initial.scale == 2.5


@given(method=METHOD_NAMES, dim=DIMS, temperatures=LADDERS, budget=BUDGETS)
def test_a_larger_budget_is_never_refused_where_a_smaller_one_was_not(method, dim, temperatures, budget):
    def is_allowed(budget):
        try:
            automatic_settings(method, dim=dim, temperatures=temperatures, budget=budget, scale=1.0)
        except BudgetError:
            return False
        return True

    assert is_allowed(2 * budget) or not is_allowed(budget)


@pytest.mark.parametrize("method", METHODS)
@given(dim=DIMS, hottest=st.floats(1.5, 300.0))
def test_the_default_budget_is_enough_after_the_pilot(method, dim, hottest):
    budget = default_budget(dim)
    left = budget - pilot_evaluations(pilot_settings(dim, budget), MALA())
    temperatures = temperatures_of(Ladder(hottest=hottest), dim=dim)
    settings = automatic_settings(method, dim=dim, temperatures=temperatures, budget=left, scale=1.0)
    assert sum(METHODS[method].plan(settings, dim).values()) <= left


@given(dim=DIMS, budget=BUDGETS)
def test_a_pilot_spends_a_fifth_at_the_most_or_the_budget_is_refused(dim, budget):
    try:
        pilot = pilot_settings(dim, budget)
    except BudgetError as refusal:
        assert f"a budget of {budget:,} evaluations is too small" in str(refusal) and "`ladder=`" in str(refusal)
        return
    assert pilot_evaluations(pilot, MALA()) <= 0.2 * budget


@pytest.mark.parametrize("dim", range(1, 129))
def test_the_least_budget_that_a_refusal_names_is_enough(dim):
    with pytest.raises(BudgetError, match="give at least") as refusal:
        pilot_settings(dim, 10)
    least = int(str(refusal.value).split("give at least ")[1].split(" ")[0].replace(",", ""))
    assert pilot_settings(dim, least).num_chains >= 4
    with pytest.raises(BudgetError):
        pilot_settings(dim, least - 1)


def test_more_dimensions_get_more():
    budgets = [default_budget(dim) for dim in range(1, 129)]
    assert all(more > less for less, more in zip(budgets, budgets[1:], strict=False)) and budgets[0] >= 10_000
