"""What was evaluated, how often, by which stage. Consumes counts, produces the account; it holds no arrays.

The ledger counts points, not calls: a batch of B points is B evaluations, and value and gradient together count
once. Every stage knows its cost before it starts, so a budget is checked first and is never exceeded.
Evaluations spent on metrics are recorded apart and do not count against the budget.
"""

import math
from dataclasses import dataclass, field

from tempering.errors import BudgetError
from tempering.runs.clock import Clock

__all__ = ["APART", "STAGES", "Ledger", "stage_name"]

STAGES = (
    *("atlas", "reference", "shape", "pilot", "initial_pt", "importance_weights", "refinement", "final_weights"),
    *("training", "drawing", "sampling", "metrics"),
)
"""Every stage that may evaluate the target. `sampling` is `sample_weighted` after training; `metrics` stands apart.

`atlas` is the search for modes, `reference` the draws and test chains of a mixture that is made of them. `training` is
that of the baselines; `drawing` is what a draw costs of a sampler whose draws are not free.
"""

APART = ("drawing", "sampling", "metrics")
"""Stages that fitting does not pay for."""


_NAMES = {
    "atlas": "search for modes",
    "reference": "mixture of modes",
    "shape": "learning coordinates",
    "initial_pt": "initial PT",
}


def stage_name(stage: str) -> str:
    """A stage of the ledger in words."""
    return _NAMES.get(stage, stage.replace("_", " "))


@dataclass
class Ledger:
    """An exact account of the evaluations of the density, by stage.

    Args:
        budget: the largest number of evaluations that a fit may spend. The stages `drawing`, `sampling` and `metrics`
            do not count. None sets no limit.
        points: the evaluations so far, by stage.
        value_only: the evaluations among `points` that asked for no gradient.
        hessian_vector: products of the Hessian with a vector, by stage. They are counted apart from the points.
        clock: the time that a fit may take.
        most: the largest number of evaluations that a stage may spend, where it has one. Its batches are planned by it
            (`left`).

    Examples:
        >>> import tempering as tp
        >>> ledger = tp.Ledger(budget=100)
        >>> ledger.spend("pilot", 60)
        >>> ledger.total, ledger.points
        (60, {'pilot': 60})
        >>> ledger.spend("pilot", 60)
        Traceback (most recent call last):
        ...
        tempering.errors.BudgetError: ...
    """

    budget: int | None = None
    points: dict[str, int] = field(default_factory=dict)
    value_only: dict[str, int] = field(default_factory=dict)
    hessian_vector: dict[str, int] = field(default_factory=dict)
    clock: Clock = field(default_factory=Clock, repr=False, compare=False)
    most: dict[str, int] = field(default_factory=dict, repr=False, compare=False)

    @property
    def total(self) -> int:
        """The evaluations of the fit: those of all stages but `drawing`, `sampling` and `metrics`."""
        return sum(count for stage, count in self.points.items() if stage not in APART)

    def left(self, stage: str) -> int | float:
        """Evaluations that a stage may still spend: a batch is held against it before it is made."""
        own = self.most.get(stage, math.inf) - self.points.get(stage, 0)
        return own if self.budget is None else min(own, self.budget - self.total)

    def spend(self, stage: str, num_points: int, *, with_gradient: bool = True, hessian_vector: int = 0) -> None:
        """Record `num_points` evaluations of `stage`, *before* they are made.

        Raises:
            BudgetError: if they would exceed the budget. Then nothing is recorded.
        """
        if stage not in STAGES:
            raise KeyError(f"unknown ledger stage {stage!r}; the stages are {', '.join(STAGES)}")
        if num_points < 0:
            raise ValueError(f"a stage cannot give evaluations back: {stage} asked for {num_points}")
        if self.budget is not None and stage not in APART and self.total + num_points > self.budget:
            raise BudgetError(
                f"stage {stage!r} needs {num_points:,} evaluations, but {self.total:,} of the budget of "
                f"{self.budget:,} are spent; raise `budget` or lower the plan (fewer chains, steps or levels)"
            )
        self.points[stage] = self.points.get(stage, 0) + num_points
        if not with_gradient:
            self.value_only[stage] = self.value_only.get(stage, 0) + num_points
        if hessian_vector:
            self.hessian_vector[stage] = self.hessian_vector.get(stage, 0) + hessian_vector

    def as_dict(self) -> dict:
        """A copy that can be written as JSON. `from_dict` reads it."""
        products = {"hessian_vector": dict(self.hessian_vector)} if self.hessian_vector else {}
        return {"budget": self.budget, "points": dict(self.points), "value_only": dict(self.value_only), **products}

    @classmethod
    def from_dict(cls, record: dict) -> "Ledger":
        """Make a ledger from what `as_dict` gave."""
        products = dict(record.get("hessian_vector", {}))
        return cls(record["budget"], dict(record["points"]), dict(record["value_only"]), products)
