"""Cost against quality: every method at several budgets, as one JSON and one figure. Goes on where it was.

    python benchmarks/curves.py --out results/curves.json --figure docs/figures/curves.png

A point of a curve is (target, method, budget, seed). Each leaves `record.json` and the points it was judged by under
`--folder`, and is not made again. Parts can be made elsewhere (`--targets`, `--methods`, `--budgets`, `--seeds`) and
joined: `--merge a.json b.json` takes what those files hold before anything is made, and `--merge ... --no-runs` makes
nothing. What a point is judged by, the same for all methods:

- 10,000 points against 10,000 exact samples. More points, fewer, or weighted ones become 10,000 by `tp.resample`: every
  point comes as often as its weight says, rounded up or down. PT+DM and the paper's PTSD draw 10,000 from the trained
  model, unweighted and at no further evaluation. Ours splits the budget as `tp.split_budget` says: weighted
  quasi-random draws of a model fitted with the rest, or plain ones where the budget is small. `ptsd` is plain draws at
  every budget, `ptsd-weighted` weighted independent ones.
- energy TVD with 200 bins; total variation of mode weights (MoG-40) or the largest error of a well's weight (MW-32);
  for MoG-40 W1, exact transport between the first 2,000 of both sets.
- the floor of each: exact samples in place of the method's, mean over the reference sets of ten seeds or more and, for
  each, over twenty sets of exact samples (two for W1). `excess` is what a method has above the floor of its own
  reference sets: these alone make the energy TVD of MoG-40 vary by a tenth.
- evaluations are what the ledger holds, at most the budget.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from curve_figure import draw
from curve_methods import BUDGETS, METHODS, TARGETS, fit_points

NUM_COMPARED, NUM_TRANSPORT = 10_000, 2_000
NUM_REFERENCES, NUM_EXACT, NUM_EXACT_TRANSPORT = 10, 20, 2
"""Of the floors: reference sets at the least, one a seed, and sets of exact samples for each, fewer for transport."""


def metrics_of(name: str) -> tuple[str, ...]:
    return ("energy_tvd", "region_tv", "w1") if name == "mog40" else ("energy_tvd", "region_max_error")


def judge(name: str, points, reference, *, has_transport: bool = True) -> dict[str, float]:
    """The metrics of 10,000 points against 10,000 exact samples."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    from tempering.lab.metrics import (
        energy_tvd,
        estimated_region_weights,
        max_region_error,
        region_tv,
        wasserstein_1,
    )

    target = TARGETS[name].make()
    energies = jax.jit(lambda x: -jax.lax.map(target.log_density, x, batch_size=4096))
    weights, exact = estimated_region_weights(target, points), np.asarray(target.region_weights())
    values = {
        "energy_tvd": energy_tvd(*(np.asarray(energies(jnp.asarray(x))) for x in (points, reference))),
        "region_max_error": max_region_error(weights, exact),
    }
    if target.regions_partition:
        values["region_tv"] = region_tv(weights, exact)
    if has_transport and "w1" in metrics_of(name):
        values["w1"] = wasserstein_1(np.asarray(points)[:NUM_TRANSPORT], np.asarray(reference)[:NUM_TRANSPORT])
    return values


def exact_samples(name: str, index: int):
    import jax

    return TARGETS[name].make().sample(jax.random.fold_in(jax.random.key(20_000), index), NUM_COMPARED)


def as_compared(points, weights, seed: int):
    """10,000 points, unweighted, in random order."""
    import numpy as np

    from tempering import resample

    with np.errstate(divide="ignore"):
        log_weights = np.zeros(len(points)) if weights is None else np.log(np.asarray(weights, np.float64))
    return resample(np.asarray(points), log_weights, NUM_COMPARED, seed=seed)


def make_one(name: str, method: str, budget: int, seed: int, place: Path) -> None:
    """One point of a curve, kept in `place`; a method that cannot work at the budget leaves the reason."""
    import jax
    import numpy as np

    from tempering.errors import TemperingError

    record: dict = {"target": name, "method": method, "budget": budget, "seed": seed}
    begun = time.perf_counter()
    try:
        drawn, settings = fit_points(name, method, budget, seed, NUM_COMPARED)
    except TemperingError as refusal:
        record["failed"] = str(refusal)
    else:
        points = as_compared(drawn.points, drawn.weights, seed)
        assert drawn.evaluations <= budget
        record |= {
            "evaluations": drawn.evaluations,
            "num_points": int(drawn.points.shape[0]),
            "log_z_error": None if drawn.log_z is None else abs(drawn.log_z - TARGETS[name].make().log_z()),
            "metrics": judge(name, points, exact_samples(name, seed)),
            "settings": settings,
            "seconds": round(time.perf_counter() - begun, 1),
            "device": jax.devices()[0].device_kind,
        }
        place.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(place / "points.npz", points=points.astype(np.float32))
    place.mkdir(parents=True, exist_ok=True)
    (place / "record.json").write_text(json.dumps(record, indent=1) + "\n")


def make_floors(name: str, num_references: int) -> dict[str, list[float]]:
    """The metrics of exact samples against the reference set of every seed: energy bins depend on the latter."""
    floors: dict[str, list[float]] = {metric: [] for metric in metrics_of(name)}
    for index in range(num_references):
        reference, first = exact_samples(name, index), 1_000 + NUM_EXACT * index
        found = [
            judge(name, exact_samples(name, first + i), reference, has_transport=i < NUM_EXACT_TRANSPORT)
            for i in range(NUM_EXACT)
        ]
        for metric, values in floors.items():
            values.append(statistics.fmean(one[metric] for one in found if metric in one))
    return floors


def place_of(folder: Path, point: tuple) -> Path:
    name, method, budget, seed = point
    return folder / name / method / f"{budget}-{seed}"


def run_missing(missing: list[tuple], options) -> None:
    """A process for every (target, method, budget), which serves all its seeds with one compilation."""
    jobs: dict[tuple, list[int]] = {}
    for *job, seed in missing:
        jobs.setdefault(tuple(job), []).append(seed)
    # Several processes on one accelerator must not each take most of its memory first.
    environment = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false", "TF_CPP_MIN_LOG_LEVEL": "3"}

    def run(job: tuple) -> None:
        name, method, budget = job
        command = [sys.executable, __file__, "--one", name, method, str(budget), *map(str, jobs[job])]
        begun = time.perf_counter()
        result = subprocess.run([*command, "--folder", str(options.folder)], env=environment, check=False)
        seconds = time.perf_counter() - begun
        print(f"{name:6s} {method:11s} {budget:9,d}  exit {result.returncode}  {seconds:6.1f} s", flush=True)

    with ThreadPoolExecutor(options.workers) as pool:
        list(pool.map(run, jobs))


def mean_and_error(values: list[float]) -> dict:
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
    return {"mean": statistics.fmean(values), "error": error}


def summarise(records: list[dict], floors: dict[str, dict[str, list[float]]]) -> list[dict]:
    """One row a (target, method, budget): mean and standard error over all its seeds; failures are counted."""
    rows = []
    for name, method, budget in sorted({(r["target"], r["method"], r["budget"]) for r in records}):
        mine = [r for r in records if (r["target"], r["method"], r["budget"]) == (name, method, budget)]
        good = [r for r in mine if "failed" not in r]
        row = {"target": name, "method": method, "budget": budget, "num_seeds": len(good)}
        row["num_failed"] = len(mine) - len(good)
        if good:
            row["evaluations"] = statistics.fmean(r["evaluations"] for r in good)
            for metric in metrics_of(name):
                row[metric] = mean_and_error([r["metrics"][metric] for r in good])
                above = [r["metrics"][metric] - floors[name][metric][r["seed"]] for r in good]
                row.setdefault("excess", {})[metric] = mean_and_error(above)
            log_z_errors = [r["log_z_error"] for r in good if r["log_z_error"] is not None]
            row["log_z_error"] = mean_and_error(log_z_errors) if log_z_errors else None
        rows.append(row)
    return rows


def commit() -> str:
    found = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


def options_of() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--targets", nargs="+", default=list(TARGETS), choices=list(TARGETS))
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--budgets", nargs="+", type=float, help="the default depends on the target")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path("runs/curves"))
    parser.add_argument("--merge", nargs="+", type=Path, default=[], help="files made by --out, for what they hold")
    parser.add_argument("--no-runs", action="store_true", help="only read, join and draw")
    parser.add_argument("--commit", default=None, help="where the tree is not a git checkout")
    parser.add_argument("--one", nargs="+", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    options = options_of()
    if options.one:
        name, method, budget, *seeds = options.one
        for seed in map(int, seeds):
            point = (name, method, int(budget), seed)
            make_one(*point, place_of(options.folder, point))
        return
    merged = [json.loads(path.read_text()) for path in options.merge]
    known = (record for part in merged for record in part["runs"])
    records = {(r["target"], r["method"], r["budget"], r["seed"]): r for r in known}
    wanted = [
        (name, method, budget, seed)
        for name in options.targets
        for method in options.methods
        for budget in map(int, options.budgets or BUDGETS[name])
        for seed in options.seeds
    ]
    has_record = lambda point: (place_of(options.folder, point) / "record.json").exists()  # noqa: E731
    if not options.no_runs:
        run_missing([point for point in wanted if point not in records and not has_record(point)], options)
    for point in wanted:
        if point not in records and has_record(point):
            records[point] = json.loads((place_of(options.folder, point) / "record.json").read_text())
    without = [point for point in wanted if point not in records]
    for point in without:
        print("no result:", *point)
    num_references = max([NUM_REFERENCES, *(1 + record["seed"] for record in records.values())])
    names = sorted({record["target"] for record in records.values()})
    floors = {name: make_floors(name, num_references) for name in names}
    runs = [records[point] for point in sorted(records)]
    command = " ".join(["python", *sys.argv])
    commits = sorted({options.commit or commit()} | {c for part in merged for c in part["commits"]})
    means = {name: {metric: statistics.fmean(row) for metric, row in rows.items()} for name, rows in floors.items()}
    content = {"command": command, "commits": commits, "floors": means, "floors_by_seed": floors}
    content |= {"summary": summarise(runs, floors), "runs": runs}
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(content, indent=1) + "\n")
    if options.figure:
        options.figure.parent.mkdir(parents=True, exist_ok=True)
        options.figure.write_bytes(draw(content))


if __name__ == "__main__":
    main()
