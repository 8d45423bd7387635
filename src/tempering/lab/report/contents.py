"""A run folder read. Consumes the folder's files, produces `RunContents`; computes nothing.

Only `config.json` must be there. A missing file leaves its part empty, so that an unfinished run has a report too; a
damaged one is refused.
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tempering.errors import RunFolderError, SettingsError
from tempering.plots.contents import RunContents, level_samples
from tempering.registry import make_target
from tempering.runs.records import LevelRecord
from tempering.runs.storage import read_arrays, read_json
from tempering.sampler.diagnosis import Finding
from tempering.targets import Target
from tempering.transforms.centred import Centred

__all__ = ["configured_target", "read_contents"]


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
    target = configured_target(config)
    return None if target is None else target.geometry


def configured_target(config: dict[str, Any]) -> Target | None:
    """The target that a configuration names; None for a density of one's own, or a target of another version."""
    target = config.get("target") or {}
    try:
        return make_target(str(target.get("name")), **(target.get("arguments") or {}))
    except (SettingsError, TypeError):
        return None


def _unfinished(folder: Path, config: dict[str, Any]) -> dict[str, Any]:
    """A result for a folder without one: what the configuration, and a trained sampler or the last part, tell."""
    known = {name: config.get(name) for name in ("name", "method", "seed", "target", "budget")}
    sampler = _json_or_nothing(folder / "sampler.json")
    state = "was trained but not judged" if sampler else "is not finished"
    note = Finding(
        "state of the run", "note", f"this run {state}", "there is no result.json", "`tempering resume` goes on with it"
    )
    found = sampler.get("verdict") or {"status": "none yet"}
    verdict = {**found, "findings": [asdict(note), *found.get("findings", [])]}
    return {**known, **(sampler or _last_note(folder / "levels")), "verdict": verdict}


def _last_note(folder: Path) -> dict[str, Any]:
    """The account and the level records that the part finished last carries."""
    parts = sorted(folder.glob("[0-9]*/*.npz"))  # within a level, buffer comes before model, as in the run
    note = read_arrays(parts[-1]).get("note.json") if parts else None
    return {} if note is None else json.loads(str(note))


def _level_records(records: list[dict[str, Any]]) -> list[LevelRecord]:
    whole = [record for record in records if None not in (record.get("level"), record.get("temperature"))]
    return sorted((LevelRecord.from_dict(record) for record in whole), key=lambda record: record.level)
