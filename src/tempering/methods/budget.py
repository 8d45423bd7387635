"""What a run will spend, before it spends it: plan, size, refuse. The only place that knows what stages cost together.

The shares below are rules of thumb; docs/decisions/0004-automatic.md says where they come from and when they would be
wrong.
"""

import contextlib
import dataclasses
import math
from dataclasses import dataclass
from typing import TypeVar

from tempering.baselines.plan import check as check_baseline
from tempering.baselines.plan import planned as baseline_plan
from tempering.errors import BudgetError
from tempering.kernels import Kernel, kernel_of
from tempering.parallel_tempering import initial, temperatures_of
from tempering.parallel_tempering.pilot.heat import planned_evaluations as pilot_evaluations
from tempering.refinement import planned_evaluations as refinement_evaluations
from tempering.runs.ledger import Ledger
from tempering.settings import BaselineSettings, DescentSettings, Initial, MethodSettings, Pilot, PTSDSettings
from tempering.settings.checks import as_whole, require_count
from tempering.targets import Target
from tempering.targets.cost import points_per_gradient

__all__ = [
    "Plan",
    "check_budget",
    "default_budget",
    "forecast",
    "is_adaptive",
    "levels_left",
    "most_points",
    "num_final_draws",
    "pilot_settings",
    "plan_run",
    "planned",
    "sized",
    "sized_if_possible",
    "split_budget",
    "with_ceiling",
]

Settings = TypeVar("Settings", bound=MethodSettings)

_PILOT_SHARE, _USUAL_ROUNDS = 0.15, 6
_LEAST_CHAINS, _MOST_CHAINS, _LEAST_STEPS = 6, 16, 24
_FINAL_SHARE, _MOST_FINAL = 0.05, 2000
_LAST_SHARE = 3.0 / 7.0
_WEIGHING_SHARE, _MOST_WEIGHED, _LEAST_TO_WEIGH = 0.25, 20_000, 0.25
_LEAST_SAMPLES, FEWEST_SAMPLES = 500, 50
"""Of a level: denoisers trained on fewer are of little use; and on fewer still, of none."""
_FEW_POINTS = 2000
_SURROGATES = (
    "with some hundreds of points a method that fits a Gaussian process to the log density does better, in up to about "
    "ten dimensions: PyVBMC or GPry"
)
"""Said where a budget is small enough for them: docs/clusters.md has the reason."""
_MOST_LEVELS = 64
"""The most levels of an adaptive ladder without a budget that ends it sooner."""


@dataclass(frozen=True)
class Plan:
    """What a run is going to do, as far as is known.

    Args:
        evaluations: that it will spend.
        num_levels: that it will have.
        most_levels: that it may have.
    """

    evaluations: int = 0
    num_levels: int = 0
    most_levels: int = 0


def default_budget(dim: int) -> int:
    """Evaluations a fit may spend when the user names none."""
    return 50_000 + 10_000 * dim


def split_budget(budget: int, dim: int) -> tuple[int, int]:
    """Split one budget into evaluations for the fit and evaluations for weighted draws afterwards.

    A quarter goes into weighted draws, 20,000 at most. A budget below a quarter of the default goes into the fit alone,
    because weights of a poor model are worth little.

    Examples:
        >>> import tempering as tp
        >>> fitting, weighing = tp.split_budget(50_000, dim=2)
        >>> fitting, weighing
        (37500, 12500)
        >>> tp.split_budget(10_000, dim=2)
        (10000, 0)

    Raises:
        SettingsError: for a budget or a dimension below 1.
    """
    budget = as_whole(budget)
    require_count("budget", budget)
    require_count("dim", dim)
    if budget < _LEAST_TO_WEIGH * default_budget(dim):
        return budget, 0
    weighing = min(_MOST_WEIGHED, int(_WEIGHING_SHARE * budget))
    return budget - weighing, weighing


def pilot_settings(pilot: Pilot, budget: int, kernel, spent: int = 0) -> Pilot:
    """A pilot that spends a fixed share of the budget if it ends after the usual number of rounds.

    More budget buys more chains up to a limit, and from there longer rounds: in many dimensions chains need them.

    Args:
        spent: what is gone of the budget; what is left has the least pilot at the least.
    """
    cost, left = kernel.evaluations_per_step, budget - spent
    share = _PILOT_SHARE * left / _USUAL_ROUNDS / cost
    num_chains = max(_LEAST_CHAINS, min(_MOST_CHAINS, left // 2000, int(share / _LEAST_STEPS)))
    num_steps = max(4 * int(share / num_chains / 4), _LEAST_STEPS if spent else 0)
    if num_steps < _LEAST_STEPS:
        least = int(_LEAST_STEPS * cost * _LEAST_CHAINS * _USUAL_ROUNDS / _PILOT_SHARE)
        raise BudgetError(
            f"a budget of {budget:,} evaluations is too small to find the hottest temperature: give at least "
            f"{least:,}, or two temperatures by `ladder=` (on a command line `--set ladder.temperatures=[4,1]`)"
        )
    return dataclasses.replace(pilot, num_chains=num_chains, num_steps=num_steps)


def _initial(affordable: int, num_levels: int, buffer_size: int, given: Initial) -> tuple[Initial, int]:
    """The given chains, as long as `affordable` evaluations last over `num_levels` levels, and the samples of each.

    A chain pays one evaluation to start; a third of its steps burns in.
    """
    num_chains = given.num_chains
    num_steps = max(3, affordable // (num_levels * num_chains) - 1)
    burn_in = max(1, num_steps // 3)
    size = min(buffer_size, num_chains * (num_steps - burn_in))
    thin = max(1, (num_steps - burn_in) // -(-size // num_chains))
    num_draws = (num_steps - burn_in) // thin
    initial = dataclasses.replace(given, num_steps=burn_in + thin * num_draws, burn_in=burn_in, thin=thin)
    return initial, min(size, num_chains * num_draws)


def num_final_draws(settings: MethodSettings, budget: int) -> int:
    """Draws of the final model that are weighed: a part of the budget."""
    # A user who asks for no final draws gets none: weights of some samplers cost more than their training.
    return max(100, min(_MOST_FINAL, int(_FINAL_SHARE * budget))) if settings.num_final_draws > 0 else 0


def sized(
    settings: Settings, dim: int, num_levels: int, budget: int, kernel, *, least: int = _LEAST_SAMPLES
) -> Settings:
    """The settings with sizes that spend the budget on a ladder of that length.

    PTSD gives `initial_share` to the initial PT, four sevenths of the rest to the levels on the way, and what is left
    to the last level, whose weights the final model learns. PT+DM has the initial PT only, and so has a ladder of two.

    Args:
        budget: what is left of it after the pilot.
        kernel: the Markov kernel, for what a step costs.
        least: samples of a level.

    Raises:
        BudgetError: if the budget is too small for a ladder of this length.
    """
    num_final = num_final_draws(settings, budget)
    left, cost = budget - num_final, kernel.evaluations_per_step
    if not isinstance(settings, PTSDSettings):
        initial, size = _initial(left // cost, num_levels, 1500 + 200 * dim, settings.initial)
        _check(size, budget, num_levels, least)
        return dataclasses.replace(settings, initial=initial, buffer_size=size, num_final_draws=num_final)
    num_between = max(0, num_levels - 3)
    rest = 1.0 - settings.initial_share if num_levels > 2 else 0.0
    share = rest * (1.0 - _LAST_SHARE) / num_between if num_between else 0.0
    initial, size = _initial(int((1.0 - rest) * left) // cost, 2, 1500 + 200 * dim, settings.initial)
    between = int(share * left) if num_between else size
    spent = 2 * initial.num_chains * (1 + initial.num_steps * cost) + num_between * between
    _check(min(size, between, left - spent) if num_levels > 2 else size, budget, num_levels, least)
    ladder = settings.ladder
    return dataclasses.replace(
        settings,
        ladder=ladder if ladder.temperatures else dataclasses.replace(ladder, num_levels=num_levels),
        initial=initial,
        buffer_size=size,
        level_size=between,
        last_buffer_size=left - spent if num_levels > 2 else None,
        num_final_draws=num_final,
    )


def sized_if_possible(
    settings: Settings, dim: int, num_levels: int, budget: int, kernel, *, is_begun: bool = False
) -> tuple[Settings, int]:
    """As `sized`, with fewer levels where the budget is too small for so many and levels are found on the way.

    Args:
        is_begun: evaluations were spent on a search that led nowhere: levels of few samples, with the verdict that
            they deserve, are better than an error.

    Returns:
        The settings, and the number of levels.
    """
    for num in range(num_levels, 3 if is_adaptive(settings) else num_levels, -1):
        with contextlib.suppress(BudgetError):
            return sized(settings, dim, num, budget, kernel), num
    num = min(3, num_levels) if is_adaptive(settings) else num_levels
    return sized(settings, dim, num, budget, kernel, least=FEWEST_SAMPLES if is_begun else _LEAST_SAMPLES), num


def _check(buffer_size: int, budget: int, num_levels: int, least: int) -> None:
    if buffer_size < least:
        raise BudgetError(
            f"a budget of {budget:,} evaluations leaves {buffer_size} samples for each of {num_levels} levels, fewer "
            f"than the {least} a denoiser needs; raise the budget or give a shorter `ladder=`"
        )


def is_adaptive(settings: MethodSettings) -> bool:
    """Whether every next temperature is found on the way."""
    return settings.ladder.spacing == "adaptive" and settings.ladder.temperatures is None


def with_ceiling(settings: Settings) -> Settings:
    """With a pilot up to the hottest temperature of a given ladder, where masses are to be measured in one."""
    ladder, pilot = settings.ladder, settings.pilot
    hottest = ladder.temperatures[0] if ladder.temperatures is not None else ladder.hottest
    if settings.exploration.mass != "adapted" or settings.exploration.masses or hottest is None or pilot.ceiling:
        return settings
    return dataclasses.replace(settings, pilot=dataclasses.replace(pilot, ceiling=float(hottest)))


def _draws(settings: DescentSettings) -> tuple[int, int]:
    """Samples of a level on the way and of the last one that are evaluated because they are new."""
    if not isinstance(settings, PTSDSettings):
        return 0, 0
    return settings.level_size or settings.buffer_size, settings.last_buffer_size or settings.buffer_size


def _refinements(settings: DescentSettings, kernel: Kernel) -> tuple[int, int]:
    """Evaluations of the refinement of a level on the way, and of the last one."""
    both = settings.refinement, settings.refinement_at(1.0)
    between, last = (refinement_evaluations(refinement, settings.buffer_size, kernel) for refinement in both)
    return between, last


def forecast(settings: MethodSettings | BaselineSettings, dim: int, budget: int | None) -> dict[str, int]:
    """The evaluations of a run by stage; where the budget sets the sizes, the budget itself."""
    if isinstance(settings, BaselineSettings):
        plan = baseline_plan(settings, dim, budget)
        return {"training": plan.training, "final_weights": plan.evaluations - plan.training}
    return {"at most": budget or default_budget(dim)} if settings.is_sized_by_budget else planned(settings, dim)


def most_points(settings: MethodSettings | BaselineSettings, target: Target, budget: int | None) -> int:
    """Points that a run may spend, as far as is known before it begins."""
    each = points_per_gradient(target)
    most = default_budget(target.dim) * each if budget is None else budget
    if isinstance(settings, BaselineSettings) or settings.is_sized_by_budget or not _has_ladder(settings):
        return most  # without a ladder nobody knows how many levels there will be
    needed = each * sum(planned(settings, target.dim).values())
    return needed if budget is None else min(needed, budget)


def planned(settings: MethodSettings, dim: int) -> dict[str, int]:
    """The evaluations of a run by stage: exactly for a given or evenly spaced ladder, about for an adaptive one.

    A pilot is counted with the most that it may spend; without a known ladder no plan can be made.
    """
    kernel = kernel_of(settings.exploration, dim)
    num_levels = len(temperatures_of(settings.ladder, dim=dim))
    pilot = with_ceiling(settings).pilot
    plan = {} if pilot.ceiling is None else {"pilot": pilot_evaluations(pilot, kernel)}
    if not isinstance(settings, DescentSettings):
        plan["initial_pt"] = initial.planned_evaluations(settings.initial, num_levels, kernel)
        return plan | {"final_weights": settings.num_final_draws}
    num_between, num_last = max(0, num_levels - 3), int(num_levels > 2)
    (between, last), (refined, last_refined) = _draws(settings), _refinements(settings, kernel)
    return plan | {
        "initial_pt": initial.planned_evaluations(settings.initial, min(2, num_levels), kernel),
        "importance_weights": between * num_between + last * num_last,
        "refinement": refined * num_between + last_refined * num_last,
        "final_weights": settings.num_final_draws,
    }


def check_budget(settings: MethodSettings | BaselineSettings, target: Target, budget: int | None) -> None:
    """Refuse a budget that is known to be too small before anything is written or spent; a pilot may refuse it later.

    Raises:
        BudgetError: saying what to give.
    """
    try:
        if isinstance(settings, BaselineSettings):
            check_baseline(settings, target, budget)
        else:
            _check_budget(settings, target, budget)
    except BudgetError as error:
        if budget is None or budget // points_per_gradient(target) > _FEW_POINTS:
            raise
        raise BudgetError(f"{error}; {_SURROGATES}") from error


def _check_budget(settings: MethodSettings, target: Target, budget: int | None) -> None:
    each, dim, ladder = points_per_gradient(target), target.dim, settings.ladder
    has_ladder = _has_ladder(settings)
    if settings.is_sized_by_budget:
        enough = default_budget(dim) if budget is None else budget // each
        kernel = kernel_of(settings.exploration, dim)
        if has_ladder:
            sized(settings, dim, len(temperatures_of(ladder, dim=dim)), enough, kernel)
        else:
            pilot_settings(settings.pilot, enough, kernel)
    elif has_ladder:
        _refuse_above(budget, each * sum(planned(settings, dim).values()), len(temperatures_of(ladder, dim=dim)))


def _has_ladder(settings: MethodSettings) -> bool:
    return settings.ladder.temperatures is not None or settings.ladder.hottest is not None


def plan_run(settings: MethodSettings, num_levels: int, target: Target, ledger: Ledger) -> Plan:
    """What is left to spend after the pilot, and the most levels that the budget allows.

    Raises:
        BudgetError: if the plan needs more than the budget.
    """
    kernel, each = kernel_of(settings.exploration, target.dim), points_per_gradient(target)
    pilot = ledger.total  # and the atlas, where one was made
    if not isinstance(settings, DescentSettings):
        cost = initial.planned_evaluations(settings.initial, num_levels, kernel) + settings.num_final_draws
        _refuse_above(ledger.budget, pilot + each * cost, num_levels)
        return Plan(pilot + each * cost, num_levels, num_levels)
    draws, refined = _draws(settings), _refinements(settings, kernel)
    per_level, last = (each * (drawn + moved) for drawn, moved in zip(draws, refined, strict=True))
    first = initial.planned_evaluations(settings.initial, 2, kernel)
    fixed = pilot + each * (first + settings.num_final_draws)
    most_levels = num_levels
    if is_adaptive(settings):
        most_levels = settings.ladder.num_levels or _MOST_LEVELS
        if ledger.budget is not None:
            most_levels = max(3, min(most_levels, 3 + (ledger.budget - fixed - last) // per_level))
        num_levels = min(num_levels, most_levels)
    total = fixed + (per_level * (num_levels - 3) + last if num_levels > 2 else 0)
    _refuse_above(ledger.budget, total, num_levels)
    return Plan(total, num_levels, most_levels)


def levels_left(settings: DescentSettings, target: Target, ledger: Ledger, num_kept: int) -> int | float:
    """How many levels more what is left of the budget pays for, the last one included: one at the least.

    Without a budget there is no limit. Chains that start in walls cost more than was planned for them.

    Args:
        num_kept: evaluations that are held back for the end, beside the final draws.
    """
    if ledger.budget is None:
        return math.inf
    each, draws = points_per_gradient(target), _draws(settings)
    refined = _refinements(settings, kernel_of(settings.exploration, target.dim))
    per_level, last = (each * (drawn + moved) for drawn, moved in zip(draws, refined, strict=True))
    left = ledger.budget - ledger.total - each * (settings.num_final_draws + num_kept)
    return 1 + max(0, left - last) // per_level


def _refuse_above(budget: int | None, needed: int, num_levels: int) -> None:
    if budget is not None and needed > budget:
        raise BudgetError(
            f"the plan needs {needed:,} evaluations over {num_levels} levels, more than the budget of {budget:,}; "
            "raise the budget, or lower buffer_size, initial.num_steps, initial.num_chains, refinement.num_steps or "
            "the number of levels in the settings (--set on a command line)"
        )
