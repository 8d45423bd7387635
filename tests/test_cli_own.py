"""A model of one's own through the command line, from the fit to draws: one tiny run, and a black box."""

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from support.commands import as_users_run_it, command, refused, without_report
from support.tiny import files_of, result_of
from support.tiny_runs import PT_DM_CHANGES
from tempering import load
from tempering.errors import DensityError
from tempering.runs.storage import read_arrays, read_json

MODEL = """
import jax.numpy as jnp
import numpy as np
import tempering as tp

like, support = {"m": np.zeros(2), "s": 1.0}, {"s": tp.positive}

def log_density(p):
    return -0.5 * jnp.sum((p["m"] - jnp.array([3.0, -1.0])) ** 2) - p["s"]

def failing():
    def density(x):
        raise KeyError("the simulator is away")
    return tp.from_callable(density, dim=2)
"""


@pytest.fixture(scope="module", autouse=True)
def run_as_users_do():
    with as_users_run_it():
        yield


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with the model and its run, and what the run printed; for reading only."""
    place = tmp_path_factory.mktemp("own")
    (place / "own_model.py").write_text(MODEL)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "path", list(sys.path))
        arguments = ("--method", "pt_dm", "--seed", 3, "--quiet", "--set", *PT_DM_CHANGES, "metrics.num_weighted=0")
        with without_report():
            code, out, errors = command(
                "run", f"{place / 'own_model.py'}:log_density", "--out", place / "run", *arguments
            )
        assert code == 0, errors
        yield place, out
    sys.modules.pop("own_model", None)


@pytest.fixture
def copy(made, tmp_path):
    """A copy of the run, whose configuration still names the model in its first place."""
    shutil.copytree(made[0] / "run", tmp_path / "run")
    return tmp_path / "run"


def test_the_run_leaves_a_whole_folder_and_judging_costs_no_evaluation(made):
    place, out = made
    result = read_json(place / "run" / "result.json")
    assert result["name"] == "own_model.py:log_density" and result["metrics"] == {}
    assert "metrics" not in result["ledger"]["points"] and result["evaluations"] > 0
    assert read_arrays(place / "run" / "evaluation.npz")["draws"].shape == (32, 3)
    assert "verdict" in out and str(place / "run" / "report.html") in out


def test_the_run_prints_its_answer(made):
    lines = made[1].splitlines()
    start = next(i for i, line in enumerate(lines) if line.split()[:3] == ["parameter", "mean", "sd"])
    assert [line.split()[0] for line in lines[start + 1 : start + 4]] == ["m[0]", "m[1]", "s"]
    assert "Monte Carlo standard error" in lines[start + 4]


def test_without_out_a_run_has_a_new_folder_of_its_own(made, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "own_model-log_density").mkdir(parents=True)
    with monkeypatch.context() as patched:
        patched.setattr(
            "tempering.lab.run.run",
            lambda config, out, *_, **__: Path(out).mkdir() or {"metrics": {"a": {"value": 1.0}}},
        )
        with without_report():
            model = f"{made[0] / 'own_model.py'}:log_density"
            for number in (2, 3):
                code, _, errors = command("run", model, "--method", "pt_dm", "--set", *PT_DM_CHANGES)
                assert code == 0 and f"folder runs/own_model-log_density-{number}; `tempering watch" in errors
    assert len(list((tmp_path / "runs").iterdir())) == 3


def test_draws_come_back_by_name_and_the_verdict_in_words(made, tmp_path):
    folder = made[0] / "run"
    assert command("sample", folder, "-n", "1e1", "-o", tmp_path / "a.npz", "--seed", 2)[0] == 0
    draws = read_arrays(tmp_path / "a.npz")
    assert set(draws) == {"m", "s"} and draws["m"].shape == (10, 2) and np.all(draws["s"] > 0)
    np.testing.assert_array_equal(draws["s"], load(folder).sample(10, seed=2)["s"])
    assert command("sample", folder, "-n", 10, "-o", tmp_path / "b.npz", "--weighted")[0] == 0
    assert "log_weights" in read_arrays(tmp_path / "b.npz")
    code, out, _ = command("diagnose", folder)
    assert code == 0 and "doubtful" in out or "unknown" in out
    assert command("report", folder)[0] == 0 and (folder / "report.html").exists()


def test_python_does_not_run_the_file(made):
    with pytest.raises(DensityError, match="log_density"):
        load(made[0] / "run").sample_weighted(3)


def test_a_stopped_run_ends_where_an_undisturbed_one_does(made, copy):
    for name in ("sampler.npz", "sampler.json", "samples.npz", "evaluation.npz", "result.json"):
        (copy / name).unlink()
    with without_report():
        code, _, errors = command("resume", copy, "--quiet")
    assert code == 0, errors
    assert result_of(copy) == result_of(made[0] / "run")
    assert files_of(copy)["sampler.npz"] == files_of(made[0] / "run")["sampler.npz"]


def test_a_project_that_moves_as_a_whole_finds_its_model(made, tmp_path):
    place, _ = made
    stored = read_json(place / "run" / "config.json")["config"]["target"]["arguments"]
    assert stored["path"] == "../own_model.py"  # no path of this machine beside what was typed
    moved = tmp_path / "elsewhere"
    shutil.copytree(place / "run", moved / "run")
    text = (place / "own_model.py").read_text()
    (moved / "own_model.py").write_text(text)
    code, _, errors = command("sample", moved / "run", "--num", 5, "--weighted", "--out", tmp_path / "draws.npz")
    assert code == 0, errors
    (moved / "own_model.py").write_text(text + "# another")
    assert f"{moved / 'own_model.py'} was changed" in refused(
        "sample", moved / "run", "--num", 5, "--weighted", "--out", tmp_path / "more.npz"
    )


def test_another_model_in_its_place_is_refused_but_plain_draws_are_not(made, copy, tmp_path):
    model = made[0] / "own_model.py"
    (copy / "result.json").unlink()
    model.write_text(MODEL.replace("3.0", "4.0"))
    try:
        for words in (("resume", copy, "--quiet"), ("evaluate", copy, "--quiet")):
            assert "own_model.py was changed since this run began" in refused(*words)
        assert "was changed" in refused("sample", copy, "--weighted", "-o", tmp_path / "w.npz")
        assert command("sample", copy, "-n", 4, "-o", tmp_path / "p.npz")[0] == 0
        model.unlink()
        assert "is not there any more; put it back" in refused("resume", copy, "--quiet")
    finally:
        model.write_text(MODEL)


def test_what_a_black_box_raises_is_one_line(made, tmp_path):
    line = f"{made[0] / 'own_model.py'}:failing"
    code, _, errors = command("run", line, "--method", "pt_dm", "--out", tmp_path / "r", "--set", *PT_DM_CHANGES)
    assert "own_model.py:failing raised KeyError in line 13: 'the simulator is away'" in errors
    assert code == 2 and "Traceback" not in errors
