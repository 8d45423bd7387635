"""The table of the baselines' results: runs join one by one, and one that was stopped says so."""

import argparse
import json

from baselines_table import merge, table


def entry(seed, evaluations, tvd):
    run = {"seed": seed, "evaluations": evaluations, "fit_seconds": 60.0, "wall_seconds": 70.0}
    run["metrics"] = {"energy_tvd": {"value": tvd, "floor": 0.1}}
    return {"command": "python", "commit": "abc", "changes": [], "runs": [run]}


def row(presets, name):
    return next(line for line in table(presets).splitlines() if line.startswith(f"| `{name}` |"))


def joined(tmp_path, *entries):
    files = [tmp_path / f"{i}.json" for i in range(len(entries))]
    for file, one in zip(files, entries, strict=True):
        file.write_text(json.dumps({"presets": {"mog40-idem": one}}))
    merge(argparse.Namespace(files=files, out=tmp_path / "results.json"))
    return json.loads((tmp_path / "results.json").read_text())["presets"]


WHOLE, PART = 51_212_000_000, 5_000_000_000


def test_runs_made_side_by_side_are_joined_and_the_later_of_one_seed_counts(tmp_path):
    stored = joined(tmp_path, entry(1, WHOLE, 0.3), entry(0, WHOLE, 0.5), entry(1, WHOLE, 0.1))
    assert [run["seed"] for run in stored["mog40-idem"]["runs"]] == [0, 1]
    assert stored["mog40-idem"]["summary"]["energy_tvd"]["mean"] == 0.3
    assert "| 2 | 0.3 ± 0.2, floor 0.1 (published 0.09)" in row(stored, "mog40-idem")
    assert "not run" in row(stored, "mog40-bnem")


def test_a_run_that_was_stopped_says_how_far_it_came_and_counts_where_none_is_whole(tmp_path):
    stored = joined(tmp_path, entry(0, PART, 0.3))
    assert "| 1, stopped at 10 % | 0.3, floor 0.1" in row(stored, "mog40-idem")
    stored = joined(tmp_path, entry(1, WHOLE, 0.1))
    assert len(stored["mog40-idem"]["runs"]) == 2
    assert "| 1 | 0.1, floor 0.1" in row(stored, "mog40-idem")
