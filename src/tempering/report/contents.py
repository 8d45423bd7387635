"""What a run folder holds, as plain values. Consumes the folder's files, produces `RunContents`; computes nothing.

Only `config.json` must be there. A missing file leaves its part empty, so that an unfinished run has a report too; a
damaged one is refused.
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tempering.errors import RunFolderError, SettingsError
from tempering.geometry import Centred
from tempering.records import LevelRecord
from tempering.storage import read_arrays, read_json
from tempering.targets import make_target

__all__ = ["LevelSamples", "RunContents", "level_samples", "number_of", "read_contents"]


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
        levels: one record a level, hottest first.
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


def number_of(record: dict[str, Any], name: str) -> int | float | None:
    """A finite number of a record read from JSON; None where there is none."""
    value = record.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if math.isfinite(value) else None


def read_contents(folder: Path) -> RunContents:
    """Read a run folder.

    Raises:
        RunFolderError: if it is not a run's folder, or a file in it is damaged.
    """
    if not (folder / "config.json").is_file():
        raise RunFolderError(f"{folder} holds no config.json; give the folder of a run, such as `tempering run` makes")
    config = read_json(folder / "config.json").get("config") or {}
    result = _json_or_nothing(folder / "result.json") or _unfinished(folder, config)
    return RunContents(
        result=result,
        config=config,
        environment=_json_or_nothing(folder / "environment.json"),
        evaluation=read_arrays(folder / "evaluation.npz") if (folder / "evaluation.npz").is_file() else {},
        levels=_level_records(result.get("levels") or []),
        samples=level_samples(folder / "levels"),
        geometry=_geometry(_json_or_nothing(folder / "sampler.json"), config),
    )


def _json_or_nothing(path: Path) -> dict[str, Any]:
    return read_json(path) if path.is_file() else {}


def _geometry(sampler: dict[str, Any], config: dict[str, Any]) -> Centred | None:
    """Of particles, as the trained sampler states it; without one, as the named target has it."""
    if sampler:
        stated = sampler.get("geometry")
        return Centred(**stated) if stated else None
    target = config.get("target") or {}
    try:
        return getattr(make_target(str(target.get("name")), **(target.get("arguments") or {})), "geometry", None)
    except (SettingsError, TypeError):  # a density of one's own, or a target of another version
        return None


def _unfinished(folder: Path, config: dict[str, Any]) -> dict[str, Any]:
    """A result for a folder without one: what the configuration, and a trained sampler or the last part, tell."""
    known = {name: config.get(name) for name in ("name", "method", "seed", "target", "budget")}
    sampler = _json_or_nothing(folder / "sampler.json")
    state = "was trained but not judged" if sampler else "is not finished"
    warning = f"this run {state}: there is no result.json; `tempering resume` goes on with it"
    return {**known, **(sampler or _last_note(folder / "levels")), "warnings": [warning, *sampler.get("warnings", [])]}


def _last_note(folder: Path) -> dict[str, Any]:
    """The account and the level records that the part finished last carries."""
    parts = sorted(folder.glob("[0-9]*/*.npz"))  # within a level, buffer comes before model, as in the run
    note = read_arrays(parts[-1]).get("note.json") if parts else None
    return {} if note is None else json.loads(str(note))


def _level_records(records: list[dict[str, Any]]) -> list[LevelRecord]:
    whole = [record for record in records if None not in (record.get("level"), record.get("temperature"))]
    return sorted((LevelRecord.from_dict(record) for record in whole), key=lambda record: record.level)


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
    weight = np.exp(log_weight.astype(np.float64) - np.max(log_weight))
    cumulative = np.cumsum(weight)
    return np.searchsorted(cumulative, (np.arange(num) + 0.5) / num * cumulative[-1])
