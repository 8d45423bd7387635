"""The baselines by name. Each is imported when it is first asked for."""

from collections.abc import Callable
from functools import cache

from tempering.baselines.contract import Baseline

__all__ = ["TITLES", "baseline_of"]

TITLES = {"fab": "FAB", "dds": "DDS", "cmcd": "CMCD", "idem": "iDEM", "bnem": "BNEM", "dikl": "DiKL"}
"""The name of every baseline in tables."""


def _fab() -> Baseline:
    from tempering.baselines.fab import FAB

    return FAB()


def _dikl() -> Baseline:
    from tempering.baselines.dikl import DiKL

    return DiKL()


_MAKERS: dict[str, Callable[[], Baseline]] = {"fab": _fab, "dikl": _dikl}


@cache
def baseline_of(name: str) -> Baseline:
    """The baseline of that name."""
    return _MAKERS[name]()
