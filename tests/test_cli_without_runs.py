"""The command line before there is a run: presets, plans, help, and one clear line for each mistake."""

import json
from pathlib import Path

import pytest

import tempering
from support.commands import PTSD, as_users_run_it, command, process, refused
from support.tiny_runs import PTSD_CHANGES
from tempering.cli.wrapping import print_verdict, wrapped
from tempering.lab.presets import ABLATIONS, PRESETS
from tempering.lab.run import target_of
from tempering.methods.budget import forecast
from tempering.methods.registry import title_of
from tempering.runs.config import config_from_dict
from tempering.settings import BaselineSettings, DescentSettings


@pytest.fixture(scope="module", autouse=True)
def run_as_users_do():
    with as_users_run_it():
        yield


def test_list_shows_every_preset_with_its_method_and_cost():
    code, out, _ = command("list", "--all")
    lines = out.splitlines()
    assert code == 0 and max(map(len, lines)) <= 80
    for name, config in PRESETS.items():
        (line,) = (line for line in lines if line.startswith(f"{name} "))
        cost = sum(forecast(config.settings, target_of(config).dim, config.budget).values())
        assert line.endswith(f" {cost:,}") and f" {title_of(config.method, config.settings)} " in line
        assert config.description in " ".join(out.split())


def _names(out):
    return {line.split()[0] for line in out.splitlines() if line[:1].isalpha()} - {"name"}


def test_list_is_one_screen_of_usual_presets_and_all_are_there_for_the_asking():
    code, out, _ = command("list")
    usual = _names(out)
    assert code == 0 and len(out.splitlines()) <= 26 and max(map(len, out.splitlines())) <= 80
    assert {"mog40", "mw32", "dw4", "lj13", "aldp-internal"} <= usual
    hidden = PRESETS.keys() - usual
    assert ABLATIONS.keys() <= hidden and {"mog40-paper", "mog40-pt-dm", "mw32-fab"} <= hidden
    assert f"--all` shows {len(hidden)} more" in out
    code, out, _ = command("list", "--all")
    assert code == 0 and _names(out) == PRESETS.keys()


OURS = [name for name, config in PRESETS.items() if not isinstance(config.settings, BaselineSettings)]


@pytest.mark.parametrize("name", OURS)
def test_a_dry_run_prints_the_plan_and_writes_nothing(name, tmp_path):
    given = PRESETS[name].settings
    is_sized = given.is_sized_by_budget
    size, cost = ("training.batch_size", 1_234_567) if is_sized else ("buffer_size", PRESETS[name].budget)
    num_chains = given.refinement.num_chains if isinstance(given, DescentSettings) else None
    num = max(40, num_chains or 0)
    arguments = ("--seed", 9, *(("--budget", cost) if cost else ()), "--set", f"{size}={num}")
    code, out, _ = command(
        "run", name, "--dry-run", "--json", "--out", tmp_path / "run", *arguments, "--set=initial.scale=2"
    )
    assert code == 0 and not (tmp_path / "run").exists()
    content = json.loads(out)
    config = content["config"]
    settings = config["settings"]
    assert (config["seed"], settings["initial"]["scale"], config["budget"]) == (9, 2.0, cost)
    assert (settings["training"]["batch_size"] if is_sized else settings["buffer_size"]) == num
    assert config_from_dict(config).name == name
    assert content["planned_total"] == sum(content["planned"].values()) > 0
    if is_sized:
        assert content["planned"] == {"at most": 1_234_567}
    elif config["method"] == "ptsd":
        ladder = config["settings"]["ladder"]
        levels = ladder["num_levels"] or len(ladder["temperatures"])
        assert content["planned"]["importance_weights"] == num * (levels - 2)
        assert ("pilot" in content["planned"]) == (config["settings"]["pilot"]["ceiling"] is not None)


def test_a_bad_preset_or_setting_is_refused(tmp_path):
    out = ("--out", tmp_path / "run")
    line = refused("run", "mog41", *out)
    assert "unknown preset 'mog41' (did you mean mog40?)" in line
    assert "mog40, mw32, " in line and "mog40-fab" not in line and "`tempering list --all`" in line
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
    line = refused("run", PTSD, *out, "--budget", 5, "--set", *PTSD_CHANGES)
    assert "more than the budget of 5" in line and "--set" in line
    # Where the budget sets the sizes, one that is too small is refused, and so is a size.
    line = refused("run", PTSD, *out, "--budget", 900)
    assert "a budget of 900 evaluations is too small" in line and "give at least" in line
    assert "leaves" in refused("run", PTSD, *out, "--budget", 900, "--set", "ladder.hottest=9")
    assert "the budget sets the sizes here" in refused("run", PTSD, *out, "--set", "buffer_size=40")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("what", ["resume", "evaluate", "report"])
def test_a_folder_that_is_no_run_is_refused(what, tmp_path):
    (tmp_path / "thesis.txt").write_text("the only copy")
    for folder in (tmp_path, tmp_path / "nowhere", tmp_path / "thesis.txt"):
        assert str(folder) in refused(what, folder)
    (tmp_path / "config.json").write_text("{}")
    assert "carries no checksum" in refused(what, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"thesis.txt", "config.json"}


@pytest.mark.parametrize(
    "arguments", [(), ("walk",), ("run",), ("run", "mog40", "--sed", "3"), ("run", "mog40", "--seed", "three")]
)
def test_the_parser_refuses_what_it_cannot_read(arguments):
    line = refused(*arguments)
    assert "--help" in line and not set("│╭╰") & set(line)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("lst",), "unknown command 'lst' (did you mean list?); `tempering --help`"),
        (("walk",), "unknown command 'walk'; `tempering --help`"),
        (("version",), "unknown command 'version' (did you mean --version?)"),
        ((), "a command is missing, such as `tempering list`"),
        (("run", "mog40", "--sed", "3"), "unknown argument '--sed' (did you mean --seed?); `tempering run --help`"),
        (("sample", "x", "--quasi_random=1"), "unknown argument '--quasi_random=1' (did you mean --quasi-random?)"),
        (("--al", "list"), "unknown argument '--al' (did you mean --all?); `tempering list --help`"),
        (("run", "mog40", "mw32"), "unknown argument 'mw32'; `tempering run --help`"),
        (("evaluate",), "the following arguments are required: folder; `tempering evaluate --help`"),
        (("run", "mog40", "--seed", "three"), "argument --seed: invalid whole number: 'three'; one is written 100000"),
    ],
)
def test_the_parser_says_what_is_wrong_and_what_is_near(arguments, words):
    assert words in refused(*arguments)


def test_settings_may_be_given_together_and_apart():
    changes = ("--set", "training.num_steps=7", "network.width=33", "--set", "initial.scale=2", "--set=seed=5")
    code, out, _ = command("run", "mog40", "--dry-run", "--json", *changes)
    config = json.loads(out)["config"]
    settings = config["settings"]
    assert code == 0 and (config["seed"], settings["initial"]["scale"]) == (5, 2.0)
    assert (settings["training"]["num_steps"], settings["network"]["width"]) == (7, 33)


def test_the_version_is_shown():
    assert command("--version") == (0, f"tempering {tempering.__version__}\n", "")


def test_help_is_shown_where_it_is_asked_for():
    for arguments in (("--help",), ("run", "--help")):
        code, out, errors = command(*arguments)
        assert code == 0 and "usage: tempering" in out and errors == ""


def test_a_process_says_what_is_wrong_in_one_line(tmp_path):
    done = process("run", "mog41", "--out", "run", cwd=tmp_path)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("tempering: unknown preset 'mog41'") and done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_long_finding_is_broken_under_its_own_beginning():
    words = "[!!] final weights: " + "effective share " * 12 + "\n     What to do: " + "go on, " * 20 + "\nend"
    lines = wrapped(words, 60).splitlines()
    assert max(map(len, lines)) <= 60 and lines[0].startswith("[!!]") and lines[-1] == "end"
    assert all(line.startswith("     ") and line[5] != " " for line in lines[1:-1])
    assert " ".join(wrapped(words, 60).split()) == " ".join(words.split())


def test_advice_for_python_is_said_for_the_command_line_too(capsys):
    print_verdict("verdict: doubtful", Path("runs/mine"))
    assert capsys.readouterr().out == "verdict: doubtful\n"
    print_verdict("go on with `improve(budget=…)`", Path("runs/mine"))
    assert "`tempering resume runs/mine --budget N`" in capsys.readouterr().out


def test_a_missing_file_is_said_once(tmp_path):
    code, _, err = command("run", f"{tmp_path}/nowhere.py:f", "--dim", 2)
    assert code == 2 and "is not a file" in err and "is not a path" not in err
