"""Settings from Python and from the command line: one changed in one line, the rest as the method has them."""

import dataclasses
import json

import jax.numpy as jnp
import pytest

import tempering as tp
from support.commands import PTSD, as_users_run_it, command
from support.defaults import default_settings
from support.tiny_fits import density
from support.tiny_runs import PTSD_CHANGES
from support.witness import facts_and_arrays
from tempering.methods.registry import METHODS
from tempering.runs.folder import RunFolder
from tempering.runs.storage import read_json

SIZES = {
    "is_sized_by_budget": False,
    "buffer_size": 32,
    "num_final_draws": 16,
    "initial.num_chains": 32,
    "initial.num_steps": 8,
    "initial.burn_in": 4,
    "initial.thin": 2,
    "ladder.hottest": 8.0,
    "ladder.num_levels": 3,
    "network.width": 8,
    "network.depth": 2,
    "training.num_steps": 20,
    "training.num_finetune_steps": 10,
    "training.batch_size": 16,
    "training.check_every": 10,
    "sampling.num_steps": 4,
}
"""Of a fit that takes no time, by changes of any method's settings."""


@pytest.fixture(scope="module", autouse=True)
def run_as_users_do():
    with as_users_run_it():
        yield


@pytest.fixture
def handed(monkeypatch):
    """What every fit was handed in place of being made: the random key and the settings."""
    calls = []

    def remember(target, key, settings, **options):
        calls.append((key, settings, options["ledger"]))
        raise InterruptedError

    for method in ("ptsd", "ptsd_paper"):
        monkeypatch.setitem(METHODS, method, dataclasses.replace(METHODS[method], fit=remember))

    def settings_of(**options):
        with pytest.raises(InterruptedError):
            tp.fit(density(), dim=2, progress=False, **options)
        return calls[-1]

    return settings_of


# In Python.


def test_the_settings_without_arguments_are_what_a_fit_runs(handed):
    without, whole, empty = handed(), handed(settings=tp.PTSDSettings()), handed(settings={})
    assert without == whole == empty
    assert without[1] == default_settings("ptsd", 2) == handed(method="ptsd")[1]
    assert None not in (without[1].network, without[1].noise, without[1].training, without[1].sampling)
    # The witness is awake: another setting is another fit.
    assert handed(settings={"training.num_steps": 9})[1] != without[1]


def test_one_change_leaves_all_other_settings_alone(handed):
    default, changed = handed()[1], handed(settings={"training.num_steps": 321, "guidance.kind": "none"})[1]
    assert (changed.training.num_steps, changed.guidance.kind) == (321, "none")
    assert changed == dataclasses.replace(
        default,
        training=dataclasses.replace(default.training, num_steps=321),
        guidance=dataclasses.replace(default.guidance, kind="none"),
    )


def test_changes_and_the_whole_settings_are_the_same_fit(handed):
    assert handed(settings=SIZES) == handed(settings=default_settings("ptsd", 2).with_changes(SIZES))


def test_the_word_none_is_a_choice_where_it_is_one():
    assert tp.PTSDSettings().with_changes({"guidance.kind": "none"}).guidance.kind == "none"
    assert tp.PTSDSettings().with_changes({"resampling.levels": "none"}).resampling.levels == "none"
    assert tp.PTSDSettings().with_changes({"resampling.quantile": None}).resampling.quantile is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"training.num_stpes": 5}, r"unknown setting 'training.num_stpes' \(did you mean 'training.num_steps'\?\)"),
        ({"trainning.num_steps": 5}, r"unknown setting 'trainning' \(did you mean 'training'\?\)"),
        ({"zzz": 5}, "unknown setting 'zzz'; known here: .*training"),
        ({"training.num_steps": "many"}, "training.num_steps = 'many' is not allowed: it must be of type int"),
        ({"training.num_steps": 0}, "training.num_steps = 0 is not allowed: it must be an integer of at least 1"),
        ({"training": 5}, "training = 5 is not allowed: it must be an object with fields"),
        ({"buffer_size": 99}, "buffer_size = 99 is not allowed: the budget sets the sizes.*is_sized_by_budget=false"),
        ({"last_refinement.num_steps": 5}, "last_refinement is None here; give all of it"),
        (5, "settings is an int; give PTSDSettings.*or a dict of changes such as"),
        ("training.num_steps=5", "settings is a string; give PTSDSettings.*or a dict of changes such as"),
        (tp.PTDMSettings(), "method 'ptsd' takes PTSDSettings, not PTDMSettings"),
    ],
)
def test_bad_settings_are_refused_in_words(settings, message):
    with pytest.raises(tp.SettingsError, match=message):
        tp.fit(lambda x: -0.5 * jnp.sum(x**2), dim=2, settings=settings, progress=False)


def test_a_group_that_the_density_chooses_is_not_changed_in_part():
    with pytest.raises(tp.SettingsError, match="training.num_steps cannot be set alone, because training is None here"):
        tp.PTSDSettings().with_changes({"training.num_steps": 5})


def test_the_paper_s_method_can_be_asked_for_by_name(handed):
    asked, by_settings = handed(method="ptsd_paper"), handed(settings=tp.PTSDSettings.paper())
    assert asked == by_settings and asked[1] == tp.PTSDSettings.paper() != handed()[1]


def test_a_tiny_fit_by_the_paper_s_method_is_the_paper_s():
    changes = {**SIZES, "refinement.num_steps": 3, "sampling.chunk_size": 32}
    sampler = tp.fit(density(), dim=2, method="ptsd_paper", settings=changes, progress=False)
    settings = sampler.settings
    assert (settings.noise.prior, settings.network.kind, settings.network.is_shared) == ("noise", "mlp", False)
    assert settings.resampling.is_resampled and settings.resampling.quantile == 0.99
    assert (settings.guidance.kind, settings.guidance.coordinate) == ("finite_difference", "T")
    assert settings.refinement.num_steps == 3 and sampler.ledger.points["refinement"] > 0
    assert sampler.sample(5).shape == (5, 2)
    # By the whole settings it is the same to the last bit.
    whole = tp.PTSDSettings.paper().with_changes(changes)
    again = tp.fit(density(), dim=2, settings=whole, progress=False)
    assert facts_and_arrays(again) == facts_and_arrays(sampler)


# On the command line.


@pytest.mark.parametrize(("group", "name"), [("guidance", "kind"), ("resampling", "levels")])
def test_the_word_none_is_taken_as_a_choice_by_the_command(group, name):
    code, out, errors = command("run", PTSD, "--dry-run", "--json", "--set", f"{group}.{name}=none")
    assert code == 0, errors
    assert json.loads(out[out.index("{") : out.rindex("}") + 1])["config"]["settings"][group][name] == "none"


@pytest.mark.slow
def test_a_run_without_guidance_takes_the_coldest_model_at_every_level(tmp_path):
    folder = tmp_path / "run"
    code, _, errors = command("run", PTSD, "--out", folder, "--quiet", "--set", *PTSD_CHANGES, "guidance.kind=none")
    assert code == 0, errors
    assert RunFolder.read_config(folder).settings.guidance.kind == "none"
    proposals = [level["proposal"] for level in read_json(folder / "result.json")["levels"]]
    assert proposals == [None, None, "none", "none"]
