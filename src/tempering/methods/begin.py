"""The begin of every method: the account, the pilot, the plan. Everything is settled before the first level."""

import dataclasses

from tempering.compilation import Ahead, spare_threads
from tempering.devices.keys import folded
from tempering.methods.budget import Plan, plan_run
from tempering.methods.known_modes import components_of, with_components
from tempering.methods.learn import new_networks
from tempering.methods.pilot import prepare
from tempering.methods.rehearse import Rehearsal
from tempering.methods.run import Run
from tempering.parallel_tempering.initial import StartFn
from tempering.runs.checkpoint import Journal, Nowhere, Store
from tempering.runs.ledger import Ledger
from tempering.settings import MethodSettings
from tempering.targets import Referenced, Target
from tempering.targets.cost import points_per_gradient
from tempering.targets.shaped import Shaped
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
    with Ahead(spare_threads()) as run.ahead:
        rehearsal = Rehearsal(run.ahead, target, settings, journal.ledger.budget)
        own = (start_fn, journal, run.tell, rehearsal.on_modes)
        run.settings, run.start = prepare(folded(key, 0), target, settings, *own)
    way, found = run.start.way, run.start.found
    if way is not None and found is not None and found.is_shaped:
        run.target = Shaped(target, found.learned)
    if way is not None and len(way.temperatures) > 1:
        run.target = Referenced(target.dim, target, way.reference)
    if way is not None and found is not None and way.temperatures == (1.0,):
        network = with_components(run.settings.network, target.dim, components_of(found))
        run.settings = dataclasses.replace(run.settings, network=rehearsal.fitting(network))
        each = points_per_gradient(target)
        run.plan = Plan(journal.ledger.total + each * (way.num_draws + run.settings.num_final_draws), 1, 1)
    else:
        num_levels = len(run.start.temperatures) if way is None else run.settings.ladder.num_levels or 3
        run.plan = plan_run(run.settings, num_levels, target, journal.ledger)
    run.networks = new_networks(run.key_of(1, "network"), target.dim, run.settings.network, num_networks)
    return run
