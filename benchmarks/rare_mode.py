"""The rare mode of alanine dipeptide in finished runs, before and after reweighting, from many draws and few weights.

    python benchmarks/rare_mode.py RUN [RUN ...] [--draws 100000] [--weighted 2000] [--seed 100]
        [--out results/aldp-rare-mode.json]

RUN is a folder that `tempering run aldp` made. Draws of the flow cost no evaluation and no determinants, so that there
may be many; all in 0 < phi < 120 degrees and `--weighted` of the others are made once more with their exact densities
and weighed (`metrics.population_of_two_stages`). The effective share of the raw weights is that of the others, a random
choice of nearly all draws.
"""

import dataclasses
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from measure import finish, parser

from tempering.experiments.compilation import enable_compilation_cache
from tempering.experiments.run import load_run
from tempering.experiments.run_folder import RunFolder
from tempering.importance import weigh
from tempering.ledger import Ledger
from tempering.metrics import population, population_of_two_stages
from tempering.metrics.populations import RARE_MODE
from tempering.molecules import phi_psi

CHUNK = 5_000
"""Draws at a time without densities."""


def one(folder: Path, options) -> dict:
    """Both populations of one run."""
    begun = time.perf_counter()
    config = RunFolder.read_config(folder)
    sampler = load_run(folder)
    target = sampler.target
    key = jax.random.key(options.seed)
    key_draw, key_choice = jax.random.split(key)
    quick = dataclasses.replace(sampler.sampling, chunk_size=min(CHUNK, options.draws))
    draws, _ = sampler.model.draw(key_draw, options.draws, quick, with_density=False)
    angles = jax.jit(jax.vmap(lambda x: phi_psi(target.chart.embed(x))[0]))
    phi = np.degrees(np.asarray(angles(draws)))
    is_inside = (phi > RARE_MODE[0]) & (phi < RARE_MODE[1])
    drawn = time.perf_counter()
    inside, outside = np.flatnonzero(is_inside), np.flatnonzero(~is_inside)
    chosen = np.asarray(jax.random.choice(key_choice, outside, (options.weighted,), replace=False))
    rows = jnp.asarray(np.concatenate([inside, chosen]))
    again, log_q = sampler.model.draw(key_draw, options.draws, sampler.sampling, with_density=True, rows=rows)
    weighted = weigh(target, again, log_q, jnp.ones(()), ledger=Ledger(), stage="metrics")
    logs = np.asarray(weighted.log_weights, np.float64)
    raw, exact = population(is_inside), population_of_two_stages(is_inside, *np.split(logs, [len(inside)]))
    others = np.exp(logs[len(inside) :] - np.max(logs[len(inside) :]))
    row = {
        "preset": config.name,
        "seed": config.seed,
        "num_draws": options.draws,
        "num_inside": int(is_inside.sum()),
        "num_weighted_outside": options.weighted,
        "raw": {"share": raw.share, "error": raw.error},
        "reweighted": {"share": exact.share, "error": exact.error},
        "ess_fraction": float(np.sum(others) ** 2 / np.sum(others**2) / len(others)),
        "ess_fraction_inside": None,
        "evaluations": len(rows),
        # The two solves must agree, or the weights belong to other points.
        "largest_difference": float(np.max(np.abs(np.asarray(again) - np.asarray(draws)[np.asarray(rows)]))),
        "seconds": {"draws": round(drawn - begun, 1), "weights": round(time.perf_counter() - drawn, 1)},
    }
    if len(inside):
        within = np.exp(logs[: len(inside)] - np.max(logs[: len(inside)]))
        row["ess_fraction_inside"] = float(np.sum(within) ** 2 / np.sum(within**2) / len(within))
    return row


def main() -> None:
    made = parser(__doc__)
    made.add_argument("runs", type=Path, nargs="+")
    made.add_argument("--draws", type=int, default=100_000)
    made.add_argument("--weighted", type=int, default=2_000, help="of the draws outside the mode")
    made.add_argument("--seed", type=int, default=100, help="of the draws")
    options = made.parse_args()
    enable_compilation_cache()
    rows = []
    for folder in options.runs:
        rows.append(one(folder, options))
        print(rows[-1], flush=True)
        finish(options, {"runs": rows}, draws=options.draws, weighted=options.weighted, seed=options.seed)


if __name__ == "__main__":
    main()
