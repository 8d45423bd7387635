"""Settings for a density nobody has tuned for: within the budget, whatever dimension and ladder, or refused."""

import dataclasses

import equinox as eqx
import hypothesis
import jax
import jax.numpy as jnp
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import tempering as tp
from support.defaults import default_settings
from support.random_checks import must_fail
from support.unchecked import unchecked
from tempering.diffusion.divergence import step_with_log_det
from tempering.diffusion.networks import make_network
from tempering.errors import BudgetError, SettingsError
from tempering.kernels import HMC, MALA, kernel_of
from tempering.methods.budget import check_budget, default_budget, pilot_settings, planned, sized
from tempering.parallel_tempering import temperatures_of
from tempering.parallel_tempering.pilot.heat import planned_evaluations as pilot_evaluations
from tempering.parallel_tempering.pilot.relax import NUM_STEPS
from tempering.settings import Ladder, MethodSettings, Pilot
from tempering.targets import anisotropic_gaussian
from tempering.transforms.centred import Centred

TARGET = anisotropic_gaussian(dim=2)
DIMS = st.integers(1, 128)
METHODS = ("pt_dm", "ptsd")
"""Whose sizes the budget sets."""
METHOD_NAMES = st.sampled_from(METHODS)
NUM_LEVELS = st.integers(2, 40)
BUDGETS = st.integers(1, 3_000_000)
KERNELS = st.sampled_from([MALA(), HMC(num_leapfrog=4), HMC(num_leapfrog=8)])


@pytest.fixture(scope="module", autouse=True)
def as_users_run_it():
    with unchecked():
        yield


def base_of(method: str, dim: int, **ladder) -> MethodSettings:
    settings = default_settings(method, dim)
    ladder = dataclasses.replace(settings.ladder, **{"hottest": 50.0, **ladder})
    return dataclasses.replace(settings, ladder=ladder, initial=dataclasses.replace(settings.initial, scale=2.5))


def sized_for(method: str, dim: int, num_levels: int, budget: int) -> MethodSettings:
    base = base_of(method, dim, num_levels=num_levels)
    return sized(base, dim, num_levels, budget, kernel_of(base.exploration, dim))


def check_plan(settings: MethodSettings, dim: int, budget: int) -> int:
    """The evaluations it will spend, which the budget must cover."""
    total = sum(planned(settings, dim).values())
    assert total <= budget, f"planned {total:,} of {budget:,}"
    return total


@hypothesis.settings(max_examples=12)
@given(method=METHOD_NAMES, dim=DIMS, num_levels=NUM_LEVELS, budget=BUDGETS)
@example(method="ptsd", dim=128, num_levels=3, budget=20_000)
@example(method="ptsd", dim=2, num_levels=2, budget=1_000)
@example(method="ptsd", dim=2, num_levels=5, budget=17_000)
@example(method="pt_dm", dim=2, num_levels=2, budget=2_200)
def test_the_plan_is_within_the_budget_or_the_budget_is_refused(method, dim, num_levels, budget):
    try:
        settings = sized_for(method, dim, num_levels, budget)
    except BudgetError as refusal:
        words = (f"{budget:,} evaluations", f"{num_levels} levels", "raise the budget", "`ladder=`")
        assert all(word in str(refusal) for word in words), refusal
        return
    planned = check_plan(settings, dim, budget)
    if method == "ptsd" and num_levels > 2:
        assert planned == budget, "the last level has all that is left"
        must_fail(check_plan, dataclasses.replace(settings, num_final_draws=settings.num_final_draws + 1), dim, budget)
        assert min(settings.buffer_size, settings.level_size, settings.last_buffer_size) >= 500
    assert planned >= 0.25 * budget or settings.buffer_size >= 1500, "most of the budget lies idle"
    assert settings.ladder.num_levels == num_levels and settings.initial.scale == 2.5


def is_allowed(method: str, dim: int, num_levels: int, budget: int) -> bool:
    try:
        sized_for(method, dim, num_levels, budget)
    except BudgetError:
        return False
    return True


@given(method=METHOD_NAMES, dim=DIMS, num_levels=NUM_LEVELS, budget=BUDGETS)
def test_a_larger_budget_is_never_refused_where_a_smaller_one_was_not(method, dim, num_levels, budget):
    assert is_allowed(method, dim, num_levels, 2 * budget) or not is_allowed(method, dim, num_levels, budget)


@pytest.mark.parametrize("method", METHODS)
@given(dim=DIMS, hottest=st.floats(1.5, 4.0**7))
def test_the_default_budget_is_enough_after_the_pilot(method, dim, hottest):
    budget, base = default_budget(dim), base_of(method, dim, hottest=hottest)
    kernel = kernel_of(base.exploration, dim)
    left = budget - pilot_evaluations(pilot_settings(base.pilot, budget, kernel), kernel)
    num_levels = len(temperatures_of(base.ladder, dim=dim))
    check_plan(sized(base, dim, num_levels, left, kernel), dim, left)


@given(kernel=KERNELS, budget=BUDGETS)
def test_a_pilot_spends_a_fifth_at_the_most_or_the_budget_is_refused(kernel, budget):
    base = default_settings("ptsd", 2).pilot
    try:
        pilot = pilot_settings(base, budget, kernel)
    except BudgetError as refusal:
        assert f"a budget of {budget:,} evaluations is too small" in str(refusal) and "`ladder=`" in str(refusal)
        return
    # Every chain pays one evaluation to start, and more if it starts in a wall.
    assert pilot_evaluations(pilot, kernel) <= 0.2 * budget + pilot.num_chains * (2 + NUM_STEPS)
    assert (pilot.growth, pilot.max_rounds, pilot.max_rhat) == (base.growth, base.max_rounds, base.max_rhat)


@given(kernel=KERNELS, budget=BUDGETS)
def test_a_pilot_that_a_budget_allows_a_larger_one_allows(kernel, budget):
    try:
        pilot = pilot_settings(Pilot(), budget, kernel)
    except BudgetError:
        return
    for larger in (budget + 1, 2 * budget):
        assert pilot_settings(Pilot(), larger, kernel).num_chains >= pilot.num_chains


@pytest.mark.parametrize("kernel", [MALA(), HMC(num_leapfrog=3), HMC(num_leapfrog=4), HMC(num_leapfrog=6)])
def test_the_least_budget_that_a_refusal_names_is_enough(kernel):
    with pytest.raises(BudgetError, match="give at least") as refusal:
        pilot_settings(Pilot(), 10, kernel)
    least = int(str(refusal.value).split("give at least ")[1].split(", or")[0].replace(",", ""))
    assert pilot_settings(Pilot(), least, kernel).num_chains >= 4
    with pytest.raises(BudgetError):
        pilot_settings(Pilot(), least - 1, kernel)


@pytest.mark.parametrize("method", METHODS)
def test_a_budget_is_checked_by_what_it_must_cover(method):
    settings = default_settings(method, 2)
    with pytest.raises(BudgetError, match="too small to find the hottest temperature"):
        check_budget(settings, TARGET, 5_000)
    # With a ladder no pilot has to be paid for.
    given = dataclasses.replace(settings, ladder=Ladder(temperatures=(4.0, 2.0, 1.0)))
    with pytest.raises(BudgetError, match="raise the budget or give a shorter `ladder=`"):
        check_budget(given, TARGET, 1_000)
    check_budget(given, TARGET, 10_000)
    check_budget(settings, TARGET, None)


def test_a_ladder_of_ones_own_is_kept():
    base = dataclasses.replace(default_settings("ptsd", 2), ladder=Ladder(temperatures=(9.0, 3.0, 2.0, 1.0)))
    assert sized(base, 2, 4, 50_000, MALA()).ladder == base.ladder


def test_more_dimensions_get_more():
    budgets = [default_budget(dim) for dim in range(1, 129)]
    assert all(more > less for less, more in zip(budgets, budgets[1:], strict=False)) and budgets[0] >= 10_000


def chunk_of(num_particles: int) -> int:
    geometry = Centred(num_particles, 3)
    return default_settings("ptsd", geometry.dim, geometry).sampling.chunk_size


def test_many_particles_are_drawn_a_few_at_a_time():
    assert default_settings("ptsd", 6, Centred(4, 2)).sampling.chunk_size == 2000
    assert chunk_of(13) > 2 * chunk_of(20) > 100
    assert chunk_of(55) > chunk_of(200) >= 10


@pytest.mark.slow
def test_densities_of_particles_take_the_memory_that_is_allowed():
    num_particles, num_draws = 10, 8
    geometry = Centred(num_particles, 3)
    settings = default_settings("ptsd", geometry.dim, geometry)
    network = eqx.filter_eval_shape(make_network, jax.random.key(0), geometry.dim, settings.network)
    arrays, rest = eqx.partition(network, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))

    def density(arrays, x):
        denoise = lambda x: eqx.combine(arrays, rest)(x, *jnp.full((3, 1), 0.5)[:, 0])  # noqa: E731
        step = lambda x: x + denoise(x + denoise(x))  # noqa: E731
        one = jnp.ones(())
        return step_with_log_det(step, x, jax.random.key(0), one, divergence="exact", num_probes=1)

    compiled = jax.jit(jax.vmap(density, (None, 0))).lower(arrays, jnp.zeros((num_draws, geometry.dim))).compile()
    all_at_once = compiled.memory_analysis().temp_size_in_bytes / num_draws * chunk_of(num_particles)
    assert 0.5e9 < all_at_once < 4e9


@pytest.mark.parametrize("budget", [1, 17_499, 17_500, 20_000, 80_000, 1_000_000])
def test_a_split_budget_pays_for_both(budget):
    fitting, weighing = tp.split_budget(budget, 2)
    assert fitting + weighing == budget
    assert weighing == (0 if budget < 17_500 else min(20_000, budget // 4))


def test_more_dimensions_leave_weights_for_later():
    assert tp.split_budget(50_000, 2)[1] > 0
    assert tp.split_budget(50_000, 32)[1] == 0


@pytest.mark.parametrize(("budget", "dim"), [(0, 2), (-5, 2), (1000, 0), (2.5, 2), (True, 2)])
def test_a_budget_that_cannot_be_split_is_refused(budget, dim):
    with pytest.raises(SettingsError):
        tp.split_budget(budget, dim)
