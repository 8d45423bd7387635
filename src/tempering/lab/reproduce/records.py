"""What is kept of a finished cell: its numbers, small data for figures, commit, device and a checksum of its settings.

Consumes a run's result and arrays, or the files under results/; produces records, and means over their seeds. Records
of another version's files, which `benchmarks/seeds.py` wrote, are told apart: they carry no checksum of settings.
"""

import json
import math
import re
import statistics
from pathlib import Path
from typing import Any

from tempering.errors import RunFolderError

__all__ = ["find_records", "mean_and_error", "older_records", "older_runs", "read_records", "short_result", "summarise"]

Record = dict[str, Any]

_KEPT = ("evaluations", "ess_fraction", "log_z", "log_z_error", "log_z_exact", "fit_seconds", "wall_seconds", "device")
_OF_LEVEL = ("temperature", "ess_fraction", "acceptance", "train_loss", "validation_loss")


def short_result(result: dict[str, Any]) -> Record:
    """What tables need of a run's result.json."""
    short = {"seed": result["seed"], **{key: result[key] for key in _KEPT}}
    short["pareto_k"] = result.get("pareto_k")  # older folders have none
    short["ledger"] = result["ledger"]["points"]
    short["levels"] = [{key: level.get(key) for key in _OF_LEVEL} for level in result["levels"]]
    short["metrics"] = {key: {"value": m["value"], "floor": m["floor"]} for key, m in result["metrics"].items()}
    for key, metric in result["metrics"].items():
        if metric.get("num_samples"):
            short["metrics"][key]["num"] = metric["num_samples"]
        if key.startswith("rare_mode"):  # the populations themselves, with errors, stand there
            short["metrics"][key]["description"] = metric["description"]
    return short


def mean_and_error(values: list[Any]) -> dict[str, float | None]:
    """Mean and standard error; None where there are too few values."""
    if not values:
        return {"mean": None, "error": None}
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
    return {"mean": statistics.fmean(values), "error": error}


def summarise(runs: list[Record]) -> dict[str, dict]:
    """Mean and standard error over the seeds that have a number; how many have none is said."""
    good = [run for run in runs if "failed" not in run]
    table: dict[str, dict] = {}
    for name in sorted({name for run in good for name in run["metrics"]}):
        own = [run["metrics"][name] for run in good if name in run["metrics"]]
        values = [metric["value"] for metric in own if metric["value"] is not None]
        floors = [metric["floor"] for metric in own if metric["floor"] is not None]
        table[name] = {
            **mean_and_error(values),
            "floor": statistics.fmean(floors) if floors else None,
            "num_without_value": len(runs) - len(values),
        }
    for name in ("evaluations", "fit_seconds", "wall_seconds", "process_seconds"):
        # A run that was judged elsewhere has no time of its fit.
        table[name] = mean_and_error([run[name] for run in good if run.get(name) is not None])
    return table


def read_records(file: Path) -> dict[str, Record]:
    """The records of one file of a reproduction, by key; a missing file has none.

    Raises:
        RunFolderError: for a file that is not of this kind.
    """
    if not file.is_file():
        return {}
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        return {record["key"]: record for record in content["records"]}
    except (ValueError, KeyError, TypeError) as error:
        raise RunFolderError(
            f"{file} is not a file of `tempering reproduce` ({error!r}); delete it, or move it"
        ) from error


def find_records(results: Path) -> dict[str, Record]:
    """The records of all reproductions under results/reproduce: cells are shared by tables and figures."""
    found: dict[str, Record] = {}
    for file in sorted((results / "reproduce").glob("*.json")):
        for key, record in read_records(file).items():
            if key not in found or record.get("at", "") >= found[key].get("at", ""):
                found[key] = record
    return found


def older_runs(results: Path) -> list[list[Record]]:
    """Runs of whole presets that `benchmarks/seeds.py` wrote under results/, as records of fits: a list a preset and
    file. Changes of settings that a command names are kept in `changed`: such a row is not of the preset's own.
    """
    found = []
    for file in sorted(results.glob("*.json")):
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            presets = content.get("presets") or {}
            runs_of = {name: own["runs"] for name, own in presets.items() if isinstance(own.get("runs"), list)}
        except (ValueError, AttributeError, TypeError):
            continue
        commits = content.get("commits") or [content.get("commit", "unknown")]
        match = re.search(r"--set (.*?)(?: --|$)", content["command"])
        about = {"commit": commits[-1], "file": f"results/{file.name}", "changed": match.group(1) if match else None}
        for name, runs in runs_of.items():
            whole = [run for run in runs if "failed" in run or "metrics" in run]
            if whole and "," not in name and " " not in name:
                found.append([_older(name, run, about) for run in whole])
    return found


def older_records(results: Path) -> dict[str, Record]:
    """The older runs by key: of several files with a preset, the one with most runs of unchanged settings."""
    best: dict[str, list[Record]] = {}
    rank = lambda records: (records[0]["changed"] is None, len(records))  # noqa: E731
    for records in older_runs(results):
        name = records[0]["name"]
        if name not in best or rank(records) > rank(best[name]):
            best[name] = records
    return {record["key"]: record for records in best.values() for record in records}


def _older(name: str, run: Record, about: dict[str, Any]) -> Record:
    return {"key": f"fit:{name}/{run['seed']}", "kind": "fit", "name": name, **about, **run, "is_older": True}
