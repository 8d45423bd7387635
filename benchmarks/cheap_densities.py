"""What the densities of draws cost, and what is lost where they are made cheaper: steps, determinants, probes, a flow.

    python benchmarks/cheap_densities.py mw16 mw32 mw64 --few --num 256 --out results/cheap-densities-cpu.json
    python benchmarks/cheap_densities.py runs/mw32 --out results/cheap-densities.json

A weighted draw needs the log determinant of every step of the solver. For one trained sampler every way is tried on the
same keys: the effective share of the weights, log Z and the error of its mean over repeats, and the seconds of `--num`
draws after compilation, as a ratio to 32 Heun steps with determinants, by which a finished fit is weighed up to 64
dimensions. Where a way is biased, log Z shows it: the effective share alone cannot.

`mw16` stands for a fit of Many-Well in 16 dimensions with seed 0, which is kept under runs/cheap-densities and made
where it is missing; `--seconds` limits it.

Beside the ways to trace the diffusion's flow there is a flow distilled from it: a coupling flow that is fitted to plain
draws of the sampler. Its density is exact in one pass, and its draws are weighed in place of the sampler's.
"""

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from measure import commit

import tempering as tp
from tempering.baselines.flow import Flow
from tempering.runs.ledger import Ledger
from tempering.targets import ExactTarget
from tempering.targets.densities.many_well import ManyWell
from tempering.weights.weigh import weigh

DEFAULT = ("heun", 32, "exact", 0)
WAYS = (
    DEFAULT,
    *(("heun", steps, "hutchinson", probes) for steps in (8, 12, 16, 24, 32, 64) for probes in (1, 2, 4)),
    ("heun", 32, "hutchinson", 8),
    *(("heun", steps, "exact", 0) for steps in (8, 12, 16, 24)),
    ("euler", 32, "exact", 0),
    ("euler", 64, "hutchinson", 4),
)
FEW = (
    DEFAULT,
    *(("heun", steps, "exact", 0) for steps in (8, 12, 16, 24)),
    *(("heun", steps, "hutchinson", 4) for steps in (16, 32)),
    *(("heun", 32, "hutchinson", probes) for probes in (1, 8)),
    ("euler", 32, "exact", 0),
)
KEPT = Path("runs/cheap-densities")
LAYERS, WIDTH, BATCH, STEPS = 12, 128, 512, 3_000
"""Of the distilled flow."""
NUM_DISTILLED = 50_000
"""Plain draws that it is fitted to."""

Draw = Callable[[int], tuple[Any, Any]]


def sampler_of(name: str, seconds: float) -> tp.Sampler:
    """A kept fit, a new one, or a run folder."""
    if not name.startswith("mw") or not name[2:].isdigit():
        return tp.load(Path(name))
    target, folder = ManyWell(int(name[2:])), KEPT / name
    if not (folder / "sampler.json").exists():
        tp.fit(target, budget=300_000, seed=0, time_limit=seconds, progress=False).save(folder)
    return tp.load(folder, target)


def row_of(sampler: tp.Sampler, draw: Draw, num_repeats: int) -> dict[str, Any]:
    """One way: seconds, effective share and log Z over repeats."""
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
    off = float(np.mean(log_zs) - target.log_z()) if isinstance(target, ExactTarget) else None
    error = float(np.std(log_zs, ddof=1) / np.sqrt(num_repeats))
    return {
        "seconds": float(np.median(seconds)),
        "ess_fraction": float(np.mean(shares)),
        "log_z_off": off,
        "log_z_error": error,
    }


def by_solver(sampler: tp.Sampler, way: tuple[Any, ...], num: int) -> Draw:
    """Weighted draws of the diffusion in one way."""
    solver, num_steps, divergence, probes = way
    how = {"solver": solver, "num_steps": num_steps, "divergence": divergence, "num_probes": max(1, probes)}
    sampling = dataclasses.replace(sampler.sampling, **how)
    return lambda seed: sampler.model.draw(jax.random.key(seed), num, sampling, with_density=True)


def distilled(sampler: tp.Sampler) -> tuple[Flow, Any, float, float]:
    """A coupling flow of the sampler's plain draws, their scale, and seconds to draw and to fit."""
    begun = time.perf_counter()
    sampling = dataclasses.replace(sampler.sampling, raw_solver=None, raw_num_steps=None)
    x, _ = sampler.model.draw(jax.random.key(77), NUM_DISTILLED, sampling, with_density=False)
    drawn = time.perf_counter() - begun
    scale = jnp.std(x, axis=0)
    rows = x / scale
    flow = Flow(jax.random.key(0), sampler.dim, LAYERS, WIDTH, 2, True)
    arrays, rest = eqx.partition(flow, eqx.is_inexact_array)
    optimiser = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(optax.cosine_decay_schedule(2e-3, STEPS)))

    @jax.jit
    def train(arrays: Any, key: Any) -> Any:
        def step(carry: Any, index: Any) -> Any:
            arrays, memory = carry
            batch = rows[jax.random.randint(jax.random.fold_in(key, index), (BATCH,), 0, NUM_DISTILLED)]
            loss_of = lambda own: -jnp.mean(jax.vmap(eqx.combine(own, rest).log_density)(batch))  # noqa: E731
            gradient = jax.grad(loss_of)(arrays)
            changes, memory = optimiser.update(gradient, memory, arrays)
            return (optax.apply_updates(arrays, changes), memory), None

        return jax.lax.scan(step, (arrays, optimiser.init(arrays)), jnp.arange(STEPS))[0][0]

    begun = time.perf_counter()
    arrays = jax.block_until_ready(train(arrays, jax.random.key(1)))
    return eqx.combine(arrays, rest), scale, drawn, time.perf_counter() - begun


def by_flow(flow: Flow, scale: Any, num: int) -> Draw:
    """Weighted draws of the distilled flow."""

    @jax.jit
    def draw(key: Any) -> tuple[Any, Any]:
        x = flow.sample(key, num)
        return scale * x, jax.vmap(flow.log_density)(x) - jnp.sum(jnp.log(scale))

    return lambda seed: draw(jax.random.key(seed))


def case_of(name: str, given: argparse.Namespace) -> dict[str, Any]:
    """All ways of one sampler."""
    sampler = sampler_of(name, given.seconds)
    rows: list[dict[str, Any]] = []
    for way in FEW if given.few else WAYS:
        how = dict(zip(("solver", "num_steps", "divergence", "num_probes"), way, strict=True))
        rows.append(how | row_of(sampler, by_solver(sampler, way, given.num), given.repeats))
        print(json.dumps({"case": name, **rows[-1]}), flush=True)
    flow, scale, drawn, fitted = distilled(sampler)
    own = {"solver": "distilled flow", "seconds_of_its_draws": drawn, "seconds_of_its_fit": fitted}
    rows.append(own | row_of(sampler, by_flow(flow, scale, given.num), given.repeats))
    print(json.dumps({"case": name, **rows[-1]}), flush=True)
    base = rows[0]["seconds"]
    rows = [row | {"ratio": row["seconds"] / base} for row in rows]
    own = {"case": name, "dim": sampler.dim, "evaluations": sampler.evaluations, "fit_ess": sampler.ess_fraction}
    return own | {"rows": rows}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("cases", nargs="+", help="mw16, mw32, …, or run folders")
    options.add_argument("--num", type=int, default=8_000)
    options.add_argument("--repeats", type=int, default=4)
    options.add_argument("--seconds", type=float, default=500.0, help="limit of a fit that is missing")
    options.add_argument("--few", action="store_true", help="ten ways of 25")
    options.add_argument("--out", type=Path, default=None)
    given = options.parse_args()
    content: dict[str, Any] = {"command": " ".join(["python", "benchmarks/cheap_densities.py", *sys.argv[1:]])}
    content |= {"commit": commit(), "device": jax.devices()[0].device_kind, "num": given.num, "repeats": given.repeats}
    known = json.loads(given.out.read_text())["cases"] if given.out is not None and given.out.exists() else []
    content["cases"] = known  # a case that is there is not made again
    for name in given.cases:
        if all(case["case"] != name for case in known):
            known.append(case_of(name, given))
        if given.out is not None:
            given.out.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
