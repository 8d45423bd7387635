"""The ledger of every baseline agrees with the host's count: in training, in final weights, and of every draw."""

import dataclasses

import jax
import numpy as np
import pytest

from support.counting import counting_target
from support.tiny_baselines import TINY
from tempering.baselines.plan import planned
from tempering.baselines.registry import baseline_of
from tempering.methods.registry import METHODS
from tempering.runs.ledger import Ledger
from tempering.targets import anisotropic_gaussian

# By hand, from the papers: what the tiny settings cost. (first buffer, one step, one draw, one weighted draw)
BY_HAND = {
    # batch 8, first buffer 16; a point is 1 + levels 2 x leapfrog 2
    "fab": (16 * 5, 8 * 5, 0, 1),
    # batch 4 x (particles 3 x levels 3 + MALA 2)
    "dikl": (0, 4 * 11, 0, None),
}


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
    assert method.draw_cost(settings, 2).points == draw
    assert method.has_weights == (weighted is not None)
    if weighted is not None:
        assert method.weigh_cost(settings, 2).points == weighted


@pytest.mark.parametrize("name", TINY)
def test_the_ledger_agrees_with_the_host(name, counted):
    target, counter = counted
    counter.reset()
    ledger = Ledger()
    sampler = METHODS[name].fit(target, jax.random.key(1), TINY[name], ledger=ledger)
    assert counter.wait(sampler.sample(1)) - sampler.evaluations_per_draw == ledger.total == sampler.evaluations
    plan = planned(TINY[name], 2, None)
    assert ledger.total == plan.evaluations
    before = counter.total
    draws = sampler.sample(7, seed=3)
    assert counter.wait(draws) - before == 7 * sampler.evaluations_per_draw
    if sampler.has_weights:
        before, spent = counter.total, ledger.points.get("sampling", 0) + ledger.points.get("drawing", 0)
        weighted, _ = sampler.sample_weighted(9, seed=3)
        now = ledger.points.get("sampling", 0) + ledger.points.get("drawing", 0)
        assert counter.wait(weighted) - before == now - spent == 9 * BY_HAND[name][3]
        np.testing.assert_allclose(weighted[:7], draws, rtol=1e-5)
    assert counter.value_only == sum(ledger.value_only.values())
    assert counter.with_gradient == sum(ledger.points.values()) - counter.value_only


def test_the_count_notices_a_step_more(counted):
    target, counter = counted
    counter.reset()
    ledger = Ledger()
    METHODS["dikl"].fit(target, jax.random.key(1), TINY["dikl"], ledger=ledger)
    honest = counter.total
    assert honest == ledger.total
    dearer = dataclasses.replace(TINY["dikl"], num_mala=3)
    assert planned(dearer, 2, None).evaluations != honest
