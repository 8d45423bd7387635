"""PT+DM: parallel tempering over the whole ladder, then one diffusion model on the samples at T = 1."""

from tempering.methods.begin import begin
from tempering.methods.explore import explore
from tempering.methods.finish import finish
from tempering.methods.learn import learn
from tempering.parallel_tempering.initial import StartFn
from tempering.runs.checkpoint import Store
from tempering.runs.ledger import Ledger
from tempering.sampler import Sampler
from tempering.settings import PTDMSettings
from tempering.targets import Target
from tempering.types import Key, OnEvent, ignore_event

__all__ = ["fit"]


def fit(
    target: Target,
    key: Key,
    settings: PTDMSettings,
    *,
    start_fn: StartFn | None = None,
    ledger: Ledger | None = None,
    store: Store | None = None,
    on_event: OnEvent = ignore_event,
) -> Sampler:
    """Train a sampler for `target` by PT+DM; arguments as in `ptsd.fit`."""
    run = begin(target, key, settings, 1, start_fn, ledger, store, on_event)
    with run.ahead:
        levels = explore(run, run.start.temperatures, keep=1)
        levels = learn(run, levels)
        return finish(run, levels, "PT+DM", run.key_of(1, "finish"))
