"""Every setting of a baseline refuses what makes no sense, by its name; and presets can be planned by a dry run."""

import dataclasses
import json

import pytest

from support.commands import command
from support.unchecked import unchecked
from tempering import settings
from tempering.errors import SettingsError
from tempering.lab.baseline_presets import BASELINE_PRESETS

KINDS = [
    getattr(settings, name)
    for name in settings.__all__
    if name != "BaselineSettings"
    and dataclasses.is_dataclass(getattr(settings, name))
    and issubclass(getattr(settings, name), settings.BaselineSettings)
]
CASES = [(kind, field.name) for kind in KINDS for field in dataclasses.fields(kind)]


@pytest.fixture(autouse=True)
def as_users_run_it():
    with unchecked():
        yield


def test_there_are_six():
    assert sorted(kind().method for kind in KINDS) == ["bnem", "cmcd", "dds", "dikl", "fab", "idem"]


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_a_word_in_place_of_a_number_is_refused_by_name(kind, name):
    if name == "num_bootstrap":  # counts only where estimates are bootstrapped
        with pytest.raises(SettingsError, match="num_bootstrap = 'no'"):
            kind(num_bootstrap="no", num_bootstrap_after=1)
        return
    with pytest.raises(SettingsError, match=f"{name} = 'no' is not allowed"):
        kind(**{name: "no"})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"buffer_size": 12_801}, "a multiple of batch_size"),
        ({"first_buffer_size": 128}, "updates draw without replacement"),
        ({"buffer_size": 1_280}, "at least first_buffer_size"),
        ({"alpha": 0.0}, "alpha"),
        ({"kernel": "mala"}, "'random_walk', 'hmc'"),
    ],
)
def test_contradictions_of_fab_are_refused(changes, message):
    with pytest.raises(SettingsError, match=message):
        settings.FABSettings(**changes)


@pytest.mark.parametrize("name", BASELINE_PRESETS)
def test_a_dry_run_prints_the_plan_and_writes_nothing(name, tmp_path):
    code, out, _ = command("run", name, "--dry-run", "--json", "--out", tmp_path / "run", "--set", "num_steps=7")
    assert code == 0 and not (tmp_path / "run").exists()
    content = json.loads(out)
    assert content["config"]["settings"]["num_steps"] == 7
    assert content["planned_total"] == sum(stage["evaluations"] for stage in content["stages"]) > 0
