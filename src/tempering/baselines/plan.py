"""What the run of a baseline will spend, before it spends it: how many steps a budget buys, and when it buys none."""

from dataclasses import dataclass

from tempering.baselines.contract import Cost
from tempering.baselines.registry import baseline_of
from tempering.errors import BudgetError
from tempering.runs.ledger import APART, Ledger
from tempering.settings import BaselineSettings
from tempering.targets.base import Target
from tempering.targets.cost import has_gradient, points_per_gradient

__all__ = ["Plan", "check", "enter", "least_budget", "planned"]

_FINAL_SHARE = 0.05
"""Of a budget that sets the number of steps, for weighted draws after training."""


@dataclass(frozen=True)
class Plan:
    """What a run is going to do.

    Args:
        num_steps: of training.
        num_final: weighted draws after it.
        init, step, final: what the first state, one step and one weighted draw cost.
        per_gradient: points that a value with its gradient takes.
    """

    num_steps: int
    num_final: int
    init: Cost
    step: Cost
    final: Cost
    per_gradient: int = 1

    @property
    def training(self) -> int:
        """Points of training, the first state included."""
        return (self.init + self.step * self.num_steps).in_points(self.per_gradient)

    @property
    def evaluations(self) -> int:
        """Points of the whole fit."""
        return self.training + (self.final * self.num_final).in_points(self.per_gradient)


def least_budget(settings: BaselineSettings, dim: int, per_gradient: int = 1) -> int:
    """The smallest budget that buys a step of training: what comes before it, and the step."""
    method = baseline_of(settings.method)
    return (method.init_cost(settings, dim) + method.step_cost(settings, dim)).in_points(per_gradient)


def planned(settings: BaselineSettings, dim: int, budget: int | None, per_gradient: int = 1) -> Plan:
    """The plan of a run: the steps of the settings, or as many as the budget allows.

    Raises:
        BudgetError: if the budget is below one step, or below what the settings ask for; it says what one step costs.
    """
    method = baseline_of(settings.method)
    init, step, final = method.init_cost(settings, dim), method.step_cost(settings, dim), Cost()
    num_final = settings.num_final_draws if method.has_weights else 0
    if num_final:
        final = method.weigh_cost(settings, dim)
    first, each, last = (cost.in_points(per_gradient) for cost in (init, step, final))
    words = f"one step of {method.title} costs {each:,} evaluations" + (
        f" after {first:,} to begin with" if first else ""
    )
    if settings.num_steps is not None:
        plan = Plan(settings.num_steps, num_final, init, step, final, per_gradient)
        if budget is not None and plan.evaluations > budget:
            raise BudgetError(
                f"the plan of {settings.num_steps:,} steps and {num_final:,} final draws needs {plan.evaluations:,} "
                f"evaluations, more than the budget of {budget:,}: {words}; raise the budget, or lower num_steps or "
                "num_final_draws, or leave num_steps out"
            )
        return plan
    if budget is None:
        raise BudgetError(
            f"{method.title} needs a `budget`, or num_steps in its settings, to know when to end: {words}"
        )
    least = least_budget(settings, dim, per_gradient)
    if last:  # the first step comes before any weighted draw
        num_final = min(num_final, int(_FINAL_SHARE * budget) // last, max(0, budget - least) // last)
    num_steps = (budget - first - num_final * last) // max(1, each)
    if num_steps < 1:
        raise BudgetError(
            f"a budget of {budget:,} evaluations is below one step: {words}; give at least {least:,}, or make "
            "a step cheaper by the settings (batch_size and the like)"
        )
    return Plan(num_steps, num_final, init, step, final, per_gradient)


def check(settings: BaselineSettings, target: Target, budget: int | None) -> Plan:
    """The plan for a target; refuses what the method cannot serve, before anything is spent.

    Raises:
        SettingsError: for a target that the method cannot serve.
        BudgetError: as `planned`.
    """
    baseline_of(settings.method).check(settings, target)
    return planned(settings, target.dim, budget, points_per_gradient(target))


def enter(ledger: Ledger, stage: str, target: Target, cost: Cost) -> None:
    """Enter a cost before it is made: points with a gradient and points without one, and products of the Hessian."""
    each = points_per_gradient(target)
    is_whole = each == 1 and has_gradient(target)
    with_gradient = (cost.points - cost.value_only) * each
    # One entry is refused or made as a whole: the budget is asked for all of it first.
    if stage not in APART and ledger.budget is not None and ledger.total + cost.in_points(each) > ledger.budget:
        ledger.spend(stage, cost.in_points(each))
    if with_gradient or cost.hessian_vector:
        ledger.spend(stage, with_gradient, with_gradient=is_whole, hessian_vector=cost.hessian_vector)
    if cost.value_only:
        ledger.spend(stage, cost.value_only, with_gradient=False)
