"""Tests of time limits: stages end in their turn, what ended is said, and a fit always ends in a sampler."""

import math
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from support.tiny import quick_compilation, tiny_ptsd
from support.unchecked import unchecked
from tempering.diffusion.fit import fit_networks
from tempering.errors import SettingsError
from tempering.runs.clock import Clock


def _clock(limit: float | None) -> tuple[Clock, list[float]]:
    time = [100.0]
    return Clock(limit, now=lambda: time[0]), time


def test_shares_of_the_limit_end_in_their_turn():
    clock, time = _clock(10.0)
    assert clock.left() == 10.0 and clock.left(0.25) == 2.5
    time[0] += 3.0
    assert clock.ends("the search", 0.25) and not clock.ends("the levels", 0.6)
    assert clock.ends("the search", 0.25)
    time[0] += 4.0
    assert clock.ends("the levels", 0.6)
    assert clock.hurried == ["the search", "the levels"]


def test_without_a_limit_nothing_ends():
    clock, time = _clock(None)
    time[0] += 1e9
    assert clock.left() == math.inf and not clock.ends("the search", 0.01) and clock.hurried == []


@pytest.mark.parametrize("limit", [0, -1.0, math.nan, "soon", True])
def test_what_is_no_time_is_refused_at_once(limit):
    with unchecked(), pytest.raises(SettingsError, match="time_limit"):
        tp.fit(lambda x: -jnp.sum(x**2), dim=2, time_limit=limit)


def _density(x):
    return jnp.logaddexp(-0.5 * jnp.sum((x - 3.0) ** 2), -0.5 * jnp.sum((x + 2.0) ** 2) + 0.5)


@pytest.mark.slow
@pytest.mark.parametrize("path", ["automatic", "temperature"])
def test_a_limit_shorter_than_anything_still_ends_in_a_sampler(path):
    settings = {"atlas.path": path, "network.width": 16, "training.num_steps": 4000, "training.check_every": 25}
    settings |= {"training.batch_size": 64, "sampling.num_steps": 8}
    with quick_compilation(), unchecked():
        sampler = tp.fit(_density, dim=2, budget=12_000, time_limit=0.01, settings=settings, progress=False)
        assert np.all(np.isfinite(sampler.sample(50)))
    assert sampler.checks.time_limit == 0.01 and "training" in (sampler.checks.hurried or "")
    assert max(level.training_steps or 0 for level in sampler.levels) <= 100
    found = [finding for finding in sampler.diagnose().findings if finding.name == "time"]
    assert len(found) == 1 and "training" in found[0].measured


def test_a_shortened_schedule_ends_where_it_was_told(monkeypatch):
    """The saboteur is the same training with all the time in the world, which runs to its end."""
    import tempering.diffusion.fit as fit

    steps: list[float] = []
    original = fit._train_block

    def block(keys, state, frozen, data, parts, rule):
        steps.append(float(rule.num_steps))
        return original(keys, state, frozen, data, parts, rule)

    monkeypatch.setattr(fit, "_train_block", block)
    from tempering.diffusion.calibrate import blank_dataset, stack
    from tempering.methods.learn import new_networks

    settings = tiny_ptsd()
    training = replace(settings.training, check_every=5, patience=0)
    import jax

    keys = jax.random.split(jax.random.key(0), 1)
    networks = stack(*new_networks(jax.random.key(1), 2, settings.network, 1))
    data = stack(blank_dataset(2, 128))
    with quick_compilation():
        fit_networks(keys, networks, data, training, num_steps=40)
        assert len(steps) == 8 and set(steps) == {40.0}
        steps.clear()
        fit_networks(keys, networks, data, training, num_steps=40, seconds_left=lambda: 0.0)
    assert len(steps) == 2
