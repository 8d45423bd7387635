"""The paper's illustration: models of LJ-55 at T = 2 and 1.5 asked for T = 1, without correction.

Settings are those of the preset `lj55-extrapolation`, which a GPU makes in minutes, or of the paper's own column
(`lj55-paper-illustrative`), which takes hours: long parallel tempering at the two temperatures, then one network that
is told the temperature and two that are not, trained for as many steps. Raw draws are compared with reference samples
by energies and interatomic distances; so are the buffers with the models of their own temperatures.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tempering.lab.metrics import energy_tvd
from tempering.lab.metrics.particles import distance_tvd, pair_distances
from tempering.lab.metrics.suite import log_densities
from tempering.lab.presets import preset
from tempering.lab.reference import load_reference
from tempering.lab.reproduce.cells import Cell
from tempering.lab.reproduce.pictures import histogram
from tempering.lab.reproduce.two_levels import GUIDANCE, model_by, trained
from tempering.lab.reproduce.variants import config_of, quick
from tempering.methods.begin import begin
from tempering.methods.explore import explore
from tempering.methods.model import model_of_buffer
from tempering.registry import target_of
from tempering.runs.config import RunConfig, TargetConfig
from tempering.runs.ledger import Ledger
from tempering.settings import PTSDSettings
from tempering.types import Event, OnEvent

__all__ = ["NAMES", "illustrated", "num_reference", "settings_of", "target_of_cell"]

NAMES = ("lj55", "lj55-paper")
"""Of its cells: our settings, and the paper's."""

_NUM_DISTANCES = 500
"""Configurations whose distances the figure shows."""


def _config(cell: Cell) -> RunConfig:
    if cell.name == "lj55-paper":
        return config_of(Cell("fit", "lj55-paper-illustrative", cell.seed, None, cell.is_quick))
    config = preset("lj55-extrapolation")
    return quick(config) if cell.is_quick else config


def target_of_cell(cell: Cell) -> TargetConfig:
    """LJ-55, or the smaller cluster of the quick version."""
    return _config(cell).target


def settings_of(cell: Cell) -> list[Any]:
    """All that the record depends on but the seed."""
    config = _config(cell)
    return [config.target, config.settings, _num_draws(cell), num_reference(cell)]


def _num_draws(cell: Cell) -> int:
    return 200 if cell.is_quick else 2_000


def num_reference(cell: Cell) -> int:
    """Reference samples that it is compared with."""
    return 800 if cell.is_quick else 10_000


def illustrated(cell: Cell, on_event: OnEvent) -> dict[str, Any]:
    """The record: energy and distance TVD of every way, and of the models at their own temperatures."""
    config, ledger = _config(cell), Ledger()
    target, settings, num = target_of(config), config.settings, _num_draws(cell)
    assert isinstance(settings, PTSDSettings) and target.geometry is not None
    found = load_reference(config.target, num_reference(cell))
    assert found is not None
    particles, embed = target.geometry.as_dict(), jax.jit(jax.vmap(target.geometry.embed))
    key_data, key_train, key_draw = jax.random.split(jax.random.key(cell.seed), 3)

    def tell(stage: str, done: int, total: int) -> None:
        on_event(Event(stage, 0, 1, done, total, ledger.total, ledger.total))

    tell("parallel tempering", 0, 1)
    run = begin(target, key_data, settings, 2, None, ledger, None, on_event)
    *hot, aim = run.start.temperatures
    levels = explore(run, tuple(hot), keep=2)
    steps = settings.training.num_steps
    networks = trained(key_train, target.dim, settings, levels, lambda step, loss: tell("training", step, steps))
    limits = (0.0, 1.15 * float(np.quantile(pair_distances(found.positions[:_NUM_DISTANCES], **particles), 0.9999)))

    def shown(points: np.ndarray) -> dict[str, Any]:
        return histogram(np.ravel(pair_distances(points[:_NUM_DISTANCES], **particles)), limits)

    record: dict[str, Any] = {"evaluations": ledger.total, "metrics": {}, "ways": {}, "temperatures": [*hot, aim]}
    record["is_reference_converged"] = found.is_converged
    record["data"] = {"limits": list(limits), "reference": shown(found.positions)}
    for level, temperature in enumerate(hot):
        buffer, network = levels.buffers[level], networks[False][level]
        model = model_of_buffer(settings.noise, buffer, levels.sigma_max, network, has_gradients=True)
        points, _ = model.draw(key_draw, num, settings.sampling.raw, with_density=False)
        record["data"][f"model at {temperature:g}"] = shown(np.asarray(embed(points)))
        record["data"][f"buffer at {temperature:g}"] = shown(np.asarray(embed(buffer.position)))
    towards = levels.towards(aim)
    for way in GUIDANCE:
        tell(f"draws by {way}", 0, 1)
        inner, _ = model_by(way, towards, settings, networks).draw(
            key_draw, num, settings.sampling.raw, with_density=False
        )
        points = np.asarray(embed(inner))
        record["ways"][way] = _measured(target, points, found.positions, particles)
        record["data"][way] = shown(points)
    half = len(found.positions) // 2
    record["floor"] = _measured(target, found.positions[:half][:num], found.positions[half:], particles)
    record["settings"] = {"num_draws": num, "training": dataclasses.asdict(settings.training)}
    return record


def _measured(target: Any, points: np.ndarray, reference: np.ndarray, particles: dict[str, int]) -> dict[str, float]:
    """Energy and distance TVD of centred configurations."""
    ours, theirs = (
        -np.asarray(log_densities(target.target, jnp.asarray(x, jnp.float32)), np.float64) for x in (points, reference)
    )
    return {
        "energy_tvd": energy_tvd(ours, theirs),
        "distance_tvd": float(distance_tvd(points, reference, **particles)),
        "median_energy": float(np.median(ours)),
    }
