"""A target with the reference that its path starts from."""

from typing import Any

import equinox as eqx

from tempering.targets.base import Target, Wrapper
from tempering.targets.references import ReferenceLike, as_reference

__all__ = ["Referenced"]


class Referenced(Wrapper):
    """The target unchanged, and beside it a normalised `reference`.

    Both are of the coordinates that a method works in. None takes away a reference that the target itself has.
    """

    dim: int = eqx.field(static=True)
    target: Target
    reference: ReferenceLike | None

    def __init__(self, dim: int, target: Target, reference: Any):
        self.dim, self.target, self.reference = dim, target, as_reference(reference)
