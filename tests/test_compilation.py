"""Tests of `tempering.compilation`: quick programs are right, and kept programs do no harm whatever their folder is."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.defaults import default_settings
from support.unchecked import unchecked
from support.witness import TARGET
from tempering.compilation import SWITCH, Ahead, cache_folder, prune, quick, rounded_up
from tempering.methods import pt_dm, ptsd, reweighted

SOURCE = Path(__file__).parent.parent / "src"


@quick
def _scaled(x, factor: int):
    return factor * jnp.cumsum(x)


def test_a_quick_program_gives_the_same_numbers_alone_and_inside_others():
    x = jnp.arange(4.0)
    expected = np.asarray([0.0, 3.0, 9.0, 18.0])
    np.testing.assert_array_equal(_scaled(x, 3), expected)
    np.testing.assert_array_equal(jax.jit(lambda x: _scaled(x, 3))(x), expected)
    np.testing.assert_array_equal(jax.vmap(lambda x: _scaled(x, 3))(x[None])[0], expected)
    # Known numbers inside another program, which alone may have options of the compiler.
    np.testing.assert_array_equal(jax.jit(lambda y: _scaled(np.arange(4.0, dtype=np.float32), 3) + y)(0 * x), expected)


def test_errors_inside_a_quick_program_are_the_users_own():
    @quick
    def broken(x):
        raise ValueError("something else")

    with pytest.raises(ValueError, match="something else"):
        broken(jnp.ones(2))


@pytest.mark.parametrize(("num", "expected"), [(1, 128), (128, 128), (129, 256), (500, 512), (26_088, 32_768)])
def test_sizes_are_rounded_up_to_powers_of_two(num, expected):
    assert rounded_up(num) == expected


@pytest.mark.parametrize("word", ["off", "OFF", "0", "none", ""])
def test_the_cache_can_be_switched_off(monkeypatch, word):
    monkeypatch.setenv(SWITCH, word)
    assert cache_folder() is None


def test_the_folder_tells_versions_and_processors_apart(monkeypatch, tmp_path):
    monkeypatch.setenv(SWITCH, str(tmp_path))
    folder = cache_folder()
    assert folder is not None and folder.parent == tmp_path and jax.__version__ in folder.name
    monkeypatch.setattr("platform.machine", lambda: "another")
    assert cache_folder() != folder


def test_what_was_used_longest_ago_goes_first(tmp_path):
    folder = tmp_path / "jax-1-a"
    folder.mkdir()
    for age, name in enumerate(("new-cache", "old-cache", "older-cache")):
        (folder / name).write_bytes(bytes(100))
        os.utime(folder / name, (time.time() - 1000 * age,) * 2)
    (folder / "empty-cache").touch()
    os.utime(folder / "empty-cache", (0, 0))
    (folder / "mine.txt").write_text("not a program")
    prune(tmp_path, most_bytes=250)
    assert sorted(path.name for path in folder.iterdir()) == ["mine.txt", "new-cache", "old-cache"]
    prune(tmp_path, most_bytes=0)
    assert [path.name for path in folder.iterdir()] == ["mine.txt"]


def test_work_ahead_runs_in_order_and_its_failures_stay_there():
    done: list[int] = []

    def fail() -> None:
        raise RuntimeError("compiled where it is needed")

    with Ahead() as ahead:
        for work in (fail, lambda: done.append(1), lambda: done.append(2)):
            ahead.compile(work)
        deadline = time.monotonic() + 30.0
        while len(done) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
    assert done == [1, 2]


def test_what_is_being_compiled_is_waited_for_and_what_is_not_begun_is_given_up():
    begun, may_end, done = threading.Event(), threading.Event(), []

    def slow() -> None:
        begun.set()
        may_end.wait(30.0)
        time.sleep(0.05)
        done.append("slow")

    with Ahead() as ahead:
        ahead.compile(slow, "slow")
        ahead.compile(lambda: done.append("later"), "later")
        assert begun.wait(30.0)
        ahead.wait("later")  # it stands behind the other: whoever needs it compiles it
        ahead.wait("unknown")
        assert not done
        may_end.set()
        ahead.wait("slow")
        assert done == ["slow"]


@pytest.mark.parametrize("method", [pt_dm, ptsd, reweighted], ids=["pt_dm", "ptsd", "reweighted"])
def test_a_fit_that_ends_early_leaves_nothing_to_be_compiled(method, monkeypatch):
    """A process waits for its threads: an interrupted fit held it for a minute."""
    begun, may_end, done = threading.Event(), threading.Event(), []

    def slow() -> None:
        begun.set()
        may_end.wait(30.0)

    with Ahead() as ahead:
        ahead.compile(slow, "slow")
        ahead.compile(lambda: done.append("later"), "later")
    assert begun.wait(30.0)

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    run = SimpleNamespace(ahead=ahead, start=SimpleNamespace(temperatures=(1.0,)))
    monkeypatch.setattr(method, "begin", lambda *_: run)
    monkeypatch.setattr(method, "explore", interrupted)
    with pytest.raises(KeyboardInterrupt), unchecked():
        method.fit(TARGET, jax.random.key(0), default_settings(method.__name__.split(".")[-1], TARGET.dim))
    may_end.set()
    ahead.wait("slow")
    time.sleep(0.05)
    assert not done


PROGRAM = """
import warnings
import jax, jax.numpy as jnp
before = jnp.ones(3) + 1  # users compile before they fit
import tempering
from tempering.compilation import keep_programs
warnings.simplefilter("error")
hits = []
jax.monitoring.register_event_listener(lambda name, **_: hits.append(name.endswith("cache_hits")))
print(keep_programs() is not None, float(jax.jit(lambda x: jnp.sum(jnp.sin(x)))(jnp.arange(5.0))), sum(hits))
"""


def _run(place: Path | str, **more: str) -> tuple[str, str]:
    keep = {name: os.environ[name] for name in ("PATH", "HOME", "JAX_PLATFORMS") if name in os.environ}
    environment = keep | {"PYTHONPATH": str(SOURCE), SWITCH: str(place)} | more
    command = [sys.executable, "-W", "ignore::RuntimeWarning", "-c", PROGRAM]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
    return run.stdout.strip(), run.stderr


def test_programs_come_back_in_the_next_process_and_say_nothing(tmp_path):
    is_kept, value, num_hits = _run(tmp_path)[0].split()
    assert (is_kept, num_hits) == ("True", "0")
    out, errors = _run(tmp_path)
    assert out.split()[:2] == ["True", value] and int(out.split()[2]) > 0
    assert "cpu_aot_loader" not in errors


@pytest.mark.slow
def test_damaged_entries_cost_only_time(tmp_path):
    value = _run(tmp_path)[0].split()[1]
    entries = list(tmp_path.rglob("*-cache"))
    assert entries
    for path in entries:
        path.write_bytes(b"not a program")
    out, errors = _run(tmp_path)
    assert out.split() == ["True", value, "0"] and "Traceback" not in errors


@pytest.mark.slow
def test_a_folder_that_cannot_be_made_is_done_without(tmp_path):
    (tmp_path / "file").write_text("in the way")
    out, errors = _run(tmp_path / "file" / "folder")
    assert out.split()[0] == "False" and "Traceback" not in errors


@pytest.mark.slow
def test_a_cache_of_the_users_own_is_left_alone(tmp_path):
    out, _ = _run(tmp_path / "ours", JAX_COMPILATION_CACHE_DIR=str(tmp_path / "own"))
    assert out.split()[0] == "False" and not (tmp_path / "ours").exists()


FIT = """
import jax, jax.numpy as jnp
from collections import Counter
names = Counter()
def heard(event, seconds, fun_name="", **_):
    names[fun_name] += event.endswith("backend_compile_duration")
jax.monitoring.register_event_duration_secs_listener(heard)
import tempering as tp
mode = lambda x, centre: -0.5 * jnp.sum((x - centre) ** 2)
two = lambda x: jnp.logaddexp(mode(x, 4.0), mode(x, -4.0) + 1.0)
small = {"training.num_steps": 50, "training.check_every": 50, "network.width": 16, "sampling.num_steps": 8}
sampler = tp.fit(two, dim=2, budget=8_000, progress=False, settings=small)
print(names.total(), +names)
"""
MOST_PROGRAMS = 55
"""There were 179 before small operations went to the host, and 41 after."""


@pytest.mark.slow
def test_a_small_default_fit_compiles_few_programs(tmp_path):
    """Each takes a tenth of a second on a GPU, and a hundredth when it comes back from the cache."""
    keep = {name: os.environ[name] for name in ("PATH", "HOME", "JAX_PLATFORMS") if name in os.environ}
    environment = keep | {"PYTHONPATH": str(SOURCE), SWITCH: str(tmp_path), "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    environment |= {name: os.environ[name] for name in ("XLA_FLAGS",) if name in os.environ}
    run = subprocess.run(
        [sys.executable, "-c", FIT], env=environment, capture_output=True, text=True, timeout=300, check=True
    )
    num, names = run.stdout.strip().split(" ", 1)
    assert 10 < int(num) <= MOST_PROGRAMS, names
