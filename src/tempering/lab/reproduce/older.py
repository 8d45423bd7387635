"""Results that were made before reproductions had files of their own, as records: shown, marked, never taken as done.

Runs of presets are those of `benchmarks/seeds.py` (`records.older_records`); extrapolations have files of their own.
"""

import json
from pathlib import Path
from typing import Any

from tempering.lab.reproduce.records import Record, older_records

__all__ = ["all_older"]


def all_older(results: Path) -> dict[str, Record]:
    """Every older record under a folder of results, by key."""
    return {**older_records(results), **_extrapolations(results), **_illustration(results)}


def _read(file: Path) -> dict[str, Any] | None:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def _about(content: dict[str, Any], file: str) -> dict[str, Any]:
    _, _, changed = content["command"].partition("--set ")
    return {
        "commit": content["commit"],
        "device": content["device"],
        "changed": changed.split(" --")[0] or None,
        "file": f"results/{file}",
        "is_older": True,
        "metrics": {},
    }


def _extrapolations(results: Path) -> dict[str, Record]:
    """Ways to T = 0.1 on MoG-40 and Many-Well, against the paper's truth."""
    content = _read(results / "extrapolation.json")
    found: dict[str, Record] = {}
    for row in (content or {}).get("runs", []):
        assert content is not None
        key = f"extrapolation:{row['target']}/{row['seed']}"
        fresh = {"key": key, "kind": "extrapolation", "name": row["target"], "seed": row["seed"], "ways": {}}
        record = found.setdefault(key, {**fresh, **_about(content, "extrapolation.json"), "floor": None})
        record["ways"][row["way"]] = {"energy_tvd": row["energy_tvd_local"], "steps_to_truth": "–"}
    return found


def _illustration(results: Path) -> dict[str, Record]:
    """Ways from T = 2 and 1.5 to T = 1 on LJ-55."""
    content = _read(results / "lj55-extrapolation.json")
    if content is None or "ways" not in content:
        return {}
    key = f"illustration:lj55/{content['seed']}"
    about = {"key": key, "kind": "illustration", "name": "lj55", "seed": content["seed"], "ways": content["ways"]}
    return {key: {**about, **_about(content, "lj55-extrapolation.json")}}
