"""PTSD, the Progressive Tempering Sampler with Diffusion: Algorithm 1 of the paper, on one screen.

Consumes a target and a key; produces a `Sampler`. Every line of the loop is a stage of `methods/stages.py` or
`methods/learn.py`; checkpoints, records and progress are round the stages (`methods/run.py`). No numerics here.
"""

from tempering.devices.keys import folded
from tempering.guidance.choose import WAYS, Ways
from tempering.methods.begin import begin
from tempering.methods.explore import explore
from tempering.methods.finish import finish
from tempering.methods.learn import learn
from tempering.methods.stages import draw, guide, next_temperature, refine, resample, truncate, weigh
from tempering.parallel_tempering.initial import StartFn
from tempering.runs.checkpoint import Store
from tempering.runs.ledger import Ledger
from tempering.sampler import Sampler
from tempering.settings import PTSDSettings
from tempering.targets import Target
from tempering.types import Key, OnEvent, ignore_event

__all__ = ["ONE_LEVEL", "TWO_LEVELS", "fit"]

ONE_LEVEL = "PTSD, drawn from its modes"
"""What PTSD is called where modes are known and near enough that no level lies between them and the density."""

TWO_LEVELS = "PT+DM, two temperatures"
"""What PTSD over two temperatures is called: nothing is left to guide to."""


def fit(
    target: Target,
    key: Key,
    settings: PTSDSettings,
    *,
    start_fn: StartFn | None = None,
    ledger: Ledger | None = None,
    store: Store | None = None,
    on_event: OnEvent = ignore_event,
    ways: Ways = WAYS,
) -> Sampler:
    """Train a sampler for `target` by PTSD.

    Args:
        start_fn: starting points of chains; None takes those of the target, or normals of `settings.initial.scale`.
        ledger: where evaluations are entered; it may carry a budget.
        store: where finished parts are kept and found again.
        on_event: called with every event.
        ways: to the next temperature, by `guidance.kind`; the laboratory has more of them.

    Raises:
        BudgetError: if the plan exceeds the ledger's budget; nothing is spent then but a pilot.
    """
    num_networks = 1 if settings.network.is_shared else 2
    run = begin(target, key, settings, num_networks, start_fn, ledger, store, on_event)
    run.ways = ways

    with run.ahead:
        levels = explore(run, run.start.temperatures[:2], keep=2)
        levels = learn(run, levels)
        while levels.temperature > 1.0:
            levels = levels.towards(next_temperature(run, levels))
            model = guide(run, levels)
            draws = draw(run, levels, model)
            weighted = weigh(run, levels, draws)
            weighted = truncate(run, levels, weighted)
            samples = resample(run, levels, weighted)
            levels = refine(run, levels, samples)
            levels = learn(run, levels)

        title = "PTSD" if levels.num_done > 2 else TWO_LEVELS if levels.num_done == 2 else ONE_LEVEL
        return finish(run, levels, title, folded(key, levels.num_done))
