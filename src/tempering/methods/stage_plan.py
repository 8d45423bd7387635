"""What a run will spend on each stage, as far as that is known before it begins: for people, not for the run itself.

Where the settings give the sizes, counts are those of `budget.planned`. Where the budget gives them, counts are its
shares: the search for modes may end sooner, and where modes are all that a density has, the run ends with it.
"""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from tempering.baselines.plan import check as check_baseline
from tempering.kernels import kernel_of
from tempering.methods.atlas import SEARCH_SHARE, has_atlas
from tempering.methods.budget import check_budget, default_budget, num_final_draws, pilot_settings, planned
from tempering.parallel_tempering.pilot.heat import planned_evaluations as pilot_evaluations
from tempering.settings import BaselineSettings, MethodSettings, PTSDSettings
from tempering.targets import Target
from tempering.targets.cost import points_per_gradient

__all__ = ["StagePlan", "stage_plan"]

_USUAL_ROUNDS = 6
"""Rounds after which a pilot usually ends; `budget.pilot_settings` counts on as many."""


@dataclass(frozen=True)
class StagePlan:
    """One stage of a run.

    Args:
        stage: as the ledger names it.
        evaluations: that it will spend.
        sense: how these are meant.
    """

    stage: str
    evaluations: int
    sense: Literal["exactly", "about", "at most"]

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)


def stage_plan(settings: MethodSettings | BaselineSettings, target: Target, budget: int | None) -> list[StagePlan]:
    """The stages in the order of the run.

    Raises:
        BudgetError: if the budget is known to be too small.
    """
    check_budget(settings, target, budget)
    if isinstance(settings, BaselineSettings):
        plan = check_baseline(settings, target, budget)
        parts = {"training": plan.training, "final_weights": plan.evaluations - plan.training}
        return [StagePlan(stage, num, "exactly") for stage, num in parts.items() if num]
    each = points_per_gradient(target)
    if not settings.is_sized_by_budget:
        sense = "about" if settings.ladder.spacing == "adaptive" and settings.ladder.temperatures is None else "exactly"
        plan = planned(settings, target.dim)
        return [
            StagePlan(stage, each * num, "at most" if stage == "pilot" else sense) for stage, num in plan.items() if num
        ]
    whole = default_budget(target.dim) * each if budget is None else budget
    stages, left = [], whole // each
    if has_atlas(settings, target):
        shared = int(settings.atlas.share * left)
        searched = int(SEARCH_SHARE * shared)
        stages += [StagePlan("atlas", each * searched, "at most"), StagePlan("reference", each * shared, "at most")]
        left -= searched + shared
    ladder = settings.ladder
    if ladder.temperatures is None and ladder.hottest is None:
        kernel = kernel_of(settings.exploration, target.dim)
        pilot = pilot_settings(settings.pilot, whole // each, kernel, whole // each - left)
        rounds = min(_USUAL_ROUNDS, pilot.max_rounds)
        piloted = min(left, pilot_evaluations(pilot, kernel) * rounds // max(1, pilot.max_rounds))
        stages.append(StagePlan("pilot", each * piloted, "about"))
        left -= piloted
    final = num_final_draws(settings, left)
    left -= final
    initial = left
    if isinstance(settings, PTSDSettings) and (ladder.temperatures is None or len(ladder.temperatures) > 2):
        initial = int(settings.initial_share * left)
    stages.append(StagePlan("initial_pt", each * initial, "about"))
    if left > initial:
        stages.append(StagePlan("importance_weights", each * (left - initial), "about"))
    if final:
        stages.append(StagePlan("final_weights", each * final, "about"))
    return stages
