"""Configurations: in and out of JSON unchanged, settings changed by path, everything else refused by its name."""

import dataclasses
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.tiny_runs import PT_DM_CHANGES, PTSD_CHANGES
from support.unchecked import unchecked
from tempering.baselines.registry import TITLES
from tempering.errors import BudgetError, SettingsError
from tempering.lab.presets import PRESETS, preset
from tempering.lab.run import target_of
from tempering.methods.budget import check_budget, default_budget, forecast
from tempering.methods.registry import METHODS
from tempering.runs.config import (
    SETTINGS_OF,
    MetricsConfig,
    RunConfig,
    TargetConfig,
    config_from_dict,
    config_to_dict,
    with_changes,
)
from tempering.settings import BaselineSettings, PTDMSettings, PTSDSettings

SIZED = next(config for config in PRESETS.values() if config.settings.is_sized_by_budget)
PTSD = with_changes(SIZED, ["is_sized_by_budget=false"])
PT_DM = next(config for config in PRESETS.values() if config.method == "pt_dm")
by_preset = pytest.mark.parametrize("name", PRESETS)


@pytest.fixture(autouse=True)
def as_users_run_it():
    with unchecked():
        yield


def leaves(record: dict, prefix: str = "") -> dict[str, object]:
    """The fields of nested objects by dotted path."""
    found = {}
    for name, value in record.items():
        if isinstance(value, dict) and value:
            found |= leaves(value, f"{prefix}{name}.")
        else:
            found[prefix + name] = value
    return found


@by_preset
def test_a_preset_survives_its_record(name):
    config = preset(name)
    text = json.dumps(config_to_dict(config), allow_nan=False)
    assert config_from_dict(json.loads(text)) == config
    assert config.name == name and config.description


@by_preset
def test_a_preset_can_be_planned(name):
    config = preset(name)
    target = target_of(config)
    plan = forecast(config.settings, target.dim, config.budget)
    assert all(isinstance(num, int) and num >= 0 for num in plan.values()) and sum(plan.values()) > 0
    if config.settings.is_sized_by_budget:
        assert plan == {"at most": config.budget}
        check_budget(config.settings, target, config.budget)
        with pytest.raises(BudgetError, match=r"budget of 900 evaluations.*`ladder=`"):
            check_budget(config.settings, target, 900)
        without = dataclasses.replace(config, budget=None)
        assert forecast(without.settings, target.dim, None) == {"at most": default_budget(target.dim)}
        return
    # Its own cost as a budget passes, one less does not.
    check_budget(config.settings, target, sum(plan.values()))
    with pytest.raises(BudgetError, match=rf"needs {sum(plan.values()):,} evaluations.*raise the budget"):
        check_budget(config.settings, target, sum(plan.values()) - 1)


@by_preset
def test_saying_every_setting_again_changes_nothing(name):
    config = preset(name)
    changes = [f"{path}={json.dumps(value)}" for path, value in leaves(config_to_dict(config)).items()]
    assert len(changes) > (25 if isinstance(config.settings, BaselineSettings) else 50)
    assert with_changes(config, changes) == config


def test_an_unknown_preset_is_refused_with_the_usual_ones():
    with pytest.raises(
        SettingsError, match=r"unknown preset 'mog41' \(did you mean mog40\?\); usual ones are mog40, mw32, "
    ):
        preset("mog41")


@pytest.mark.parametrize(
    ("change", "path", "expected"),
    [
        ("seed=7", ("seed",), 7),
        ("budget=1e5", ("budget",), 100_000),
        ("training.num_steps=2e3", ("settings", "training", "num_steps"), 2000),
        ("budget=123456", ("budget",), 123456),
        ("budget=null", ("budget",), None),
        ("budget=None", ("budget",), None),
        ("settings.buffer_size=99", ("settings", "buffer_size"), 99),
        ("buffer_size=99", ("settings", "buffer_size"), 99),
        (" training.num_steps = 5 ", ("settings", "training", "num_steps"), 5),
        ("training.learning_rate=1e-3", ("settings", "training", "learning_rate"), 1e-3),
        ("ladder.hottest=50", ("settings", "ladder", "hottest"), 50.0),
        ("ladder.temperatures=[9, 3, 1]", ("settings", "ladder", "temperatures"), (9.0, 3.0, 1.0)),
        ("exploration.kernel=hmc", ("settings", "exploration", "kernel"), "hmc"),
        ('exploration.kernel="hmc"', ("settings", "exploration", "kernel"), "hmc"),
        ("noise.is_isotropic=TRUE", ("settings", "noise", "is_isotropic"), True),
        ("sampling.churn=2", ("settings", "sampling", "churn"), 2.0),
        ("metrics.num_samples=50", ("metrics", "num_samples"), 50),
        ("description=a=b", ("description",), "a=b"),
        ("target.arguments.dim=4", ("target", "arguments", "dim"), 4),
    ],
)
def test_one_setting_is_changed(change, path, expected):
    config = with_changes(PTSD, [change])
    found = config
    for name in path:
        found = found[name] if isinstance(found, dict) else getattr(found, name)
    assert found == expected and type(found) is type(expected)
    # And nothing else is.
    before, after = leaves(config_to_dict(PTSD)), leaves(config_to_dict(config))
    changed = {name for name in before | after if before.get(name) != after.get(name)}
    assert changed <= {".".join(path), "target.arguments"}


def test_changes_are_checked_together():
    # Each alone contradicts the rest of the preset.
    changes = ["buffer_size=1000000", "initial.num_chains=1000000"]
    with pytest.raises(SettingsError, match="buffer_size = 1000000.*at most"):
        with_changes(PTSD, changes[:1])
    assert with_changes(PTSD, changes).settings.buffer_size == 1_000_000
    assert with_changes(PTSD, list(PTSD_CHANGES)).settings.ladder.num_levels == 4
    assert with_changes(PT_DM, list(PT_DM_CHANGES)).settings.buffer_size == 32


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("training.num_step=5", r"unknown setting 'training.num_step' \(did you mean 'training.num_steps'\?\)"),
        ("trainning.num_steps=5", r"unknown setting 'trainning' \(did you mean 'training'\?\); known here: .*settings"),
        (
            "settings.trainning.num_steps=5",
            r"unknown setting 'settings.trainning' \(did you mean 'settings.training'\?\)",
        ),
        ("buffer_size.x=5", r"unknown setting 'buffer_size.x': buffer_size is one value, not a group"),
        ("last_refinement.num_steps=5", r"last_refinement is None here; give all of it, .*=\{\"num_steps\": 5\}"),
        ("seeds=5", r"unknown setting 'seeds' \(did you mean 'seed'\?\)"),
        ("training.num_steps", r"--set 'training.num_steps' .*must be name=value"),
        ("=5", r"--set '=5' .*must be name=value"),
        ("", r"must be name=value"),
        ("training.num_steps=many", r"settings.training.num_steps = 'many' is not allowed: it must be of type int"),
        ("training.num_steps=5.5", r"training.num_steps = 5.5 is not allowed"),
        ("training.num_steps=true", r"training.num_steps = True is not allowed"),
        ("training.num_steps=0", r"training.num_steps = 0 is not allowed: it must be an integer of at least 1"),
        ("training.learning_rate=fast", r"learning_rate = 'fast' is not allowed: it must be of type float"),
        ("training.learning_rate=NaN", r"learning_rate = nan is not allowed"),
        ("training.learning_rate=-Infinity", r"learning_rate = -inf is not allowed"),
        ("training.use_gradients=1", r"use_gradients = 1 is not allowed: it must be of type bool"),
        (
            "exploration.kernel=nuts",
            r"kernel = 'nuts' is not allowed: it must be one of 'automatic', 'mala', 'hmc'",
        ),
        ("exploration.kernel=[1]", r"exploration.kernel = \[1\] is not allowed"),
        ("ladder.temperatures=5", r"ladder.temperatures = 5 is not allowed: it must be a list"),
        ("ladder.temperatures=[4, 2]", r"ends at T = 1"),
        ('ladder.temperatures=[4, "a"]', r"ladder.temperatures = 'a' is not allowed"),
        ("ladder=5", r"ladder.? = 5 is not allowed: it must be an object"),
        ("target=null", r"target = None is not allowed: it must be an object"),
        ("settings=null", r"settings = None is not allowed: it must be an object"),
        ("method=pt", r"method = 'pt' is not allowed: it must be one of 'ptsd', 'ptsd_paper', 'pt_dm', 'reweighted'"),
        ("method=pt_dm", r"unknown setting 'settings.guidance'"),
        ("seed=-1", r"seed = -1 is not allowed: it must be an integer from 0 to 2\*\*32 - 1"),
        ("seed=4294967296", r"seed = 4294967296 is not allowed"),
        ("seed=null", r"seed = None is not allowed"),
        ("budget=0", r"budget = 0 is not allowed: it must be an integer of at least 1"),
        ("budget=1.5", r"budget = 1.5 is not allowed: it must be of type int"),
        ("target.arguments=3", r"target.arguments = 3 is not allowed: it must be an object"),
        ("target.name=3", r"target.name = 3 is not allowed: it must be of type str"),
        ("metrics.num_samples=9", r"metrics.num_samples = 9 is not allowed: it must be an integer of at least 10"),
        ("metrics.is_paper_compatible=yes", r"is_paper_compatible = 'yes' is not allowed: it must be of type bool"),
    ],
)
def test_a_bad_change_is_refused_by_its_name(change, message):
    with pytest.raises(SettingsError, match=message):
        with_changes(PTSD, [change])


def test_changes_after_one_that_spoils_the_settings_are_refused_too():
    with pytest.raises(SettingsError, match="unknown setting 'training'"):
        with_changes(PTSD, ["settings=5", "training.num_steps=3"])


@pytest.mark.parametrize(
    "size", ["buffer_size=99", "last_buffer_size=500", "num_final_draws=0", "initial.thin=1", "pilot.num_chains=9"]
)
def test_a_size_is_not_ignored_where_the_budget_sets_the_sizes(size):
    with pytest.raises(SettingsError, match=rf"settings\.{size.split('=')[0]} = .*budget sets the sizes.*=false"):
        with_changes(SIZED, [size])
    by_hand = with_changes(SIZED, [size, "is_sized_by_budget=false"])
    assert by_hand == with_changes(PTSD, [size]) and by_hand != PTSD
    # What the budget leaves alone can be changed, and a size can be said again.
    same = f"buffer_size={SIZED.settings.buffer_size}"
    assert with_changes(SIZED, ["initial.scale=3", "ladder.num_levels=5", same]).settings.initial.scale == 3.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("target.name=mog41", "unknown target 'mog41'; the known ones are .*mog40"),
        ("target.arguments.dims=4", "has no setting 'dims'"),
    ],
)
def test_a_target_that_is_not_in_the_registry_is_refused(change, message):
    with pytest.raises(SettingsError, match=message):
        target_of(with_changes(PTSD, [change]))


@pytest.mark.parametrize("dim", ["-2", "0", "3", "2.5", "true", "many", "null", "[4]"])
def test_a_dimension_that_the_target_cannot_have_is_refused(dim):
    config = with_changes(PTSD, ["target.name=many_well", f"target.arguments.dim={dim}"])
    with pytest.raises(SettingsError, match="dim"):
        target_of(config)


PATHS = sorted(leaves(config_to_dict(PTSD)))
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.lists(st.integers(-3, 30) | st.floats(), max_size=4),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)


@given(path=st.sampled_from(PATHS), value=VALUES)
def test_any_value_is_taken_as_it_is_or_refused(path, value):
    try:
        config = with_changes(PTSD, [f"{path}={json.dumps(value)}"])
    except SettingsError as refusal:
        assert "not allowed" in str(refusal) or "unknown" in str(refusal)
        return
    assert config_from_dict(json.loads(json.dumps(config_to_dict(config)))) == config


@given(path=st.text(max_size=30), value=st.text(max_size=10))
def test_any_text_is_an_allowed_change_or_a_refusal(path, value):
    try:
        config = with_changes(PTSD, [f"{path}={value}"])
    except SettingsError as refusal:
        assert re.search("unknown|not allowed|cannot be set alone", str(refusal)), refusal
        return
    assert config_from_dict(json.loads(json.dumps(config_to_dict(config)))) == config


@given(record=st.recursive(VALUES, lambda inner: st.dictionaries(st.sampled_from(PATHS), inner, max_size=3)))
def test_a_foreign_record_is_refused(record):
    with pytest.raises(SettingsError):
        config_from_dict(record)


@pytest.mark.parametrize("name", ["name", "description", "target", "settings"])
def test_a_record_without_a_needed_field_is_refused_by_its_name(name):
    record = config_to_dict(PTSD)
    del record[name]
    with pytest.raises(SettingsError, match=f"{name} is missing"):
        config_from_dict(record)


def test_settings_of_the_other_method_are_refused():
    with pytest.raises(SettingsError, match="'ptsd' takes PTSDSettings, not PTDMSettings"):
        RunConfig("x", "x", TargetConfig(), "ptsd", PTDMSettings())
    with pytest.raises(SettingsError, match="'pt_dm' takes PTDMSettings, not PTSDSettings"):
        RunConfig("x", "x", TargetConfig(), "pt_dm", PTSDSettings())
    assert RunConfig("x", "x", TargetConfig(), "ptsd", PTSDSettings()).metrics == MetricsConfig()
    assert set(METHODS) == set(SETTINGS_OF) == {"ptsd", "ptsd_paper", "pt_dm", "reweighted", *TITLES}
