"""Ways to extrapolate for a Lennard-Jones cluster: models of T = 2 and T = 1.5 asked for T = 1, as one JSON and one
figure of interatomic distances (the paper's illustration).

    python benchmarks/lj_extrapolation.py --out results/lj55-extrapolation.json --figure docs/figures/lj55-ways.png

Settings are those of the preset `lj55-extrapolation`: long parallel tempering at the two temperatures, then one network
that is told the temperature (ME, AD) and two that are not (RS, FD), all trained for as many steps. Draws are raw, and
compared with kept reference samples (`tempering reference lj55`), which are made if there are none. Every stage tells
how long it took; figures so far are written after each way. Another cluster is two changes:

    --set target.arguments.num_particles=13 network.num_particles=13
"""

import argparse
import dataclasses
import json
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from measure import commit

from tempering.buffer import Levels
from tempering.diffusion import fit_networks
from tempering.diffusion.calibrate import dataset_of, stack, unstack
from tempering.diffusion.networks import make_network
from tempering.guidance.choose import candidates
from tempering.lab.extrapolation import WAYS as EVERY_WAY
from tempering.lab.metrics import energy_tvd
from tempering.lab.metrics.particles import distance_tvd, pair_distances
from tempering.lab.presets import preset
from tempering.lab.reference import Reference, cached_reference, load_reference
from tempering.methods.begin import begin
from tempering.methods.explore import explore
from tempering.registry import target_of
from tempering.runs.config import with_changes
from tempering.runs.ledger import Ledger
from tempering.settings import Guidance, PTSDSettings
from tempering.types import ignore_event

WAYS = {
    "me": ("ME", Guidance("conditioned", "T", is_anticipating=False)),
    "ad": ("AD in T", Guidance("autodiff", "T", is_anticipating=False)),
    "rs": ("RS", Guidance("rescale", "T", is_anticipating=False)),
    "fd": ("temperature guidance, FD in T (paper)", Guidance("finite_difference", "T", is_anticipating=False)),
    "fd-log": ("temperature guidance, FD in log T", Guidance("finite_difference", "log_T", is_anticipating=False)),
    "none": ("T = 1.5 as it is", Guidance("none", "T", is_anticipating=False)),
}
SHARED = ("me", "ad")


class Stages:
    """Seconds by stage, told as they pass."""

    def __init__(self):
        self.seconds: dict[str, float] = {}
        self._last = self._begun = time.perf_counter()

    def done(self, stage: str, remark: str = "") -> None:
        now = time.perf_counter()
        self.seconds[stage] = round(now - self._last, 1)
        self._last = now
        line = f"{now - self._begun:6.0f} s  {stage}, {self.seconds[stage]:.1f} s"
        print(line + (f": {remark}" if remark else ""), flush=True)


def reference_of(config, options: argparse.Namespace) -> Reference:
    """Kept samples at T = 1, of a larger set if there is one, or new ones."""
    found = load_reference(config.target, options.num_reference)
    if found is not None:
        return found
    sizes = {"num_chains": options.reference_chains, "num_steps": options.reference_steps}
    return cached_reference(config.target, options.num_reference, **sizes)[0]


def explored(key, target, settings, ledger: Ledger) -> Levels:
    """The two hot levels, by the preset's initial PT, and T = 1 as the level to reach."""
    run = begin(target, key, settings, 2, None, ledger, None, ignore_event)
    *hot, aim = run.start.temperatures
    levels = explore(run, tuple(hot), keep=2)
    for record in run.journal.ordered():
        print(f"          T = {record.temperature}: R-hat {record.rhat}, acceptance {record.acceptance}", flush=True)
    return levels.towards(aim)


def trained(key, target, settings, hot: Levels, stages: Stages) -> dict[bool, tuple]:
    """The networks by whether one serves both temperatures; hottest first."""
    key_network, key_shared, key_apart = jax.random.split(key, 3)

    def data_of(levels: list[int]):
        kept = tuple(hot.buffers[level] for level in levels)
        return dataset_of(settings.noise, kept, hot.betas[jnp.asarray(levels)], hot.sigma_max, use_gradients=True)

    def fit(key, is_shared: bool, parts: list[list[int]]) -> tuple:
        network = dataclasses.replace(settings.network, is_shared=is_shared)
        first = make_network(key_network, target.dim, network)
        data, keys = stack(*(data_of(levels) for levels in parts)), jax.random.split(key, len(parts))
        networks = stack(*[first] * len(parts))
        steps = settings.training.num_steps
        networks, _ = fit_networks(keys, networks, data, settings.training, num_steps=steps)
        jax.block_until_ready(networks)
        title = "training of one network for both temperatures" if is_shared else "training of one for each"
        stages.done(title, f"{len(parts) * steps:,} steps of batch {settings.training.batch_size}")
        return unstack(networks, len(parts))

    return {True: fit(key_shared, True, [[0, 1]]), False: fit(key_apart, False, [[0], [1]])}


def measured(target, points: np.ndarray, reference: np.ndarray) -> dict:
    """Energy and distance TVD of centred configurations."""
    energies = jax.jit(lambda x: -jax.lax.map(target.target.log_density, x, batch_size=1000))
    ours, theirs = (np.asarray(energies(jnp.asarray(x, jnp.float32))) for x in (points, reference))
    return {
        "energy_tvd": energy_tvd(ours, theirs),
        "distance_tvd": float(distance_tvd(points, reference, **target.geometry.as_dict())),
        "median_energy": float(np.median(ours)),
    }


def figure_of(rows: dict, distances: dict[str, np.ndarray]) -> bytes:
    """A panel a way: its distances over the reference's."""
    from tempering.plots.style import DRAWS, FAINT, MUTED, png_of, render

    def fill(figure) -> None:
        edges = np.linspace(0.0, np.quantile(distances["reference"], 0.9999) * 1.15, 161)
        panels = figure.subplots(2, 3, sharex=True, sharey=True)
        for axes, (way, (title, _)) in zip(panels.flat, WAYS.items(), strict=True):
            axes.hist(distances["reference"], edges, density=True, color=FAINT, label="reference, T = 1")
            axes.hist(distances[way], edges, density=True, histtype="step", color=DRAWS, label="draws")
            outside = np.mean(distances[way] > edges[-1])
            figures = f"distance TVD {rows[way]['distance_tvd']:.3f}, energy TVD {rows[way]['energy_tvd']:.2f}"
            axes.set_title(f"{title}\n{figures}", loc="left")
            if outside > 0.0005:
                axes.text(0.99, 0.6, f"{outside:.1%} outside", transform=axes.transAxes, ha="right", color=MUTED)
        panels[0, 0].legend(frameon=False)
        for axes in panels[:, 0]:
            axes.set_ylabel("density")
        for axes in panels[1]:
            axes.set_xlabel("distance of two particles")

    return png_of(render(11.0, 5.4, fill))


def write(options, config, ledger: Ledger, reference: Reference, stages: Stages, rows: dict) -> None:
    """The figures so far."""
    content = {
        "command": " ".join(["python", *sys.argv]),
        "commit": options.commit or commit(),
        "device": jax.devices()[0].device_kind,
        "seed": options.seed,
        "num_draws": options.num,
        "num_particles": config.settings.network.num_particles,
        "temperatures": list(config.settings.ladder.temperatures),
        "evaluations": ledger.total,
        "reference": {"num": len(reference.positions), "is_converged": reference.is_converged},
        "seconds": round(sum(stages.seconds.values()), 1),
        "seconds_by_stage": stages.seconds,
        "ways": rows,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(content, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="lj55-extrapolation")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--num", type=int, default=2_000, help="draws of every way")
    parser.add_argument("--num-reference", type=int, default=10_000, help="reference samples")
    parser.add_argument("--reference-chains", type=int, default=None, help="of a reference that has to be made")
    parser.add_argument("--reference-steps", type=int, default=None, help="of a reference that has to be made")
    parser.add_argument("--set", nargs="*", default=[], help="changes of settings, as in `tempering run`")
    parser.add_argument("--commit", default=None, help="where the tree is not a git checkout")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args()
    config = with_changes(preset(options.preset), options.set)
    assert isinstance(config.settings, PTSDSettings)
    settings, target, ledger, stages = config.settings, target_of(config), Ledger(), Stages()
    reference = reference_of(config, options)
    stages.done("reference", "converged" if reference.is_converged else "NOT converged")
    key_data, key_train, key_draw = jax.random.split(jax.random.key(options.seed), 3)
    levels = explored(key_data, target, settings, ledger)
    stages.done("parallel tempering", f"{ledger.total:,} evaluations")
    networks = trained(key_train, target, settings, levels, stages)
    assert target.geometry is not None
    particles = target.geometry.as_dict()
    distances = {"reference": np.ravel(pair_distances(reference.positions[: options.num], **particles))}
    rows = {}
    for way, (title, guidance) in WAYS.items():
        network = dataclasses.replace(settings.network, is_shared=way in SHARED)
        chosen = dataclasses.replace(settings, guidance=guidance, network=network)
        trained_levels = dataclasses.replace(levels, networks=networks[way in SHARED])
        (model,) = candidates(trained_levels, chosen, EVERY_WAY).values()
        inner, _ = model.draw(key_draw, options.num, settings.sampling.raw, with_density=False)
        points = np.asarray(jax.vmap(target.geometry.embed)(inner))
        stages.done(f"draws by {title}")
        distances[way] = np.ravel(pair_distances(points, **particles))
        rows[way] = measured(target, points, reference.positions)
        stages.done(f"metrics of {title}", ", ".join(f"{name} {value:.4g}" for name, value in rows[way].items()))
        write(options, config, ledger, reference, stages, rows)
    if options.figure:
        options.figure.parent.mkdir(parents=True, exist_ok=True)
        options.figure.write_bytes(figure_of(rows, distances))


if __name__ == "__main__":
    main()
