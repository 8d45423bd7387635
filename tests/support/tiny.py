"""Runs so small that compiling is all they cost: settings, folders as bytes, a store in memory.

Initial chains, refined samples and buffer have the same number, so that one compilation of parallel tempering serves
all. The samplers these runs make are worthless; only their bookkeeping is right.
"""

import hashlib
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from support.compilation import QUICK, quick_compilation
from tempering.settings import (
    Exploration,
    Guidance,
    Initial,
    Ladder,
    MethodSettings,
    Network,
    Noise,
    PTDMSettings,
    PTSDSettings,
    Refinement,
    Resampling,
    ReweightedSettings,
    Sampling,
    Training,
)

__all__ = [
    "COMMAND",
    "PAIRS",
    "RESAMPLED",
    "Kept",
    "arrays_of_file",
    "exactly",
    "files_of",
    "quick_compilation",
    "result_of",
    "separate",
    "shrunk",
    "subprocess_environment",
    "tiny_pt_dm",
    "tiny_ptsd",
    "tiny_reweighted",
]

Settings = TypeVar("Settings", bound=MethodSettings)
SIZE = 32
SOURCE = Path(__file__).parent.parent.parent / "src"
COMMAND = (sys.executable, "-m", "tempering")
"""The command line as a process of its own; run it in `subprocess_environment()`."""


PAIRS = Guidance("finite_difference", "T", is_anticipating=False)
"""Guidance between the models of two levels, as in the paper."""
RESAMPLED = Resampling(quantile=0.99, min_effective=0, is_resampled=True)
"""Truncated weights, resampled, as in the paper."""


def separate(**changes) -> Network:
    """A plain residual network for each level."""
    return Network(**{"coordinate_width": 0, "is_shared": False, **changes})


def exactly(**changes) -> Sampling:
    """Heun steps from independent points, with exact determinants."""
    return Sampling(**{"divergence": "exact", "num_probes": 1, "is_quasi_random": False, **changes})


def _common() -> dict[str, Any]:
    return {
        "buffer_size": SIZE,
        "num_final_draws": 16,
        "is_sized_by_budget": False,
        "ladder": Ladder(hottest=8.0, num_levels=4, spacing="geometric"),
        "exploration": Exploration(kernel="mala"),
        "noise": Noise(),
        "initial": Initial(num_chains=SIZE, num_steps=8, burn_in=4, thin=2, scale=3.0),
        "network": separate(width=8, depth=2),
        "training": Training(num_steps=20, num_finetune_steps=10, batch_size=16, check_every=10),
        "sampling": exactly(num_steps=6, chunk_size=SIZE),
    }


def _corrected() -> dict[str, Any]:
    return {"resampling": RESAMPLED, "refinement": Refinement(num_steps=3)}


def tiny_ptsd(**changes) -> PTSDSettings:
    """PTSD over four levels, every sample refined."""
    return PTSDSettings(**{**_common(), **_corrected(), "guidance": PAIRS, **changes})


def tiny_reweighted(**changes) -> ReweightedSettings:
    """Reweighted tempering over four levels, every sample refined."""
    return ReweightedSettings(**{**_common(), **_corrected(), **changes})


def shrunk(settings: Settings, **changes) -> Settings:
    """Settings as they are but with a network, training and sampling that take no time."""
    tiny = {
        "network": replace(settings.network, width=8, depth=2, coordinate_width=4),
        "training": replace(
            settings.training,
            num_steps=12,
            num_finetune_steps=12,
            batch_size=16,
            check_every=12,
        ),
        "sampling": replace(settings.sampling, num_steps=3),
    }
    return replace(settings, **{**tiny, **changes})


def tiny_pt_dm(**changes) -> PTDMSettings:
    """PT+DM over four levels."""
    return PTDMSettings(**{**_common(), **changes})


class Kept:
    """A store in memory: what a run folder would hold."""

    def __init__(self):
        self.parts: dict[tuple[int, str], tuple[dict[str, Any], dict[str, Any]]] = {}
        self.entries: list[dict[str, Any]] = []

    def load(self, level: int, part: str):
        """A finished part, or None."""
        return self.parts.get((level, part))

    def save(self, level: int, part: str, arrays: dict[str, Any], note: dict[str, Any]) -> None:
        """Keep a finished part."""
        self.parts[level, part] = (arrays, note)

    def log(self, entry: dict[str, Any]) -> None:
        """Keep a line of statistics."""
        self.entries.append(entry)


def subprocess_environment(cache: Path | str) -> dict[str, str]:
    """The environment of a process that runs the package from source, compiled quickly and kept in `cache`."""
    quick = {name.upper(): str(value) for name, value in QUICK.items()}
    return {**os.environ, **quick, "PYTHONPATH": str(SOURCE), "TEMPERING_CACHE": str(cache)}


def files_of(folder: Path) -> dict[str, str]:
    """The hash of every file's bytes by name; the lock and the time of change do not count."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def result_of(folder: Path) -> dict[str, Any]:
    """result.json without what may differ between two equal runs: times, and the checksum over them."""
    result = json.loads((folder / "result.json").read_text())
    return {name: value for name, value in result.items() if name not in ("fit_seconds", "wall_seconds", "sha256")}


def arrays_of_file(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an npz file."""
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}
