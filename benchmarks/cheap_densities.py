"""What the densities of draws cost, and what is lost where they are made cheaper: steps, determinants and probes.

    tempering run mw32 --out runs/mw32
    python benchmarks/cheap_densities.py runs/mw32 --out results/cheap-densities.json

A weighted draw needs the log determinant of every step of the solver. For one trained sampler every way is tried on the
same keys: the effective share of the weights, the error of log Z in its own standard errors, and the seconds of
`--num` draws after compilation, as a ratio to the default's (32 Heun steps, four probes above 16 dimensions).
Where a way is biased, log Z shows it: the effective share alone cannot.
"""

import argparse
import dataclasses
import json
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from measure import commit

import tempering as tp
from tempering.runs.ledger import Ledger
from tempering.targets import ExactTarget
from tempering.weights.weigh import weigh

WAYS = (
    *(("heun", steps, "hutchinson", probes) for steps in (8, 12, 16, 24, 32, 64) for probes in (1, 2, 4)),
    ("heun", 32, "hutchinson", 8),
    *(("heun", steps, "exact", 0) for steps in (8, 12, 16, 24, 32)),
    ("euler", 32, "exact", 0),
    ("euler", 64, "hutchinson", 4),
)
DEFAULT = ("heun", 32, "hutchinson", 4)


def row_of(sampler, way, num: int, num_repeats: int) -> dict:
    """One way of one sampler."""
    solver, num_steps, divergence, probes = way
    sampling = dataclasses.replace(
        sampler.sampling, solver=solver, num_steps=num_steps, divergence=divergence, num_probes=max(1, probes)
    )
    draw = lambda seed: sampler.model.draw(jax.random.key(seed), num, sampling, with_density=True)  # noqa: E731
    jax.block_until_ready(draw(0))
    seconds, shares, log_zs = [], [], []
    for seed in range(1, 1 + num_repeats):
        begun = time.perf_counter()
        x, log_q = jax.block_until_ready(draw(seed))
        seconds.append(time.perf_counter() - begun)
        weighted = weigh(sampler.target, x, log_q, jnp.ones(()), ledger=Ledger(), stage="metrics")
        shares.append(float(weighted.ess_fraction))
        log_zs.append(float(weighted.log_z[0]))
    target = sampler.target
    off = np.mean(log_zs) - target.log_z() if isinstance(target, ExactTarget) else None
    error = np.std(log_zs, ddof=1) / np.sqrt(num_repeats)
    row = {"solver": solver, "num_steps": num_steps, "divergence": divergence, "num_probes": probes}
    row |= {"seconds": float(np.median(seconds)), "ess_fraction": float(np.mean(shares)), "log_z_off": off}
    return row | {"log_z_error": float(error)}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", type=Path, help="a run folder")
    options.add_argument("--num", type=int, default=8_000)
    options.add_argument("--repeats", type=int, default=4)
    options.add_argument("--few", action="store_true", help="three ways only: shows that the script runs")
    options.add_argument("--out", type=Path, default=None)
    given = options.parse_args()
    sampler = tp.load(given.folder)
    ways = (DEFAULT, WAYS[0], WAYS[-1]) if given.few else WAYS
    rows = []
    for way in ways:
        rows.append(row_of(sampler, way, given.num, given.repeats))
        print(json.dumps(rows[-1]), flush=True)
    base = rows[ways.index(DEFAULT)]["seconds"]
    rows = [row | {"ratio": row["seconds"] / base} for row in rows]
    if given.out is not None:
        content = {"command": f"python benchmarks/cheap_densities.py {given.folder}", "commit": commit()}
        content |= {"device": jax.devices()[0].device_kind, "dim": sampler.dim, "num": given.num, "rows": rows}
        given.out.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
