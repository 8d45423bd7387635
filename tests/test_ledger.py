"""The ledger: it counts points by stage, refuses before the budget is exceeded, and agrees with the host's count."""

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.counting import counting_target
from support.random_checks import must_fail
from tempering.errors import BudgetError, TemperingError
from tempering.runs.ledger import STAGES, Ledger
from tempering.targets import anisotropic_gaussian
from tempering.targets.base import evaluate, evaluate_many


def test_points_add_up_by_stage():
    ledger = Ledger()
    ledger.spend("pilot", 10)
    ledger.spend("pilot", 5, with_gradient=False)
    ledger.spend("refinement", 7)
    assert ledger.points == {"pilot": 15, "refinement": 7}
    assert ledger.value_only == {"pilot": 5}
    assert ledger.total == 22


def test_sampling_and_metrics_stand_apart():
    ledger = Ledger(budget=10)
    ledger.spend("sampling", 1_000)
    ledger.spend("metrics", 1_000)
    ledger.spend("initial_pt", 10)
    assert ledger.total == 10
    assert ledger.points["metrics"] == 1_000


def test_what_would_exceed_the_budget_is_refused_and_not_recorded():
    ledger = Ledger(budget=2_000)
    ledger.spend("pilot", 1_500)
    with pytest.raises(
        BudgetError, match=r"'refinement' needs 501 .*1,500 of the budget of 2,000.*raise `budget`"
    ) as refusal:
        ledger.spend("refinement", 501)
    assert ledger.points == {"pilot": 1_500}
    # To the last point, and the refusal is a ValueError for those who know no better.
    ledger.spend("refinement", 500)
    assert ledger.total == 2_000
    assert isinstance(refusal.value, TemperingError) and isinstance(refusal.value, ValueError)


def test_a_budget_of_nothing_allows_nothing():
    ledger = Ledger(budget=0)
    ledger.spend("pilot", 0)
    with pytest.raises(BudgetError):
        ledger.spend("pilot", 1)


def test_mistakes_of_the_caller_are_not_swallowed():
    with pytest.raises(KeyError, match="refinment.*refinement"):
        Ledger().spend("refinment", 1)
    with pytest.raises(ValueError, match="give evaluations back"):
        Ledger().spend("pilot", -1)


@given(
    spent=st.lists(st.tuples(st.sampled_from(STAGES), st.integers(0, 10**9), st.booleans())),
    budget=st.none() | st.integers(10**12, 10**15),
)
def test_a_ledger_survives_its_record(spent, budget):
    ledger = Ledger(budget)
    for stage, num_points, with_gradient in spent:
        ledger.spend(stage, num_points, with_gradient=with_gradient)
    restored = Ledger.from_dict(ledger.as_dict())
    assert restored == ledger and restored.total == ledger.total
    # A copy: spending from one leaves the other alone.
    restored.spend("pilot", 1)
    assert restored.points != ledger.points


@pytest.fixture(scope="module")
def counted():
    return counting_target(anisotropic_gaussian(dim=3, seed=4))


POINTS = jax.random.normal(jax.random.key(0), (7, 3))


@pytest.mark.parametrize("chunk_size", [1, 2, 3, 7, 100])
def test_many_points_are_one_evaluation_each_whatever_the_chunk(counted, chunk_size):
    target, counter = counted
    counter.reset()
    values, grads = evaluate_many(target, POINTS, chunk_size)
    assert counter.wait((values, grads)) == counter.with_gradient == 7
    expected = jax.vmap(jax.value_and_grad(target.inner.log_density))(POINTS)
    assert jnp.allclose(values, expected[0], rtol=1e-5) and jnp.allclose(grads, expected[1], rtol=1e-4, atol=1e-5)


def test_the_counter_tells_values_from_gradients_and_counts_batches_by_the_point(counted):
    target, counter = counted
    counter.reset()
    counter.wait(evaluate(target, POINTS[0]))
    assert (counter.with_gradient, counter.value_only) == (1, 0)
    counter.wait(target.log_density(POINTS[0]))
    counter.wait(jax.vmap(target.log_density)(POINTS))
    assert (counter.with_gradient, counter.value_only) == (1, 8)
    counter.wait(jax.jit(jax.vmap(jax.vmap(lambda x: evaluate(target, x))))(jnp.stack([POINTS, POINTS])))
    assert (counter.with_gradient, counter.value_only) == (15, 8)


def test_the_counter_sees_every_turn_of_a_loop(counted):
    target, counter = counted
    counter.reset()

    def body(_, x):
        return x + 0.01 * evaluate(target, x)[1]

    counter.wait(jax.jit(lambda x: jax.lax.fori_loop(0, 9, body, x))(POINTS[0]))
    assert counter.total == 9


def test_tracing_is_no_evaluation(counted):
    target, counter = counted
    counter.reset()
    jax.eval_shape(target.log_density, POINTS[0])
    jax.jit(jax.value_and_grad(target.log_density)).lower(POINTS[0]).compile()
    assert counter.total == 0


def _check_honest(counted, ledger: Ledger) -> None:
    assert counted[1].total == ledger.total


def test_an_under_counting_ledger_would_show(counted):
    counted[1].reset()
    counted[1].wait(evaluate_many(counted[0], POINTS, 3))
    honest, calls_not_points = Ledger(), Ledger()
    honest.spend("importance_weights", 7)
    calls_not_points.spend("importance_weights", 3)
    _check_honest(counted, honest)
    must_fail(_check_honest, counted, calls_not_points)
