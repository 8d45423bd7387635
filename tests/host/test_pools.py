"""Points on pools of every kind: the same numbers, each point once, and trouble at one point is that point's alone."""

import multiprocessing
import os
import time
from collections import Counter
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing.pool import ThreadPool

import numpy as np
import pytest

from support.host_functions import BAD, POINTS, Noted, density, misbehaving
from support.tiny import SOURCE
from support.unchecked import unchecked
from tempering.adapters.black_box import BlackBox, Faults
from tempering.adapters.callback import from_callable
from tempering.errors import DensityError, SettingsError

SPAWN = multiprocessing.get_context("spawn")
RIGHT = np.asarray([density(x) for x in POINTS], np.float32)


class MapOnly:
    """The least that a pool can be."""

    def map(self, function, tasks):
        return [function(task) for task in tasks]


def _loky():
    return pytest.importorskip("loky").get_reusable_executor(2, timeout=30)


def _dask():
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address=None)
    return distributed.Client(cluster), cluster


def _ray():
    """Ray is not part of `dev`: 200 MB. Where it is installed its pool is tested."""
    pools = pytest.importorskip("ray.util.multiprocessing")
    os.environ.setdefault("RAY_AUTH_MODE", "disabled")  # it would write a token into the home folder
    os.environ.setdefault("RAY_memory_monitor_refresh_ms", "0")  # it would kill workers where others fill the memory
    paths = os.pathsep.join([str(SOURCE), str(SOURCE.parent / "tests"), os.environ.get("PYTHONPATH", "")])
    pytest.importorskip("ray").init(runtime_env={"env_vars": {"PYTHONPATH": paths}}, include_dashboard=False)
    return partial(pools.Pool, 2)


class Engines:
    """Pools by name, ended with the test."""

    def __init__(self):
        self.open = []

    def make(self, name: str):
        if name == "dask":
            client, cluster = _dask()
            self.open += [client.close, cluster.close]
            return client.get_executor()
        if name == "ray" or name.endswith("Ray's"):
            make = _ray()
            self.open.append(pytest.importorskip("ray").shutdown)
            return make() if name == "ray" else make
        if name == "multiprocessing.Pool":
            pool = SPAWN.Pool(2)
            self.open.append(pool.terminate)
            return pool
        made = {
            "processes": lambda: 2,
            "one process": lambda: 1,
            "ProcessPoolExecutor": lambda: ProcessPoolExecutor(2, SPAWN),
            "a function that makes one": lambda: partial(ProcessPoolExecutor, 2, SPAWN),
            "loky": _loky,
            "a function that makes loky's": lambda: _loky,
            "ThreadPoolExecutor": lambda: ThreadPoolExecutor(2),
            "map alone": MapOnly,
        }[name]()
        if hasattr(made, "shutdown"):
            self.open.append(made.shutdown)
        return made

    def close(self):
        for end in self.open:
            end()


@pytest.fixture
def engines():
    made = Engines()
    yield made
    made.close()


def slow(*names):
    return [pytest.param(name, marks=pytest.mark.slow) for name in names]


ALL = [
    *("processes", "ThreadPoolExecutor", "map alone"),
    *slow("one process", "ProcessPoolExecutor", "multiprocessing.Pool", "loky", "dask", "a function that makes one"),
    *slow("ray"),
]
SURVIVING = [
    "processes",
    *slow("a function that makes one", "multiprocessing.Pool", "a function that makes loky's", "dask"),
    *slow("a function that makes Ray's"),
]


@pytest.mark.parametrize("name", ALL)
def test_the_numbers_do_not_depend_on_who_evaluates_and_each_point_is_paid_once(name, engines, tmp_path):
    noted = Noted(tmp_path)
    box = BlackBox(noted, 2, pool=engines.make(name))
    np.testing.assert_array_equal(box.values(POINTS), RIGHT)
    np.testing.assert_array_equal(box.values(POINTS[::-1]), RIGHT[::-1])
    assert Counter(noted.calls()) == Counter([x.tobytes() for x in POINTS] * 2)
    assert box.use.points == 48 and box.use.retried == 0
    box.close()


@pytest.mark.parametrize("name", SURVIVING)
def test_a_worker_that_is_killed_costs_its_point_a_second_try_and_nothing_else(name, engines, tmp_path):
    noted = Noted(tmp_path, "kills", seconds=0.01)
    box = BlackBox(noted, 2, pool=engines.make(name), chunk_size=1)
    np.testing.assert_array_equal(box.values(POINTS), RIGHT)
    calls = Counter(noted.calls())
    assert (tmp_path / "happened").exists() and calls[POINTS[BAD].tobytes()] == 2
    # A pool that breaks as a whole loses what was in flight with it, and Dask what its worker had not yet handed over.
    assert (
        sum(num > 1 for num in calls.values()) <= (4 if "makes" in name or name == "dask" else 1)
        and max(calls.values()) <= 3
    )
    np.testing.assert_array_equal(box.values(POINTS), RIGHT)
    box.close()


PROMPT = [
    *("processes", "ThreadPoolExecutor"),
    *slow("ProcessPoolExecutor", "multiprocessing.Pool", "loky", "dask"),  # Ray's pool hands out at random
]


@pytest.mark.parametrize("name", PROMPT)
def test_nobody_waits_for_a_slow_point(name, engines, tmp_path):
    # Dask gives a worker two tasks at a time if they are quick.
    points, seconds = (POINTS[:9], 0.25) if name == "dask" else (POINTS, 0.0)
    noted = Noted(tmp_path, "slow", seconds=seconds)
    box = BlackBox(noted, 2, pool=engines.make(name), store=tmp_path / "store")
    box.values(points)  # workers have started
    (tmp_path / "happened").unlink()
    arrived = []
    add = box.store.add
    box.store.add = lambda kind, x, *rest, **more: (arrived.extend(map(bytes, x)), add(kind, x, *rest, **more))
    np.testing.assert_array_equal(box.values(points), RIGHT[: len(points)])
    assert arrived[-1] == POINTS[BAD].tobytes(), "the slow one comes last, though it began among the first"
    box.close()


def test_a_broken_executor_is_told_with_what_to_do(engines, tmp_path):
    box = BlackBox(Noted(tmp_path, "kills", once=False), 2, pool=engines.make("ProcessPoolExecutor"))
    with pytest.raises(RuntimeError, match=r"the pool broke.*pool=8, whose workers are replaced.*lambda"):
        box.values(POINTS)


@pytest.mark.slow
def test_a_point_that_always_breaks_the_pool_is_found_and_its_neighbours_are_not_blamed(engines, tmp_path):
    noted = Noted(tmp_path, "kills", once=False)
    box = BlackBox(noted, 2, pool=engines.make("a function that makes one"), faults=Faults("reject"))
    values = box.values(POINTS)
    assert np.isneginf(values[BAD]) and box.use.failed == {"died": 1}
    np.testing.assert_array_equal(np.delete(values, BAD), np.delete(RIGHT, BAD))
    box.close()


TROUBLES = {"raises": "raised", "nan": "nan", "kills": "died", "hangs": "timeout"}


@pytest.mark.parametrize("trouble", ["kills", "hangs", *slow("raises", "nan")])
@pytest.mark.parametrize("once", [True, False], ids=["once", "always"])
def test_a_point_that_fails_is_tried_again_and_then_rejected_alone(trouble, once, tmp_path):
    noted = Noted(tmp_path, trouble, once=once)
    box = BlackBox(noted, 2, pool=2, faults=Faults("reject", timeout=1.0))
    values = box.values(POINTS)
    assert Counter(noted.calls())[POINTS[BAD].tobytes()] == 2 and box.use.retried == 1
    np.testing.assert_array_equal(np.delete(values, BAD), np.delete(RIGHT, BAD))
    assert values[BAD] == (RIGHT[BAD] if once else -np.inf)
    assert dict(box.use.failed) == ({} if once else {TROUBLES[trouble]: 1})
    assert ("1 failed twice" in "\n".join(box.use.lines())) != once
    box.close()


@pytest.mark.parametrize(
    ("trouble", "error", "message"),
    [
        ("raises", LookupError, "no table for this point"),
        *[
            pytest.param(*each, marks=pytest.mark.slow)
            for each in (
                ("kills", RuntimeError, "ended with exit code -9"),
                ("hangs", DensityError, "longer than timeout = 0.5 s, 2 times.*on_failure='reject'"),
            )
        ],
    ],
)
def test_by_default_a_point_that_fails_twice_ends_the_fit(trouble, error, message, tmp_path):
    box = BlackBox(Noted(tmp_path, trouble, once=False), 2, pool=2, faults=Faults(timeout=0.5))
    with pytest.raises(error, match=message):
        box.values(POINTS)
    box.close()


@pytest.mark.slow
def test_a_late_worker_of_a_pool_of_ones_own_stays_busy_and_its_point_is_given_up(engines, tmp_path):
    noted = Noted(tmp_path, "hangs", once=True)
    pool = engines.make("multiprocessing.Pool")
    box = BlackBox(noted, 2, pool=pool, faults=Faults(timeout=1.0))
    np.testing.assert_array_equal(box.values(POINTS), RIGHT)
    assert box.use.retried == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dask", "loky", "multiprocessing.Pool", "ProcessPoolExecutor"])
def test_a_second_try_is_evaluated_by_pools_of_others_too(name, engines, tmp_path):
    noted = Noted(tmp_path, "raises")
    box = BlackBox(noted, 2, pool=engines.make(name), faults=Faults("reject"), chunk_size=1)
    np.testing.assert_array_equal(box.values(POINTS), RIGHT)
    assert box.use.retried == 1 and not box.use.failed and len(noted.calls()) == len(POINTS) + 1
    box.close()


def test_without_a_pool_a_rejected_point_costs_its_neighbours_nothing(tmp_path):
    noted = Noted(tmp_path, "raises", once=False)
    values = BlackBox(noted, 2, faults=Faults("reject")).values(POINTS)
    assert np.isneginf(values[BAD]) and len(noted.calls()) == 25
    np.testing.assert_array_equal(np.delete(values, BAD), np.delete(RIGHT, BAD))


def test_a_vectorised_function_gets_chunks_that_depend_on_the_batch_alone():
    seen = []

    def fn(x):
        seen.append(len(x))
        return misbehaving(x)

    with ThreadPoolExecutor(3) as pool:
        values = BlackBox(fn, 2, batched=True, pool=pool, chunk_size=10, faults=Faults("reject")).values(POINTS)
    bad = POINTS[:, 0] > 1.0
    assert sorted(seen)[-3:] == [4, 10, 10] and seen.count(1) == bad.sum() > 0, "bad rows alone are tried again"
    assert np.all(np.isneginf(values[bad]))
    np.testing.assert_array_equal(values[~bad], misbehaving(POINTS[~bad]).astype(np.float32))


class Counting(ThreadPoolExecutor):
    """Notes whether functions travel with a task."""

    def submit(self, fn, /, token, shipped, *rest):
        self.shipped = [*getattr(self, "shipped", []), shipped is not None]
        return super().submit(fn, token, shipped, *rest)


def test_the_function_travels_once_a_worker():
    from tempering.host import work

    with Counting(2) as pool:
        box = BlackBox(density, 2, pool=pool, chunk_size=1)
        for _ in range(4):
            np.testing.assert_array_equal(box.values(POINTS), RIGHT)
        assert sum(pool.shipped) <= 1 + 2 * 2 and len(pool.shipped) >= 97
        # A worker that came later has not got it: it says so, and gets it.
        work._held.clear()
        pool.shipped = []
        np.testing.assert_array_equal(box.values(POINTS), RIGHT)
        assert 1 <= sum(pool.shipped) <= len(POINTS) and box.use.points == 5 * len(POINTS)


def test_a_pool_that_grows_is_used(monkeypatch):
    from tempering.host import foreign as module

    monkeypatch.setattr(module, "_GLANCE", 0.0)
    with ThreadPoolExecutor(1) as pool:
        box = BlackBox(density, 2, pool=pool)
        box.values(POINTS)
        pool._max_workers = 3
        box.values(POINTS)
        assert box.num_workers == 3 and box.use.workers == 3


REFUSED = {
    "a word": (
        {"pool": "dask"},
        SettingsError,
        r"pool is a string without \.submit or \.map; give a number",
    ),
    "a flag": ({"pool": True}, SettingsError, "pool = True"),
    "less than none": ({"pool": -1}, SettingsError, "pool = -1"),
    "twice": ({"pool": 2, "num_processes": 2}, SettingsError, "pool and num_processes both"),
    "no time": ({"pool": 2, "timeout": 0.0}, SettingsError, "timeout = 0.0"),
    "time without a pool": ({"timeout": 1.0}, SettingsError, "timeout needs a pool"),
    "another word": ({"on_failure": "ignore"}, SettingsError, "on_failure = 'ignore' .*'stop', 'reject'"),
    "an empty chunk": ({"chunk_size": 0}, SettingsError, "chunk_size = 0"),
    "a store that is none": ({"store": 3}, SettingsError, "store = 3"),
    "a lambda": ({"pool": 2, "fn": lambda x: 0.0}, DensityError, "cannot be sent to another process"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_options_are_refused_where_they_enter(case):
    options, error, message = REFUSED[case]
    options = {"fn": density, **options}
    with unchecked(), pytest.raises(error, match=message):
        from_callable(options.pop("fn"), 2, **options)


def test_a_closed_pool_is_refused_at_once():
    closed = [ThreadPoolExecutor(1), SPAWN.Pool(1)]
    closed[0].shutdown()
    closed[1].terminate()
    for pool in closed:
        with pytest.raises(SettingsError, match=r"takes no work .*it is closed.*`with` block"):
            from_callable(density, 2, pool=pool)


class Shut(ThreadPoolExecutor):
    """Closed as a client of Dask is: an exception of its own, and what is on its way is cancelled."""

    class ClosedClientError(Exception):
        """As `distributed` has it."""

    def submit(self, fn, /, *args):
        future = Future()
        future.cancel()
        if not self.is_quiet:
            raise self.ClosedClientError("Client is closed")
        return future


@pytest.mark.parametrize(("is_quiet", "message"), [(False, "takes no work .Client is closed"), (True, "it was closed")])
def test_a_client_that_is_closed_is_refused_in_words(is_quiet, message):
    with Shut(1) as pool, pytest.raises(SettingsError, match=message):
        pool.is_quiet = is_quiet
        BlackBox(density, 2, pool=pool).values(POINTS)


def test_a_function_that_an_executor_cannot_send_is_refused_before_a_point_is_paid(engines):
    calls = []
    box = BlackBox(lambda x: calls.append(x), 2, pool=engines.make("ProcessPoolExecutor"))
    with pytest.raises(SettingsError, match="cannot be sent to the pool's workers .*top of a module"):
        box.values(POINTS)
    assert not calls


class Bare(ThreadPoolExecutor):
    """Workers that lack the package."""

    def submit(self, fn, /, *args):
        return super().submit(self._fail)

    @staticmethod
    def _fail():
        raise ModuleNotFoundError("No module named 'tempering'", name="tempering")


def test_workers_without_the_package_are_refused():
    with Bare(1) as pool, pytest.raises(SettingsError, match="cannot import tempering .*install tempering"):
        BlackBox(density, 2, pool=pool).values(POINTS)


@pytest.mark.parametrize("kind", ["submit", "apply_async"])
def test_a_pool_whose_workers_keep_silent_is_told_about_and_waited_for(kind, monkeypatch, caplog):
    monkeypatch.setattr("tempering.host.foreign._SILENCE", 0.05)
    with ThreadPoolExecutor(1) if kind == "submit" else ThreadPool(1) as pool:
        getattr(pool, kind)(time.sleep, (0.4) if kind == "submit" else (0.4,))
        np.testing.assert_array_equal(BlackBox(density, 2, pool=pool).values(POINTS), RIGHT)
    assert "no worker of the pool has answered for 0.05 s" in caplog.text and "cannot import tempering" in caplog.text


def test_workers_import_no_jax(tmp_path):
    script = "import sys; import tempering.host.work, tempering.host.processes; assert 'jax' not in sys.modules"
    import subprocess
    import sys

    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    assert subprocess.run([sys.executable, "-c", script], env=environment, timeout=60, check=False).returncode == 0


def test_time_in_the_function_is_what_workers_are_busy_with(tmp_path):
    with ThreadPoolExecutor(2) as pool:
        box = BlackBox(Noted(tmp_path, seconds=0.01), 2, pool=pool)
        begin = time.perf_counter()
        box.values(POINTS)
        took = time.perf_counter() - begin
    assert 0.24 <= box.use.busy <= 2 * took and 0.0 < (box.use.utilisation or 0) <= 1.0
