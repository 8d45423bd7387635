"""A target with the reference that its path starts from."""

from typing import Any

import equinox as eqx

from tempering.targets.base import Target
from tempering.types import Array, Float

__all__ = ["Referenced"]


class Referenced(Target):
    """The target unchanged, and beside it a normalised `reference` with `log_density(x)` and `sample(key, num)`.

    Both are of the coordinates that a method works in. None takes away a reference that the target itself has.
    """

    dim: int = eqx.field(static=True)
    target: Any
    reference: Any

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        """Unnormalised log density of the target."""
        return self.target.log_density(x)

    @property
    def chart(self) -> Any:
        """The target's way to the user's coordinates, or None."""
        return getattr(self.target, "chart", None)

    @property
    def structure(self) -> Any:
        """What restores a point in the user's coordinates to the user's own tree, or None."""
        return getattr(self.target, "structure", None)

    @property
    def geometry(self) -> Any:
        """Of particles, where the target has one."""
        return getattr(self.target, "geometry", None)
