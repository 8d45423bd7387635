"""The paper's ablation of extrapolation: models of T = 1 and 1.3 asked for T = 0.1, on five targets.

Models of MoG-40 and Many-Well learn exact samples, those of particles the states of parallel tempering at the two
temperatures. The truth is the paper's: long chains at T = 0.1 from samples of T = 1, which keep every mode's weight of
T = 1. Every way is judged by the energy TVD (200 bins) against it, without correction; then Langevin steps move the
draws, with the truth's own step size, and the first number of steps within half as much again of the floor is kept.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tempering.buffer import Levels
from tempering.diffusion.calibrate import largest_sigma
from tempering.lab.metrics import energy_tvd
from tempering.lab.presets import preset
from tempering.lab.reference import load_reference
from tempering.lab.reproduce.cells import Cell
from tempering.lab.reproduce.pictures import histogram
from tempering.lab.reproduce.truth import ManyWellTruth, MixtureTruth, exact_buffer, moved
from tempering.lab.reproduce.two_levels import GUIDANCE, model_by, trained
from tempering.methods.begin import begin
from tempering.methods.explore import explore
from tempering.plots.style import show_some, window
from tempering.registry import make_target
from tempering.runs.config import TargetConfig
from tempering.runs.ledger import Ledger
from tempering.settings import Initial, Ladder, Network, Noise, PTSDSettings, Sampling, Training, resolved
from tempering.targets import Target, in_inner_coordinates
from tempering.types import Array, Event, Key, OnEvent
from tempering.weights.resample import evened

__all__ = ["MARKS", "TARGETS", "Sizes", "extrapolated", "sizes_of"]

HOT, COLD, AIM = 1.3, 1.0, 0.1
MARKS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000)
"""Langevin steps after which draws are looked at."""
_NEAR = 1.5
"""Times the floor, at which draws count as having reached the truth."""

TARGETS = {
    "mog40": TargetConfig("mog40"),
    "dw4": TargetConfig("dw4"),
    "lj13": TargetConfig("lj", {"num_particles": 13}),
    "lj55": TargetConfig("lj", {"num_particles": 55}),
    "mw32": TargetConfig("many_well", {"dim": 32}),
}
_TRUTHS = {"mog40": MixtureTruth, "mw32": ManyWellTruth}


@dataclass(frozen=True)
class Sizes:
    """How much work a cell is.

    Args:
        num_steps: of the optimiser, for each of the two fits.
        batch_size: of training.
        num_samples: to learn from at each temperature.
        num_draws: of every way, and samples of the truth.
        num_solver: steps of the solver.
        num_truth: MCMC steps to the truth.
        width: of the network; None is that of the preset or the default.
    """

    num_steps: int = 3_000
    batch_size: int | None = None
    num_samples: int = 10_000
    num_draws: int = 4_000
    num_solver: int | None = None
    num_truth: int = 4_000
    width: int | None = None


def sizes_of(cell: Cell) -> Sizes:
    """The sizes of a cell, by target and whether it is the quick one."""
    is_of_particles = cell.name not in _TRUTHS
    if cell.is_quick:
        return Sizes(200, 32 if is_of_particles else 256, 600, 400, 20, 400, 32)
    if cell.name == "lj55":
        return Sizes(num_steps=8_000, num_samples=10_000, num_draws=1_000, num_truth=10_000)
    return Sizes(num_steps=8_000) if is_of_particles else Sizes(num_samples=20_000, num_draws=10_000, num_truth=1_000)


def extrapolated(cell: Cell, on_event: OnEvent) -> dict[str, Any]:
    """The record of one target and seed: energy TVD and Langevin steps of every way, with small data for the figure."""
    target = in_inner_coordinates(make_target(TARGETS[cell.name].name, **TARGETS[cell.name].arguments))
    sizes, ledger = sizes_of(cell), Ledger()
    settings = _settings(cell.name, target, sizes)
    key_data, key_train, key_truth, key_draw, key_move = jax.random.split(jax.random.key(cell.seed), 5)

    def tell(stage: str, done: int, total: int) -> None:
        on_event(Event(stage, 0, 1, done, total, ledger.total, ledger.total))

    tell("samples of two temperatures", 0, 1)
    levels, start = _learned_from(key_data, cell, target, settings, sizes, ledger)
    tell("truth at T = 0.1", 0, 1)
    truth = moved(key_truth, target, start, 1 / AIM, (sizes.num_truth // 2, sizes.num_truth), ledger)
    both = truth.energies[sizes.num_truth]
    energies, others = both[: sizes.num_draws], both[sizes.num_draws :]
    check = lambda step, loss: tell("training", step, sizes.num_steps)  # noqa: E731
    networks = trained(key_train, target.dim, settings, levels, check)
    floor = energy_tvd(others, energies)
    record: dict[str, Any] = {
        "evaluations": ledger.total,
        "floor": floor,
        "truth_drift": energy_tvd(truth.energies[sizes.num_truth // 2][sizes.num_draws :], energies),
        "ways": {},
        "metrics": {},
    }
    limits = window([energies], tail=0.001, margin=1.0)
    record["data"] = {"limits": list(limits), "truth": histogram(energies, limits)}
    record["data"]["points"] = {"truth": _shown(truth.position[: sizes.num_draws])}
    for way in GUIDANCE:
        tell(f"draws by {way}", 0, 1)
        model = model_by(way, levels, settings, networks)
        points, _ = model.draw(key_draw, sizes.num_draws, settings.sampling.raw, with_density=False)
        later = moved(key_move, target, points, 1 / AIM, MARKS, ledger, truth.step_size)
        curve = {str(mark): energy_tvd(own, energies) for mark, own in later.energies.items()}
        near = [mark for mark in MARKS if curve[str(mark)] <= _NEAR * floor]
        record["ways"][way] = {"energy_tvd": curve["0"], "curve": curve, "steps_to_truth": near[0] if near else None}
        record["data"][way] = histogram(later.energies[0], limits)
        record["data"]["points"][way] = _shown(points)
    record["evaluations_of_chains"] = ledger.points["metrics"]
    return record


def _shown(points: Array) -> list[list[float]]:
    some = show_some(np.asarray(points)[:, :2].astype(float), 400)
    return np.round(np.where(np.isfinite(some), some, 1e6), 2).tolist()


def _settings(name: str, target: Target, sizes: Sizes) -> PTSDSettings:
    if name in _TRUTHS:
        network = Network(width=sizes.width or 128, depth=3, coordinate_width=24, is_shared=False)
        training = Training(patience=0)
        settings = PTSDSettings(
            network=network,
            noise=Noise(),
            training=training,
            sampling=Sampling(divergence="exact", num_steps=40),
            guidance=GUIDANCE["fd"],
        )
    else:
        base = preset("lj55-extrapolation").settings
        assert isinstance(base, PTSDSettings) and target.geometry is not None
        geometry = target.geometry
        network = resolved(PTSDSettings(), target.dim, geometry.num_particles, geometry.spatial_dim).network
        width = network.width if sizes.width is None else min(network.width, sizes.width)
        network = dataclasses.replace(network, is_shared=False, width=width)
        settings = dataclasses.replace(base, network=network, ladder=Ladder(temperatures=(HOT, COLD)))
        settings = _with_chains(settings, sizes)
        training = settings.training
    fields: dict[str, Any] = {"num_steps": sizes.num_steps, "check_every": min(250, sizes.num_steps)}
    if sizes.batch_size is not None:
        fields["batch_size"] = sizes.batch_size
    sampling = settings.sampling
    if sizes.num_solver is not None:
        sampling = dataclasses.replace(sampling, num_steps=sizes.num_solver, chunk_size=min(500, sampling.chunk_size))
    return dataclasses.replace(settings, training=dataclasses.replace(training, **fields), sampling=sampling)


def _with_chains(settings: PTSDSettings, sizes: Sizes) -> PTSDSettings:
    """Initial chains that leave `num_samples` states; the preset's own where they are as many."""
    if sizes.num_samples >= settings.buffer_size:
        return settings
    chains, draws = 20, -(-sizes.num_samples // 20)
    initial = Initial(num_chains=chains, num_steps=100 + 2 * draws, burn_in=100, thin=2)
    pilot = dataclasses.replace(settings.pilot, num_chains=16, max_rounds=2)
    return dataclasses.replace(settings, buffer_size=sizes.num_samples, initial=initial, pilot=pilot)


def _learned_from(
    key: Key, cell: Cell, target: Target, settings: PTSDSettings, sizes: Sizes, ledger: Ledger
) -> tuple[Levels, Array]:
    """The two levels with the aim before them, and samples of T = 1, for the truth and for its floor."""
    if cell.name in _TRUTHS:
        make = _TRUTHS[cell.name]
        # Seeds of NumPy's generator: apart for the temperatures and the truth.
        buffers = [
            exact_buffer(make(target, 1 / t), 10 * cell.seed + i, sizes.num_samples) for i, t in enumerate((HOT, COLD))
        ]
        sigma_max = largest_sigma(settings.noise, buffers[0])
        levels = Levels((HOT, COLD, AIM), tuple(buffers), jnp.zeros(2), sigma_max)
        cold = exact_buffer(make(target, 1 / COLD), 10 * cell.seed + 4, 2 * sizes.num_draws)
        return levels, evened(key, cold, "systematic").position
    run = begin(target, key, settings, 2, None, ledger, None, lambda event: None)
    levels = explore(run, tuple(run.start.temperatures), keep=2)
    found = load_reference(TARGETS[cell.name], 2 * sizes.num_draws)
    assert found is not None and target.geometry is not None
    start = jax.vmap(target.geometry.restrict)(jnp.asarray(found.positions, jnp.float32))
    return levels.towards(AIM), start
