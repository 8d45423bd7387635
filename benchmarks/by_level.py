"""Where a fit goes wrong: shares, tails and masses of regions, level by level, and what the search for modes said.

    python benchmarks/by_level.py phi4-8 [--seeds 0] [--budget N] [--set network.width=256] [--out by-level.json]

A density of the proving ground is fitted with the defaults, or with settings changed. Every level has the record that
the sampler keeps, and the masses of the density's regions among its weighted samples, at its temperature: where the
mass of a vacuum or a mode leaves its course, something went wrong. The last lines compare the answer with the truth.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from measure import commit
from proving.catalogue import density_of
from proving.record import Density

import tempering as tp
from tempering.runs.storage import read_arrays

NUMBERS = (
    "temperature",
    "proposal",
    "num_draws",
    "predicted_ess_fraction",
    "ess_fraction",
    "truncated_ess_fraction",
    "pareto_k",
    "unseen",
    "hidden_share",
    "log_z",
    "log_z_error",
    "rhat",
    "swap_rate",
    "round_trips",
    "acceptance",
    "validation_loss",
    "training_steps",
    "rescue",
)


def masses(density: Density, draws: np.ndarray, log_weights: np.ndarray) -> list[float]:
    """Of the regions, among weighted draws."""
    assert density.shares is not None
    weights = np.exp(log_weights.astype(np.float64) - np.max(log_weights))
    found = np.asarray(jax.jit(jax.vmap(density.shares))(jnp.asarray(draws)), np.float64)
    return [round(float(mass), 5) for mass in weights @ found / np.sum(weights)]


def by_level(density: Density, seed: int, budget: int | None, settings: dict[str, Any]) -> dict[str, Any]:
    """One fit, as a row."""
    if density.prior is not None or density.handed is not None or density.shares is None:
        raise SystemExit(f"{density.name} has a prior or no regions: only plain densities with regions are shown")
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        how: dict[str, Any] = {"budget": budget, "seed": seed, "settings": settings or None, **density.how}
        sampler = tp.fit(density.log_density, density.dim, out=Path(folder) / "fit", progress=False, **how)
        assert isinstance(sampler, tp.Sampler)
        levels = []
        for record in sampler.levels:
            row = {name: getattr(record, name) for name in NUMBERS if getattr(record, name, None) is not None}
            for part, at in (("cold", record.level), ("hot", record.level + 1)):
                path = Path(folder) / "fit" / "levels" / f"{at:02d}" / "buffer.npz"
                arrays = read_arrays(path) if path.exists() else {}
                if f"{part}/position" in arrays:
                    draws = sampler.outer(jnp.asarray(arrays[f"{part}/position"]))
                    row["masses"] = masses(density, draws, arrays[f"{part}/log_weight"])
                    break
            levels.append(row)
    draws, log_weights = sampler.sample_weighted(8000, seed=seed + 1)
    verdict = sampler.diagnose()
    return {
        "density": density.name,
        "seed": seed,
        "settings": settings,
        "evaluations": sampler.ledger.points,
        "checks": {name: value for name, value in sampler.checks.as_dict().items() if value is not None},
        "levels": levels,
        "modes": [[mode.log_density, mode.weight, mode.hits] for mode in sampler.modes[:8]],
        "log_z_off": None if density.log_z is None or sampler.log_z is None else sampler.log_z - density.log_z,
        "log_z_error": sampler.log_z_error,
        "ess_fraction": sampler.ess_fraction,
        "masses": masses(density, np.asarray(draws), np.asarray(log_weights)),
        "masses_true": np.asarray(density.masses).tolist(),
        "verdict": verdict.status,
        "findings": [f"{found.name}: {found.measured}" for found in verdict.troubles()],
        "seconds": round(time.perf_counter() - begin, 1),
        "seconds_by_stage": sampler.seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--budget", type=int)
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="settings, as tp.fit takes them")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    settings = {name: json.loads(value) for name, value in (pair.split("=", 1) for pair in given.set)}
    rows = []
    for name in given.names:
        for seed in given.seeds:
            row = by_level(density_of(name), seed, given.budget, settings) | {"commit": commit()}
            rows.append(row)
            print(json.dumps(row, indent=1, default=str), flush=True)
            if given.out is not None:
                given.out.parent.mkdir(parents=True, exist_ok=True)
                given.out.write_text(json.dumps({"rows": rows}, indent=1, default=str) + "\n")


if __name__ == "__main__":
    main()
