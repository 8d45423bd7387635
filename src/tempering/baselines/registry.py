"""The baselines by name. Each is imported when it is first asked for."""

from functools import cache
from importlib import import_module

from tempering.baselines.contract import Baseline

__all__ = ["TITLES", "baseline_of"]

TITLES = {"fab": "FAB", "dds": "DDS", "cmcd": "CMCD", "idem": "iDEM", "bnem": "BNEM", "dikl": "DiKL"}
"""The name of every baseline in tables."""


_CLASSES = {"fab": "FAB", "dds": "DDS", "cmcd": "CMCD", "idem": "IDEM", "bnem": "BNEM", "dikl": "DiKL"}
"""The class of every baseline, in the file of its name."""


@cache
def baseline_of(name: str) -> Baseline:
    """The baseline of that name."""
    return getattr(import_module(f"tempering.baselines.{name}"), _CLASSES[name])()
