"""How good raw draws are, by solver and steps: energies of plain draws of trained samplers against exact ones.

    tempering run mog40 --out runs/mog40
    python benchmarks/raw_draws.py runs/mog40 --out results/raw-draws.json

A continuous map takes a Gaussian to a sum of modes, so some draws of the probability flow lie between modes. The total
variation of energies hardly sees a handful of them; the Wasserstein distances do. Every figure is a mean over `--sets`
sets of `--num` draws, beside the same figure of as many exact samples (the floor). No weight is used and no draw is
left out. Seconds are those of one set after compilation.
"""

import argparse
import dataclasses
import json
import statistics
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from measure import commit

import tempering as tp
from tempering.lab.metrics.energy import energy_tvd, energy_wasserstein_1, energy_wasserstein_2
from tempering.lab.metrics.suite import log_densities

SOLVERS = (
    ("heun", 32),
    ("heun", 128),
    ("churn", 32),
    ("churn", 64),
    ("churn", 128),
    ("churn", 256),
    ("sde", 64),
    ("sde", 256),
    ("sde", 1024),
)
METRICS = {"tvd": energy_tvd, "w1": energy_wasserstein_1, "w2": energy_wasserstein_2}
NUM_REFERENCE = 200_000
"""Exact samples that all sets are compared with: enough that their own error hardly counts."""


def energies(target, points) -> np.ndarray:
    """Minus the log density of every row."""
    return -np.asarray(log_densities(target, jnp.asarray(points)), np.float64)


def row_of(folder: Path, num: int, num_sets: int, solvers) -> dict:
    """Every solver's figures for the sampler of one run folder."""
    sampler = tp.load(folder)
    target = sampler.target
    reference = energies(target, target.sample(jax.random.key(10_001), NUM_REFERENCE))
    exact = [energies(target, target.sample(jax.random.key(20_000 + i), num)) for i in range(num_sets)]
    floor = {name: statistics.fmean(metric(e, reference) for e in exact) for name, metric in METRICS.items()}
    rows = []
    for solver, num_steps, *churn in solvers:
        sampler.sampling = dataclasses.replace(
            sampler.sampling,
            raw_solver=None if solver == sampler.sampling.solver else solver,
            raw_num_steps=num_steps,
            churn=float(churn[0]) if churn else 40.0,
        )
        sampler.sample(num, seed=0)  # compiles
        begun = time.perf_counter()
        found = [energies(target, sampler.sample(num, seed=1 + i)) for i in range(num_sets)]
        seconds = (time.perf_counter() - begun) / num_sets
        figures = {name: statistics.fmean(metric(e, reference) for e in found) for name, metric in METRICS.items()}
        floors = {f"{name}_floors": figures[name] / floor[name] for name in METRICS}
        how = {"solver": solver, "num_steps": num_steps, "churn": sampler.sampling.churn if solver == "churn" else None}
        rows.append({**how, "seconds": round(seconds, 3), **figures, **floors})
        print(json.dumps({"run": folder.name, **rows[-1]}), flush=True)
    return {"run": folder.name, "floor": floor, "rows": rows}


def read(word: str) -> tuple:
    """solver:steps, or solver:steps:churn."""
    solver, *numbers = word.split(":")
    return solver, *map(int, numbers)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folders", nargs="+", type=Path, help="run folders of presets with exact samples")
    options.add_argument("--num", type=int, default=10_000)
    options.add_argument("--sets", type=int, default=5)
    options.add_argument("--solvers", nargs="*", default=None, help="such as heun:32 churn:64 churn:64:20")
    options.add_argument("--out", type=Path, default=None)
    given = options.parse_args()
    solvers = SOLVERS if not given.solvers else [read(word) for word in given.solvers]
    cases = [row_of(folder, given.num, given.sets, solvers) for folder in given.folders]
    if given.out is not None:
        record = {
            "command": "python benchmarks/raw_draws.py",
            "commit": commit(),
            "device": jax.devices()[0].device_kind,
        }
        content = {**record, "num": given.num, "sets": given.sets, "cases": cases}
        given.out.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
