"""Whole fits on pools and stores: the same draws for any number of workers, and a killed fit pays nothing twice."""

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tempering as tp
from support.host_functions import Noted, count_as_quick
from support.tiny import SOURCE, quick_compilation, subprocess_environment, tiny_pt_dm
from support.unchecked import unchecked
from tempering.adapters import from_callable
from tempering.adapters.hosting import hosted
from tempering.errors import BudgetError
from tempering.methods.budget import most_points
from tempering.methods.registry import METHODS
from tempering.runs.points import read_points
from tempering.settings import Exploration, Ladder
from tempering.types import Event

SETTINGS = tiny_pt_dm(exploration=Exploration(kernel="automatic"), ladder=Ladder(hottest=8.0, num_levels=3))


@pytest.fixture(scope="module", autouse=True)
def compiled_quickly():
    with quick_compilation(), unchecked():
        yield


def test_draws_do_not_depend_on_the_number_of_workers_and_a_store_is_replayed(tmp_path):
    noted = Noted(tmp_path, seconds=0.0)
    here = tp.fit(from_callable(noted, 2), method="pt_dm", settings=SETTINGS, progress=False, seed=3)
    events = []
    for workers in (1, 3):
        with ThreadPoolExecutor(workers) as pool:
            target = from_callable(noted, 2, pool=pool, store=tmp_path / f"store-{workers}")
            there = tp.fit(target, method="pt_dm", settings=SETTINGS, progress=False, seed=3, callback=events.append)
            np.testing.assert_array_equal(here.sample(20), there.sample(20))
            assert there.ledger.points == here.ledger.points and there.host.points == there.evaluations
            target.close()
    assert len(read_points(tmp_path / "store-3").records) == here.evaluations
    paid = len(noted.calls())
    with from_callable(noted, 2, store=tmp_path / "store-3") as target:
        again = tp.fit(target, method="pt_dm", settings=SETTINGS, progress=False, seed=3)
    np.testing.assert_array_equal(here.sample(20), again.sample(20))
    assert len(noted.calls()) == paid and again.ledger.points == here.ledger.points, "paid for, so counted, not paid"
    assert again.host.replayed == again.evaluations and again.host.points == 0
    assert "came from the store of points" in again.summary()


@pytest.mark.slow
def test_a_fit_whose_chains_go_at_their_own_pace_has_the_bits_of_one_in_step(tmp_path, monkeypatch):
    here = tp.fit(from_callable(Noted(tmp_path), 2), method="pt_dm", settings=SETTINGS, progress=False, seed=3)
    (tmp_path / "calls").unlink()
    count_as_quick(monkeypatch)
    with ThreadPoolExecutor(3) as pool:
        noted = Noted(tmp_path, seconds=0.03)
        target = from_callable(noted, 2, pool=pool)
        counted, plain = [], target.box._run
        monkeypatch.setattr(target.box, "_run", lambda *args: counted.append(1) or plain(*args))
        there = tp.fit(target, method="pt_dm", settings=SETTINGS, progress=False, seed=3)
    assert len(counted) > 10, "chains should have gone ahead of each other"
    np.testing.assert_array_equal(here.sample(20), there.sample(20))
    assert there.ledger.points == here.ledger.points
    assert len(noted.calls()) == there.host.points == there.evaluations


def test_a_word_about_workers_comes_with_events_and_while_they_are_busy(tmp_path):
    told = []
    with ThreadPoolExecutor(2) as pool:
        target = from_callable(Noted(tmp_path, seconds=0.02), 2, pool=pool)
        with hosted(target, None, budget=1000) as hosts:
            observe = hosts.telling(told.append)
            target.box.values(np.zeros((4, 2)))
            assert told and told[0].planned == 1000
            observe(Event("pilot", 0, 1, 1, 4, 4, 1000))
    assert re.search(r"996 points on 2 workers at \d\S* m?s: .*; utilisation (0\.\d\d|1\.00)$", told[-1].note)
    observe(Event("pilot", 0, 1, 1, 4, 600, 1000))
    assert told[-1].note.startswith("400 points"), "a resumed run has spent more than this process was asked for"
    least = 400 * 0.02 / 2  # a busy machine takes longer
    assert told[-1].seconds_left and told[-1].seconds_left > 0.9 * least


def test_a_forecast_needs_no_point_where_the_store_knows_how_long_one_takes(tmp_path):
    with ThreadPoolExecutor(2) as pool:
        for told in ([], [1]):
            events = []
            target = from_callable(Noted(tmp_path, seconds=0.02), 2, pool=pool, store=tmp_path / "store")
            with hosted(target, None, budget=1000) as hosts:
                hosts.telling(events.append)
                assert len(events) == len(told)
                target.box.values(np.zeros((4, 2)) + len(told))
            target.close()
    assert re.fullmatch(r"1,000 points on 2 workers at \d\S* ms: \d+\.\d s", events[0].note)


def test_the_plan_that_is_forecast_is_that_of_the_settings():
    target = from_callable(slow_density, 2)
    plan = most_points(SETTINGS, target, None)
    assert plan == most_points(SETTINGS, target, 10**6) < 2_000 and most_points(SETTINGS, target, 50) == 50
    assert most_points(tp.PTSDSettings(), target, None) == 70_000 and most_points(tp.PTSDSettings(), target, 9) == 9


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_a_plan_to_forecast(method):
    settings = METHODS[method].default()
    assert most_points(settings, from_callable(slow_density, 2), None) >= 70_000


def slow_density(x):
    time.sleep(0.02)
    return -0.5 * float(np.sum(x**2))


def test_a_time_limit_becomes_a_budget_and_one_that_is_too_short_is_refused_before_more_is_paid(tmp_path):
    with ThreadPoolExecutor(2) as pool:
        target = from_callable(slow_density, 2, pool=pool)
        with pytest.raises(BudgetError, match=r"50,000 points on 2 workers at 2.* allows .*PyVBMC or GPry"):
            tp.fit(target, budget=50_000, time_limit=5.0, progress=False, out=tmp_path / "run")
        assert target.box.use.points == 2


def test_the_refusal_of_a_tiny_budget_names_surrogates():
    with pytest.raises(BudgetError, match="Gaussian process .*PyVBMC or GPry"):
        tp.fit(from_callable(slow_density, 2), budget=300, progress=False)
    with pytest.raises(BudgetError) as refusal:
        tp.fit(from_callable(slow_density, 2), budget=5_000, progress=False)
    assert "PyVBMC" not in str(refusal.value)


FIT = """
import sys
import tempering as tp
from support.host_functions import Noted
from support.tiny import quick_compilation, tiny_pt_dm
from tempering.settings import Exploration, Ladder

if __name__ == "__main__":
    settings = tiny_pt_dm(exploration=Exploration(kernel="automatic"), ladder=Ladder(hottest=8.0, num_levels=3))
    with quick_compilation(), tp.from_callable(Noted(sys.argv[1], seconds=0.002), 2, pool=2) as target:
        sampler = tp.fit(target, method="pt_dm", settings=settings, seed=3, out=sys.argv[1] + "/run", progress=False)
    print(sampler.evaluations, sampler.host.points, sampler.host.replayed, *sampler.sample(5).ravel())
"""


@pytest.mark.slow
def test_a_fit_that_is_killed_goes_on_where_it_was_and_pays_nothing_twice(tmp_path):
    script = tmp_path / "fit.py"
    script.write_text(FIT)
    paths = f"{SOURCE}{os.pathsep}{SOURCE.parent / 'tests'}"
    environment = {**subprocess_environment(tmp_path / "cache"), "PYTHONPATH": paths}

    def start(name):
        (tmp_path / name).mkdir(exist_ok=True)
        command = [sys.executable, script, str(tmp_path / name)]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    undisturbed, error = start("whole").communicate(timeout=240)
    assert undisturbed, error
    killed, place = start("killed"), tmp_path / "killed" / "run" / "points.bin"
    for _ in range(2000):
        if killed.poll() is not None or (place.exists() and place.stat().st_size > 512 + 60 * 88):
            break
        time.sleep(0.05)
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate(timeout=60)
    resumed, error = start("killed").communicate(timeout=240)
    assert resumed, error
    whole, parts = undisturbed.split(), resumed.split()
    assert parts[3:] == whole[3:] and parts[0] == whole[0] and int(parts[2]) > 50
    calls = Counter(Noted(tmp_path / "killed").calls())
    # Only what two workers had in hand when the parent was killed is paid again: a piece of quick points each.
    assert sum(num - 1 for num in calls.values()) <= 2 * 25 and len(calls) == len(
        set(Noted(tmp_path / "whole").calls())
    )
