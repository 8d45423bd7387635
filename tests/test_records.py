"""Records as files keep them: what was written is read back, and files of older versions are read."""

import json

from tempering.runs.records import Checks, LevelRecord


def test_records_without_a_newer_number_are_read():
    facts = LevelRecord(1, 1.0, pareto_k=0.3).as_dict()
    assert LevelRecord.from_dict(facts).pareto_k == 0.3
    del facts["pareto_k"]
    assert LevelRecord.from_dict(facts) == LevelRecord(1, 1.0)


def test_checks_are_read_as_they_were_written():
    checks = Checks(pilot_temperature=64.0, pilot_is_mixed=False, num_starts=200, determinants="checked")
    facts = json.loads(json.dumps(checks.as_dict()))
    assert Checks.from_dict(facts) == checks
    assert Checks.from_dict({"num_starts": 7, "a number of another version": 1.0}) == Checks(num_starts=7)
    assert Checks.from_dict({}) == Checks()
