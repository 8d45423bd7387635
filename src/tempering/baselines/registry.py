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


def _dds() -> Baseline:
    from tempering.baselines.dds import DDS

    return DDS()


def _cmcd() -> Baseline:
    from tempering.baselines.cmcd import CMCD

    return CMCD()


def _idem() -> Baseline:
    from tempering.baselines.idem import IDEM

    return IDEM()


def _bnem() -> Baseline:
    from tempering.baselines.bnem import BNEM

    return BNEM()


_MAKERS: dict[str, Callable[[], Baseline]] = {
    "fab": _fab,
    "dds": _dds,
    "cmcd": _cmcd,
    "idem": _idem,
    "bnem": _bnem,
    "dikl": _dikl,
}


@cache
def baseline_of(name: str) -> Baseline:
    """The baseline of that name."""
    return _MAKERS[name]()
