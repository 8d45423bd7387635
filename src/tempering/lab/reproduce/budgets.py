"""A preset at another budget: the largest plan of its kind that the budget pays for."""

import dataclasses

from tempering.errors import BudgetError, SettingsError
from tempering.methods.budget import planned
from tempering.registry import target_of
from tempering.runs.config import RunConfig

__all__ = ["scaled"]

MIN_CHAINS = 20
"""Below so many chains a smaller budget shortens them instead: a handful of chains would miss modes."""


def scaled(config: RunConfig, budget: int) -> RunConfig:
    """A preset at another budget: the largest plan of its kind that the budget pays for.

    A preset that takes its sizes from the budget is only told another one. Otherwise one factor multiplies
    `buffer_size`, `num_final_draws` and the work of the initial PT: its chains, and below `MIN_CHAINS` of them (or the
    preset's own number, if smaller) its steps and burn-in.

    Raises:
        BudgetError: if the plan cannot be made so small.
    """
    if config.settings.is_sized_by_budget:
        return dataclasses.replace(config, budget=budget)
    dim = target_of(config).dim

    def at(factor: float) -> RunConfig:
        settings, initial = config.settings, config.settings.initial
        num_chains = max(round(factor * initial.num_chains), min(MIN_CHAINS, initial.num_chains))
        shorter = min(1.0, factor * initial.num_chains / num_chains)
        burn_in = round(shorter * initial.burn_in)
        num_draws = max(1, round(shorter * initial.num_draws))
        initial = dataclasses.replace(
            initial, num_chains=num_chains, num_steps=burn_in + num_draws * initial.thin, burn_in=burn_in
        )
        settings = dataclasses.replace(
            settings,
            initial=initial,
            buffer_size=min(round(factor * settings.buffer_size), num_chains * num_draws),
            num_final_draws=round(factor * settings.num_final_draws),
        )
        return dataclasses.replace(config, settings=settings, budget=budget)

    def cost(factor: float) -> int:
        try:
            return sum(planned(at(factor).settings, dim).values())
        except SettingsError:
            return 0  # too small to be a plan: a larger factor is looked for

    low, high = 0.0, 2.0 * budget / max(1, cost(1.0))
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if cost(middle) <= budget else (low, middle)
    if cost(low) == 0:
        raise BudgetError(f"the plan of {config.name!r} cannot be made as small as {budget:,} evaluations")
    return at(low)
