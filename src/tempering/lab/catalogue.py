"""The presets in a few words each, kept in catalogue.json, so that a list and a typo need no JAX.

`python -m tempering.lab.catalogue` writes the file anew; a test compares it with the presets.
"""

import json
from pathlib import Path
from typing import Any

from tempering.errors import nearest

__all__ = ["entries", "read", "unknown_preset"]

_FILE = Path(__file__).with_name("catalogue.json")


def read() -> dict[str, dict[str, Any]]:
    """By name: method, target, dimension, evaluations, description, and whether it is an ablation."""
    return json.loads(_FILE.read_text(encoding="utf-8"))


def entries() -> dict[str, dict[str, Any]]:
    """The same from the presets themselves."""
    from tempering.lab.presets import ABLATIONS, PRESETS
    from tempering.methods.budget import forecast
    from tempering.methods.registry import title_of
    from tempering.registry import target_of

    found = {}
    for name, config in PRESETS.items():
        dim = target_of(config).dim
        found[name] = {
            "method": title_of(config.method, config.settings),
            "target": config.target.name,
            "dim": dim,
            "evaluations": sum(forecast(config.settings, dim, config.budget).values()),
            "description": config.description,
            "is_ablation": name in ABLATIONS,
        }
    return found


def unknown_preset(name: str) -> str:
    """The refusal of a name that no preset has."""
    known = read()
    usual = ", ".join(each for each, about in known.items() if not about["is_ablation"])
    return (
        f"unknown preset {name!r}{nearest(name, known)}; known: {usual}; `tempering list` describes them, and "
        "my_model.py:log_density is a model of your own"
    )


if __name__ == "__main__":
    _FILE.write_text(json.dumps(entries(), indent=1) + "\n", encoding="utf-8")
