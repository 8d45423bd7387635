"""The loop: it reaches what its starting points do not, counts what it spends, and says when it failed."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.counting import CountingTarget, counting_target
from support.random_checks import assert_mean, must_fail
from tempering.adapters import as_target
from tempering.errors import BudgetError
from tempering.runs.ledger import Ledger
from tempering.shape import Spread, learn, learned_shape

KEY = jax.random.key(5)


def _funnel(x):
    """Neck last, of spread 3."""
    v = x[-1]
    num = x.shape[0] - 1
    log_rest = -0.5 * jnp.sum(x[:-1] ** 2) * jnp.exp(-v) - 0.5 * num * (v + jnp.log(2.0 * jnp.pi))
    return log_rest - v**2 / 18.0 - 0.5 * jnp.log(18.0 * jnp.pi)


def _two_modes(x):
    """3/10 of width 1/2 and 7/10 of width 1 in three dimensions, 9 apart."""
    narrow = jnp.log(0.3) - 2.0 * jnp.sum((x - 2.5) ** 2) + 3.0 * jnp.log(2.0)
    wide = jnp.log(0.7) - 0.5 * jnp.sum((x + 2.5) ** 2)
    return jnp.logaddexp(narrow, wide) - 1.5 * jnp.log(2.0 * jnp.pi)


class Either(eqx.Module):
    """A funnel or two modes, by an array: both share their programs."""

    is_funnel: jax.Array

    def __call__(self, x):
        in_funnel = _funnel(jnp.where(self.is_funnel, x, 0.0))  # far from it a slope might be infinite
        return jnp.where(self.is_funnel, in_funnel, _two_modes(x))


FUNNEL, COUNTER = counting_target(as_target(Either(jnp.asarray(True)), 3))
TWO_MODES = CountingTarget(as_target(Either(jnp.asarray(False)), 3), 3, COUNTER)
NORMAL = as_target(lambda x: -0.5 * jnp.sum(x**2), 2)
"""One target for two runs, which then share their programs."""


def _learned(log_density, dim, most=20_000, ledger=None, scale=1.0):
    starts = scale * jax.random.normal(KEY, (64, dim))
    target = log_density if hasattr(log_density, "dim") else as_target(log_density, dim)
    return learned_shape(KEY, target, starts, ledger or Ledger(), most)


@pytest.fixture(scope="module")
def funnel():
    """What was learned of a funnel from where no neck is, the account, and what the host received."""
    ledger = Ledger()
    COUNTER.reset()
    shape = _learned(FUNNEL, 3, ledger=ledger)
    return shape, ledger, COUNTER.wait(shape.points)


def test_a_funnel_is_reached_from_where_no_neck_is(funnel):
    shape, ledger, _ = funnel
    assert shape.is_settled and shape.effective_share > 0.5, shape.reason
    assert abs(shape.log_z) < 0.1 and int(shape.chart.order[0]) == 2
    weights = np.asarray(jax.nn.softmax(shape.log_weights), np.float64)
    neck = np.asarray(shape.points[:, -1], np.float64)
    assert abs(np.sqrt(weights @ (neck - weights @ neck) ** 2) / 3.0 - 1.0) < 0.1
    assert ledger.total == ledger.points["shape"] == shape.num_evaluations <= 20_000


def test_evaluations_are_counted(funnel):
    shape, ledger, received = funnel
    assert received == ledger.total == shape.num_evaluations
    with pytest.raises(BudgetError):
        learned_shape(KEY, FUNNEL, jax.random.normal(KEY, (64, 3)), Ledger(budget=100), 6_000)


def test_two_modes_are_not_passed_off_as_one_and_evaluations_never_exceeded():
    ledger = Ledger()
    shape = _learned(TWO_MODES, 3, most=6_500, ledger=ledger)
    assert not (shape.is_settled and shape.effective_share > 0.3), shape.reason
    assert 5_000 < ledger.total == shape.num_evaluations <= 6_500, "all is spent that may be"


def test_chains_that_the_chart_does_not_reach_speak_against_it(monkeypatch):
    shape = _learned(NORMAL, 2, most=4_000)
    assert shape.effective_share > 0.8 and "another mode" not in shape.reason
    monkeypatch.setattr(learn, "_UNCOVERED", -0.1)  # as if most chains had ended where draws are too rare
    shape = _learned(NORMAL, 2, most=4_000)
    assert shape.effective_share == 0.0 and not shape.is_settled and "probably another mode" in shape.reason


def _watched(monkeypatch, steady):
    """Whether each chart may bend its residuals, if log Z were steady in these rounds."""
    told, bent = iter(steady), []
    own = learn.fit_triangular
    monkeypatch.setattr(learn, "_note_log_z", lambda rounds: rounds.log_zs.append(0.0) or next(told))

    def fitted(*points, is_bent):
        bent.append(is_bent)
        return own(*points, is_bent=is_bent)

    monkeypatch.setattr(learn, "fit_triangular", fitted)
    shape = _learned(NORMAL, 2, most=4_000)
    return bent, shape


def test_a_chart_that_was_bent_stays_bent(monkeypatch):
    """A round after which log Z moves again has found more, and a straight chart would lose all of it."""
    bent, _ = _watched(monkeypatch, [False, True, False, False, True, True])
    assert bent == [False, False, True, True, True, True]


def test_a_chart_is_not_taken_before_bent_ones_were_tried(monkeypatch):
    """The share of the wide draws of straight charts has long stopped growing when log Z is steady."""
    bent, shape = _watched(monkeypatch, [False, False, False, True, True, True])
    assert sum(bent) == 2 and "stopped growing" in shape.reason


def test_too_few_evaluations_spend_nothing():
    ledger = Ledger()
    shape = _learned(_funnel, 4, most=20, ledger=ledger)
    assert shape.effective_share == 0.0 and "too few" in shape.reason and ledger.total == 0
    np.testing.assert_allclose(shape.chart.embed(jnp.ones(4)), 1.0, atol=1e-5)


def test_a_density_that_is_nowhere_finite_is_said_to_be_so():
    shape = _learned(lambda x: jnp.sum(x) * jnp.nan, 2, most=3_000)
    assert shape.effective_share == 0.0 and "finite" in shape.reason


@pytest.mark.parametrize("spread", [Spread.wide(3), Spread.close(3)], ids=["wide", "close"])
def test_a_spread_is_normalised_and_drawn_as_it_says(spread):
    other = Spread.wide(3)

    @jax.jit
    def ratios():
        draws, own = other.sample(KEY, 100_000), spread.sample(KEY, 100_000)
        log_normal = jnp.sum(-0.5 * own**2, axis=1) - 1.5 * jnp.log(2.0 * jnp.pi)
        ratio = jnp.exp(jax.vmap(spread.log_density)(draws) - jax.vmap(other.log_density)(draws))
        return ratio, jnp.exp(log_normal - jax.vmap(spread.log_density)(own))

    ratio, normal = ratios()
    assert_mean(np.asarray(ratio), 1.0, key=KEY)
    assert_mean(np.asarray(normal), 1.0, key=KEY)
    must_fail(assert_mean, np.asarray(normal) * 0.97, 1.0)


def test_a_close_spread_serves_a_normal_well():
    spread = Spread.close(10)

    @jax.jit
    def shares():
        y = spread.sample(KEY, 20_000)
        return jax.nn.softmax(jnp.sum(-0.5 * y**2, axis=1) - jax.vmap(spread.log_density)(y))

    weights = np.asarray(shares(), np.float64)
    assert 1.0 / np.sum(weights**2) > 0.85 * len(weights)
