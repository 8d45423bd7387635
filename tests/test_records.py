"""Warnings in words: each trouble is told with its number, and a run without trouble is told nothing."""

import pytest

from tempering.runs.records import LevelRecord, level_warnings


def levels(**numbers) -> list[LevelRecord]:
    return [LevelRecord(0, 10.0), LevelRecord(1, 1.0, **numbers)]


def test_a_clean_run_has_no_warning():
    assert level_warnings(levels(), 0.9) == ()
    assert level_warnings(levels(), None) == ()
    assert level_warnings(levels(), 0.9, 0.69) == ()
    assert level_warnings(levels(), 0.9, float("-inf")) == ()


@pytest.mark.parametrize(
    ("numbers", "ess", "told"),
    [
        ({"num_nonfinite": 1234}, 0.9, ["1,234", "NaN", "-inf outside"]),
        ({"num_replaced": 7}, 0.9, ["7 starting points", "init="]),
        ({}, 0.01, ["0.010", "budget"]),
    ],
)
def test_each_trouble_is_told(numbers, ess, told):
    (warning,) = level_warnings(levels(**numbers), ess)
    assert all(word in warning for word in told)


def test_a_heavy_tail_is_told():
    (warning,) = level_warnings(levels(), 0.9, 0.834)
    assert all(word in warning for word in ("Pareto k of 0.83", "0.7", "budget", "several seeds"))


def test_troubles_add_up():
    assert len(level_warnings(levels(num_nonfinite=1, num_replaced=1), 0.0, 2.0)) == 4


def test_records_without_a_newer_number_are_read():
    facts = LevelRecord(1, 1.0, pareto_k=0.3).as_dict()
    assert LevelRecord.from_dict(facts).pareto_k == 0.3
    del facts["pareto_k"]
    assert LevelRecord.from_dict(facts) == LevelRecord(1, 1.0)
