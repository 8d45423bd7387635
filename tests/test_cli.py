"""The command line on finished and unfinished runs of tiny size: what each command writes, what it refuses.

What needs no run is in `test_cli_without_runs.py`.
"""

import contextlib
import dataclasses
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet as pyarrow

from support.commands import PT_DM, PTSD, as_users_run_it, command, process, refused, without_report
from support.tiny import arrays_of_file, files_of, result_of
from support.tiny_runs import PT_DM_CHANGES, PTSD_CHANGES
from tempering import load
from tempering.lab.presets import PRESETS
from tempering.lab.run import evaluate_folder
from tempering.methods.budget import forecast
from tempering.runs.config import MetricsConfig
from tempering.runs.folder import RunFolder
from tempering.runs.storage import read_arrays, read_json, write_json


@pytest.fixture(scope="module", autouse=True)
def run_as_users_do():
    with as_users_run_it():
        yield


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A finished run of either method and what it printed, the first with its page; for reading only."""
    place = tmp_path_factory.mktemp("runs")
    made = {}
    for name, changes in ((PTSD, PTSD_CHANGES), (PT_DM, PT_DM_CHANGES)):
        folder = place / name
        with without_report() if name == PT_DM else contextlib.nullcontext():
            code, out, errors = command("run", name, "--out", folder, "--seed", 3, "--quiet", "--set", *changes)
        assert code == 0, errors
        made[name] = folder, out
    return made


@pytest.fixture
def finished(runs, tmp_path):
    """A copy of the finished PTSD run."""
    shutil.copytree(runs[PTSD][0], tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def unfinished(finished):
    """The same as it was before the sampler was saved."""
    for name in ("sampler.npz", "sampler.json", "evaluation.npz", "result.json"):
        (finished / name).unlink()
    return finished


# What the commands do.


@pytest.mark.parametrize("name", [PTSD, PT_DM])
def test_a_run_leaves_a_whole_folder(runs, name):
    folder, out = runs[name]
    levels = 4 if name == PTSD else 2
    last = f"{levels - 1:02d}"
    expected = {"config.json", "environment.json", "stats.jsonl", "sampler.npz", "sampler.json", "result.json"}
    expected |= {"evaluation.npz", f"levels/{last}/buffer.npz", f"levels/{last}/model.npz"}
    expected |= {"report.html"} if name == PTSD else set()
    assert set(files_of(folder)) >= expected
    assert not [path for path in folder.rglob("*") if path.name.endswith(".tmp")]
    result, config = read_json(folder / "result.json"), RunFolder.read_config(folder)
    assert result["evaluations"] == sum(forecast(config.settings, 2, config.budget).values()) and result["seed"] == 3
    assert len(result["levels"]) == levels and result["wall_seconds"] >= result["fit_seconds"] > 0
    assert {"w2", "log_likelihood", "ess_fraction"} <= set(result["metrics"])
    assert "w2" in out and str(folder / "report.html") in out
    events = [json.loads(line)["event"] for line in (folder / "stats.jsonl").read_text().splitlines()]
    assert events[0] == "start" and events[-2:] == ["fitted", "judged"]
    # The sampler comes back with its target.
    sampler = load(folder)
    assert sampler.evaluations == result["evaluations"] and np.all(np.isfinite(sampler.sample_weighted(4)[1]))


def test_sample_writes_draws_that_follow_from_the_seed(runs, tmp_path):
    import arviz

    folder, _ = runs[PTSD]
    before = files_of(folder)
    code, out, _ = command("sample", folder, "-n", 40, "-o", tmp_path / "a.npz", "--seed", 5)
    assert code == 0 and "wrote 40 draws of 2 dimensions" in out
    first = read_arrays(tmp_path / "a.npz")
    assert set(first) == {"draws"} and first["draws"].shape == (40, 2)
    np.testing.assert_array_equal(first["draws"], load(folder).sample(40, seed=5))
    assert command("sample", folder, "-n", 40, "-o", tmp_path / "new" / "b.npz", "--seed", 5)[0] == 0
    np.testing.assert_array_equal(read_arrays(tmp_path / "new" / "b.npz")["draws"], first["draws"])
    assert command("sample", folder, "-n", 40, "-o", tmp_path / "c.npz", "--weighted")[0] == 0
    weighted = read_arrays(tmp_path / "c.npz")
    assert set(weighted) == {"draws", "log_weights"} and weighted["log_weights"].shape == (40,)
    assert command("sample", folder, "-n", 40, "-o", tmp_path / "s.npz", "--solver", "sde", "--steps", 9)[0] == 0
    by_sde = read_arrays(tmp_path / "s.npz")["draws"]
    np.testing.assert_array_equal(by_sde, load(folder).sample(40, solver="sde", num_steps=9))
    assert not np.array_equal(by_sde, load(folder).sample(40, solver="sde"))
    assert command("sample", folder, "-n", 40, "-o", tmp_path / "even.npz", "--even", "--seed", 5)[0] == 0
    even = read_arrays(tmp_path / "even.npz")
    assert set(even) == {"draws"}
    np.testing.assert_array_equal(even["draws"], load(folder).sample_even(40, seed=5))
    assert command("sample", folder, "-n", 40, "-o", tmp_path / "d.parquet", "--weighted")[0] == 0
    columns = pyarrow.read_table(tmp_path / "d.parquet").to_pydict()
    assert list(columns) == ["x[0]", "x[1]", "log_weights"]
    np.testing.assert_array_equal(np.array(columns["x[1]"], np.float32), weighted["draws"][:, 1])
    assert command("sample", folder, "-n", 40, "-o", tmp_path / "e.nc", "--seed", 5)[0] == 0
    np.testing.assert_array_equal(
        arviz.from_netcdf(tmp_path / "e.nc").posterior["x"].values.reshape(40, 2), first["draws"]
    )
    assert files_of(folder) == before


def test_evaluate_judges_again_and_leaves_the_sampler_alone(finished):
    before, result = files_of(finished), result_of(finished)
    with without_report():
        code, out, _ = command("evaluate", finished, "--num-samples", 40, "--num-transport", 12, "--quiet")
    assert code == 0 and "w2" in out
    after, changed = files_of(finished), result_of(finished)
    assert read_arrays(finished / "evaluation.npz")["draws"].shape == (40, 2)
    assert changed["metrics"]["w2"]["num_samples"] == 12
    assert changed["metrics"] != result["metrics"] and changed["levels"] == result["levels"]
    rewritten = {name for name in before if before[name] != after[name]} - {"report.html"}
    assert {name for name in rewritten if not name.startswith("figures/")} == {
        "evaluation.npz",
        "result.json",
        "stats.jsonl",
    }
    # With the run's own settings it finds what the run found.
    with without_report():
        assert command("evaluate", finished, "--quiet")[0] == 0
    assert files_of(finished)["evaluation.npz"] == before["evaluation.npz"]
    assert result_of(finished) == result


def test_a_run_judged_by_the_metrics_of_a_preset_keeps_its_own_facts(finished):
    before, other = result_of(finished), PRESETS["mw32"]
    metrics = MetricsConfig(num_samples=40, num_transport=12, num_weighted=16, num_likelihood=16)
    after = evaluate_folder(finished, dataclasses.replace(other, seed=before["seed"] + 1, metrics=metrics))
    assert before["name"] != other.name and before["budget"] != other.budget and before["seed"] == 3
    for name in ("name", "method", "seed", "target", "budget", "evaluations"):
        assert after[name] == before[name], name
    assert after["metrics"]["w2"]["num_samples"] == 12 != before["metrics"]["w2"]["num_samples"]
    # The seed of the draws is the run's, too.
    again = read_arrays(finished / "evaluation.npz")["draws"]
    with without_report():
        assert command("evaluate", finished, "--num-samples", 40, "--num-transport", 12, "--quiet")[0] == 0
    np.testing.assert_array_equal(read_arrays(finished / "evaluation.npz")["draws"], again)


def test_report_is_made_again_from_the_folder_alone(finished):
    before = files_of(finished)
    shutil.rmtree(finished / "figures")
    (finished / "report.html").unlink()
    code, out, _ = command("report", finished)
    assert code == 0 and str(finished / "report.html") in out
    assert files_of(finished) == before


def test_resuming_a_finished_run_repeats_its_result_and_changes_nothing(finished):
    before = files_of(finished)
    with without_report():  # which is made from the folder alone
        code, out, _ = command("resume", finished, "--quiet")
    assert code == 0 and "w2" in out
    assert files_of(finished) == before


# What is refused.


def test_a_run_stands_where_no_report_can_be_made(finished, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, out, errors = command("resume", finished, "--quiet")
    assert code == 0, errors
    assert "no report: reports need Matplotlib" in out and f"`tempering report {finished}`" in out
    code, _, errors = command("report", finished)
    assert code == 2 and "pip install 'tempering[plots]'" in errors


def test_a_folder_with_anything_in_it_is_refused_and_nothing_changes(tmp_path, runs):
    (tmp_path / "thesis.txt").write_text("the only copy")
    assert "is not empty" in refused("run", PTSD, "--out", tmp_path, "--set", *PTSD_CHANGES)
    assert "is a file" in refused("run", PTSD, "--out", tmp_path / "thesis.txt", "--set", *PTSD_CHANGES)
    assert "cannot make" in refused("run", PTSD, "--out", tmp_path / "thesis.txt" / "x", "--set", *PTSD_CHANGES)
    assert {path.name for path in tmp_path.iterdir()} == {"thesis.txt"}
    assert (tmp_path / "thesis.txt").read_text() == "the only copy"
    folder, _ = runs[PTSD]
    before = files_of(folder)
    line = refused("run", PTSD, "--out", folder, "--set", *PTSD_CHANGES)
    assert "is not empty" in line and "tempering resume" in line
    assert files_of(folder) == before


def test_sample_refuses_to_overwrite_and_other_mistakes(runs, tmp_path):
    folder, _ = runs[PTSD]
    taken = tmp_path / "draws.npz"
    taken.write_text("the only copy")
    assert "exists; choose another file" in refused("sample", folder, "-n", 5, "-o", taken)
    assert taken.read_text() == "the only copy"
    new = tmp_path / "new.npz"
    assert "-n = 0 is not allowed" in refused("sample", folder, "-n", 0, "-o", new)
    assert "seed = 4294967296 is not allowed" in refused("sample", folder, "-n", 5, "-o", new, "--seed", 2**32)
    assert "solver = 'sde' is not allowed" in refused(
        "sample", folder, "-n", 5, "-o", new, "--solver", "sde", "--weighted"
    )
    assert "'rk4'" in refused("sample", folder, "-n", 5, "-o", new, "--solver", "rk4")
    assert "sampling.num_steps = 1 is not allowed" in refused("sample", folder, "-n", 5, "-o", new, "--steps", 1)
    assert "could not write" in refused("sample", folder, "-n", 5, "-o", taken / "new.npz")
    assert "one of .npz, .csv, .parquet, .nc, .txt" in refused("sample", folder, "-n", 5, "-o", tmp_path / "new.xls")
    assert "holds no finished sampler" in refused("sample", tmp_path, "-n", 5, "-o", new)
    assert "metrics.num_samples = 3 is not allowed" in refused("evaluate", folder, "--num-samples", 3)
    assert not new.exists()


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize("damage", [flip, cut])
@pytest.mark.parametrize("name", ["config.json", "levels/01/buffer.npz", "levels/02/model.npz", "levels/03/buffer.npz"])
def test_a_damaged_file_is_refused_by_its_name(unfinished, name, damage):
    damage(unfinished / name)
    before = files_of(unfinished)
    line = refused("resume", unfinished, "--quiet")
    assert str(unfinished / name) in line and ("damaged" in line or "altered" in line)
    after = files_of(unfinished)
    assert {key for key in before if before[key] != after.get(key)} <= {"stats.jsonl"}


def test_an_edited_configuration_is_refused(unfinished):
    path = unfinished / "config.json"
    path.write_text(path.read_text().replace('"seed": 3', '"seed": 4'))
    assert "was altered (checksum differs)" in refused("resume", unfinished)
    # Even one whose checksum was made anew, if it does not fit what lies in the folder.
    content = json.loads(path.read_text())
    del content["sha256"]
    content["config"]["settings"]["network"]["depth"] = 3
    write_json(path, content)
    assert "belong to another configuration" in refused("resume", unfinished, "--quiet")
    content["format"] = "tempering run 0"
    write_json(path, content)
    assert "has format 'tempering run 0'" in refused("resume", unfinished)


@pytest.mark.parametrize("name", ["sampler.npz", "sampler.json", "result.json"])
def test_a_damaged_result_is_refused_by_its_name(finished, name):
    flip(finished / name)
    if name != "result.json":
        (finished / "result.json").unlink()
    assert str(finished / name) in refused("resume", finished, "--quiet")


def test_an_unfinished_run_has_a_report_but_no_sampler(unfinished, tmp_path):
    assert command("report", unfinished)[0] == 0 and "is not finished" in (unfinished / "report.html").read_text()
    assert "go on with one that was stopped" in refused("sample", unfinished, "-o", tmp_path / "draws.npz")
    assert "sampler.json is missing" in refused("evaluate", unfinished, "--quiet")


def test_a_finished_run_goes_on_with_more_evaluations(finished):
    before, old = result_of(finished), files_of(finished)
    line = refused("resume", finished, "--budget", 10, "--quiet")
    assert "10 evaluations is too small" in line and "at least 1,000" in line
    assert refused("resume", finished, "--budget", 0).startswith("tempering: --budget = 0")
    with without_report():
        code, _, errors = command("resume", finished, "--budget", 1000, "--quiet")
    assert code == 0, errors
    after = result_of(finished)
    assert before["evaluations"] < after["evaluations"] <= before["evaluations"] + 1000
    assert after["levels"][-1]["proposal"] == "improved" and load(finished).evaluations == after["evaluations"]
    # The sampler from before is kept.
    kept = files_of(finished / "before-1")
    assert kept["sampler.npz"] == old["sampler.npz"] and kept["sampler.json"] == old["sampler.json"]


@pytest.mark.parametrize("what", ["resume", "evaluate"])
def test_a_folder_in_use_is_refused(finished, what):
    before = files_of(finished)
    with RunFolder.open(finished):
        assert "is in use by another process" in refused(what, finished, "--quiet")
    assert files_of(finished) == before
    with without_report():
        assert command("resume", finished, "--quiet")[0] == 0, "the lock goes with the process that held it"


def test_a_fit_of_ones_own_density_is_left_to_the_library(finished):
    path = finished / "config.json"
    content = read_json(path)
    content["config"]["target"] = {"name": "own density", "arguments": {"dim": 2}}
    write_json(path, content)
    (finished / "result.json").unlink()
    for what in ("resume", "evaluate"):
        assert "call tp.fit again" in refused(what, finished, "--quiet")
    assert command("sample", finished, "-n", 3, "-o", finished.parent / "draws.npz")[0] == 0
    assert "tp.load(folder, log_density)" in refused("sample", finished, "-o", finished.parent / "w.npz", "--weighted")


def test_a_process_samples_what_this_one_trained(runs, tmp_path):
    folder, _ = runs[PTSD]
    done = process("sample", folder, "-n", 40, "-o", "draws.npz", "--seed", 5, cwd=tmp_path)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    np.testing.assert_array_equal(arrays_of_file(tmp_path / "draws.npz")["draws"], load(folder).sample(40, seed=5))
