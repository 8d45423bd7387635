"""A target in other units: what preconditions kernels whose steps are the same in every coordinate."""

import equinox as eqx

from tempering.targets.base import Target
from tempering.targets.references import ReferenceLike
from tempering.targets.units import Units
from tempering.types import Array, Float, Key

__all__ = ["Scaled", "ScaledReference"]


class ScaledReference(eqx.Module):
    """A reference as a function of z, with x = units.outward(z); its log density is that of x, as a scaled target's."""

    reference: ReferenceLike
    units: Units

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        """Log density of one point, given in these units."""
        return self.reference.log_density(self.units.outward(x))

    def sample(self, key: Key, num: int) -> Float[Array, "num dim"]:
        """Independent draws, in these units."""
        return self.units.inward(self.reference.sample(key, num))


class Scaled(Target):
    """The target as a function of z, with x = units.outward(z).

    The log density is that of x, without the constant Jacobian: chains, swaps and log Z ratios are those of x. Kernels
    ask for nothing else but the reference, and nothing else is brought.
    """

    target: Target
    units: Units

    def __init__(self, target: Target, units: Units):
        self.target, self.units = target, units

    @property
    def dim(self) -> int:
        """Dimension of the target."""
        return self.units.dim

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        """Unnormalised log density of one point, given in these units."""
        return self.target.log_density(self.units.outward(x))

    @property
    def reference(self) -> ScaledReference | None:
        """The target's reference in the same units, without the constant Jacobian as well."""
        reference = self.target.reference
        return None if reference is None else ScaledReference(reference, self.units)
