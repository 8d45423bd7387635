"""What a pool costs and how busy it keeps its workers: a callable of 100 ms on two processes, from a compiled program.

    python benchmarks/bench_pool.py [--seconds 0.1] [--out results/pool.json]

Overhead: wall time of parallel tempering on two processes over half the time that the calls themselves took, and over
half the time that they should have taken. The aim is at most 1.03. The callable sleeps; `computing` is the same for one
that keeps a core busy for that long, so that on two cores what the parent does is in the way. Utilisation: the time
spent in the callable over that of two workers by a clock outside, where one point in 50 takes ten times as long; the
aim is 0.95. Trips: seconds of a point that takes no time, by engine; `simulate_cluster.py` uses them.
Memory: the parent's own, after few points and after many, and with few workers and with many. `--only memory` measures
one of these alone. Pace: 100 threads that sleep evaluate 1,000 chains, one point in 50 ten times as slow, once at
their own pace and once in step; the share of the threads' time that is idle, and whether the draws are the same bits.
"""

import importlib
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jax
import numpy as np

from tempering.adapters.black_box import BlackBox
from tempering.adapters.callback import from_callable
from tempering.kernels import RandomWalk
from tempering.parallel_tempering import Rules, advance, betas_of, run, start
from tempering.runs.ledger import Ledger

DIM = 5


class Sleeping:
    """A density that takes its time; `rate` of its points take ten times as long, told by their digits."""

    def __init__(self, seconds: float, rate: float = 0.0):
        self.seconds, self.rate = seconds, rate

    def __call__(self, x: np.ndarray) -> float:
        is_slow = (abs(float(x[0])) * 1e4) % 1.0 < self.rate
        time.sleep(self.seconds * (10.0 if is_slow else 1.0))
        return -0.5 * float(x @ x)


class Computing(Sleeping):
    """The same, but it keeps a core busy: its seconds are those of the processor."""

    def __call__(self, x: np.ndarray) -> float:
        end = time.process_time() + self.seconds
        while time.process_time() < end:
            pass
        return -0.5 * float(x @ x)


def overhead(density: Sleeping, num_points: int, num_steps: int) -> dict[str, float]:
    """Wall time of steps of parallel tempering over the busy time of each of two workers."""
    with from_callable(density, DIM, pool=2) as target:
        kernel, betas = RandomWalk(), betas_of((2.0, 1.0))
        positions = jax.random.normal(jax.random.key(0), (2, num_points // 2, DIM))
        state, _ = start(jax.random.key(1), target, kernel, positions, betas, Ledger(), "initial_pt")
        rules = Rules.of(0.234, 5, num_steps, "even_odd")
        walk = lambda steps: jax.block_until_ready(  # noqa: E731
            advance(jax.random.key(2), target, kernel, state, betas, rules, steps)
        )
        walk(1)  # compiles
        before, begin = target.box.use.busy, time.perf_counter()
        walk(num_steps)
        wall, busy = time.perf_counter() - begin, target.box.use.busy - before
    nominal = num_points * num_steps * density.seconds / 2
    return {"over_calls": wall / (busy / 2), "over_nominal": wall / nominal}


def utilisation(seconds: float, num_points: int, num_batches: int) -> dict[str, float]:
    """Of two workers with one point in 50 ten times as slow: by a clock outside, and as a summary says it."""
    rows = np.random.default_rng(num_points).normal(size=(num_batches + 1, num_points, DIM))
    with from_callable(Sleeping(seconds, 0.02), DIM, pool=2) as target:
        BlackBox.values(target.box, rows[0, :4])  # workers have started
        before, begin = target.box.use.copy(), time.perf_counter()
        for batch in rows[1:]:
            target.box.values(batch)
        wall, use = time.perf_counter() - begin, target.box.use.since(before)
        return {"by the clock": use.busy / (2 * wall), "in the summary": float(use.utilisation or 0.0)}


def pace(seconds: float, num_workers: int, num_chains: int, num_steps: int) -> dict[str, object]:
    """Idle shares of sleeping threads with chains at their own pace and in step, step sizes frozen, in one block."""
    running: Any = importlib.import_module("tempering.parallel_tempering.run")  # the package has a function `run`
    free, found, ends = running.may_run_ahead, {}, []
    kernel, betas, rules = RandomWalk(), betas_of((4.0, 1.0)), Rules.of(0.234, 5, 0, "even_odd")
    positions = jax.random.normal(jax.random.key(0), (2, num_chains // 2, DIM))
    for name, may_run_ahead in (("own pace", free), ("in step", lambda target: False)):
        running.may_run_ahead = may_run_ahead
        try:
            with ThreadPoolExecutor(num_workers) as pool:
                target = from_callable(Sleeping(seconds, 0.02), DIM, pool=pool)
                state, _ = start(jax.random.key(1), target, kernel, positions, betas, Ledger(), "initial_pt")
                before, begin = target.box.use.copy(), time.perf_counter()
                lengths = {"burn_in": 0, "num_draws": num_steps, "thin": 1, "block": num_steps}
                key, account = jax.random.key(2), {"ledger": Ledger(), "stage": "initial_pt"}
                _, draws = run(key, target, kernel, state, betas, rules, **lengths, **account)
                ends.append(np.asarray(draws.position).tobytes())
                use = target.box.use.since(before)
                found[f"{name}, idle"] = 1.0 - float(use.utilisation or 0.0)
                found[f"{name}, seconds"] = time.perf_counter() - begin
        finally:
            running.may_run_ahead = free
    return {**found, "same bits": ends[0] == ends[1], "points": use.points}


def trips(num_points: int) -> dict[str, float]:
    """Seconds of a point that takes none, one point a task, by engine."""
    spawn = multiprocessing.get_context("spawn")
    engines = {"processes": lambda: 2, "ProcessPoolExecutor": lambda: ProcessPoolExecutor(2, spawn)}
    try:
        from distributed import Client, LocalCluster

        engines["Dask"] = lambda: Client(LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0"))
    except ImportError:
        pass
    found = {}
    rows = np.random.default_rng(0).normal(size=(num_points, DIM))
    for name, make in engines.items():
        made = make()
        pool = made.get_executor() if hasattr(made, "get_executor") else made
        box = BlackBox(Sleeping(0.0), DIM, pool=pool, chunk_size=1)
        box.values(rows[:8])
        begin = time.perf_counter()
        box.values(rows)
        found[name] = (time.perf_counter() - begin) / num_points
        box.close()
        if hasattr(made, "cluster"):
            made.cluster.close()
        if hasattr(made, "shutdown"):
            made.shutdown()
    return found


def stored(num_points: int) -> float:
    """Seconds that writing a point to the store takes."""
    rows = np.random.default_rng(0).normal(size=(num_points, DIM))
    walls = []
    for kept in (False, True):
        with TemporaryDirectory() as folder:
            box = BlackBox(Sleeping(0.0), DIM, store=folder if kept else False)
            begin = time.perf_counter()
            box.values(rows)
            walls.append(time.perf_counter() - begin)
            box.close()
    return (walls[1] - walls[0]) / num_points


def memory(sizes: tuple[int, ...]) -> dict[str, float]:
    """MiB of this process after batches of 1,000 points on two processes, with a store."""
    found = {}
    with TemporaryDirectory() as folder, from_callable(Sleeping(0.0), DIM, pool=2, store=folder) as target:
        done, rows = 0, np.random.default_rng(0)
        for size in sizes:
            while done < size:
                target.box.values(rows.normal(size=(1000, DIM)))
                done += 1000
            found[f"after {size:,} points"] = _resident()
    return found


def memory_of_workers(numbers: tuple[int, ...]) -> dict[str, float]:
    """MiB of this process while so many of its own processes wait for points, after 1,000 points each time."""
    found, rows = {}, np.random.default_rng(0)
    for number in numbers:
        with from_callable(Sleeping(0.002), DIM, pool=number, chunk_size=1) as target:
            target.box.values(rows.normal(size=(1000, DIM)))
            found[f"{number:,} workers, {target.box.use.workers} seen"] = _resident()
    return found


def _resident() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def main() -> None:
    from measure import finish, parser  # beside this script; a test loads the functions from elsewhere

    made = parser(__doc__)
    made.add_argument("--seconds", type=float, default=0.1, help="time of one point")
    made.add_argument(
        "--only", choices=("overhead", "utilisation", "pace", "trip", "writing", "memory"), help="one part"
    )
    given = made.parse_args()
    few = given.quick
    figures: dict[str, object] = {}
    is_asked = lambda part: given.only in (None, part)  # noqa: E731
    if is_asked("overhead"):
        for points in (16,) if few else (16, 64):
            for kind, title in ((Sleeping, "overhead"), (Computing, "overhead, computing")):
                figures[f"{title}, batches of {points}"] = overhead(kind(given.seconds), points, 2 if few else 12)
    if is_asked("utilisation"):
        for points, batches in ((64, 1),) if few else ((64, 16), (256, 4), (1000, 1)):
            figures[f"utilisation, batches of {points}"] = utilisation(given.seconds, points, batches)
    if is_asked("pace"):
        of = (0.1, 8, 40, 4) if few else (5 * given.seconds, 100, 1000, 20)
        title = f"{of[1]} workers, {of[2]:,} chains, {of[3]} steps, points of {of[0]:g} s, one in 50 ten times as slow"
        figures[title] = pace(*of)
    if is_asked("trip"):
        figures["trip of a point, seconds"] = trips(100 if few else 2000)
    if is_asked("writing"):
        figures["writing a point, seconds"] = stored(1000 if few else 10_000)
    if is_asked("memory"):
        figures["memory of the parent, MiB"] = memory((1000, 2000) if few else (1000, 10_000, 50_000))
        figures["memory of the parent by workers, MiB"] = memory_of_workers((1, 2) if few else (1, 2, 4, 8, 16))
    for name, value in figures.items():
        print(f"{name}: {value}")
    finish(given, figures, seconds=given.seconds, pool=2)


if __name__ == "__main__":
    main()
