"""Targets by name: what presets, the command line and benchmarks ask for. Consumes a name and its settings."""

import inspect
from collections.abc import Callable

from tempering.errors import SettingsError
from tempering.targets.base import Target
from tempering.targets.gaussian import anisotropic_gaussian
from tempering.targets.gaussian_mixture import mog40
from tempering.targets.many_well import ManyWell
from tempering.targets.particles import dw4, lennard_jones

__all__ = ["TARGETS", "make_target"]

TARGETS: dict[str, Callable[..., Target]] = {
    "dw4": dw4,
    "gaussian": anisotropic_gaussian,
    "lj": lennard_jones,
    "mog40": mog40,
    "many_well": ManyWell,
}
"""Every named target, with the function that makes it."""


def make_target(name: str, **settings) -> Target:
    """The target of that name, e.g. `make_target("many_well", dim=8)`.

    Raises:
        SettingsError: for an unknown name or setting (the message lists the known ones), or a value out of range.
    """
    if name not in TARGETS:
        raise SettingsError(f"unknown target {name!r}; the known ones are {', '.join(sorted(TARGETS))}")
    known = tuple(inspect.signature(TARGETS[name]).parameters)
    unknown = sorted(set(settings) - set(known))
    if unknown:
        allowed = f"it takes {', '.join(known)}" if known else "it takes none"
        raise SettingsError(f"target {name!r} has no setting {', '.join(map(repr, unknown))}; {allowed}")
    return TARGETS[name](**settings)
