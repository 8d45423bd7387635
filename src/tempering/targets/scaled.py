"""A target in other units: what preconditions kernels whose steps are the same in every coordinate."""

from typing import Any

import equinox as eqx

from tempering.targets.units import Units
from tempering.types import Array, Float

__all__ = ["Scaled"]


class Scaled(eqx.Module):
    """The target as a function of z, with x = units.outward(z).

    The log density is that of x, without the constant Jacobian: chains, swaps and log Z ratios are those of x.
    """

    target: Any
    units: Units

    @property
    def dim(self) -> int:
        """Dimension of the target."""
        return self.units.dim

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        """Unnormalised log density of one point, given in these units."""
        return self.target.log_density(self.units.outward(x))

    @property
    def reference(self) -> "Scaled | None":
        """The target's reference in the same units, without the constant Jacobian as well."""
        reference = getattr(self.target, "reference", None)
        return None if reference is None else Scaled(reference, self.units)
