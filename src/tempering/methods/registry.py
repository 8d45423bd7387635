"""The methods by name: how each fits, and what it is called."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tempering.baselines.registry import TITLES
from tempering.methods import pt_dm, ptsd, reweighted
from tempering.runs.config import SETTINGS_OF
from tempering.sampler import Sampler
from tempering.sampler.load import READERS
from tempering.settings import BaselineSettings, MethodSettings, PTDMSettings, PTSDSettings, ReweightedSettings

__all__ = ["METHODS", "Method", "title_of"]


Settings = TypeVar("Settings", MethodSettings, BaselineSettings)


@dataclass(frozen=True)
class Method:
    """One method.

    Args:
        title: its name in tables.
        default: its settings where a user gives none, for plain vectors or for particles.
        fit: `fit(target, key, settings, ...) -> Sampler`.
    """

    title: str
    default: Callable[..., MethodSettings | BaselineSettings]
    fit: Callable[..., Sampler]


def _same(settings: type[Settings]) -> Callable[..., Settings]:
    """One set of defaults for every density: what depends on particles is left open in it."""
    return lambda **particles: settings()


def _fit_baseline(*args: Any, **kwargs: Any) -> Sampler:
    """The trainer of the baselines, imported when one is fitted."""
    from tempering.baselines.train import fit

    return fit(*args, **kwargs)


def _load_baseline(folder: Path, *args: Any) -> Sampler:
    from tempering.baselines.load import load_baseline

    return load_baseline(folder, *args)


READERS["tempering baseline 1"] = _load_baseline

METHODS = {
    "ptsd": Method("PTSD", _same(PTSDSettings), ptsd.fit),
    "ptsd_paper": Method("PTSD, the paper's", PTSDSettings.paper, ptsd.fit),
    "pt_dm": Method("PT+DM", _same(PTDMSettings), pt_dm.fit),
    "reweighted": Method("reweighted tempering", _same(ReweightedSettings), reweighted.fit),
    **{name: Method(title, _same(SETTINGS_OF[name]), _fit_baseline) for name, title in TITLES.items()},
}
"""Every method that `tp.fit(method=...)` and a configuration may name."""


def title_of(method: str, settings: MethodSettings | BaselineSettings) -> str:
    """What a method with these settings is called: PTSD over two temperatures guides nothing, and is PT+DM."""
    if isinstance(settings, BaselineSettings):
        return METHODS[method].title
    temperatures = settings.ladder.temperatures
    if METHODS[method].fit is ptsd.fit and temperatures is not None and len(temperatures) == 2:
        return ptsd.TWO_LEVELS
    return METHODS[method].title
