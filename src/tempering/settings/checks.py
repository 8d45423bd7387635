"""Refusals of single values: what was given, what is allowed, what to do."""

import math
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any

from tempering.errors import SettingsError, nearest, what_is, with_article

__all__ = [
    "as_whole",
    "require",
    "require_choice",
    "require_count",
    "require_flag",
    "require_kind",
    "require_number",
    "require_positive",
    "require_seed",
    "shown",
]


def require(condition: bool, name: str, given: Any, allowed: str, remedy: str = "") -> None:
    """Refuse a setting with what was given, what is allowed and what to do."""
    if not condition:
        raise SettingsError(
            f"{name} = {shown(given)} is not allowed: it must be {allowed}" + (f"; {remedy}" if remedy else "")
        )


_LONGEST = 200
"""Characters of a value that a message shows."""


def shown(given: Any) -> str:
    """A value as a message shows it: on one line, not too long, whatever it is."""
    try:
        text = " ".join(repr(given).split())
    except Exception:  # an integer of too many digits, or somebody's own class
        text = what_is(given)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def as_whole(given: Any) -> Any:
    """A float without a fraction, such as 1e5, as an integer; anything else as it is."""
    return int(given) if isinstance(given, float) and given.is_integer() else given


def require_count(name: str, given: Any, least: int = 1, most: int | None = None) -> None:
    """Refuse anything but an integer of at least `least` and, where that is given, at most `most`."""
    is_count = isinstance(given, Integral) and not isinstance(given, bool) and int(given) >= least
    allowed = f"an integer of at least {least}" + ("" if most is None else f" and at most {most:,}")
    require(is_count and (most is None or int(given) <= most), name, given, allowed)


def require_seed(name: str, given: Any) -> None:
    """Refuse anything but 32 bits: JAX keeps no more of a seed, and 2**32 + 1 would silently be 1."""
    is_integer = isinstance(given, Integral) and not isinstance(given, bool)
    require(is_integer and 0 <= int(given) < 2**32, name, given, "an integer from 0 to 2**32 - 1")


def require_number(name: str, given: Any, is_allowed: Callable[[float], bool], allowed: str) -> None:
    """Refuse anything but a finite number for which `is_allowed` holds."""
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    require(is_number and _is_finite(given) and is_allowed(given), name, given, allowed)


def _is_finite(number: int | float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # an integer beyond any float
        return False


def require_positive(name: str, given: Any) -> None:
    """Refuse anything but a positive finite number."""
    require_number(name, given, lambda number: number > 0, "a positive finite number")


def require_flag(name: str, given: Any) -> None:
    """Refuse anything but True and False: the string "false" would read as true."""
    require(isinstance(given, bool), name, given, "True or False")


def require_kind(name: str, given: Any, kind: type) -> None:
    """Refuse anything but an instance of `kind`, such as a group of settings."""
    require(isinstance(given, kind), name, given, with_article(kind.__name__), f"give {kind.__name__}(…)")


def require_choice(name: str, given: Any, choices: Sequence[str]) -> None:
    """Refuse a word that is not among the choices."""
    allowed = "one of " + ", ".join(repr(choice) for choice in choices)
    near = nearest(given, choices).strip(" ()") if isinstance(given, str) else ""
    require(isinstance(given, str) and given in choices, name, given, allowed, near)
