"""What one value-and-gradient of a target costs, and how it is entered in the ledger.

Most targets give value and gradient in one evaluation. A black box may take several (finite differences), or have no
gradient at all; then `evaluate` gives zeros in its place, which nobody may take for one: ask `has_gradient` first.
"""

from typing import Any

import jax

from tempering.runs.ledger import Ledger
from tempering.targets.base import Target

__all__ = ["has_gradient", "is_black_box", "points_per_gradient", "spend"]


def _boxes(target: Target) -> list[Any]:
    """The black boxes inside a target, however it is wrapped: in other units, with a reference, transformed."""
    is_box = lambda node: hasattr(node, "points_per_gradient")  # noqa: E731
    return [leaf for leaf in jax.tree.leaves(target, is_leaf=is_box) if is_box(leaf)]


def has_gradient(target: Target) -> bool:
    """Whether `evaluate` gives a gradient of the target."""
    return all(box.has_gradient for box in _boxes(target))


def is_black_box(target: Target) -> bool:
    """Whether the target calls a program that JAX cannot differentiate twice."""
    return len(_boxes(target)) > 0


def points_per_gradient(target: Target) -> int:
    """Evaluations that `evaluate` of one point takes: 1, or 1 + dim for forward differences."""
    return max((box.points_per_gradient for box in _boxes(target)), default=1)


def spend(ledger: Ledger, stage: str, target: Target, num_points: int) -> None:
    """Enter what `evaluate` of `num_points` points costs, before it is made.

    Finite differences and gradient-free boxes are asked for values alone, and are recorded so.

    Raises:
        BudgetError: if the budget does not allow it.
    """
    each = points_per_gradient(target)
    ledger.spend(stage, num_points * each, with_gradient=each == 1 and has_gradient(target))
