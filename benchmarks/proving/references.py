"""Truths that were measured: read here, made by `python benchmarks/proving_references.py`."""

import json
from functools import cache
from pathlib import Path

__all__ = ["REFERENCES", "measured", "reference"]

REFERENCES = Path(__file__).resolve().parents[2] / "results" / "proving" / "references.json"


@cache
def _all() -> dict:
    return json.loads(REFERENCES.read_text())["references"] if REFERENCES.exists() else {}


def reference(name: str) -> tuple[float | None, float]:
    """log Z and its standard error; None where it has not been measured."""
    found = _all().get(name)
    return (None, 0.0) if found is None else (found["log_z"], found["error"])


def measured(name: str, what: str) -> list[float] | None:
    """Another measured truth of a density."""
    return _all().get(name, {}).get(what)
