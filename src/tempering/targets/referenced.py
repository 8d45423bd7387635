"""A target with the reference that its path starts from."""

from typing import Any

import equinox as eqx

from tempering.targets.base import Target
from tempering.types import Array, Float

__all__ = ["Referenced"]


class Referenced(Target):
    """The target unchanged, and beside it a normalised `reference` with `log_density(x)` and `sample(key, num)`."""

    dim: int = eqx.field(static=True)
    target: Any
    reference: Any

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        """Unnormalised log density of the target."""
        return self.target.log_density(x)
