"""A run as plain data: which target, which method with which settings, which seed, which metrics.

Frozen dataclasses in and out of JSON; `a.b=value` changes one field. Nothing here computes.
"""

import dataclasses
import json
import types
import typing
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, Literal

from tempering.errors import SettingsError
from tempering.settings import (
    MethodSettings,
    PTDMSettings,
    PTSDSettings,
    require_choice,
    require_count,
    require_flag,
    require_seed,
)

__all__ = [
    "OWN_DENSITY",
    "MetricsConfig",
    "RunConfig",
    "TargetConfig",
    "config_from_dict",
    "config_to_dict",
    "with_changes",
]

OWN_DENSITY = "own density"
"""The target's name where a user's own density was fitted: it is not in the registry, nor in the folder."""


@dataclass(frozen=True)
class TargetConfig:
    """A target of the registry and its arguments, such as dim."""

    name: str = "mog40"
    arguments: dict[str, int | str] = field(default_factory=dict)


@dataclass(frozen=True)
class MetricsConfig:
    """What `evaluate` measures.

    Args:
        num_samples: draws of the sampler compared with as many exact ones.
        num_transport: of these, how many enter the exact optimal transport.
        num_weighted: draws that are weighted for ESS and log Z; 0 switches it off.
        num_likelihood: exact samples whose log likelihood under the sampler is averaged; 0 switches it off.
        num_langevin: Langevin steps (MALA) on the draws, after which everything is measured again; 0 switches it off.
        is_paper_compatible: whether the paper's variants are computed too.
    """

    num_samples: int = 10_000
    num_transport: int = 2_000
    num_weighted: int = 2_000
    num_likelihood: int = 500
    num_langevin: int = 0
    is_paper_compatible: bool = False

    def __post_init__(self) -> None:
        require_count("metrics.num_samples", self.num_samples, 10)
        require_count("metrics.num_transport", self.num_transport, 10)
        require_count("metrics.num_weighted", self.num_weighted, 0)
        require_count("metrics.num_likelihood", self.num_likelihood, 0)
        require_count("metrics.num_langevin", self.num_langevin, 0)
        require_flag("metrics.is_paper_compatible", self.is_paper_compatible)


@dataclass(frozen=True)
class RunConfig:
    """One run. `method` names the settings that count; `budget` is the most evaluations fitting may spend."""

    name: str
    description: str
    target: TargetConfig
    method: Literal["ptsd", "pt_dm"]
    settings: MethodSettings
    seed: int = 0
    budget: int | None = None
    metrics: MetricsConfig = field(default_factory=MetricsConfig)

    def __post_init__(self) -> None:
        require_choice("method", self.method, ("ptsd", "pt_dm"))
        require_seed("seed", self.seed)
        if self.budget is not None:
            require_count("budget", self.budget)
        wanted = SETTINGS_OF[self.method]
        if not isinstance(self.settings, wanted):
            raise SettingsError(f"method {self.method!r} takes {wanted.__name__}, not {type(self.settings).__name__}")


SETTINGS_OF = {"ptsd": PTSDSettings, "pt_dm": PTDMSettings}


def config_to_dict(config: RunConfig) -> dict[str, Any]:
    """Every field, expanded, JSON-ready."""
    return json.loads(json.dumps(dataclasses.asdict(config), default=_plain))


def _plain(value: Any) -> Any:
    """NumPy's integers, which the settings take, as Python's."""
    if isinstance(value, Integral):
        return int(value)
    raise TypeError(f"{value!r} is no setting")


def config_from_dict(record: Any) -> RunConfig:
    """The configuration that `config_to_dict` described; an unknown or ill-typed field is refused by its path."""
    method = record.get("method") if isinstance(record, dict) else record
    require_choice("method", method, tuple(SETTINGS_OF))
    assert isinstance(method, str)
    return _build(RunConfig, record, "", settings=SETTINGS_OF[method])


def with_changes(config: RunConfig, changes: list[str]) -> RunConfig:
    """The configuration with `a.b=value` applied; values are JSON, or bare words for text.

    Example: `with_changes(config, ["settings.training.num_steps=500", "seed=3"])`. The prefix `settings.` may be left
    out. Changes are applied together, so that they are checked together.

    Raises:
        SettingsError: for an unknown name, a value that is not allowed, or a size where the budget sets the sizes.
    """
    before, record = config_to_dict(config), config_to_dict(config)
    for change in changes:
        path, separator, text = change.partition("=")
        if not separator or not path.strip():
            raise SettingsError(
                f"--set {change!r} is not allowed: it must be name=value, such as training.num_steps=500"
            )
        _assign(record, path.strip(), _parse(text.strip()))
    changed = config_from_dict(record)
    if changed.settings.is_sized_by_budget:
        _refuse_sizes(before["settings"], record["settings"])
    return changed


_SIZES = {
    "": ("buffer_size", "num_final_draws", "level_size", "last_buffer_size"),
    "initial": ("num_chains", "num_steps", "burn_in", "thin"),
    "pilot": ("num_chains", "num_steps"),
}
"""What `is_sized_by_budget` overrides, by group."""


def _refuse_sizes(before: dict[str, Any], after: dict[str, Any]) -> None:
    """A size that would be overridden by the one taken from the budget is refused, not ignored."""
    for group, names in _SIZES.items():
        old, new = (record[group] if group else record for record in (before, after))
        for name in names:
            if old.get(name) != new.get(name):
                path = f"{group}.{name}" if group else name
                raise SettingsError(
                    f"settings.{path} = {new[name]!r} is not allowed: the budget sets the sizes here; "
                    "change `budget`, or add is_sized_by_budget=false"
                )


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return {"none": None, "true": True, "false": False}.get(text.lower(), text)


def _assign(record: dict[str, Any], path: str, value: Any) -> None:
    names = path.split(".")
    if names[0] not in record and names[0] in record["settings"]:
        names = ["settings", *names]
    place = record
    for depth, name in enumerate(names[:-1]):
        if not isinstance(place.get(name), dict):
            if name in place and place[name] is None:
                whole = ".".join(names[: depth + 1])
                raise SettingsError(
                    f"{path} cannot be set alone: {whole} is none here; give it whole, such as "
                    f'{whole.removeprefix("settings.")}={{"{names[-1]}": {json.dumps(value)}}}'
                )
            raise SettingsError(_unknown(".".join(names[: depth + 1]), place))
        place = place[name]
    is_open = names[:-1] == ["target", "arguments"]
    if names[-1] not in place and not is_open:
        raise SettingsError(_unknown(path, place))
    place[names[-1]] = value


def _unknown(path: str, place: dict[str, Any]) -> str:
    return f"unknown setting {path!r}; known here: {', '.join(sorted(place))}"


def _build(kind: Any, record: Any, path: str, **types_by_field: Any) -> Any:
    if not isinstance(record, dict):
        raise SettingsError(
            f"{path or 'the configuration'} = {record!r} is not allowed: it must be an object with fields"
        )
    hints = {**typing.get_type_hints(kind), **types_by_field}
    unknown = sorted(set(record) - set(hints))
    if unknown:
        raise SettingsError(_unknown(f"{path}{unknown[0]}", hints))
    needed = [f.name for f in dataclasses.fields(kind) if f.default is f.default_factory is dataclasses.MISSING]
    missing = sorted(set(needed) - set(record))
    if missing:
        raise SettingsError(f"{path}{missing[0]} is missing; it must be given")
    return kind(**{name: _convert(hints[name], value, f"{path}{name}") for name, value in record.items()})


def _convert(hint: Any, value: Any, path: str) -> Any:
    """A JSON value as the field's type, or a refusal that names the field."""
    if dataclasses.is_dataclass(hint):
        return _build(hint, value, f"{path}.")
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
        require_choice(path, value, arguments)
        return value
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    is_bool_as_number = isinstance(value, bool) and hint is not bool
    if not isinstance(value, hint) or is_bool_as_number:
        raise SettingsError(f"{path} = {value!r} is not allowed: it must be of type {hint.__name__}")
    return value
