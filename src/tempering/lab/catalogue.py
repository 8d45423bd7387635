"""The presets in a few words each, kept in catalogue.json, so that a list and a typo need no JAX.

`python -m tempering.lab.catalogue` writes the file again; a test compares it with the presets.
"""

import json
from pathlib import Path
from typing import Any

from tempering.errors import nearest

__all__ = ["GROUPS", "entries", "read", "unknown_preset"]

_FILE = Path(__file__).with_name("catalogue.json")

GROUPS = {
    "usual": "Our defaults",
    "comparison": "The paper's settings, and PT+DM to compare with",
    "other_method": "Methods of others",
    "ablation": "One piece taken away or replaced",
}
"""Groups of presets with their headings, in the order of the list."""


def read() -> dict[str, dict[str, Any]]:
    """By name: method, target, dimension, evaluations, description and group, one of GROUPS."""
    return json.loads(_FILE.read_text(encoding="utf-8"))


def entries() -> dict[str, dict[str, Any]]:
    """The same from the presets themselves."""
    from tempering.baselines.plan import least_budget
    from tempering.lab.presets import ABLATIONS, PRESETS
    from tempering.methods.budget import forecast
    from tempering.methods.registry import title_of
    from tempering.registry import target_of
    from tempering.settings import BaselineSettings

    found = {}
    for name, config in PRESETS.items():
        dim = target_of(config).dim
        found[name] = {
            "method": title_of(config.method, config.settings),
            "target": config.target.name,
            "dim": dim,
            "evaluations": sum(forecast(config.settings, dim, config.budget).values()),
            "description": config.description,
            "group": "ablation" if name in ABLATIONS else _group_of(name, config.settings),
        }
        if isinstance(config.settings, BaselineSettings):  # a budget below it buys nothing
            found[name]["least_budget"] = least_budget(config.settings, dim)
    return found


def _group_of(name: str, settings: Any) -> str:
    from tempering.settings import BaselineSettings

    if isinstance(settings, BaselineSettings):
        return "other_method"
    is_compared = any(part in name for part in ("-paper", "-pt-dm", "-extrapolation"))
    return "comparison" if is_compared else "usual"


def unknown_preset(name: str) -> str:
    """The refusal of a name that no preset has."""
    known = read()
    usual = ", ".join(each for each, about in known.items() if about["group"] == "usual")
    return (
        f"unknown preset {name!r}{nearest(name, known)}; usual ones are {usual}; `tempering list --all` describes all, "
        "and my_model.py:log_density is a model of your own"
    )


if __name__ == "__main__":
    _FILE.write_text(json.dumps(entries(), indent=1) + "\n", encoding="utf-8")
