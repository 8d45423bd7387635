"""Verdicts of whole fits: they are carried and saved, and a fit that was fooled is not trusted."""

import dataclasses
import json

import numpy as np
import pytest
from fooling_targets import FOOLING

import tempering as tp
from support.defaults import default_settings
from support.tiny import shrunk
from tempering.targets import GaussianMixture


def quick(steps: int):
    """Default settings of the temperature path, whose scouts these tests are about: no search for modes."""
    settings = default_settings("ptsd", 2)
    settings = dataclasses.replace(settings, atlas=dataclasses.replace(settings.atlas, share=0.0))
    training = dataclasses.replace(settings.training, num_steps=steps, num_finetune_steps=steps // 4)
    return dataclasses.replace(settings, training=training)


@pytest.mark.slow
def test_a_fit_carries_its_verdict(tmp_path):
    sampler = tp.fit(
        GaussianMixture([[-4.0, 1.0], [6.0, -2.0]], [1.0, 0.6], [0.7, 0.3]),
        budget=12_000,
        seed=3,
        settings=shrunk(quick(12)),
        progress=False,
    )
    verdict = sampler.diagnose()
    assert verdict.line() in sampler.summary()
    checks = sampler.checks
    assert None not in (checks.scout_rhat, checks.num_evidence, checks.log_z_final, checks.num_final_draws)
    assert checks.determinants == "exact" and sampler.findings == verdict.findings
    assert sampler.levels[0].rhat is not None and sampler.levels[-1].num_draws > 0
    sampler.save(tmp_path / "s")
    loaded = tp.load(tmp_path / "s")
    assert loaded.diagnose() == verdict and loaded.checks == checks
    assert json.loads((tmp_path / "s" / "sampler.json").read_text())["verdict"] == verdict.as_dict()
    # A network that has learnt nothing must not be trusted.
    assert not verdict.is_trustworthy


@pytest.mark.slow
@pytest.mark.telling
def test_an_honest_fit_finds_the_mode_no_chain_started_in():
    target = FOOLING["one-sided-50-50"]()
    sampler = tp.fit(target, budget=20_000, seed=0, settings=quick(1000), progress=False)
    draws, log_weights = sampler.sample_weighted(2000, seed=1)
    weights = np.exp(log_weights - log_weights.max())
    share = float(np.sum(weights * (draws[:, 0] > 8.0)) / np.sum(weights))
    assert abs(share - 0.5) < 0.1 or not sampler.diagnose().is_trustworthy
    assert sampler.checks.scout_rhat > 1.4


@pytest.mark.slow
@pytest.mark.telling
def test_a_fooled_fit_is_not_called_trustworthy(monkeypatch):
    target = FOOLING["one-sided-50-50"]()
    monkeypatch.setattr("tempering.parallel_tempering.pilot.heat._SCOUT_ROUNDS", 1_000)  # more than are ever left
    sampler = tp.fit(target, budget=20_000, seed=0, settings=quick(1000), progress=False)
    assert np.mean(sampler.sample(500, seed=1)[:, 0] > 8.0) < 0.05, "the saboteur was not fooled"
    assert not sampler.diagnose().is_trustworthy
