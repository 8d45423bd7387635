"""The methods a configuration may name: how each fits and what it plans to spend."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tempering.errors import BudgetError
from tempering.methods import pt_dm, ptsd
from tempering.methods.automatic import default_budget, pilot_settings, sized
from tempering.methods.preparation import kernel_of
from tempering.parallel_tempering import temperatures_of
from tempering.runs.config import RunConfig
from tempering.sampler import Sampler
from tempering.settings import MethodSettings

__all__ = ["METHODS", "Method", "check_budget", "check_sizes", "planned"]


@dataclass(frozen=True)
class Method:
    """`fit(target, key, settings, ...)` and `plan(settings, dim)`."""

    title: str
    fit: Callable[..., Sampler]
    plan: Callable[[Any, int], dict[str, int]]


METHODS = {"ptsd": Method("PTSD", ptsd.fit, ptsd.plan), "pt_dm": Method("PT+DM", pt_dm.fit, pt_dm.plan)}


def planned(config: RunConfig, dim: int) -> dict[str, int]:
    """The evaluations a configuration will spend, by stage; where the budget sets the sizes, the budget itself."""
    if config.settings.is_sized_by_budget:
        return {"at most": config.budget or default_budget(dim)}
    return METHODS[config.method].plan(config.settings, dim)


def check_sizes(settings: MethodSettings, dim: int, budget: int | None) -> None:
    """Refuse a budget known to be too small for the sizes that are taken from it; what a pilot decides comes later.

    Raises:
        BudgetError: saying what to give.
    """
    budget, kernel, ladder = budget or default_budget(dim), kernel_of(settings, dim), settings.ladder
    if ladder.temperatures is None and ladder.hottest is None:
        pilot_settings(settings.pilot, budget, kernel)
    else:
        sized(settings, dim, len(temperatures_of(ladder, dim=dim)), budget, kernel)


def check_budget(config: RunConfig, dim: int) -> None:
    """Refuse a plan above the configuration's budget before anything is written or spent."""
    if config.settings.is_sized_by_budget:
        check_sizes(config.settings, dim, config.budget)
        return
    total = sum(planned(config, dim).values())
    if config.budget is not None and total > config.budget:
        raise BudgetError(
            f"the plan of {config.name!r} needs {total:,} evaluations, more than the budget of {config.budget:,}; "
            "raise the budget or lower the plan, for example --set buffer_size=… or --set initial.num_steps=…"
        )
