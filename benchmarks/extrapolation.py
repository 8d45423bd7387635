"""Ways to extrapolate to a lower temperature, compared: models of T = 1 and T = 1.3 asked for T = 0.1 (the paper's
appendix), as one JSON and one figure.

    python benchmarks/extrapolation.py --out results/extrapolation.json --figure docs/figures/extrapolation.png

The models learn exact samples, weighted, so that what is compared is extrapolation alone. One network that is told the
temperature learns both (ME, AD); two that are not, with the same weights to start from, learn one temperature each
(RS, FD). Every fit sees as many batches. What a way is judged by, at T = 0.1 and without any correction:

- energy TVD (200 bins) and W1 of energies against exact samples; the energy TVD also against the paper's ground truth,
  MCMC at T = 0.1 from samples of T = 1, which leaves every mode the weight that it has at T = 1;
- mode weights (MoG-40, total variation) or the largest error of a well's weight (Many-Well-32), exact at T = 0.1;
- the effective share of importance weights towards T = 0.1, of draws of their own. Draws that miss modes do not show
  it there: a large share means little where the modes' weights are wrong.

`--no-runs` draws the figure from what an earlier run left in `--folder`.
"""

import argparse
import dataclasses
import json
import math
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from extrapolation_figure import WAYS, draw
from extrapolation_truth import ManyWellTruth, MixtureTruth, exact_buffer, local_truth

from tempering.buffer import Buffer, Levels
from tempering.diffusion import DiffusionModel, fit_networks
from tempering.diffusion.calibrate import dataset_of, largest_sigma, stack, unstack
from tempering.diffusion.networks import make_network
from tempering.guidance.choose import candidates
from tempering.lab.extrapolation import WAYS as EVERY_WAY
from tempering.lab.metrics import (
    energy_tvd,
    energy_wasserstein_1,
    estimated_region_weights,
    max_region_error,
    region_tv,
)
from tempering.registry import make_target
from tempering.runs.ledger import Ledger
from tempering.settings import Guidance, Network, Noise, PTSDSettings, Sampling, Training
from tempering.weights.resample import evened
from tempering.weights.weigh import weigh

HOT, COLD, AIM = 1.3, 1.0, 0.1
GUIDANCE = {
    "me": Guidance("conditioned", "T", is_anticipating=False),
    "ad": Guidance("autodiff", "T", is_anticipating=False),
    "ad-log": Guidance("autodiff", "log_T", is_anticipating=False),
    "rs": Guidance("rescale", "T", is_anticipating=False),
    "fd": Guidance("finite_difference", "T", is_anticipating=False),
    "fd-log": Guidance("finite_difference", "log_T", is_anticipating=False),
    "none": Guidance("none", "T", is_anticipating=False),
}
"""`none` is the model of T = 1 as it is: what a way has to beat."""
SHARED = ("me", "ad", "ad-log")
METRICS = ("energy_tvd", "energy_tvd_local", "energy_w1", "region_error", "ess_fraction")


@dataclass(frozen=True)
class Sizes:
    """Of one run, whatever the target."""

    num_steps: int
    num_samples: int
    num_draws: int
    num_weighed: int
    num_mcmc: int


@dataclass(frozen=True)
class Case:
    """A target, its truth at any temperature, and the network for it."""

    target: Any
    truth: type
    network: Network


def cases() -> dict[str, Case]:
    network = Network(width=128, depth=3, coordinate_width=24, is_shared=False)
    return {
        "mog40": Case(make_target("mog40"), MixtureTruth, network),
        "mw32": Case(make_target("many_well", dim=32), ManyWellTruth, network),
    }


def settings_of(network: Network, way: str, sizes: Sizes) -> PTSDSettings:
    return PTSDSettings(
        network=dataclasses.replace(network, is_shared=way in SHARED),
        noise=Noise(),
        training=Training(num_steps=sizes.num_steps, patience=0, check_every=min(250, sizes.num_steps)),
        sampling=Sampling(num_steps=40, divergence="exact"),
        guidance=GUIDANCE[way],
    )


def train(key, case: Case, buffers: tuple[Buffer, Buffer], sizes: Sizes) -> dict[bool, tuple]:
    """The networks, by whether one serves both temperatures; hottest first."""
    key_network, key_shared, key_apart = jax.random.split(key, 3)
    settings, betas = settings_of(case.network, "fd", sizes), jnp.asarray([1 / HOT, 1 / COLD])
    noise, sigma_max = settings.noise, largest_sigma(settings.noise, buffers[0])

    def data_of(levels: list[int]):
        kept = tuple(buffers[level] for level in levels)
        return dataset_of(noise, kept, betas[jnp.asarray(levels)], sigma_max, use_gradients=True)

    def fit(key, way: str, parts: list[list[int]]) -> tuple:
        first = make_network(key_network, case.target.dim, settings_of(case.network, way, sizes).network)
        data = stack(*(data_of(levels) for levels in parts))
        keys = jax.random.split(key, len(parts))
        networks = stack(*[first] * len(parts))
        return unstack(fit_networks(keys, networks, data, settings.training, num_steps=sizes.num_steps)[0], len(parts))

    return {True: fit(key_shared, "me", [[0, 1]]), False: fit(key_apart, "fd", [[0], [1]])}


def model_of(case: Case, buffers: tuple[Buffer, Buffer], networks: dict, way: str, sizes: Sizes) -> DiffusionModel:
    """The model at T = 0.1: its noise range and prior are what is known from T = 1, the same for every way."""
    settings, no_steps = settings_of(case.network, way, sizes), jnp.zeros(2)
    sigma_max = largest_sigma(settings.noise, buffers[0])
    levels = Levels((HOT, COLD, AIM), buffers, no_steps, sigma_max, networks[way in SHARED])
    (model,) = candidates(levels, settings, EVERY_WAY).values()
    return model


@eqx.filter_jit
def _energies(target, x):
    return -jax.lax.map(target.log_density, x, batch_size=4096)


def energies_of(target, x) -> np.ndarray:
    return np.asarray(_energies(target, jnp.asarray(x, jnp.float32)))


def judge(target, points, exact_weights: np.ndarray, exact_energies: np.ndarray, local_energies: np.ndarray) -> dict:
    """The metrics of unweighted points."""
    energies = energies_of(target, points)
    error = region_tv if target.regions_partition else max_region_error
    is_finite = bool(np.all(np.isfinite(energies)))
    return {
        "energy_tvd": energy_tvd(energies, exact_energies),
        "energy_tvd_local": energy_tvd(energies, local_energies),
        "energy_w1": energy_wasserstein_1(energies, exact_energies) if is_finite else None,
        "region_error": error(estimated_region_weights(target, points), exact_weights),
        "share_nonfinite": float(np.mean(~np.isfinite(energies))),
    }


def run_case(name: str, case: Case, seed: int, sizes: Sizes, folder: Path) -> list[dict]:
    """All ways on one target, the truths' own errors among them; points for the figure go to `folder`."""
    key = jax.random.key(seed)
    key_train, key_exact, key_other, key_local, key_draw, key_weigh = jax.random.split(key, 6)
    begun = time.perf_counter()
    aim = case.truth(case.target, 1 / AIM)
    at = {temperature: case.truth(case.target, 1 / temperature) for temperature in (HOT, COLD)}
    # Seeds of NumPy's generator: apart for the temperatures and for training and judging.
    hot, cold = (exact_buffer(at[t], 10 * seed + i, sizes.num_samples) for i, t in enumerate((HOT, COLD)))
    buffers = (hot, cold)
    sets = [exact_buffer(aim, 10 * seed + 2 + i, sizes.num_draws) for i in (0, 1)]
    exact, other = (evened(k, s, "systematic").position for k, s in zip((key_exact, key_other), sets, strict=True))
    start = evened(key_local, exact_buffer(at[COLD], 10 * seed + 4, sizes.num_draws), "systematic").position
    local = local_truth(key_local, case.target, start, 1 / AIM, sizes.num_mcmc)
    facts = (aim.region_weights(), energies_of(case.target, exact), energies_of(case.target, local))
    points = {"exact": exact, "local": local}
    rows = [
        {"way": "floor", **judge(case.target, other, *facts)},
        {"way": "local", **judge(case.target, local, *facts)},
    ]
    networks = train(key_train, case, buffers, sizes)
    print(f"{name} seed {seed}: trained after {time.perf_counter() - begun:.0f} s", flush=True)
    sampling, ledger = settings_of(case.network, "fd", sizes).sampling, Ledger()
    for way in GUIDANCE:
        model = model_of(case, buffers, networks, way, sizes)
        points[way], _ = model.draw(key_draw, sizes.num_draws, sampling, with_density=False)
        x, log_q = model.draw(key_weigh, sizes.num_weighed, sampling, with_density=True)
        weighted = weigh(case.target, x, log_q, jnp.asarray(1 / AIM), ledger=ledger, stage="metrics")
        values = judge(case.target, points[way], *facts)
        rows.append({"way": way, **values, "ess_fraction": weighted.ess_fraction})
        print(name, seed, rows[-1], f"{time.perf_counter() - begun:.0f} s", flush=True)
    keep_points(folder, name, case.target, points)
    seconds = round(time.perf_counter() - begun, 1)
    return [{"target": name, "seed": seed, **row, "seconds": seconds} for row in rows]


def keep_points(folder: Path, name: str, target, points: dict) -> None:
    """What the figure shows: the first two coordinates and the energy."""
    folder.mkdir(parents=True, exist_ok=True)
    shown = {
        way: np.column_stack([np.asarray(x)[:, :2], energies_of(target, x)]).astype(np.float32)
        for way, x in points.items()
    }
    np.savez_compressed(folder / f"{name}.npz", allow_pickle=False, **shown)


def summarise(rows: list[dict]) -> list[dict]:
    """Mean and standard error over seeds; a metric that a seed has no value of is None."""
    table = []
    for name, way in dict.fromkeys((row["target"], row["way"]) for row in rows):
        mine = [row for row in rows if (row["target"], row["way"]) == (name, way)]
        entry: dict = {"target": name, "way": way, "num_seeds": len(mine)}
        for metric in METRICS:
            values = [row[metric] for row in mine if row.get(metric) is not None]
            entry[metric] = mean_and_error(values) if len(values) == len(mine) else None
        table.append(entry)
    return table


def mean_and_error(values: list[float]) -> dict:
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
    return {"mean": statistics.fmean(values), "error": error}


def commit() -> str:
    found = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


def options_of() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--figure", type=Path, help="from the last seed")
    parser.add_argument("--targets", nargs="+", default=["mog40", "mw32"], choices=["mog40", "mw32"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--steps", type=int, default=3000, help="optimiser steps of every fit")
    parser.add_argument("--num-samples", type=int, default=20_000, help="exact samples to learn from, a temperature")
    parser.add_argument("--num-draws", type=int, default=10_000)
    parser.add_argument("--num-weighed", type=int, default=2_000, help="draws with densities, for the effective share")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that the script runs, no more")
    parser.add_argument("--folder", type=Path, default=Path("runs/extrapolation"))
    parser.add_argument("--no-runs", action="store_true", help="only draw the figure")
    parser.add_argument("--commit", default=None, help="where the tree is not a git checkout")
    return parser.parse_args()


def main() -> None:
    options = options_of()
    if not options.no_runs:
        sizes = Sizes(options.steps, options.num_samples, options.num_draws, options.num_weighed, 1000)
        if options.quick:
            sizes = Sizes(50, 1000, 500, 50, 50)
        known = cases()
        jobs = [(name, seed) for name in options.targets for seed in options.seeds]
        rows = [row for name, seed in jobs for row in run_case(name, known[name], seed, sizes, options.folder)]
        content = {
            "command": " ".join(["python", *sys.argv]),
            "commit": options.commit or commit(),
            "device": jax.devices()[0].device_kind,
            "jax": jax.__version__,
            "temperatures": {"learned": [COLD, HOT], "asked": AIM},
            "seeds": options.seeds,
            "sizes": vars(sizes),
            "networks": {name: vars(known[name].network) for name in options.targets},
            "ways": WAYS,
            "summary": summarise(rows),
            "runs": rows,
        }
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(content, indent=1) + "\n")
    if options.figure:
        content = json.loads(options.out.read_text())
        points = {name: dict(np.load(options.folder / f"{name}.npz")) for name in content["networks"]}
        options.figure.parent.mkdir(parents=True, exist_ok=True)
        options.figure.write_bytes(draw(content, points))


if __name__ == "__main__":
    main()
