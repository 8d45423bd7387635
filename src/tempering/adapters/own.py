"""What a user hands over, as the target that a method fits: unbounded, with the way back to the user's coordinates."""

from typing import Any

import numpy as np

from tempering.adapters.function import as_target
from tempering.adapters.structure import StructuredTarget, chart_of_tree, structure_of
from tempering.errors import DensityError, SettingsError, what_is
from tempering.priors import Normal
from tempering.settings import require_choice
from tempering.targets import Referenced, in_inner_coordinates
from tempering.targets.posterior import within_bounds
from tempering.targets.references import check_reference
from tempering.transforms import flat_chart

__all__ = ["as_fitted", "function_of", "refuse_beside_prior"]


def as_fitted(log_density: Any, dim: int | None, like: Any, support: Any, reference: Any = None) -> Any:
    """The target that a method fits, in unbounded coordinates; its `chart` and `structure` lead back to the user's."""
    if like is None:
        target = _on_path(as_target(log_density, dim), reference)
        if support is None:
            return in_inner_coordinates(target)
        _refuse_own_coordinates(target, "support")
        return _bounded(target, flat_chart(support, target.dim), reference)
    _refuse_own_coordinates(log_density, "like")
    structure = structure_of(like)
    if dim is not None and dim != structure.size:
        raise SettingsError(f"dim = {dim} contradicts `like`, which has {structure.size} numbers; leave `dim` out")
    chart = chart_of_tree(like, support)
    target = as_target(StructuredTarget(function_of(log_density), structure))
    return _bounded(_on_path(target, reference), chart, reference)


def _bounded(target: Any, chart: Any, reference: Any) -> Any:
    """The target in unbounded coordinates; a box has a reference of its own, unless something is said of one."""
    return within_bounds(target, chart) if reference is None else in_inner_coordinates(target, chart)


def refuse_beside_prior(**given: Any) -> None:
    """A prior says where parameters lie, where the path begins and where chains start."""
    for name, value in given.items():
        if value is not None:
            remedy = "; say where chains start by `init=`" if name == "scale" else ""
            raise SettingsError(f"{name} and a prior both say {_SAID[name]}; leave {name} out{remedy}")


_SAID = {
    "support": "where the parameters lie",
    "reference": "what the path begins at",
    "scale": "where chains start",
}


def _on_path(target: Any, reference: Any) -> Any:
    """The target with the reference that was given, in the coordinates that the target has."""
    if reference is None:
        return target
    if isinstance(reference, str):
        require_choice("reference", reference, ("none",))
        return Referenced(target.dim, target, None)
    if isinstance(reference, Normal) and reference.shape == ():
        reference = Normal(np.full(target.dim, reference.mean), reference.std)  # one for all, as of a prior
    if target.geometry is not None:
        raise SettingsError(f"reference is not for {what_is(target)}, which is centred; leave it out")
    check_reference(reference, target.dim)
    return Referenced(target.dim, target, reference)


def function_of(log_density: Any) -> Any:
    """The function of a tree of parameters that was handed over, or that an object has."""
    log_density = getattr(log_density, "log_density", log_density)
    if not callable(log_density):
        raise DensityError(f"log_density is {what_is(log_density)}; it must be a function of a tree like `like`")
    return log_density


def _refuse_own_coordinates(target: Any, what: str) -> None:
    if any(getattr(target, name, None) is not None for name in ("chart", "geometry")):
        raise SettingsError(f"{what} is not for {what_is(target)}, which has coordinates of its own; leave it out")
