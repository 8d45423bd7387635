"""A run as plain data: which target, which method with which settings, which seed, which metrics.

Frozen dataclasses in and out of JSON; `a.b=value` changes one field. Nothing here computes.
"""

from dataclasses import dataclass, field
from typing import Any

from tempering.errors import SettingsError
from tempering.settings import (
    BNEMSettings,
    CMCDSettings,
    DDSSettings,
    DiKLSettings,
    FABSettings,
    IDEMSettings,
    PTDMSettings,
    PTSDSettings,
    ReweightedSettings,
    require_choice,
    require_count,
    require_flag,
    require_seed,
)
from tempering.settings.changes import assign, build, parsed, plain, refuse_sizes, unknown

__all__ = [
    "OWN_DENSITY",
    "OWN_MODEL",
    "SETTINGS_OF",
    "MetricsConfig",
    "RunConfig",
    "TargetConfig",
    "config_from_dict",
    "config_to_dict",
    "with_changes",
]

OWN_DENSITY = "own density"
"""The target's name where a user's own density was fitted: it is not in the registry, nor in the folder."""

OWN_MODEL = "own model"
"""The target's name where `tempering run` fitted a model of a user's file, whose place the arguments say."""


SETTINGS_OF: dict[str, Any] = {
    "ptsd": PTSDSettings,
    "ptsd_paper": PTSDSettings,
    "pt_dm": PTDMSettings,
    "reweighted": ReweightedSettings,
    "fab": FABSettings,
    "dds": DDSSettings,
    "cmcd": CMCDSettings,
    "idem": IDEMSettings,
    "bnem": BNEMSettings,
    "dikl": DiKLSettings,
}
"""The settings of every method that a configuration may name."""


@dataclass(frozen=True)
class TargetConfig:
    """A target of the registry and its arguments, such as dim."""

    name: str = "mog40"
    arguments: dict[str, int | float | str] = field(default_factory=dict)


@dataclass(frozen=True)
class MetricsConfig:
    """What `evaluate` measures.

    Args:
        num_samples: draws of the sampler compared with as many exact ones.
        num_transport: of these, how many enter the exact optimal transport. At 10,000 one distance takes half a minute
            and 0.9 GB, the paper's own variant 5 GB. (MMD takes up to 10,000 in any case.)
        num_weighted: draws that are weighted for ESS and log Z; 0 switches it off.
        num_likelihood: exact or reference samples whose log likelihood under the sampler is averaged; 0 switches it
            off.
        num_ramachandran: draws of a molecule whose Ramachandran histogram is compared with that of all reference
            samples, in bounded memory; the paper takes 1,000,000. 0 switches it off.
        num_langevin: Langevin steps (MALA) on the draws, after which everything is measured again; 0 switches it off.
        is_paper_compatible: whether the paper's variants are computed too.
    """

    num_samples: int = 10_000
    num_transport: int = 2_000
    num_weighted: int = 2_000
    num_likelihood: int = 500
    num_langevin: int = 0
    num_ramachandran: int = 0
    is_paper_compatible: bool = False

    def __post_init__(self) -> None:
        for name in ("num_samples", "num_transport"):
            require_count(f"metrics.{name}", getattr(self, name), 10)
        for name in ("num_weighted", "num_likelihood", "num_langevin", "num_ramachandran"):
            require_count(f"metrics.{name}", getattr(self, name), 0)
        require_flag("metrics.is_paper_compatible", self.is_paper_compatible)


@dataclass(frozen=True)
class RunConfig:
    """One run. `method` names the settings that count; `budget` is the most evaluations fitting may spend."""

    name: str
    description: str
    target: TargetConfig
    method: str
    settings: Any  # of the class that SETTINGS_OF names
    seed: int = 0
    budget: int | None = None
    metrics: MetricsConfig = field(default_factory=MetricsConfig)

    def __post_init__(self) -> None:
        require_choice("method", self.method, tuple(SETTINGS_OF))
        require_seed("seed", self.seed)
        if self.budget is not None:
            require_count("budget", self.budget)
        wanted = SETTINGS_OF[self.method]
        if not isinstance(self.settings, wanted):
            raise SettingsError(f"method {self.method!r} takes {wanted.__name__}, not {type(self.settings).__name__}")


def config_to_dict(config: RunConfig) -> dict[str, Any]:
    """Every field, expanded, JSON-ready."""
    return plain(config)


def config_from_dict(record: Any) -> RunConfig:
    """The configuration that `config_to_dict` described; an unknown or ill-typed field is refused by its path."""
    method = record.get("method") if isinstance(record, dict) else record
    require_choice("method", method, tuple(SETTINGS_OF))
    assert isinstance(method, str)
    return build(RunConfig, record, settings=SETTINGS_OF[method])


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
        path = path.strip()
        first = path.split(".")[0]
        own = record["settings"] if isinstance(record["settings"], dict) else {}  # an earlier change may have spoilt it
        if first not in {*record, *own}:
            raise SettingsError(unknown(first, {*record, *own}))
        place = record if first in record else own
        assign(place, path, parsed(text.strip()), is_open=path.startswith("target.arguments."))
    new = config_from_dict(record)
    if new.settings.is_sized_by_budget:
        refuse_sizes(before["settings"], record["settings"])
    return new
