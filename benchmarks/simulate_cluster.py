"""Evaluations per hour and idle time from 1 to 10,000 workers: a simulation, event by event, from measured overheads.

    python benchmarks/simulate_cluster.py [--pool results/pool.json] [--out results/cluster.json]
        [--figure docs/figures/cluster.svg]

The parent hands out one point after another, each in the measured time of a trip (`bench_pool.py`), and an answer
reaches it after the latency of the network. A worker has two tasks if these are quick, as in `host.foreign`, so that
the latency is hidden while there are points to hand out. Some points take ten times as long. A batch is one visit of a
compiled program: the next begins when all of it is back. All of that is what the code does; what is assumed is in the
arguments. Chains at their own pace are simulated too. They wait for each other after every five steps here, as many as
lie between two swaps; in the code only the levels of one ladder do, so that the idle share is a little smaller.
"""

import heapq
import json
from pathlib import Path

import numpy as np

from tempering.host.foreign import QUICK

WORKERS = (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000)
BATCHES = (100, 1000, 10_000)
_AHEAD = 5
"""Steps between two swaps (`Exploration.swap_interval`)."""
CASES = {
    "30 s, one in 50 ten times as slow": (30.0, 0.02),
    "30 s, none slow": (30.0, 0.0),
    "1 s, one in 50 ten times as slow": (1.0, 0.02),
    "0.1 s, one in 50 ten times as slow": (0.1, 0.02),
}


def batch_seconds(times: np.ndarray, num_workers: int, trip: float, latency: float) -> float:
    """Wall time of a batch: points are handed out in order, one trip at a time; two quick tasks a worker, or one.

    Args:
        times: seconds of every point.
        trip: that the parent needs for a point.
        latency: seconds from the parent to a worker, and back.
    """
    free = [0.0] * num_workers  # when a worker can begin its next task
    heapq.heapify(free)
    window: list[float] = []  # when the tasks in flight are back
    parent, end, most = 0.0, 0.0, (2 if np.min(times) <= QUICK else 1) * num_workers
    for seconds in times:
        if len(window) >= most:
            parent = max(parent, heapq.heappop(window))
        parent += trip
        begin = max(heapq.heappop(free), parent + latency)
        heapq.heappush(free, begin + seconds)
        heapq.heappush(window, begin + seconds + latency)
        end = max(end, begin + seconds + latency)
    return max(end, parent)


def seconds_ahead(times: np.ndarray, num_workers: int, trip: float, latency: float) -> float:
    """Wall time where every chain takes its own steps one after another, and waits for no other chain.

    Args:
        times: seconds of every step of every chain, (chain, step).
    """
    free = [0.0] * num_workers
    ready = [(0.0, chain, 0) for chain in range(len(times))]  # when the parent knows the chain's next point
    parent, end = 0.0, 0.0
    while ready:
        known, chain, step = heapq.heappop(ready)
        parent = max(parent, known) + trip
        finish = max(heapq.heappop(free), parent + latency) + times[chain, step]
        heapq.heappush(free, finish)
        end = max(end, finish + latency)
        if step + 1 < times.shape[1]:
            heapq.heappush(ready, (finish + latency, chain, step + 1))
    return max(end, parent)


def simulate_ahead(batch: int, num_workers: int, seconds: float, rate: float, trip: float, latency: float) -> dict:
    """As `simulate`, with chains that run up to `_AHEAD` steps ahead of each other."""
    draw = np.random.default_rng([batch, num_workers])
    times = np.where(draw.random((4, batch, _AHEAD)) < rate, 10.0, 1.0) * seconds
    wall = sum(seconds_ahead(each, num_workers, trip, latency) for each in times)
    return {"per_hour": 3600.0 * times.size / wall, "idle": 1.0 - float(times.sum()) / (wall * num_workers)}


def simulate(batch: int, num_workers: int, seconds: float, rate: float, trip: float, latency: float, num: int) -> dict:
    """Points per hour and the idle share of workers, over `num` batches."""
    draw = np.random.default_rng([batch, num_workers])
    wall = busy = 0.0
    for _ in range(num):
        times = np.where(draw.random(batch) < rate, 10.0, 1.0) * seconds
        wall += batch_seconds(times, num_workers, trip, latency)
        busy += float(times.sum())
    return {"per_hour": 3600.0 * num * batch / wall, "idle": 1.0 - busy / (wall * num_workers)}


def main() -> None:
    from measure import commit, parser  # beside this script; a test loads the functions from elsewhere

    made = parser(__doc__)
    made.add_argument("--pool", type=Path, default=Path("results/pool.json"), help="what bench_pool.py measured")
    made.add_argument("--engine", default="Dask", help="whose trips")
    made.add_argument("--latency", type=float, default=0.002, help="of the network, seconds one way")
    made.add_argument("--figure", type=Path, default=None, help="a figure, .svg or .png")
    given = made.parse_args()
    measured = json.loads(given.pool.read_text())["figures"]
    trip = measured["trip of a point, seconds"][given.engine] + measured["writing a point, seconds"]
    found = {}
    for case, (seconds, rate) in CASES.items():
        for batch in BATCHES:
            num = 2 if given.quick or batch == 10_000 else 20
            rows = {workers: simulate(batch, workers, seconds, rate, trip, given.latency, num) for workers in WORKERS}
            found[f"{case}, batches of {batch:,}"] = rows
            if batch == 1000:
                found[f"{case}, {batch:,} chains five steps ahead"] = {
                    workers: simulate_ahead(batch, workers, seconds, rate, trip, given.latency) for workers in WORKERS
                }
            print(f"{case}, batches of {batch:,}")
            for workers, row in rows.items():
                print(f"  {workers:>6,} workers: {row['per_hour']:>12,.0f} points an hour, idle {row['idle']:.2f}")
    content = {"command": "python benchmarks/simulate_cluster.py", "commit": given.commit or commit()}
    content |= {"trip_seconds": trip, "latency_seconds": given.latency, "engine": given.engine, "figures": found}
    if given.out is not None:
        given.out.write_text(json.dumps(content, indent=1) + "\n")
    if given.figure is not None:
        draw_figure(found, given.figure)


def draw_figure(found: dict, path: Path) -> None:
    """Points per hour and utilisation against workers, for two costs of a point and three sizes of batches."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "cluster"  # the same file from the same numbers
    import matplotlib.pyplot as plt

    cases = ("30 s, one in 50 ten times as slow", "1 s, one in 50 ten times as slow")
    figure, axes = plt.subplots(2, 2, figsize=(8.0, 6.0), sharex=True, layout="constrained")
    for column, case in enumerate(cases):
        for batch, colour in zip(BATCHES, ("#7a5195", "#ef5675", "#ffa600"), strict=True):
            rows = found[f"{case}, batches of {batch:,}"]
            numbers = list(rows)
            label = f"batches of {batch:,}"
            axes[0, column].loglog(
                numbers, [rows[n]["per_hour"] for n in numbers], "o-", ms=3, color=colour, label=label
            )
            axes[1, column].semilogx(numbers, [1 - rows[n]["idle"] for n in numbers], "o-", ms=3, color=colour)
        rows = found[f"{case}, batches of {BATCHES[-1]:,}"]
        one = rows[1]["per_hour"]
        axes[0, column].loglog(list(rows), [one * n for n in rows], ":", color="grey", label="as many times as workers")
        axes[0, column].set_title(f"a point takes {case}", fontsize=9)
        axes[1, column].set_xlabel("workers")
        axes[1, column].set_ylim(0, 1.02)
    axes[0, 0].set_ylabel("evaluations per hour")
    axes[1, 0].set_ylabel("utilisation")
    axes[0, 0].legend(fontsize=8)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


if __name__ == "__main__":
    main()
