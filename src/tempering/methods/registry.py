"""The methods by name: how each fits, and what it is called."""

from collections.abc import Callable
from dataclasses import dataclass

from tempering.methods import pt_dm, ptsd, reweighted
from tempering.sampler import Sampler
from tempering.settings import MethodSettings, PTDMSettings, PTSDSettings, ReweightedSettings

__all__ = ["METHODS", "Method", "title_of"]


@dataclass(frozen=True)
class Method:
    """One method.

    Args:
        title: its name in tables.
        default: its settings where a user gives none, for plain vectors or for particles.
        fit: `fit(target, key, settings, ...) -> Sampler`.
    """

    title: str
    default: Callable[..., MethodSettings]
    fit: Callable[..., Sampler]


def _same(settings: type[MethodSettings]) -> Callable[..., MethodSettings]:
    """One set of defaults for every density: what depends on particles is left open in it."""
    return lambda **particles: settings()


METHODS = {
    "ptsd": Method("PTSD", _same(PTSDSettings), ptsd.fit),
    "ptsd_paper": Method("PTSD, the paper's", PTSDSettings.paper, ptsd.fit),
    "pt_dm": Method("PT+DM", _same(PTDMSettings), pt_dm.fit),
    "reweighted": Method("reweighted tempering", _same(ReweightedSettings), reweighted.fit),
}
"""Every method that `tp.fit(method=...)` and a configuration may name."""


def title_of(method: str, settings: MethodSettings) -> str:
    """What a method with these settings is called: PTSD over two temperatures guides nothing, and is PT+DM."""
    temperatures = settings.ladder.temperatures
    if METHODS[method].fit is ptsd.fit and temperatures is not None and len(temperatures) == 2:
        return ptsd.TWO_LEVELS
    return METHODS[method].title
