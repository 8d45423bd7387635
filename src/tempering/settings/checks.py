"""Refusals of single values: what was given, what is allowed, what to do."""

import math
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any

from tempering.errors import SettingsError

__all__ = [
    "require",
    "require_choice",
    "require_count",
    "require_flag",
    "require_number",
    "require_positive",
    "require_seed",
]


def require(condition: bool, name: str, given: Any, allowed: str, remedy: str = "") -> None:
    """Refuse a setting with what was given, what is allowed and what to do."""
    if not condition:
        raise SettingsError(
            f"{name} = {given!r} is not allowed: it must be {allowed}" + (f"; {remedy}" if remedy else "")
        )


def require_count(name: str, given: Any, least: int = 1) -> None:
    """Refuse anything but an integer of at least `least`."""
    is_count = isinstance(given, Integral) and not isinstance(given, bool)
    require(is_count and int(given) >= least, name, given, f"an integer of at least {least}")


def require_seed(name: str, given: Any) -> None:
    """Refuse anything but 32 bits: JAX keeps no more of a seed, and 2**32 + 1 would silently be 1."""
    is_integer = isinstance(given, Integral) and not isinstance(given, bool)
    require(is_integer and 0 <= int(given) < 2**32, name, given, "an integer from 0 to 2**32 - 1")


def require_number(name: str, given: Any, is_allowed: Callable[[float], bool], allowed: str) -> None:
    """Refuse anything but a finite number for which `is_allowed` holds."""
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    require(is_number and math.isfinite(given) and is_allowed(given), name, given, allowed)


def require_positive(name: str, given: Any) -> None:
    """Refuse anything but a positive finite number."""
    require_number(name, given, lambda number: number > 0, "a positive finite number")


def require_flag(name: str, given: Any) -> None:
    """Refuse anything but True and False: the string "false" would read as true."""
    require(isinstance(given, bool), name, given, "True or False")


def require_choice(name: str, given: Any, choices: Sequence[str]) -> None:
    """Refuse a word that is not among the choices."""
    require(given in choices, name, given, "one of " + ", ".join(repr(choice) for choice in choices))
