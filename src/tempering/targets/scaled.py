"""A target in other units: what preconditions kernels whose steps are the same in every coordinate."""

from typing import Any

import equinox as eqx

from tempering.types import Array, Float

__all__ = ["Scaled"]


class Scaled(eqx.Module):
    """The target as a function of y = x / scale, coordinate by coordinate.

    The log density is that of x, without the constant Jacobian: chains, swaps and log Z ratios are those of x.
    """

    target: Any
    scale: Float[Array, " dim"]

    @property
    def dim(self) -> int:
        """Dimension of the target."""
        return self.scale.shape[0]

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        """Unnormalised log density of one point, given in units of the scale."""
        return self.target.log_density(self.scale * x)

    @property
    def reference(self) -> "Scaled | None":
        """The target's reference in the same units, without the constant Jacobian as well."""
        reference = getattr(self.target, "reference", None)
        return None if reference is None else Scaled(reference, self.scale)
