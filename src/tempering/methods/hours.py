"""A time limit for a density that workers evaluate, said in points: what does not fit into the hours is not begun.

Chains that have begun cannot be shortened, so the plan must fit from the start. Consumes the seconds of a point, from
the store of points or from a few that are timed and counted; produces a budget.
"""

from pathlib import Path
from typing import Any

import jax

from tempering.adapters.hosting import Hosts
from tempering.errors import BudgetError
from tempering.host.use import duration_of, forecast_words
from tempering.methods.budget import check_budget, default_budget
from tempering.parallel_tempering.initial import StartFn
from tempering.runs.ledger import Ledger
from tempering.runs.storage import read_json, write_json
from tempering.runs.words import duration_text
from tempering.targets.base import Target
from tempering.targets.cost import points_per_gradient

__all__ = ["within_hours"]

_SHARE = 0.8
"""Of the time limit, for points; the rest is for compiling and training."""
_SLOW = 0.01
"""Seconds: a quicker point is no matter of hours."""
_FILE = "hours.json"


def within_hours(
    hosts: Hosts, target: Target, settings: Any, ledger: Ledger, start_fn: StartFn | None, folder: Path | None
) -> None:
    """Lower the ledger's budget to what its time limit allows; nothing without workers, a limit or a plan to size.

    A folder keeps what was decided: a resumed fit has the plan that it began with.

    Raises:
        BudgetError: if that is too little for a fit, with the hours that would do.
    """
    limit = ledger.clock.limit
    if limit is None or not hosts.boxes or start_fn is None or not settings.is_sized_by_budget:
        return
    place = None if folder is None else folder / _FILE
    if place is not None and place.exists():
        kept = read_json(place)
        ledger.budget = kept["budget"]
        ledger.points.update(kept["points"])
        return
    each, workers = hosts.seconds_per_point(), hosts.num_workers
    if each is None:
        ledger.spend("pilot", workers, with_gradient=False)
        jax.block_until_ready(jax.vmap(target.log_density)(start_fn(jax.random.key(0), workers)))
        each = hosts.seconds_per_point()
    if each is None or each < _SLOW:
        return
    wanted = ledger.budget or default_budget(target.dim) * points_per_gradient(target)
    allowed = int(_SHARE * limit * workers / each)
    if allowed < wanted:
        try:
            check_budget(settings, target, allowed)
        except BudgetError as error:
            raise BudgetError(
                f"{forecast_words(wanted, workers, each)}; time_limit = {duration_text(limit)} at {duration_of(each)} "
                f"a point allows {allowed:,}: {error}"
            ) from error
        ledger.budget = allowed
        ledger.clock.hurried.append("the budget")
    if place is not None:
        write_json(place, {"budget": ledger.budget, "points": dict(ledger.points)})
