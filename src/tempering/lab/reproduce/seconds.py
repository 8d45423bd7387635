"""How long a cell takes here: from like fits on this machine, else scaled from times under results/, and said so."""

import math
import statistics
from pathlib import Path
from typing import Any

import jax

from tempering.lab.reproduce.cells import Cell
from tempering.lab.reproduce.records import older_runs
from tempering.lab.reproduce.variants import base_of, config_of, exists
from tempering.methods.budget import default_budget
from tempering.registry import target_of
from tempering.runs.config import RunConfig
from tempering.runs.forecast import Kind, expected_seconds

__all__ = ["Expected", "expected", "known_times"]

Expected = tuple[float | None, str]
"""Seconds and where they are from, in words."""

_LEAST = 40.0
"""Of a fit: what compiling alone takes."""
_LIKE = 0.5
"""Of a cell's training, that a preset must have to say how two devices compare: a small one is all compiling, and hides
that a GPU trains a hundred times as quickly."""
Times = dict[str, dict[str, float]]


def known_times(results: Path, records: dict[str, dict[str, Any]]) -> Times:
    """Mean seconds of whole, unchanged fits by preset and device."""
    found: dict[str, dict[str, list[float]]] = {}
    for record in [*(run for runs in older_runs(results) for run in runs), *records.values()]:
        took = record.get("wall_seconds") or record.get("fit_seconds")
        is_whole = record.get("kind") == "fit" and not record.get("changed") and "@" not in record["key"]
        if took and is_whole and not record["key"].endswith("/quick"):
            found.setdefault(record["name"], {}).setdefault(record["device"], []).append(took)
    return {name: {device: statistics.fmean(took) for device, took in by.items()} for name, by in found.items()}


def expected(cell: Cell, times: Times) -> Expected:
    """How long a cell will take on this machine; None where nothing like it is known."""
    if cell.kind in ("extrapolation", "illustration"):
        return None, "not known: none was made on this machine"
    config = config_of(cell)
    network = getattr(config.settings, "network", None)
    if network is not None:
        dim = target_of(config).dim
        kind = Kind.of(config.method, dim, config.budget or default_budget(dim), config.settings)
        like = expected_seconds(kind)
        if like is not None:
            return sum(like.values()), "as long as a similar fit here took"
    return _scaled(cell, times)


def _scaled(cell: Cell, times: Times) -> Expected:
    known = times.get(base_of(cell.name), {})
    if not known:
        return None, "not known: no time of this preset is on record"
    here = jax.devices()[0].device_kind
    device = here if here in known else next(iter(known))
    seconds, words = known[device], f"scaled from {known[device]:,.0f} s on {device}"
    if device != here:
        on_both = {name: own[here] / own[device] for name, own in times.items() if here in own and device in own}
        least = _LIKE * _work(config_of(cell))
        ratios = [ratio for name, ratio in on_both.items() if exists(name) and _work(_whole(name)) >= least]
        if not ratios:
            return None, f"not known here; {known[device]:,.0f} s on {device} with the preset's own sizes"
        factor = statistics.median(ratios)
        seconds, words = seconds * factor, f"{words}, times {factor:.1f} between the devices"
    share = _share(cell)
    if share < 1:
        seconds, words = max(_LEAST, seconds * share), f"{words}, {share:.2g} of its training"
    return seconds, words


def _whole(name: str) -> RunConfig:
    return config_of(Cell("fit", name, 0))


def _work(config: RunConfig) -> float:
    """A measure of training: steps, batch, the layers of the network and its pairs of particles; infinite without."""
    network, training = (getattr(config.settings, part, None) for part in ("network", "training"))
    if network is None or training is None:
        return math.inf
    steps = float(training.num_steps * training.batch_size)
    return steps * network.width**2 * network.depth * max(1, network.num_particles) ** 2


def _share(cell: Cell) -> float:
    """Of the preset's training that a cell has."""
    if not cell.is_quick:
        return 1.0
    own, whole = (config_of(Cell("fit", cell.name, 0, None, is_quick)).settings for is_quick in (True, False))
    if getattr(own, "training", None) is None:
        return 1.0
    work = [settings.training.num_steps * settings.training.batch_size for settings in (own, whole)]
    return min(1.0, work[0] / work[1])
