"""Reweighted tempering: levels from the buffer before, right by their weights, and one model at the end."""

import jax
import numpy as np
import pytest

from support.random_checks import must_fail
from support.tiny import quick_compilation, tiny_reweighted
from support.unchecked import unchecked
from tempering.methods.budget import planned
from tempering.methods.reweighted import fit
from tempering.runs.checkpoint import Nowhere
from tempering.runs.ledger import Ledger
from tempering.settings import Exploration, Initial, Ladder, Refinement, Resampling
from tempering.targets import Gaussian

SCALES = np.array([1.0, 0.5, 2.0])
SIZE = 4000


class Kept(Nowhere):
    """Remembers what a run would have written."""

    def __init__(self):
        self.parts = {}

    def save(self, level, part, arrays, note):
        self.parts[level, part] = arrays


def run_of(**changes):
    """Parts, records, ledger and plan of a run over four levels of a Gaussian with unlike scales."""
    settings = tiny_reweighted(
        buffer_size=SIZE,
        num_final_draws=0,
        ladder=Ladder(temperatures=(4.0, 2.6, 1.6, 1.0)),
        initial=Initial(num_chains=400, num_steps=90, burn_in=40, thin=5, scale=4.0),
        exploration=Exploration(kernel="hmc", num_leapfrog=4),
        refinement=Refinement(num_steps=1),
        **{"resampling": Resampling(min_effective=0, is_resampled=True), **changes},
    )
    store, ledger = Kept(), Ledger()
    target = Gaussian(np.zeros(3), np.diag(SCALES**2))
    sampler = fit(target, jax.random.key(3), settings, store=store, ledger=ledger)
    return store.parts, sampler.levels, ledger, planned(settings, 3)


@pytest.fixture(scope="module", autouse=True)
def as_users_run_it():
    with quick_compilation(), unchecked():
        yield


@pytest.fixture(scope="module")
def found():
    return run_of()


def check_spread(parts):
    """The last buffer has the variances of T = 1, within four standard errors of so many samples with duplicates."""
    variances = np.var(parts[3, "buffer"]["cold/position"], axis=0)
    np.testing.assert_allclose(variances, SCALES**2, rtol=0.12)


def test_levels_are_right(found):
    check_spread(found[0])


def test_without_weights_they_would_not_be():
    parts, *_ = run_of(resampling=Resampling(levels="none"))
    must_fail(check_spread, parts)


def test_one_model_is_fitted_and_nothing_new_is_weighed(found):
    parts, levels, ledger, planned = found
    assert {name for name in parts if name[1] == "model"} == {(3, "model")}
    assert [record.training_steps is not None for record in levels] == [False, False, False, True]
    assert [record.proposal for record in levels] == [None, None, "reweighted", "reweighted"]
    assert all(0.3 < record.ess_fraction < 0.95 for record in levels[2:])
    assert ledger.points == {stage: num for stage, num in planned.items() if num}
    assert set(ledger.points) == {"initial_pt", "refinement"}
