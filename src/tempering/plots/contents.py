"""What the figures look at, as plain values: `RunContents`. Computes nothing."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering.plots.style import temperature_text
from tempering.runs.records import LevelRecord
from tempering.runs.storage import read_arrays
from tempering.transforms import Chart
from tempering.transforms.centred import Centred
from tempering.types import Array, Float
from tempering.weights.resample import systematic_indices

__all__ = ["LevelSamples", "RunContents", "conformations_of", "level_samples", "number_of"]


@dataclass(frozen=True)
class LevelSamples:
    """The samples of one level, equally weighted, axes (n, dim), and their log densities at T = 1, axes (n,)."""

    position: np.ndarray
    log_density: np.ndarray


@dataclass(frozen=True)
class RunContents:
    """A run folder in memory.

    Args:
        result: `result.json`; what `sampler.json` and the configuration tell, where there is none.
        config: the expanded configuration.
        environment: versions, devices, platform.
        evaluation: arrays of `evaluation.npz` by name; empty where there is none.
        levels: one record per level, the hottest first.
        samples: by level, those that a buffer was kept of; of particles in inner coordinates.
        geometry: of particles; `draws` and `reference` are then centred configurations in full coordinates.
        bonds: of a molecule, pairs of atoms; coordinates are then nm.
    """

    result: dict[str, Any]
    config: dict[str, Any]
    environment: dict[str, Any]
    evaluation: dict[str, np.ndarray]
    levels: list[LevelRecord]
    samples: dict[int, LevelSamples]
    geometry: Centred | None = None
    bonds: tuple[tuple[int, int], ...] = ()

    def points(self, name: str) -> np.ndarray | None:
        """`draws` or `reference`, axes (n, dim), or None where there are none."""
        array = self.evaluation.get(name)
        return array if array is not None and array.ndim == 2 and array.size else None

    def energies(self, name: str) -> np.ndarray | None:
        """-log density of `draws` or `reference` in float64, axes (n,), or None where there are none."""
        array = self.evaluation.get(f"{name}_log_density")
        return -array.astype(np.float64) if array is not None and array.ndim == 1 and array.size else None

    def temperature_of(self, level: int) -> int | float | None:
        """The temperature of a level, or None where it is not on record."""
        return next((record.temperature for record in self.levels if record.level == level), None)

    def label_of(self, level: int) -> str:
        """A level by its temperature, or by its number where that is not on record."""
        temperature = self.temperature_of(level)
        return f"level {level}" if temperature is None else f"T = {temperature_text(temperature)}"

    def shown_levels(self, most: int) -> list[int]:
        """Levels with samples; of more than `most`, as many chosen evenly, the first and the last among them."""
        levels = sorted(self.samples)
        if len(levels) <= most:
            return levels
        return [levels[index] for index in np.unique(np.linspace(0, len(levels) - 1, most).round().astype(int))]


def number_of(record: dict[str, Any], name: str) -> int | float | None:
    """A finite number of a record read from JSON; None where there is none."""
    value = record.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if math.isfinite(value) else None


def level_samples(folder: Path) -> dict[int, LevelSamples]:
    """The samples of every level. A PTSD buffer holds a level (cold) and the hotter one before it (hot)."""
    samples: dict[int, LevelSamples] = {}
    for path in sorted(folder.glob("*/buffer.npz")):
        if not path.parent.name.isdigit():
            continue
        level, arrays = int(path.parent.name), read_arrays(path)
        for prefix, of_level in (("hot", level - 1), ("cold", level), ("buffer", level)):
            position, log_density = arrays.get(f"{prefix}/position"), arrays.get(f"{prefix}/log_density")
            if position is not None and log_density is not None and len(position):
                chosen = _by_weight(arrays.get(f"{prefix}/log_weight"), len(position))
                samples.setdefault(of_level, LevelSamples(position[chosen], log_density[chosen]))
    return samples


def _by_weight(log_weight: np.ndarray | None, num: int) -> np.ndarray:
    """Indices that occur in proportion to the weights, without chance; even weights leave everything in its place."""
    if log_weight is None or np.all(log_weight == log_weight[0]):
        return np.arange(num)
    return systematic_indices(log_weight, num, offset=0.5)


def conformations_of(samples: LevelSamples, chart: Chart, geometry: Centred) -> LevelSamples:
    """Samples in the chart's coordinates in those of `geometry`, with log densities of conformations: no volume."""
    position, log_volume = _placed(chart, geometry, jnp.asarray(samples.position, jnp.float32))
    return LevelSamples(np.asarray(position), samples.log_density - np.asarray(log_volume))


@eqx.filter_jit
def _placed(chart: Chart, geometry: Centred, points: Float[Array, "particle dim"]) -> tuple[Array, Array]:
    return jax.vmap(lambda y: (geometry.restrict(chart.embed(y)), chart.log_volume(y)))(points)
