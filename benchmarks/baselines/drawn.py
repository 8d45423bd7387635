"""What a baseline gives back: points, their weights, log Z, and what they cost. No algorithm."""

from typing import NamedTuple

from tempering.types import Array, Float

__all__ = ["Drawn"]


class Drawn(NamedTuple):
    """Points (draw, dim) of the target at T = 1.

    Args:
        points: correlated, or sharing ancestors, as the method has it: not independent draws.
        weights: normalised, summing to one; None where all weigh the same.
        log_z: log of the integral of exp(log_density); None where it cannot be told.
        evaluations: what the ledger holds, never more than the budget.
    """

    points: Float[Array, "draw dim"]
    weights: Float[Array, " draw"] | None
    log_z: float | None
    evaluations: int
