"""Thousands of low optima, of which two count: these are found and told, and the others close nothing off."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from tests.support.random_checks import must_fail

from tempering.adapters import as_target
from tempering.atlas import survey as survey_module
from tempering.atlas.negligible import are_negligible
from tempering.atlas.optima import Optima, Shape
from tempering.atlas.survey import expected_optima, survey
from tempering.runs.ledger import Ledger
from tempering.runs.records import Mode
from tempering.sampler.diagnosis.modes import expected_unseen
from tempering.sampler.diagnosis.thresholds import LIKELY_UNSEEN

HEIGHTS = np.array([25.0, 24.0])


def wiggly(x):
    """Two hills on a wide wavy plain of some 1,500 tops, each e^-23 of the higher hill."""
    hills = [HEIGHTS[0] - 0.5 * jnp.sum((x - 3.0) ** 2), HEIGHTS[1] - 0.5 * jnp.sum((x + 5.0) ** 2)]
    return jnp.logaddexp(jnp.logaddexp(*hills), -0.5 * jnp.sum(x**2) / 225.0 + 1.5 * jnp.sum(jnp.cos(9.0 * x)))


def level(x):
    """As many tops, and all of them count."""
    return -0.5 * jnp.sum(x**2) / 225.0 + 1.5 * jnp.sum(jnp.cos(9.0 * x))


def test_few_that_count_among_thousands_close_the_list(monkeypatch):
    """The saboteur gives up by the number of optima alone."""

    def closes():
        found = survey(0, as_target(wiggly, 2), Ledger(), 9000)
        weight = found.optima.local_weight()
        assert found.single > survey_module.MOST_SINGLE and len(found.optima) > survey_module.MOST_OPTIMA
        assert found.is_closed and not found.is_endless
        expected = np.exp(HEIGHTS) / np.sum(np.exp(HEIGHTS))
        np.testing.assert_allclose(weight[weight > survey_module.MATTERS], expected, atol=0.01)

    closes()
    monkeypatch.setattr(survey_module, "_LARGEST_LISTED", 0)
    must_fail(closes)


def test_where_all_count_the_list_stays_open_and_the_search_ends_early():
    found = survey(0, as_target(level, 2), Ledger(), 9000)
    assert found.is_endless and not found.is_closed and found.evaluations < 6000


def test_an_optimum_that_counts_and_was_found_once_leaves_the_list_open():
    """One of sixty, found once among 120 searches: another such may be missing."""
    optima = Optima(2)
    for index in range(60):
        place = np.array([10.0 * index, 0.0])
        optima.add(Shape(place, 30.0 if index < 2 else 0.0, 0.0, True, np.eye(2), np.eye(2), place))
    optima.hits[:] = 2
    known = survey_module.Survey(optima, num_searches=120)
    assert known.has_few and known.is_closed
    optima.hits[:2] = (1, 3)
    assert survey_module.Survey(optima, num_searches=40).missing > survey_module.CLOSED


@pytest.mark.parametrize(
    ("hits", "expected"), [([5, 4], 2.0), ([1, 1, 1], 6.0), ([1, 1, 2], 3.5), ([1] * 10 + [2] * 4, 23.0)]
)
def test_the_number_of_optima_is_chaos_estimate(hits, expected):
    assert expected_optima(np.array(hits)) == pytest.approx(expected)


def some_optima(height: float, num: int) -> Optima:
    optima = Optima(2)
    for index in range(num):
        top = np.array([3.0, 3.0]) if index == 0 else np.array([50.0 + index, 0.0])
        optima.add(Shape(top, HEIGHTS[0] if index == 0 else height, 0.0, True, np.eye(2), np.eye(2), top))
    optima.hits[:] = 1
    return optima


def test_a_low_top_beside_thousands_counts_for_nothing_and_a_hill_counts():
    target, log_z, ledger = as_target(wiggly, 2), float(HEIGHTS[0] + np.log(2.0 * np.pi)), Ledger()
    places = np.array([[2.0 * np.pi / 9.0 * 20, 0.0], [-5.2, -4.9]])
    few = some_optima(-3.0, 40)
    assert are_negligible(target, few, places, log_z, ledger).tolist() == [True, False]
    assert ledger.points == {"reference": 2 * 3}
    # Where most of the known optima count, no place may be left out; nor where that cannot be paid for.
    assert not np.any(are_negligible(target, some_optima(HEIGHTS[0], 40), places, log_z, Ledger()))
    assert not np.any(are_negligible(target, few, places, log_z, Ledger(budget=5)))


def test_the_heaviest_are_kept_with_all_that_is_known_of_them():
    optima = some_optima(-3.0, 40)
    optima.log_density[:] = np.arange(40.0) % 7
    kept = optima.heaviest(5)
    assert kept.log_density.tolist() == [6.0] * 5 and optima.heaviest(40) is optima
    np.testing.assert_array_equal(kept.position, optima.position[optima.log_density == 6.0])


def rippled(x):
    """Half of the mass in a narrow hill; the other half on 10^12 tops, of which no search finds one twice."""
    tops = -0.5 * (x / 60.0) ** 2 + 3.0 * jnp.cos(8.0 * x) - LOG_TOPS
    hill = -0.5 * ((x - 1.0) / 0.5) ** 2 - jnp.log(0.5 * jnp.sqrt(2.0 * jnp.pi))
    return jnp.logaddexp(jnp.sum(tops), jnp.sum(hill))


LOG_TOPS = float(np.log(60.0 * np.sqrt(2.0 * np.pi) * np.i0(3.0)))
"""Log integral of one coordinate of the tops."""


def test_tops_without_number_count_whatever_a_search_foretells(monkeypatch):
    """Each is 10^-14 of the mass, and 600 searches that found each of 600 once foretell no more than 180,000."""
    rng, dim = np.random.default_rng(0), 6
    places = np.round(60.0 * rng.normal(size=(610, dim)) * 8.0 / (2.0 * np.pi)) * 2.0 * np.pi / 8.0
    optima = Optima(dim)
    for index, place in enumerate(places[:600]):
        is_hill = index == 0
        shape = (np.ones(dim), 0.0, 0.25) if is_hill else (place, -20.0, 1.0 / 192.0)
        optima.add(Shape(*shape[:2], 0.0, True, np.eye(dim) / shape[2], shape[2] * np.eye(dim), place))
    optima.hits[:] = 1

    def counts() -> None:
        assert not np.any(are_negligible(as_target(rippled, dim), optima, places[600:], 0.0, Ledger()))

    counts()
    monkeypatch.setattr("tempering.atlas.negligible._log_room", lambda places: -np.inf)
    must_fail(counts)


def test_two_hits_are_little_where_most_optima_were_found_once():
    """A mode that counts and was found twice: luck, where a hundred others were found once; else it is known."""
    heavy = Mode((0.0, 0.0), 0.0, 1.0, 2)
    others = [Mode((float(k), 0.0), -30.0, 1e-13, 1 + k % 2) for k in range(100)]
    assert expected_unseen([heavy, *others]) == pytest.approx(np.pi**2 / 6 - 1.0, abs=1e-3)
    often = [dataclasses.replace(mode, hits=9) for mode in others]
    assert expected_unseen([heavy, *often]) == pytest.approx(1.0 / np.expm1(2.0))
    assert LIKELY_UNSEEN < expected_unseen([heavy, *others]) and expected_unseen([heavy, *often]) < LIKELY_UNSEEN
