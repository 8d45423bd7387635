"""A target in units of a method's own: x = scale y. Its normaliser is that of x."""

import math

import equinox as eqx

from tempering.targets.base import Target
from tempering.transforms.centred import Centred
from tempering.types import Array, Float

__all__ = ["Rescaled", "in_units"]


class Rescaled(Target):
    """The target as a density of y = x / scale, with the Jacobian: log Z is that of the target.

    It brings what a network of particles must know; a common unit of length leaves their symmetries alone.
    """

    dim: int = eqx.field(static=True)
    target: Target
    scale: float = eqx.field(static=True)

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        return self.target.log_density(self.scale * x) + self.dim * math.log(self.scale)

    @property
    def geometry(self) -> Centred | None:
        """Of particles."""
        return self.target.geometry

    @property
    def atom_kinds(self) -> tuple[int, ...]:
        """Who the particles are."""
        return self.target.atom_kinds

    @property
    def bonds(self) -> tuple[tuple[int, int], ...]:
        """Pairs of particles that are joined."""
        return self.target.bonds


def in_units(target: Target, scale: float) -> Target:
    """The target in units of `scale`: the target itself for 1."""
    return target if scale == 1.0 else Rescaled(target.dim, target, scale)
