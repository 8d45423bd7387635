"""Presets of the baselines have the published settings and counts, written down here by hand."""

import json

import pytest

from support.commands import command
from tempering.baselines.plan import planned
from tempering.lab.baseline_presets import BASELINE_PRESETS
from tempering.lab.catalogue import read
from tempering.lab.diffusion_baselines import DIFFUSION_BASELINES
from tempering.lab.presets import preset
from tempering.settings import BaselineSettings

ALL = BASELINE_PRESETS | DIFFUSION_BASELINES

SETTINGS = {
    "mog40-fab": {"num_layers": 15, "width": 80, "is_mixing": True, "step_size": 5.0, "max_weight": None},
    "mw32-fab": {"num_layers": 8, "width": 128, "is_mixing": False, "step_size": 0.01, "max_weight": 10.0},
    # fab-torch builds the flows of both targets by one function: a learned linear map stands in every layer.
    "mw32-fab-torch": {"num_layers": 10, "width": 320, "is_mixing": True, "step_size": 1.0, "max_weight": None},
    "mog40-dikl": {"most_beta": 0.7, "hmc_step_size": 1.0, "mala_step_size": 0.01, "num_score_steps": 50},
    "mw32-dikl": {"most_beta": 0.15, "hmc_step_size": 0.3, "mala_step_size": 0.05, "max_norm": 10.0},
    "mog40-dds": {"num_path_steps": 128, "init_std": 40.0, "learning_rate": 5e-4, "max_gradient": 1.0, "loss": "kl"},
    "mw32-dds": {"num_path_steps": 128, "init_std": 1.0, "batch_size": 2000},
    "mog40-cmcd": {"num_path_steps": 128, "init_std": 40.0, "max_diffusion": 10.0, "loss": "kl"},
    "mw32-cmcd": {"num_path_steps": 256, "init_std": 1.0, "max_diffusion": 1.0},
    "mog40-idem": {"scale": 50.0, "sigma_max": 1.0, "max_score": 70.0, "learning_rate": 5e-4, "is_weighted": True},
    "mw32-idem": {"scale": 1.0, "sigma_max": 1.0, "max_score": 1000.0, "learning_rate": 1e-3},
    "mw32-idem-mended": {"scale": 1.0, "sigma_max": 5.0, "ema": 0.999},
    "lj55-idem": {"sigma_min": 0.5, "sigma_max": 4.0, "max_score": 20.0, "noise_scale": 0.5, "is_weighted": False},
    "mog40-bnem": {"scale": 50.0, "clean_weight": 0.5, "bootstrap_variance": 0.1, "max_score": 1000.0, "ema": 0.0},
    "mw32-bnem": {"scale": 1.0, "sigma_max": 1.0, "num_mc": 1000, "num_new": 1024},
    "mw32-bnem-mended": {"sigma_max": 5.0, "ema": 0.999},
    "lj55-bnem": {"clean_weight": 0.0, "bootstrap_variance": 0.6, "num_bootstrap": 500, "is_factorised": False},
    "lj55-bnem-factorised": {"is_factorised": True, "noise_scale": 0.5, "depth": 5, "width": 128},
}

FIRST = 1024 * 1000 * 500
POINTS = {
    "mog40-fab": 128 * 2 * (52_076 + 10),
    "mw32-fab": 1024 * 41 * 10_041,  # fab-jax fills one batch more than its least buffer
    "mw32-fab-torch": 2048 * 21 * (221_915 + 32),
    "mog40-dikl": 1024 * 155 * 75_000,
    "mw32-dikl": 1024 * 155 * 50_000,
    "mog40-dds": 2000 * 129 * 10_000,
    "mw32-dds": 2000 * 129 * 3_200,
    "mog40-cmcd": 2000 * 129 * 17_002,
    "mw32-cmcd": 2000 * 257 * 3_200,
    "mog40-idem": 1000 * 100 * 1000 * 500 + FIRST,
    "mw32-idem": 180 * 100 * 1000 * 1000,
    "lj55-idem": 1000 * 100 * 128 * 1000,
    "mog40-bnem": 150 * 100 * 1000 * (500 + 1),
    "mw32-bnem": 180 * 100 * 1000 * (1000 + 1),
    "lj55-bnem": 500 * 100 * 128 * 1000,
    "lj55-bnem-factorised": 500 * 100 * 128 * 1000,
}
FIRST_STEPS = {"mog40-fab": 128 * 2 * 11, "mw32-dds": 2000 * 129, "mw32-idem": 100 * 1000 * 1000}
PRODUCTS = {"mog40-cmcd": 2000 * 128 * 17_002, "mw32-cmcd": 2000 * 256 * 3_200}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_are_those_published(name):
    settings = preset(name).settings
    assert {key: getattr(settings, key) for key in SETTINGS[name]} == SETTINGS[name]


@pytest.mark.parametrize("name", POINTS)
def test_counts_follow_from_settings(name):
    plan = planned(preset(name).settings, 2, None)
    assert plan.training == POINTS[name]
    assert (plan.step * plan.num_steps).hessian_vector == PRODUCTS.get(name, 0)


@pytest.mark.parametrize("name", FIRST_STEPS)
def test_the_catalogue_says_which_budget_buys_a_first_step(name):
    assert read()[name]["least_budget"] == FIRST_STEPS[name]
    assert "least_budget" not in read()["mog40"]


@pytest.mark.parametrize("name", [name for name in ALL if not name.endswith("-small")])
def test_a_smaller_one_is_smaller_and_of_the_same_target(name):
    if name == "mw32-fab-torch":  # `mw32-fab-small` is the smaller run of that method and target
        return
    whole, small = ALL[name], ALL[f"{name}-small"]
    assert whole.target == small.target and whole.method == small.method
    assert isinstance(whole.settings, BaselineSettings) and isinstance(small.settings, BaselineSettings)
    assert 5 * planned(small.settings, 2, None).training < 2 * planned(whole.settings, 2, None).training


@pytest.mark.parametrize("name", ALL)
def test_a_dry_run_prints_the_plan_and_writes_nothing(name, tmp_path):
    code, out, _ = command("run", name, "--dry-run", "--json", "--out", tmp_path / "run", "--set", "num_steps=7")
    assert code == 0 and not (tmp_path / "run").exists()
    content = json.loads(out)
    assert content["config"]["settings"]["num_steps"] == 7
    assert content["planned_total"] == sum(stage["evaluations"] for stage in content["stages"]) > 0
