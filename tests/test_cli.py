"""The command line from end to end at tiny size: what each command writes, and one clear line for each mistake."""

import contextlib
import dataclasses
import io
import json
import os
import shutil
import subprocess
from pathlib import Path

import arviz
import jax
import numpy as np
import pytest
from pyarrow import parquet as pyarrow

from support.tiny import (
    COMMAND,
    PT_DM_CHANGES,
    PTSD_CHANGES,
    arrays_of_file,
    files_of,
    quick_compilation,
    result_of,
    subprocess_environment,
)
from support.unchecked import unchecked
from tempering import load
from tempering.cli import main
from tempering.experiments.config import MetricsConfig, config_from_dict
from tempering.experiments.methods import METHODS, planned
from tempering.experiments.presets import PRESETS
from tempering.experiments.run import evaluate_folder, target_of
from tempering.experiments.run_folder import RunFolder
from tempering.settings import PTSDSettings
from tempering.storage import read_arrays, read_json, write_json

PTSD = next(name for name, config in PRESETS.items() if config.method == "ptsd")
PT_DM = next(name for name, config in PRESETS.items() if config.method == "pt_dm")


@pytest.fixture(scope="module", autouse=True)
def as_users_run_it():
    """`main` sets the compilation cache of the process: it gets the suite's own, and the suite's settings come back."""
    cache = jax.config.jax_compilation_cache_dir
    least = jax.config.jax_persistent_cache_min_compile_time_secs
    with pytest.MonkeyPatch.context() as patched, quick_compilation(), unchecked():
        patched.setenv("TEMPERING_CACHE", cache)
        patched.setenv("COLUMNS", "80")
        yield
    jax.config.update("jax_compilation_cache_dir", cache)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", least)


def command(*arguments) -> tuple[int, str, str]:
    """The exit code, the output and the errors of a command."""
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as stop:  # the parser's own refusals
            code = stop.code
    return code, out.getvalue(), errors.getvalue()


def refused(*arguments) -> str:
    """The one line that a refusal writes."""
    code, out, errors = command(*arguments)
    assert code == 2, f"exit code {code}, output {out!r}"
    assert out == "" and errors.startswith("tempering: ") and errors.count("\n") == 1, errors
    return errors


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A finished run of either method and what it printed; for reading only."""
    place = tmp_path_factory.mktemp("runs")
    made = {}
    for name, changes in ((PTSD, PTSD_CHANGES), (PT_DM, PT_DM_CHANGES)):
        folder = place / name
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


def test_list_shows_every_preset_with_its_cost():
    code, out, _ = command("list")
    assert code == 0
    for name, config in PRESETS.items():
        (line,) = (line for line in out.splitlines() if line.startswith(f"│ {name} "))
        cost = sum(planned(config, target_of(config).dim).values())
        assert f" {cost:,} " in line and METHODS[config.method].title in line


@pytest.mark.parametrize("name", PRESETS)
def test_a_dry_run_prints_the_plan_and_writes_nothing(name, tmp_path):
    given = PRESETS[name].settings
    is_sized = given.is_sized_by_budget
    size, cost = ("training.batch_size", 12_345) if is_sized else ("buffer_size", PRESETS[name].budget)
    num_chains = given.refinement.num_chains if isinstance(given, PTSDSettings) else None
    num = max(40, num_chains or 0)
    arguments = ("--seed", 9, *(("--budget", cost) if cost else ()), "--set", f"{size}={num}")
    code, out, _ = command("run", name, "--dry-run", "--out", tmp_path / "run", *arguments, "--set=initial.scale=2")
    assert code == 0 and not (tmp_path / "run").exists()
    content = json.loads(out)
    config = content["config"]
    settings = config["settings"]
    assert (config["seed"], settings["initial"]["scale"], config["budget"]) == (9, 2.0, cost)
    assert (settings["training"]["batch_size"] if is_sized else settings["buffer_size"]) == num
    assert config_from_dict(config).name == name
    assert content["planned_total"] == sum(content["planned"].values()) > 0
    if is_sized:
        assert content["planned"] == {"at most": 12_345}
    elif config["method"] == "ptsd":
        ladder = config["settings"]["ladder"]
        levels = ladder["num_levels"] or len(ladder["temperatures"])
        drawn = 0 if settings["guidance"]["kind"] == "reweighted" else num
        assert content["planned"]["importance_weights"] == drawn * (levels - 2)
        assert ("pilot" in content["planned"]) == (config["settings"]["pilot"]["ceiling"] is not None)


@pytest.mark.parametrize("name", [PTSD, PT_DM])
def test_a_run_leaves_a_whole_folder(runs, name):
    folder, out = runs[name]
    levels = 4 if name == PTSD else 2
    last = f"{levels - 1:02d}"
    expected = {"config.json", "environment.json", "stats.jsonl", "sampler.npz", "sampler.json", "result.json"}
    expected |= {"evaluation.npz", "report.html", f"levels/{last}/buffer.npz", f"levels/{last}/model.npz"}
    assert set(files_of(folder)) >= expected
    assert not [path for path in folder.rglob("*") if path.name.endswith(".tmp")]
    result, config = read_json(folder / "result.json"), RunFolder.read_config(folder)
    assert result["evaluations"] == sum(planned(config, 2).values()) and result["seed"] == 3
    assert len(result["levels"]) == levels and result["wall_seconds"] >= result["fit_seconds"] > 0
    assert {"w2", "log_likelihood", "ess_fraction"} <= set(result["metrics"])
    assert "w2" in out and str(folder / "report.html") in out
    events = [json.loads(line)["event"] for line in (folder / "stats.jsonl").read_text().splitlines()]
    assert events[0] == "start" and events[-2:] == ["fitted", "judged"]
    # The sampler comes back with its target.
    sampler = load(folder)
    assert sampler.evaluations == result["evaluations"] and np.all(np.isfinite(sampler.sample_weighted(4)[1]))


def test_sample_writes_draws_that_follow_from_the_seed(runs, tmp_path):
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
    assert command("sample", folder, "-n", 40, "-o", tmp_path / "d.parquet", "--weighted")[0] == 0
    columns = pyarrow.read_table(tmp_path / "d.parquet").to_pydict()
    assert list(columns) == ["x[0]", "x[1]", "log_weights"]
    np.testing.assert_array_equal(np.array(columns["x[1]"], np.float32), weighted["draws"][:, 1])
    assert command("sample", folder, "-n", 40, "-o", tmp_path / "e.nc", "--seed", 5)[0] == 0
    np.testing.assert_array_equal(arviz.from_netcdf(tmp_path / "e.nc").posterior["x"].values[0], first["draws"])
    assert files_of(folder) == before


def test_evaluate_judges_again_and_leaves_the_sampler_alone(finished):
    before, result = files_of(finished), result_of(finished)
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
    code, out, _ = command("resume", finished, "--quiet")
    assert code == 0 and "w2" in out
    assert files_of(finished) == before


# What is refused.


def test_a_bad_preset_or_setting_is_refused(tmp_path):
    out = ("--out", tmp_path / "run")
    line = refused("run", "mog41", *out)
    assert "unknown preset 'mog41'" in line and all(name in line for name in PRESETS)
    assert "unknown setting 'training.num_step'" in refused("run", PTSD, *out, "--set", "training.num_step=5")
    assert "num_steps = 'many' is not allowed" in refused("run", PTSD, *out, "--set", "training.num_steps=many")
    assert "must be name=value" in refused("run", PTSD, *out, "--set", "training.num_steps")
    # The second --set is not lost.
    assert "unknown setting 'b'" in refused("run", PTSD, *out, "--set", "seed=1", "--set", "b=1")
    assert "seed = -1 is not allowed" in refused("run", PTSD, *out, "--seed", "-1")
    assert "seed = 4294967296 is not allowed" in refused("run", PTSD, *out, "--seed", 2**32)
    assert "budget = 0 is not allowed" in refused("run", PTSD, *out, "--budget", 0)
    assert "needs a pilot run" in refused("run", "mog40-paper", *out, "--set", "ladder.hottest=none")
    assert "unknown target" in refused("run", PTSD, *out, "--set", "target.name=mog41")
    assert "--out is missing" in refused("run", PTSD)
    line = refused("run", PTSD, *out, "--budget", 5, "--set", *PTSD_CHANGES)
    assert "more than the budget of 5" in line and "--set" in line
    # Where the budget sets the sizes, one that is too small is refused, and so is a size.
    line = refused("run", PTSD, *out, "--budget", 900)
    assert "a budget of 900 evaluations is too small" in line and "give at least" in line
    assert "leaves" in refused("run", PTSD, *out, "--budget", 900, "--set", "ladder.hottest=9")
    assert "the budget sets the sizes here" in refused("run", PTSD, *out, "--set", "buffer_size=40")
    assert not (tmp_path / "run").exists()


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
    assert "could not write" in refused("sample", folder, "-n", 5, "-o", taken / "new.npz")
    assert "one of .npz, .parquet, .nc" in refused("sample", folder, "-n", 5, "-o", tmp_path / "new.csv")
    assert "holds no finished sampler" in refused("sample", tmp_path, "-n", 5, "-o", new)
    assert "metrics.num_samples = 3 is not allowed" in refused("evaluate", folder, "--num-samples", 3)
    assert not new.exists()


@pytest.mark.parametrize("what", ["resume", "evaluate", "report"])
def test_a_folder_that_is_no_run_is_refused(what, tmp_path):
    (tmp_path / "thesis.txt").write_text("the only copy")
    for folder in (tmp_path, tmp_path / "nowhere", tmp_path / "thesis.txt"):
        assert str(folder) in refused(what, folder)
    (tmp_path / "config.json").write_text("{}")
    assert "carries no checksum" in refused(what, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"thesis.txt", "config.json"}


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
    assert "fit or resume it first" in refused("sample", unfinished, "-o", tmp_path / "draws.npz")
    assert "sampler.json is missing" in refused("evaluate", unfinished, "--quiet")


@pytest.mark.parametrize("what", ["resume", "evaluate"])
def test_a_folder_in_use_is_refused(finished, what):
    before = files_of(finished)
    with RunFolder.open(finished):
        assert "is in use by another process" in refused(what, finished, "--quiet")
    assert files_of(finished) == before
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


@pytest.mark.parametrize(
    "arguments", [(), ("walk",), ("run",), ("run", "mog40", "--sed", "3"), ("run", "mog40", "--seed", "three")]
)
def test_the_parser_refuses_what_it_cannot_read(arguments):
    line = refused(*arguments)
    assert "--help" in line and not set("│╭╰") & set(line)


def test_help_is_shown_where_it_is_asked_for():
    for arguments in (("--help",), ("run", "--help")):
        code, out, errors = command(*arguments)
        assert code == 0 and "usage: tempering" in out and errors == ""


# The same in a process of its own.


def process(*arguments, cwd: Path) -> subprocess.CompletedProcess:
    environment = subprocess_environment(os.environ["TEMPERING_CACHE"])
    arguments = [str(argument) for argument in arguments]
    return subprocess.run([*COMMAND, *arguments], env=environment, cwd=cwd, capture_output=True, text=True, timeout=120)


def test_a_process_says_what_is_wrong_in_one_line(tmp_path):
    done = process("run", "mog41", "--out", "run", cwd=tmp_path)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("tempering: unknown preset 'mog41'") and done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_process_samples_what_this_one_trained(runs, tmp_path):
    folder, _ = runs[PTSD]
    done = process("sample", folder, "-n", 40, "-o", "draws.npz", "--seed", 5, cwd=tmp_path)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    np.testing.assert_array_equal(arrays_of_file(tmp_path / "draws.npz")["draws"], load(folder).sample(40, seed=5))
