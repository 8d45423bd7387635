"""Reweighted tempering: each level is the buffer before, weighted and refined; one diffusion model at the end.

Consumes a target and a key; produces a `Sampler`. PTSD without guidance: for stiff molecules, whose guided draws are
worth less than the samples of the level before. No numerics here.
"""

import jax

from tempering.methods.begin import begin
from tempering.methods.explore import explore
from tempering.methods.finish import finish
from tempering.methods.learn import learn
from tempering.methods.stages import next_temperature, refine, resample, reweigh, truncate
from tempering.parallel_tempering.initial import StartFn
from tempering.runs.checkpoint import Store
from tempering.runs.ledger import Ledger
from tempering.sampler import Sampler
from tempering.settings import ReweightedSettings
from tempering.targets import Target
from tempering.types import Key, OnEvent, ignore_event

__all__ = ["fit"]


def fit(
    target: Target,
    key: Key,
    settings: ReweightedSettings,
    *,
    start_fn: StartFn | None = None,
    ledger: Ledger | None = None,
    store: Store | None = None,
    on_event: OnEvent = ignore_event,
) -> Sampler:
    """Train a sampler for `target` by reweighted tempering; arguments as in `ptsd.fit`."""
    run = begin(target, key, settings, 1, start_fn, ledger, store, on_event)
    with run.ahead:
        levels = explore(run, run.start.temperatures[:2], keep=2)
        while levels.temperature > 1.0:
            levels = levels.towards(next_temperature(run, levels))
            weighted = reweigh(run, levels)
            weighted = truncate(run, levels, weighted)
            samples = resample(run, levels, weighted)
            levels = refine(run, levels, samples)
        levels = learn(run, levels)
        return finish(run, levels, "reweighted tempering", jax.random.fold_in(key, levels.num_done))
