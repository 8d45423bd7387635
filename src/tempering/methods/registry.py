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
        settings: the class of its settings; an instance without arguments is what `tp.fit` runs.
        default: its settings where a user gives none.
        fit: `fit(target, key, settings, ...) -> Sampler`.
    """

    title: str
    settings: type[MethodSettings]
    default: Callable[[], MethodSettings]
    fit: Callable[..., Sampler]


METHODS = {
    "ptsd": Method("PTSD", PTSDSettings, PTSDSettings, ptsd.fit),
    "ptsd_paper": Method("PTSD, the paper's", PTSDSettings, PTSDSettings.paper, ptsd.fit),
    "pt_dm": Method("PT+DM", PTDMSettings, PTDMSettings, pt_dm.fit),
    "reweighted": Method("reweighted tempering", ReweightedSettings, ReweightedSettings, reweighted.fit),
}
"""Every method that `tp.fit(method=...)` and a configuration may name."""


def title_of(method: str, settings: MethodSettings) -> str:
    """What a method with these settings is called: PTSD over two temperatures has no level to guide to, and is PT+DM."""
    temperatures = settings.ladder.temperatures
    if METHODS[method].fit is ptsd.fit and temperatures is not None and len(temperatures) == 2:
        return "PT+DM, two temperatures"
    return METHODS[method].title
