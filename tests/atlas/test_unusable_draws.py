"""Draws from the modes that have a density and no gradient: their mass is missing, and the record must say how many."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.unchecked import unchecked
from tempering.adapters import as_target
from tempering.atlas.mixture import mixture_of
from tempering.methods.explore_modes import explore_modes
from tempering.methods.from_modes import Way
from tempering.runs.ledger import Ledger
from tempering.runs.records import Checks, LevelRecord
from tempering.sampler.diagnosis.findings import recorded_findings
from tempering.settings import PTSDSettings, resolved
from tempering.targets.base import evaluate_many

NUM = 400


def trap(x):
    """Finite everywhere. `jnp.where` over a root has the gradient NaN where the root is not taken: for x[0] < 0."""
    return -0.5 * jnp.sum(x**2) + jnp.where(x[0] > 0, 0.3 * jnp.sqrt(x[0]), 0.0)


def sound(x):
    """Of the same size, with a gradient everywhere."""
    return -0.5 * jnp.sum(x**2)


def walled(x):
    """Outside its support it is -inf, which is no fault."""
    return jnp.where(x[0] > 0, -0.5 * jnp.sum(x**2), -jnp.inf)


def record_of(density) -> LevelRecord:
    """What is noted of a level drawn from a standard normal's modes; half of the draws are those of the atlas."""
    target, mixture = as_target(density, 2), mixture_of(np.ones(1), np.zeros((1, 2)), np.eye(2)[None], 8.0)
    position = mixture.sample(jax.random.key(1), NUM)
    found = SimpleNamespace(before=mixture, reference=mixture, drawn=(position, *evaluate_many(target, position)))
    run = SimpleNamespace(
        target=target,
        settings=resolved(PTSDSettings(), 2),
        start=SimpleNamespace(way=Way((1.0,), NUM, mixture), found=found),
        journal=SimpleNamespace(ledger=Ledger(), levels={}),
        key_of=lambda level, stage: jax.random.key(2),
        tell=lambda *_: None,
        networks=(),
    )
    with unchecked():  # of a run these are the only parts that count here
        explore_modes(run, (1.0,), keep=1)
    return run.journal.levels[0]


def values_of(record: LevelRecord) -> str:
    sampler = SimpleNamespace(
        levels=[record],
        checks=Checks(path="reference"),
        evaluations=2 * NUM,
        host=None,
        modes=(),
        dim=2,
        log_z=None,
        ess_fraction=None,
        pareto_k=None,
    )
    return next(finding.status for finding in recorded_findings(sampler) if finding.name == "usable values")


def test_draws_without_a_gradient_are_counted_and_leave_a_doubt():
    record = record_of(trap)
    # Half of the mass is gone, and log Z with it: of all that is recorded only this number shows it.
    assert record.log_z < np.log(2.0 * np.pi) - 0.2 and record.pareto_k < 0.7
    assert 0.4 * 2 * NUM < record.num_nonfinite < 0.6 * 2 * NUM
    assert values_of(record) == "doubtful"


@pytest.mark.parametrize("density", [sound, walled])
def test_a_density_without_that_fault_is_not_accused(density):
    record = record_of(density)
    assert record.num_nonfinite == 0 and values_of(record) == "good"


def edged(x):
    """NaN where it has next to nothing, as a Cholesky factor is at the edge of single precision."""
    return jnp.where(x[0] < 3.2, -0.5 * jnp.sum(x**2), jnp.nan)


def holed(x):
    """NaN where one draw in twenty is."""
    return jnp.where(jnp.sum((x - 0.3) ** 2) < 0.1, jnp.nan, -0.5 * jnp.sum(x**2))


def test_draws_that_are_no_number_count_by_the_mass_that_they_may_hold():
    edge, hole = record_of(edged), record_of(holed)
    assert edge.num_nonfinite > 2 and 0.0 < edge.lost_mass < 0.01, (edge.num_nonfinite, edge.lost_mass)
    assert values_of(edge) == "note"
    assert hole.lost_mass > 0.03 and values_of(hole) == "doubtful"
    # The mass of the other half is known by its values: log Z of the rest says how much it is.
    record = record_of(trap)
    assert record.lost_mass == pytest.approx(1.0 - np.exp(record.log_z) / (np.exp(record.log_z) + np.pi), abs=0.06)
