"""The begin of every method: the account, the pilot, the plan. Everything is settled before the first level."""

import jax

from tempering.methods.budget import Plan, plan_run
from tempering.methods.learn import new_networks
from tempering.methods.pilot import prepare
from tempering.methods.run import Run
from tempering.parallel_tempering.initial import StartFn
from tempering.runs.checkpoint import Journal, Nowhere, Store
from tempering.runs.ledger import Ledger
from tempering.settings import MethodSettings
from tempering.targets import Target
from tempering.types import Key, OnEvent

__all__ = ["begin"]


def begin(
    target: Target,
    key: Key,
    settings: MethodSettings,
    num_networks: int,
    start_fn: StartFn | None,
    ledger: Ledger | None,
    store: Store | None,
    on_event: OnEvent,
) -> Run:
    """A run with its ladder, starting points, units, sizes and plan settled; arguments as in `ptsd.fit`.

    Args:
        num_networks: how many networks are trained side by side.

    Raises:
        BudgetError: if the plan exceeds the ledger's budget; nothing is spent then but a pilot.
    """
    journal = Journal(ledger or Ledger(), store or Nowhere())
    run = Run(target, key, settings, Plan(journal.ledger.budget or 0), journal, on_event)
    run.settings, run.start = prepare(jax.random.fold_in(key, 0), target, settings, start_fn, journal, run.tell)
    run.plan = plan_run(run.settings, len(run.start.temperatures), target, journal.ledger)
    run.networks = new_networks(run.key_of(1, "network"), target.dim, run.settings.network, num_networks)
    return run
