"""A target of particles in the coordinates that a method works in: those of the centred subspace."""

from typing import Any

import equinox as eqx

from tempering.geometry import Centred
from tempering.targets.base import Target
from tempering.types import Array, Float

__all__ = ["Inner", "in_inner_coordinates"]


class Inner(Target):
    """The target as a function of y, with x = geometry.embed(y): (n-1)d coordinates and a normaliser."""

    dim: int = eqx.field(static=True)
    target: Any
    geometry: Centred

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        """Unnormalised log density of one configuration, given in inner coordinates."""
        return self.target.log_density(self.geometry.embed(x))


def in_inner_coordinates(target: Any) -> Any:
    """What a method fits: the target itself, or, where it has a `geometry`, the target on centred configurations."""
    geometry = getattr(target, "geometry", None)
    if geometry is None or isinstance(target, Inner):
        return target
    return Inner(geometry.dim, target, geometry)
