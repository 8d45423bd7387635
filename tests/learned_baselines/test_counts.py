"""The ledger of every baseline agrees with the host's count: in training, in final weights, and of every draw."""

import dataclasses

import jax
import numpy as np
import pytest

from support.counting import counting_target
from support.tiny_baselines import TINY
from tempering.baselines.contract import Cost
from tempering.baselines.plan import enter, planned
from tempering.baselines.registry import baseline_of
from tempering.errors import BudgetError, DensityError
from tempering.methods.registry import METHODS
from tempering.runs.ledger import APART, Ledger
from tempering.targets import anisotropic_gaussian

# By hand, from the papers: what the tiny settings cost. (first buffer, one step, one draw, one weighted draw)
BY_HAND = {
    # batch 8, first buffer 16; a point is 1 + levels 2 x leapfrog 2
    "fab": (16 * 5, 8 * 5, 0, 1),
    # batch 4 x (particles 3 x levels 3 + MALA 2)
    "dikl": (0, 4 * 11, 0, None),
    # batch 8 x (path steps 4 + 1)
    "dds": (0, 8 * 5, 4, 5),
    "cmcd": (0, 8 * 5, 4, 5),
    # first buffer 7 x SDE steps 5 x points 5; updates 2 x batch 6 x points 5; 2 steps down the energy end a draw
    "idem": (7 * 5 * 5, 2 * 6 * 5, 2, None),
    # updates 2 x batch 6 x (points 5 + 1 at no noise), before and after bootstrapping
    "bnem": (0, 2 * 6 * 6, 0, None),
}
PRODUCTS = {"cmcd": 8 * 4}
"""Hessian-vector products of one step, where there are any: one for each step of a path."""


@pytest.fixture(scope="module")
def counted():
    return counting_target(anisotropic_gaussian(2))


def test_every_baseline_is_in_the_tables():
    assert set(BY_HAND) == set(TINY)


@pytest.mark.parametrize("name", TINY)
def test_costs_are_those_of_the_papers(name):
    method, settings = baseline_of(name), TINY[name]
    first, step, draw, weighted = BY_HAND[name]
    assert method.init_cost(settings, 2).points == first
    assert method.step_cost(settings, 2).points == step
    assert method.step_cost(settings, 2).hessian_vector == PRODUCTS.get(name, 0)
    assert method.draw_cost(settings, 2).points == draw
    assert method.has_weights == (weighted is not None)
    if weighted is not None:
        assert method.weigh_cost(settings, 2).points == weighted


FAST = ("dds",)
"""One that pays for all that can be paid: steps, weights and every draw. No other is fitted whole in the fast suite."""


@pytest.mark.parametrize(
    "name", [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in TINY]
)
def test_the_ledger_agrees_with_the_host(name, counted):
    target, counter = counted
    counter.reset()
    settings = TINY[name]
    if name in PRODUCTS:  # a host cannot be differentiated twice; tests of paths count the products
        settings = dataclasses.replace(settings, loss="tr_lv", update_size=4)
    plan = planned(settings, 2, None)
    # The budget is spent to the last point, and draws after the fit are not held against it.
    ledger = Ledger(budget=plan.evaluations)
    sampler = METHODS[name].fit(target, jax.random.key(1), settings, ledger=ledger)
    assert counter.wait(sampler.sample(1)) - sampler.evaluations_per_draw == ledger.total == sampler.evaluations
    assert ledger.total == plan.evaluations
    assert ledger.points.get("drawing", 0) == sampler.evaluations_per_draw
    before = counter.total
    draws = sampler.sample(7, seed=3)
    assert counter.wait(draws) - before == 7 * sampler.evaluations_per_draw
    if sampler.has_weights:
        before, spent = counter.total, ledger.points.get("sampling", 0) + ledger.points.get("drawing", 0)
        weighted, _ = sampler.sample_weighted(9, seed=3)
        now = ledger.points.get("sampling", 0) + ledger.points.get("drawing", 0)
        assert counter.wait(weighted) - before == now - spent == 9 * BY_HAND[name][3]
        # Rounding depends on how many rows a program has, and grows along a path.
        np.testing.assert_allclose(weighted[:7], draws, rtol=1e-4 if sampler.evaluations_per_draw else 1e-5)
    else:
        np.testing.assert_allclose(sampler.sample(9, seed=3)[:7], draws, rtol=1e-4, atol=1e-5)
        assert sampler.log_z is None
        for ask in (sampler.sample_weighted, sampler.sample_exact):
            with pytest.raises(DensityError, match="has no density of its draws"):
                ask(5)
    counter.wait(draws)
    assert counter.value_only == sum(ledger.value_only.values())
    assert counter.with_gradient == sum(ledger.points.values()) - counter.value_only


@pytest.mark.slow
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_the_hessian_are_in_the_ledger(name):
    ledger = Ledger()
    sampler = METHODS[name].fit(anisotropic_gaussian(2), jax.random.key(1), TINY[name], ledger=ledger)
    assert ledger.hessian_vector == {"training": 3 * PRODUCTS[name]}
    assert sampler.evaluations == ledger.total == 3 * BY_HAND[name][1] + 40 * BY_HAND[name][3]


def test_the_count_notices_a_step_more(counted):
    target, counter = counted
    counter.reset()
    ledger = Ledger()
    METHODS["dds"].fit(target, jax.random.key(1), TINY["dds"], ledger=ledger)
    honest = counter.total
    assert honest == ledger.total
    dearer = dataclasses.replace(TINY["dds"], num_path_steps=TINY["dds"].num_path_steps + 1)
    assert planned(dearer, 2, None).evaluations != honest


@pytest.mark.parametrize("stage", APART)
def test_what_comes_after_a_fit_is_entered_once_whatever_the_budget(stage):
    """A fit by a budget leaves little of it, and draws cost more than that."""
    ledger, target = Ledger(budget=10), anisotropic_gaussian(2)
    enter(ledger, "training", target, Cost(9))
    enter(ledger, stage, target, Cost(50, 20, 7))
    assert ledger.points == {"training": 9, stage: 50}
    assert ledger.value_only == {stage: 20} and ledger.hessian_vector == {stage: 7}
    with pytest.raises(BudgetError):
        enter(ledger, "training", target, Cost(2, 1))
    assert ledger.points["training"] == 9, "a cost is entered as a whole or not at all"
