"""Reference samples of particle systems and molecules at T = 1, made once and kept, with the evidence for them.

Consumes the name of a target; produces what `reference_making` makes of it, from the cache if it is there. Samples that
the evidence does not support are kept and marked, never hidden. The cache holds one set for each target and number.
"""

import os
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tempering.compilation import user_folder
from tempering.errors import RunFolderError, SettingsError
from tempering.lab.presets import PRESETS
from tempering.lab.reference_making import (
    Reference,
    ReferenceSettings,
    default_reference_settings,
    draws_and_thin,
    make_reference,
)
from tempering.registry import TARGETS, make_target
from tempering.runs.config import TargetConfig
from tempering.runs.storage import read_arrays, read_json, write_arrays, write_json
from tempering.settings import require_count, require_seed
from tempering.types import OnEvent, ignore_event

__all__ = [
    "Reference",
    "ReferenceSettings",
    "cached_reference",
    "default_reference_settings",
    "load_reference",
    "make_reference",
    "reference_folder",
    "reference_target",
]

_FORMAT = "tempering reference 1"
_ARRAYS, _RECORD = "reference.npz", "reference.json"
_WITHOUT_EFFECT = ("chirality", "smoothing")
"""Arguments of targets that references do not depend on: they are L-forms, whose log densities are those of both; and
no pair of a sample is where V is smoothed. `_read` compares log densities in any case."""

_SAME_SYSTEM = {"aldp_internal": "aldp"}
"""Targets that are the same system in other coordinates, with the one whose references serve them."""


def reference_target(name: str | TargetConfig) -> TargetConfig:
    """The system of particles that a preset is about, or a target's own name.

    Raises:
        SettingsError: for an unknown name, or a preset of another kind; the message lists the names that will do.
    """
    if isinstance(name, TargetConfig):
        return replace(name, name=_SAME_SYSTEM.get(name.name, name.name))
    if name in PRESETS or name in TARGETS:
        config = reference_target(PRESETS[name].target if name in PRESETS else TargetConfig(name))
        if _is_of_particles(config):
            return config
    known = [preset for preset, config in PRESETS.items() if _is_of_particles(config.target)]
    known += [target for target in TARGETS if target not in known and _is_of_particles(TargetConfig(target))]
    what = "is not about particles" if name in PRESETS else "is unknown"
    raise SettingsError(f"reference: {name!r} {what}; known: {', '.join(known)}")


def _is_of_particles(config: TargetConfig) -> bool:
    return make_target(config.name, **config.arguments).geometry is not None


def reference_folder(name: str | TargetConfig) -> Path:
    """Where the references of a target are kept, one folder for each number of samples.

    In $TEMPERING_CACHE/reference, or else in the user's cache folder. Presets of the same target share it.
    """
    config = reference_target(name)
    user = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "tempering"
    arguments = (f"{key}-{value}" for key, value in sorted(config.arguments.items()) if key not in _WITHOUT_EFFECT)
    return (user_folder() or user) / "reference" / "-".join((config.name, *arguments))


def load_reference(name: str | TargetConfig, num: int) -> Reference | None:
    """`num` samples of the cache, or None where neither that many nor more are kept. Look at `is_converged`.

    Of a larger set every k-th sample is taken, and its evidence stands.

    Raises:
        SettingsError: for an unknown name.
        RunFolderError: for a damaged set, or one of another density.
    """
    require_count("num", num)
    place, config = reference_folder(name), reference_target(name)
    kept = sorted(int(path.parent.name) for path in place.glob(f"*/{_RECORD}") if path.parent.name.isdecimal())
    enough = [size for size in kept if size >= num]
    if not enough:
        return None
    found, _ = _read(place / str(enough[0]), config)
    rows = np.linspace(0, len(found.positions) - 1, num).round().astype(int)
    return Reference(found.positions[rows], found.log_density[rows], found.evidence, found.evaluations)


def cached_reference(
    name: str | TargetConfig,
    num: int = 10_000,
    *,
    out: Path | None = None,
    seed: int | None = None,
    num_chains: int | None = None,
    num_steps: int | None = None,
    force: bool = False,
    on_event: OnEvent = ignore_event,
) -> tuple[Reference, Path, bool]:
    """The reference in its folder, made and written there if there is none.

    Args:
        out: the folder; None takes the cache's.
        seed: None takes 0, or that of the set that is found; likewise for chains and steps.
        force: make it again whatever lies there.

    Returns:
        The reference, its folder, and whether it was found there.

    Raises:
        SettingsError: for an unknown name, or options that are not those of the set that is found.
        RunFolderError: for a damaged set, or a folder that cannot be written.
    """
    config = reference_target(name)
    require_count("n", num)
    require_seed("seed", 0 if seed is None else seed)
    given = {"num_chains": num_chains, "num_steps": num_steps}
    given = {option: value for option, value in given.items() if value is not None}
    settings = replace(default_reference_settings(config), **given)  # pyright: ignore[reportArgumentType]
    draws_and_thin(num, settings)
    folder = reference_folder(config) / str(num) if out is None else Path(out)
    if not force and any((folder / file).exists() for file in (_ARRAYS, _RECORD)):
        found, record = _read(folder, config)
        asked = {"n": num, "seed": seed, **given}
        made = {"n": record["num"], "seed": record["seed"], **record["settings"]}
        other = [option for option, value in asked.items() if value is not None and made[option] != value]
        if other:
            was = ", ".join(f"{option} = {made[option]} (asked for {asked[option]})" for option in other)
            raise SettingsError(f"the reference in {folder} has {was}; --force replaces it, --out puts one elsewhere")
        return found, folder, True
    _claim(folder)
    began = time.monotonic()
    target = make_target(config.name, **config.arguments)
    reference = make_reference(target, jax.random.key(seed or 0), num, settings, on_event=on_event)
    record = {
        "format": _FORMAT,
        "target": asdict(config),
        "num": num,
        "seed": seed or 0,
        "settings": asdict(settings),
        "evaluations": reference.evaluations,
        "is_converged": reference.is_converged,
        "evidence": reference.evidence,
        "wall_seconds": round(time.monotonic() - began, 1),
        "jax": jax.__version__,
        "device": jax.devices()[0].device_kind,
    }
    (folder / _RECORD).unlink(missing_ok=True)  # a kill between the two writes must not join old and new
    write_arrays(folder / _ARRAYS, {"positions": reference.positions, "log_density": reference.log_density})
    write_json(folder / _RECORD, record)
    return reference, folder, False


def _claim(folder: Path) -> None:
    """Refuse a folder that cannot be written before an hour is spent, not after it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunFolderError(f"cannot make {folder}: {error.strerror or error}; choose another --out") from error
    if not os.access(folder, os.W_OK):
        raise RunFolderError(f"{folder} cannot be written; choose another --out")


def _read(folder: Path, config: TargetConfig) -> tuple[Reference, dict[str, Any]]:
    try:
        record, arrays = read_json(folder / _RECORD), read_arrays(folder / _ARRAYS)
    except RunFolderError as error:
        raise RunFolderError(f"{error}; `tempering reference` with --force makes it again") from error
    if record.get("format") != _FORMAT or record["num"] != len(arrays["positions"]):
        raise RunFolderError(f"{folder} holds no reference of this version; --force makes it again")
    reference = Reference(arrays["positions"], arrays["log_density"], record["evidence"], record["evaluations"])
    # Names outlive densities: a few stored values against the density of today.
    target, few = make_target(config.name, **config.arguments), reference.positions[:8]
    is_same = few.shape[1] == target.dim and np.allclose(
        jax.vmap(target.log_density)(jnp.asarray(few)), reference.log_density[:8], rtol=1e-3, atol=1e-2
    )
    if not is_same:
        raise RunFolderError(f"the reference in {folder} belongs to another density; --force makes it again")
    return reference, record
