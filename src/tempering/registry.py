"""What a run folder can name: targets and the coordinates of samplers. Consumes a name, produces the thing."""

import inspect
from collections.abc import Callable
from typing import Any

from tempering.errors import RunFolderError, SettingsError
from tempering.priors import PriorChart
from tempering.runs.config import OWN_DENSITY, OWN_MODEL, RunConfig
from tempering.targets import ManyWell, Target, anisotropic_gaussian, dw4, in_inner_coordinates, lennard_jones, mog40
from tempering.transforms import Chart, read_chart

__all__ = ["TARGETS", "chart_from", "make_target", "target_of"]


def _aldp(temperature: float = 300.0, chirality: str = "both") -> Target:
    from tempering.molecules import alanine_dipeptide  # here and below: most fits are of no molecule

    return alanine_dipeptide(temperature, chirality)


def _aldp_internal(temperature: float = 300.0) -> Target:
    from tempering.molecules import alanine_in_internal_coordinates

    return alanine_in_internal_coordinates(temperature)


def _internal_chart(stored: dict[str, Any]) -> Chart:
    from tempering.molecules import InternalChart

    return InternalChart.from_dict(stored)


TARGETS: dict[str, Callable[..., Target]] = {
    "aldp": _aldp,
    "aldp_internal": _aldp_internal,
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


def target_of(config: RunConfig) -> Target:
    """The target a configuration names, in the coordinates that methods work in.

    Raises:
        RunFolderError: for a user's own density, which no configuration can name.
    """
    if config.target.name == OWN_DENSITY:
        raise RunFolderError(
            "this folder was made by tp.fit with a density of your own, which is not stored: call tp.fit again with "
            "the same arguments and `out=`, or tp.load(folder, log_density)"
        )
    if config.target.name == OWN_MODEL:
        raise RunFolderError(
            f"this folder is of the model {config.target.arguments.get('model')}, which only the `tempering` command "
            "runs: use that, or tp.load(folder, log_density)"
        )
    return in_inner_coordinates(make_target(config.target.name, **config.target.arguments))


def chart_from(
    stored: dict[str, Any] | None, full_dim: int, target: Target | None = None, given: Chart | None = None
) -> Chart | None:
    """The coordinates that a sampler was saved with: `transforms.read_chart`, and those of priors and molecules.

    Args:
        given: those of a prior, where there is no target.
    """
    own = given if target is None else target.chart
    readers = {"internal": _internal_chart, "prior": PriorChart.from_dict}
    return read_chart(stored, full_dim, own, readers=readers)
