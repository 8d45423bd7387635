"""Settings in and out of plain data: `a.b = value` changes one field, JSON builds a whole one."""

import dataclasses
import difflib
import json
import types
import typing
from collections.abc import Iterable, Mapping
from numbers import Integral
from typing import Any, Literal, TypeVar

from tempering.errors import SettingsError
from tempering.settings.checks import as_whole, require_choice

__all__ = ["assign", "build", "changed", "parsed", "plain", "refuse_sizes", "unknown"]

Settings = TypeVar("Settings")

_SIZES = {
    "": ("buffer_size", "num_final_draws", "level_size", "last_buffer_size"),
    "initial": ("num_chains", "num_steps", "burn_in", "thin"),
    "pilot": ("num_chains", "num_steps"),
}
"""What `is_sized_by_budget` overrides, by group."""


def changed(settings: Settings, changes: Mapping[str, Any]) -> Settings:
    """The settings with fields changed by dotted names. Changes are applied together, and so checked together.

    Raises:
        SettingsError: for an unknown name (with the nearest known one), a value that is not allowed, or a size where
            the budget sets the sizes.
    """
    before, record = plain(settings), plain(settings)
    for path, value in changes.items():
        assign(record, str(path), value)
    new = build(type(settings), record)
    if getattr(new, "is_sized_by_budget", False):
        refuse_sizes(before, record)
    return new


def refuse_sizes(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Refuse a changed size that the one taken from the budget would override; it is not ignored."""
    for group, names in _SIZES.items():
        old, new = (record[group] if group else record for record in (before, after))
        for name in names:
            if old.get(name) != new.get(name):
                path = f"{group}.{name}" if group else name
                raise SettingsError(
                    f"settings.{path} = {new[name]!r} is not allowed: the budget sets the sizes here; "
                    "change `budget`, or add is_sized_by_budget=false"
                )


def plain(settings: Any) -> dict[str, Any]:
    """Every field, expanded, JSON-ready."""
    return json.loads(json.dumps(dataclasses.asdict(settings), default=_integer))


def _integer(value: Any) -> int:
    """NumPy's integers, which the settings take, as Python's."""
    if isinstance(value, Integral):
        return int(value)
    raise TypeError(f"{value!r} is not a setting")


def parsed(text: str) -> Any:
    """A value as a command line gives it: JSON, or a bare word."""
    try:
        return json.loads(text)
    except ValueError:
        return {"none": None, "true": True, "false": False}.get(text.lower(), text)


def assign(record: dict[str, Any], path: str, value: Any, is_open: bool = False) -> None:
    """Set `record[a][b] = value` for the path `a.b`.

    Args:
        is_open: whether the last name may be a new one.

    Raises:
        SettingsError: for an unknown name, or a field of a group that is None.
    """
    names, place = path.split("."), record
    for depth, name in enumerate(names[:-1]):
        whole = ".".join(names[: depth + 1])
        if name not in place:
            raise SettingsError(unknown(whole, place))
        if place[name] is None:
            raise SettingsError(
                f"{path} cannot be set alone, because {whole} is None here; give all of it, such as "
                f'{whole.removeprefix("settings.")}={{"{names[-1]}": {json.dumps(value)}}}'
            )
        if not isinstance(place[name], dict):
            raise SettingsError(f"unknown setting {path!r}: {whole} is one value, not a group of them")
        place = place[name]
    if names[-1] not in place and not is_open:
        raise SettingsError(unknown(path, place))
    place[names[-1]] = value


def unknown(path: str, known: Iterable[str]) -> str:
    """A refusal of an unknown name, with the nearest known one."""
    *group, name = path.split(".")
    near = difflib.get_close_matches(name, known, n=1)
    guess = f" (did you mean {'.'.join([*group, near[0]])!r}?)" if near else ""
    return f"unknown setting {path!r}{guess}; known here: {', '.join(sorted(known))}"


def build(kind: Any, record: Any, path: str = "", **types_by_field: Any) -> Any:
    """An instance of the dataclass `kind` from plain data; an unknown or ill-typed field is refused by its path."""
    if not isinstance(record, dict):
        raise SettingsError(
            f"{path.rstrip('.') or 'the configuration'} = {record!r} is not allowed: it must be an object with fields"
        )
    hints = {**typing.get_type_hints(kind), **types_by_field}
    strangers = sorted(set(record) - set(hints))
    if strangers:
        raise SettingsError(unknown(f"{path}{strangers[0]}", hints))
    needed = [f.name for f in dataclasses.fields(kind) if f.default is f.default_factory is dataclasses.MISSING]
    missing = sorted(set(needed) - set(record))
    if missing:
        raise SettingsError(f"{path}{missing[0]} is missing; it must be given")
    may_be_none = [f.name for f in dataclasses.fields(kind) if f.default is None]
    given = {name: value for name, value in record.items() if value is not None or name not in may_be_none}
    return kind(**{name: _convert(hints[name], value, f"{path}{name}") for name, value in given.items()})


def _convert(hint: Any, value: Any, path: str) -> Any:
    """A JSON value as the field's type, or a refusal that names the field."""
    if dataclasses.is_dataclass(hint):
        return build(hint, value, f"{path}.")
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        hint = next(argument for argument in arguments if argument is not type(None))
        return _convert(hint, value, path)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise SettingsError(f"{path} = {value!r} is not allowed: it must be a list")
        return tuple(_convert(arguments[0], item, path) for item in value)
    if origin is dict:
        if not isinstance(value, dict):
            raise SettingsError(f"{path} = {value!r} is not allowed: it must be an object")
        return dict(value)
    if origin is Literal:
        value = "none" if value is None and "none" in arguments else value  # the word, as a command line writes it
        require_choice(path, value, arguments)
        return value
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint is int:
        value = as_whole(value)  # 1e5 is how people write it
    is_bool_as_number = isinstance(value, bool) and hint is not bool
    if not isinstance(value, hint) or is_bool_as_number:
        raise SettingsError(f"{path} = {value!r} is not allowed: it must be of type {hint.__name__}")
    return value
