"""The work of a cell, by its kind: from a folder that may hold some of it already, to a record.

A folder holds the run itself in `run`, with its own way to go on where it was, and `record.json` when all is done.
"""

import dataclasses
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

from tempering.lab.many_draws import many_dihedrals
from tempering.lab.reference import cached_reference, load_reference
from tempering.lab.reproduce import illustration, refit
from tempering.lab.reproduce.cells import Cell, digest
from tempering.lab.reproduce.extrapolating import extrapolated, sizes_of
from tempering.lab.reproduce.pictures import picture_data
from tempering.lab.reproduce.records import short_result
from tempering.lab.reproduce.variants import config_of
from tempering.lab.run import resume, run
from tempering.molecules import MoleculeTarget
from tempering.registry import target_of
from tempering.runs.config import RunConfig, TargetConfig
from tempering.runs.storage import read_arrays
from tempering.sampler.load import load_sampler
from tempering.targets import Inner
from tempering.types import Event, OnEvent

__all__ = ["carry_out", "settings_digest"]

_QUICK_REFERENCE = (32, 1_200)
"""Chains and steps, of particles: seconds on two cores. The evidence says whether that was enough."""
_MANY, _MANY_OF_QUICK = 1_000_000, 2_000
"""Draws of a molecule behind the paper's KL of Ramachandran histograms. Their number decides its floor."""
_MANY_KEY = 2_000_000
"""Folded into the seed's key for these draws, far from any level and from other metrics."""


def settings_digest(cell: Cell) -> str:
    """A checksum of all that a record of the cell depends on but its seed and the code."""
    if cell.kind == "extrapolation":
        return digest([cell.name, sizes_of(cell)])
    if cell.kind == "illustration":
        return digest([cell.name, illustration.settings_of(cell)])
    config = config_of(cell)
    told = [config.target, config.method, config.settings, config.budget, config.metrics]
    if _molecule(config) is not None:
        told.append(_num_many(cell))
    return digest(told if cell.kind == "fit" else [*told, refit.sizes_of(cell)])


def carry_out(cell: Cell, place: Path, on_event: OnEvent, fit_place: Path | None = None) -> dict[str, Any]:
    """Do a cell, from where it was; its record without commit and time.

    Args:
        place: the cell's folder.
        fit_place: of a refit, that of the finished fit.
    """
    began = time.monotonic()
    if cell.kind == "fit":
        record = _fitted(cell, place, on_event)
    elif cell.kind == "refit":
        assert fit_place is not None
        record = refit.refitted(cell, config_of(cell), _arrays(fit_place), on_event)
    elif cell.kind == "extrapolation":
        target = _reference_target(cell)
        if target is not None:
            _require_reference(target, 2 * sizes_of(cell).num_draws, cell.is_quick, on_event)
        record = extrapolated(cell, on_event)
    else:
        _require_reference(illustration.target_of_cell(cell), illustration.num_reference(cell), cell.is_quick, on_event)
        record = illustration.illustrated(cell, on_event)
    return {"seconds": round(time.monotonic() - began, 1), "device": jax.devices()[0].device_kind, **record}


def _fitted(cell: Cell, place: Path, on_event: OnEvent) -> dict[str, Any]:
    """The run of a fit: made, gone on with, or read back."""
    config, folder = config_of(cell), place / "run"
    if target_of(config).geometry is not None:
        _require_reference(config.target, 2 * config.metrics.num_samples, cell.is_quick, on_event)
    if (folder / "config.json").exists():
        result = resume(folder, on_event)
    else:
        result = run(config, folder, on_event)
    record = short_result(result)
    record["metrics"] |= _of_many_draws(cell, config, place, on_event)
    return {**record, "data": picture_data(config, _arrays(place))}


def _molecule(config: RunConfig) -> MoleculeTarget | None:
    inner = target_of(config)
    target = inner.target if isinstance(inner, Inner) else inner
    return target if isinstance(target, MoleculeTarget) else None


def _num_many(cell: Cell) -> int:
    return _MANY_OF_QUICK if cell.is_quick else _MANY


def _of_many_draws(cell: Cell, config: RunConfig, place: Path, on_event: OnEvent) -> dict[str, Any]:
    """The paper's KL at its own number of draws, of a molecule with reference samples. Finished parts are kept."""
    target = _molecule(config)
    trusted = None if target is None else load_reference(config.target, 2 * config.metrics.num_samples)
    if target is None or trusted is None:
        return {}
    metrics = dataclasses.replace(config.metrics, num_ramachandran=_num_many(cell))
    key = jax.random.fold_in(jax.random.key(cell.seed), _MANY_KEY)
    tell = lambda name, done, total: on_event(Event(f"metrics: {name}", 0, 1, done, total, 0, 0))  # noqa: E731
    sampler = load_sampler(place / "run", target_of(config))
    found = many_dihedrals(sampler, target, key, metrics, trusted.positions, tell, place / "angles")
    return {
        name: {"value": metric.value, "floor": metric.floor, "num": metric.num_samples}
        for name, metric in found.items()
    }


def _arrays(place: Path) -> dict[str, np.ndarray]:
    return read_arrays(place / "run" / "evaluation.npz")


def _reference_target(cell: Cell) -> TargetConfig | None:
    """Of particles in the figure of extrapolations, whose truth starts from samples of T = 1."""
    return {
        "dw4": TargetConfig("dw4"),
        "lj13": TargetConfig("lj", {"num_particles": 13}),
        "lj55": TargetConfig("lj", {"num_particles": 55}),
    }.get(cell.name)


def _require_reference(target: TargetConfig, num: int, is_quick: bool, on_event: OnEvent) -> None:
    """Samples of a system of particles, made where none are kept; a quick set is small, and marked by its evidence."""
    if load_reference(target, num) is None:
        chains, steps = _QUICK_REFERENCE if is_quick else (None, None)
        cached_reference(target, num, num_chains=chains, num_steps=steps, on_event=on_event)
