"""Findings of the search for modes: each trouble is told, and what is no trouble is not."""

import dataclasses

import numpy as np
import pytest

from tempering.runs.records import Checks
from tempering.sampler.diagnosis import hidden_mass
from tempering.sampler.diagnosis.modes import mode_findings

GOOD = Checks(
    path="reference",
    num_optima=3,
    atlas_num_searches=5000.0,
    atlas_missing=0.0,
    atlas_hidden=0.0,
    atlas_p_value=0.4,
    uncovered=0.0,
    num_uncovered=0,
)


def statuses(**changes) -> dict[str, str]:
    return {finding.name: finding.status for finding in mode_findings(dataclasses.replace(GOOD, **changes))}


def test_a_search_without_trouble_is_good():
    assert set(statuses().values()) == {"good"} and len(statuses()) == 3


@pytest.mark.parametrize(
    ("changes", "name", "status"),
    [
        ({"atlas_num_searches": 50.0}, "the search for modes", "doubtful"),
        ({"atlas_missing": 0.05}, "the search for modes", "doubtful"),
        ({"atlas_hidden": 0.02}, "the referee's chains", "doubtful"),
        ({"atlas_p_value": 1e-6}, "the referee's chains", "doubtful"),
        ({"atlas_p_value": None}, "the referee's chains", "unchecked"),
        ({"uncovered": 0.05, "num_uncovered": 1}, "optima that the model dropped", "doubtful"),
        ({"uncovered": 0.3, "num_uncovered": 1}, "optima that the model dropped", "wrong"),
    ],
)
def test_each_trouble_is_told(changes, name, status):
    found = statuses(**changes)
    assert found.pop(name) == status
    assert set(found.values()) == {"good"}


def test_where_hot_chains_led_only_the_optima_are_judged():
    assert statuses(path="temperature") == {"optima that the model dropped": "good"}
    assert statuses(path=None, atlas_num_searches=None) == {}
    assert "the search for modes" not in statuses(path="shape", num_optima=0)


def test_hidden_mass_is_that_beyond_the_models_own_weights():
    rng = np.random.default_rng(0)
    own = rng.normal(size=2000)
    near = rng.normal(size=400)
    assert hidden_mass(near, np.ones(400), own)[0] == 0.0
    far = np.concatenate([near, np.full(100, 40.0)])
    share, error, num = hidden_mass(far, np.ones(500), own)
    assert share == pytest.approx(0.2) and num == 100 and 0.01 < error < 0.03
    # Points that the model cannot have drawn at all, and one point of enormous weight.
    assert hidden_mass(np.array([0.0, np.nan, np.inf]), np.ones(3), own)[0] == pytest.approx(2 / 3)
    share, error, num = hidden_mass(np.array([0.0, 40.0]), np.array([1e-6, 1.0]), own)
    assert share > 0.99 and num == 1
