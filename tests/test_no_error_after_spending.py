"""What was spent must end in a sampler: costs that no plan knows of, and levels that a search left little for."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import pytest

from tempering.adapters import as_target
from tempering.errors import BudgetError
from tempering.kernels import MALA, kernel_of
from tempering.methods.budget import FEWEST_SAMPLES, levels_left, sized_if_possible
from tempering.parallel_tempering.ladder import betas_of
from tempering.parallel_tempering.pilot.relax import NUM_STEPS, settled
from tempering.runs.ledger import Ledger
from tempering.settings import PTSDSettings, resolved


def _wall(x):
    return -1e6 * jnp.sum(x**2)


@pytest.mark.parametrize(("budget", "climbs"), [(20 * 8 * NUM_STEPS, True), (8 * NUM_STEPS, False), (None, True)])
def test_chains_leave_walls_only_where_that_can_be_paid_for(budget, climbs):
    target, positions = as_target(_wall, 2), 1.0 + jax.random.normal(jax.random.key(1), (1, 8, 2))
    ledger = Ledger(budget)
    settled(jax.random.key(0), target, MALA(), positions, betas_of((1.0,)), ledger, "initial_pt")
    assert (ledger.total > 8 * NUM_STEPS) == climbs
    assert budget is None or ledger.total <= budget


def test_few_samples_are_better_than_an_error_once_a_search_is_paid_for():
    settings, left = resolved(PTSDSettings(), 3), 9_000
    kernel = kernel_of(settings.exploration, 3)
    with pytest.raises(BudgetError, match="fewer than the 500"):
        sized_if_possible(settings, 3, 3, left, kernel)
    made, num_levels = sized_if_possible(settings, 3, 3, left, kernel, is_begun=True)
    assert num_levels == 3 and FEWEST_SAMPLES <= made.buffer_size < 500
    with pytest.raises(BudgetError):
        sized_if_possible(settings, 3, 3, 500, kernel, is_begun=True)


def test_there_are_no_more_levels_than_what_is_left_pays_for():
    # Chains in walls had taken 12,000 evaluations more than planned, and the seventh level was one too many.
    settings, target = resolved(PTSDSettings(), 2), as_target(_wall, 2)
    settings = replace(settings, level_size=1000, last_buffer_size=1000, num_final_draws=500)
    left = [levels_left(settings, target, Ledger(10_000, {"pilot": spent}), 500) for spent in (0, 6_500, 7_000, 9_900)]
    assert left == [9, 2, 2, 1]
