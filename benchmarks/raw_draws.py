"""How good raw draws are, by solver and steps: energies of plain draws of trained samplers against exact ones.

    python benchmarks/raw_draws.py mog40 --out results/raw-draws.json
    python benchmarks/raw_draws.py mog40 --solvers heun:32 --exact-from 0 0.5 2 6 --out results/raw-draws.json
    python benchmarks/raw_draws.py runs/mw32 --out results/raw-draws.json

Some draws of the probability flow lie between modes. The total variation of energies hardly sees a handful of them;
the Wasserstein distances do. Every figure is a mean over `--sets` sets of `--num` draws, beside the same figure of as
many exact samples (the floor). No weight is used and no draw is left out. Seconds are those of one set after
compilation. `mog40` is a fit of 20,000 evaluations with seed 0, which is kept in `--kept` and made where it is missing;
anything else is a run folder of a preset with exact samples.

`--exact-from 0.5` puts the exact denoiser in the network's place from sigma = 0.5 upwards, for a mixture of Gaussians:
it shows at which noise levels the draws go wrong, and with 0 what the solver alone does. A row that is in the file is
not made again.
"""

import argparse
import dataclasses
import json
import statistics
import time
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from measure import commit
from paper_model import exact_denoiser

import tempering as tp
from tempering.diffusion import DiffusionModel
from tempering.lab.metrics.energy import energy_tvd, energy_wasserstein_1, energy_wasserstein_2
from tempering.lab.metrics.suite import log_densities
from tempering.targets.densities.gaussian_mixture import mog40

SOLVERS = ("heun:32", "heun:128", "churn:64", "churn:128", "churn:256", "sde:128", "sde:256", "sde:1024")
METRICS = {"tvd": energy_tvd, "w1": energy_wasserstein_1, "w2": energy_wasserstein_2}
NUM_REFERENCE = 100_000
"""Exact samples that all sets are compared with: enough that their own error hardly counts."""
MOG40_BUDGET = 20_000


def energies(target, points) -> np.ndarray:
    """Minus the log density of every row."""
    return -np.asarray(log_densities(target, jnp.asarray(points)), np.float64)


class Mended(eqx.Module):
    """The network's denoiser at low noise, the exact one above."""

    learned: Any
    exact: Any
    begin: Any

    def __call__(self, x, sigma):
        """E[x0 | x], as far as it is known."""
        return jnp.where(sigma >= self.begin, self.exact(x, sigma), self.learned(x, sigma))


def sampler_of(name: str, kept: Path) -> tp.Sampler:
    """The kept fit of a name, a new one, or a run folder."""
    if name != "mog40":
        return tp.load(Path(name))
    target = mog40()
    if not (kept / "sampler.json").exists():
        tp.fit(target, budget=MOG40_BUDGET, seed=0, progress=False).save(kept)
    return tp.load(kept, target)


def floors_of(target, num: int, num_sets: int) -> tuple[np.ndarray, dict[str, float]]:
    """Energies of the reference, and what exact samples get against it."""
    reference = energies(target, target.sample(jax.random.key(10_001), NUM_REFERENCE))
    exact = [energies(target, target.sample(jax.random.key(20_000 + i), num)) for i in range(num_sets)]
    return reference, {name: statistics.fmean(metric(e, reference) for e in exact) for name, metric in METRICS.items()}


def row_of(sampler: tp.Sampler, way: tuple, num: int, num_sets: int) -> dict:
    """One solver, with the network alone or the exact denoiser from some sigma on."""
    solver, num_steps, begin = way
    sampling = dataclasses.replace(
        sampler.sampling, solver=solver, num_steps=num_steps, divergence="automatic", raw_solver=None
    )
    sampling, model, target = dataclasses.replace(sampling, raw_num_steps=None), sampler.model, sampler.target
    if begin is not None:
        mended = Mended(model.denoise, exact_denoiser(target), jnp.asarray(begin))
        model = DiffusionModel(mended, model.prior, model.levels)  # pyright: ignore[reportArgumentType]
    draw = lambda seed: model.draw(jax.random.key(seed), num, sampling, with_density=False)[0]  # noqa: E731
    jax.block_until_ready(model.draw(jax.random.key(0), sampling.chunk_size, sampling, with_density=False))
    begun = time.perf_counter()
    found = [np.asarray(draw(1 + i)) for i in range(num_sets)]
    seconds = (time.perf_counter() - begun) / num_sets
    reference, floor = floors_of(target, num, num_sets)
    found = [energies(target, x) for x in found]
    figures = {name: statistics.fmean(metric(e, reference) for e in found) for name, metric in METRICS.items()}
    floors = {f"{name}_floors": figures[name] / floor[name] for name in METRICS}
    beyond = {"num_beyond": statistics.fmean(int(np.sum(e > reference.max())) for e in found)}
    how = {"solver": solver, "num_steps": num_steps, "exact_from": begin, "churn": sampling.churn}
    return {**how, "seconds": round(seconds, 3), **figures, **floors, **beyond}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("runs", nargs="+", help="mog40, or run folders of presets with exact samples")
    options.add_argument("--kept", type=Path, default=Path("runs/raw-draws/mog40"), help="where the fit of mog40 is")
    options.add_argument("--label", default=None, help="how rows of this sampler are called; its name if left out")
    options.add_argument("--num", type=int, default=10_000)
    options.add_argument("--sets", type=int, default=5)
    options.add_argument("--solvers", nargs="*", default=SOLVERS, help="such as heun:32 churn:64")
    options.add_argument("--exact-from", nargs="*", type=float, default=[None], help="levels of sigma")
    options.add_argument("--out", type=Path, required=True)
    given = options.parse_args()
    rows = json.loads(given.out.read_text())["rows"] if given.out.exists() else []
    identity = ("run", "solver", "num_steps", "exact_from", "num", "sets")
    known = {tuple(row[key] for key in identity) for row in rows}
    for name in given.runs:
        sampler, label = sampler_of(name, given.kept), given.label or Path(name).name
        facts = {"run": label, "num": given.num, "sets": given.sets, "ess_fraction": sampler.ess_fraction}
        facts |= {"training_steps": sampler.levels[-1].training_steps, "device": jax.devices()[0].device_kind}
        for solver, steps in (word.split(":") for word in given.solvers):
            for begin in given.exact_from:
                if (label, solver, int(steps), begin, given.num, given.sets) in known:
                    continue
                row = row_of(sampler, (solver, int(steps), begin), given.num, given.sets)
                rows.append(facts | row | {"commit": commit()})
                print(json.dumps(rows[-1]), flush=True)
                content = {"command": "python benchmarks/raw_draws.py, with the runs and solvers of the rows"}
                content |= {"commits": sorted({row["commit"] for row in rows})}
                given.out.write_text(json.dumps(content | {"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
