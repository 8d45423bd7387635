"""Findings of the search for modes: each trouble is told, and what is no trouble is not."""

import dataclasses

import numpy as np
import pytest

from tempering.runs.records import Checks, Mode
from tempering.sampler.diagnosis import hidden_mass
from tempering.sampler.diagnosis.modes import expected_unseen, mode_findings

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
    assert set(statuses(atlas_num_lost=900.0).values()) == {"good"}
    assert set(statuses(atlas_num_lost=6000.0, path="shape").values()) == {"good"}


@pytest.mark.parametrize(
    ("changes", "name", "status"),
    [
        ({"atlas_num_searches": 50.0}, "the search for modes", "doubtful"),
        ({"atlas_missing": 0.05}, "the search for modes", "doubtful"),
        ({"atlas_num_lost": 1500.0}, "the search for modes", "doubtful"),
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


def modes_with(*hits: int, weight: float = 0.1) -> list[Mode]:
    return [Mode((0.0,), 0.0, weight, number) for number in hits]


def test_optima_that_are_found_seldom_foretell_others():
    """Over 400 repetitions, what hits foretell is what is missing, on average."""
    rng = np.random.default_rng(0)
    chances = rng.dirichlet(np.full(30, 1.5))
    hits = rng.multinomial(120, chances, size=400)
    missing = np.mean(np.sum(hits == 0, axis=1))
    foretold = np.mean([expected_unseen(modes_with(*row[row > 0].tolist())) for row in hits])
    assert 0.6 * missing < foretold < 1.5 * missing and missing > 1.0
    # Those without weight do not count.
    assert expected_unseen(modes_with(1, 1, weight=1e-6)) == 0.0


def test_a_search_that_has_seen_some_modes_once_is_doubtful():
    """The saboteur has seen each of them often."""

    def status(*hits: int) -> str:
        return next(found.status for found in mode_findings(GOOD, modes_with(*hits)) if "search" in found.name)

    assert status(40, 30, 2, 2, 3) == "doubtful"
    assert status(40, 30, 8, 9, 10) == "good"


def test_modes_that_are_probably_missing_are_no_trouble_if_they_hold_next_to_nothing():
    """A hundred spikes of a hundredth each, three of them found twice; the saboteur has three that are heavy."""

    def status(weight: float) -> str:
        modes = [Mode((0.0,), 0.0, 0.0097, 20)] * 97 + [Mode((0.0,), 0.0, weight, 2)] * 3
        return next(found.status for found in mode_findings(GOOD, modes) if "search" in found.name)

    assert expected_unseen([Mode((0.0,), 0.0, 0.01, 2)] * 3) > 0.2
    assert status(0.01) == "good"
    assert status(0.1) == "doubtful"


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
