"""A black box over worker processes: the same numbers, exceptions as they are, and nobody left behind."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support import black_boxes
from support.black_boxes import gaussian, gaussian_gradient
from support.tiny import SOURCE
from tempering.adapters import from_callable, reporting
from tempering.adapters.black_box import BlackBox
from tempering.targets.base import evaluate_many

POINTS = jax.random.normal(jax.random.key(0), (11, 2))


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def worker_pids() -> list[int]:
    """Of the processes that run for this one."""
    return [process.pid for process in multiprocessing.active_children() if process.pid]


def evaluated(target, points=POINTS):
    with reporting(target):
        return jax.block_until_ready(evaluate_many(target, points))


def test_workers_give_the_same_numbers_and_exceptions_and_end():
    box = BlackBox(gaussian, 2, black_boxes.picky, pool=2)
    points = np.asarray(POINTS, np.float64)
    assert worker_pids() == []
    np.testing.assert_array_equal(box.values(points), np.float32([gaussian(point) for point in points]))
    pids = worker_pids()
    assert len(pids) == 2 and all(is_running(pid) for pid in pids) and os.getpid() not in pids
    with pytest.raises(LookupError, match="no table for") as caught:
        box.values_and_gradients(points)
    assert "in picky" in str(caught.value.__cause__), "the traceback of the worker"
    box.close()
    assert worker_pids() == [] and not any(is_running(pid) for pid in pids)


@pytest.mark.slow
def test_a_target_over_workers_gives_the_same_numbers_and_closes_them():
    with from_callable(gaussian, 2, gradient=gaussian_gradient, num_processes=2) as target:
        here = evaluated(from_callable(gaussian, 2, gradient=gaussian_gradient))
        there = evaluated(target)
        for ours, theirs in zip(here, there, strict=True):
            np.testing.assert_array_equal(ours, theirs)
        pids = worker_pids()
        assert len(pids) == 2 and all(is_running(pid) for pid in pids)
    assert not any(is_running(pid) for pid in pids)


@pytest.mark.slow
def test_the_pool_goes_on_after_an_exception_that_cannot_travel():
    points = np.asarray(POINTS, np.float64)
    box = BlackBox(black_boxes.whose, 2, black_boxes.unsendable, pool=2)
    with pytest.raises(RuntimeError, match=r"^PickyError: no value at \["):
        box.values_and_gradients(points)
    assert set(box.values(points)) <= set(worker_pids())
    box.close()
    leaving = BlackBox(black_boxes.leaving, 2, pool=2)
    with pytest.raises(RuntimeError, match=r"^SystemExit: 3"):
        leaving.values(points)
    leaving.close()


@pytest.mark.slow
def test_an_exception_of_a_worker_is_raised_as_it_is():
    with from_callable(black_boxes.picky, 2, num_processes=1) as target, pytest.raises(LookupError, match="no table"):
        evaluated(target)


@pytest.mark.slow
def test_a_worker_that_dies_is_told(tmp_path):
    with from_callable(black_boxes.dying, 2, num_processes=2) as target:
        with pytest.raises(RuntimeError, match=r"a worker process ended with exit code 7 before it answered"):
            evaluated(target)
    script = "import tempering as tp, numpy as np\nfrom support.black_boxes import gaussian\n"
    script += "tp.from_callable(gaussian, 2, pool=2).box.values(np.zeros((4, 2)))\n"  # no main guard
    (tmp_path / "unguarded.py").write_text(script)
    environment = {**os.environ, "PYTHONPATH": f"{SOURCE}{os.pathsep}{SOURCE.parent / 'tests'}"}
    command = [sys.executable, tmp_path / "unguarded.py"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1 and "ended with exit code 1 before it began" in done.stderr
    assert "if __name__ == '__main__'" in done.stderr.splitlines()[-1]


@pytest.mark.slow
def test_a_batched_callable_is_given_pieces():
    with from_callable(black_boxes.Counted("batch"), 2, gradient="finite", batched=True, num_processes=2) as target:
        values, gradients = evaluated(target)
    points = np.asarray(POINTS, np.float64)
    np.testing.assert_allclose(values, [gaussian(point) for point in points], rtol=1e-5)
    np.testing.assert_allclose(gradients, [gaussian_gradient(point) for point in points], atol=1e-4)


ABANDONED = """
import multiprocessing, os, signal, sys
import numpy as np
from support.black_boxes import gaussian
from tempering.adapters.black_box import BlackBox

if __name__ == "__main__":
    box = BlackBox(gaussian, 2, pool=2)
    box.values(np.zeros((4, 2)))
    print(*(process.pid for process in multiprocessing.active_children()), flush=True)
    if sys.argv[1] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["killed", "ended"])
def test_no_worker_outlives_a_program_that_forgot_to_close(how, tmp_path):
    script = tmp_path / "abandoned.py"
    script.write_text(ABANDONED)
    environment = {**os.environ, "PYTHONPATH": f"{SOURCE}{os.pathsep}{SOURCE.parent / 'tests'}"}
    done = subprocess.run(
        [sys.executable, script, how], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == (-signal.SIGKILL if how == "killed" else 0), done.stderr
    pids = [int(pid) for pid in done.stdout.split()]
    assert len(pids) == 2
    for _ in range(100):
        if not any(is_running(pid) for pid in pids):
            break
        time.sleep(0.1)
    assert not any(is_running(pid) for pid in pids)


def test_the_points_of_an_empty_batch_are_none():
    values, gradients = evaluated(from_callable(gaussian, 2, gradient="finite"), jnp.zeros((0, 2)))
    assert values.shape == (0,) and gradients.shape == (0, 2)
