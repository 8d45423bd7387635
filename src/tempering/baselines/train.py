"""The loop that trains every baseline: blocks of steps, booked before they are made, kept, reported, ended in time.

Step i has a key of its own, and a block is any number of steps: neither the speed of a machine nor a kill changes what
a run ends in. A step that is not finite is left out, and counted.
"""

import time
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering.baselines.contract import Baseline
from tempering.baselines.plan import Plan, check, enter
from tempering.baselines.registry import baseline_of
from tempering.baselines.sampler import BaselineSampler, finished
from tempering.baselines.units import in_units
from tempering.devices import on_one
from tempering.runs.checkpoint import Journal, Nowhere, Store
from tempering.runs.ledger import APART, Ledger
from tempering.runs.records import LevelRecord, finite_or_none
from tempering.settings import BaselineSettings
from tempering.targets.base import Target
from tempering.types import Array, Bool, Event, Int, Key, OnEvent, ignore_event

__all__ = ["fit", "train"]

_BLOCK_SECONDS, _KEEP_SECONDS = 2.0, 60.0
"""A block takes about the first; a checkpoint is written after the second."""
_TIME_SHARE = 0.95
"""Of a time limit, after which training ends: the final draws come after it."""
_PART = "training"


class _Progress(eqx.Module):
    """What is kept: the state, the steps that are done, and those of them that were left out."""

    state: Any
    done: Int[Array, ""]
    num_bad: Int[Array, ""]


def fit(
    target: Target,
    key: Key,
    settings: BaselineSettings,
    *,
    start_fn: Any = None,
    ledger: Ledger | None = None,
    store: Store | None = None,
    on_event: OnEvent = ignore_event,
) -> BaselineSampler:
    """Train the baseline that the settings are of.

    Args:
        start_fn: of no use here: baselines start from their own models.
        ledger: where evaluations are entered; it may carry a budget and a clock.
        store: where finished parts are kept and found again.
        on_event: called with every event.

    Raises:
        SettingsError: for a target that the method cannot serve.
        BudgetError: if the budget is below one step; nothing is spent then.
    """
    del start_fn
    journal = Journal(ledger or Ledger(), store or Nowhere())
    plan = check(settings, target, journal.ledger.budget)
    settings = replace(settings, num_steps=plan.num_steps, num_final_draws=plan.num_final)
    key_train, key_final = jax.random.split(key)
    model = train(key_train, target, settings, plan, journal, on_event)
    return finished(key_final, model, target, settings, plan, journal, on_event)


def train(key: Key, target: Target, settings: BaselineSettings, plan: Plan, journal: Journal, on_event: OnEvent) -> Any:
    """The trained model, after `plan.num_steps` steps or when the time is over."""
    method, ledger, inner = baseline_of(settings.method), journal.ledger, in_units(target, settings.scale)
    key_init, key_steps = jax.random.split(key)
    like = eqx.filter_eval_shape(method.init, key_init, inner, settings)
    nothing = jnp.zeros((), jnp.int32)
    progress = journal.find(0, _PART, _Progress(like, nothing, nothing))
    if progress is None:
        _tell(on_event, "first samples", 0, 1, ledger, plan)
        enter(ledger, "training", target, plan.init)
        journal.levels[0] = LevelRecord(0, 1.0, proposal=method.title)
        progress = _Progress(_begin(method, settings, inner, key_init), nothing, nothing)
    num, block, kept_at = plan.num_steps, 1, time.monotonic()
    while int(progress.done) < num and not ledger.clock.ends("training", _TIME_SHARE):
        size, began = min(block, num - int(progress.done)), time.monotonic()
        enter(ledger, "training", target, plan.step * size)
        progress, info = _block(method, settings, inner, key_steps, progress, jnp.asarray(size))
        numbers = {name: finite_or_none(value) for name, value in info.items()}
        _note(journal, progress, numbers)
        _tell(on_event, "training", int(progress.done), num, ledger, plan, loss=numbers["loss"])
        block = _next_size(size, time.monotonic() - began)
        if time.monotonic() - kept_at >= _KEEP_SECONDS or int(progress.done) == num:
            journal.keep(0, _PART, progress)
            kept_at = time.monotonic()
    return progress.state.model


def _next_size(size: int, seconds: float) -> int:
    """Steps of the next block: at most four times as many, because the first includes compilation."""
    return int(np.clip(size * _BLOCK_SECONDS / max(seconds, 1e-3), 1, 4 * size))


@on_one
def _begin(method: Baseline, settings: BaselineSettings, target: Target, key: Key) -> Any:
    return method.init(key, target, settings)


@on_one
def _block(
    method: Baseline, settings: BaselineSettings, target: Target, key: Key, progress: _Progress, num: Int[Array, ""]
) -> tuple[_Progress, dict[str, Array]]:
    """`num` steps, and the means of their numbers; one program for any number."""
    arrays, rest = eqx.partition(progress.state, eqx.is_array)

    def step(index: Array, arrays: Any) -> tuple[Any, dict[str, Array]]:
        own = jax.random.fold_in(key, progress.done + index)
        state, info = method.step(own, eqx.combine(arrays, rest), target, settings)
        return state, info

    def body(index: Array, carry: tuple) -> tuple:
        before, sums, num_good, num_bad = carry
        state, info = step(index, before)
        is_good = _is_finite(state.model) & jnp.isfinite(info["loss"])
        is_bad = ~is_good | (info.get("left_out", jnp.zeros(())) > 0.0)
        after = eqx.filter(state, eqx.is_array)
        chosen = jax.tree.map(lambda new, old: jnp.where(is_good, new, old), after, before)
        sums = {name: sums[name] + jnp.where(is_good, value, 0.0) for name, value in info.items()}
        return chosen, sums, num_good + is_good.astype(int), num_bad + is_bad.astype(int)

    _, shapes = eqx.filter_eval_shape(step, jnp.zeros((), jnp.int32), arrays)
    nothing = {name: jnp.zeros((), shape.dtype) for name, shape in shapes.items()}
    zero = jnp.zeros((), jnp.int32)
    arrays, sums, num_good, num_bad = jax.lax.fori_loop(0, num, body, (arrays, nothing, zero, zero))
    means = {name: total / num_good.astype(float) for name, total in sums.items()}
    progress = _Progress(eqx.combine(arrays, rest), progress.done + num, progress.num_bad + num_bad)
    return progress, means


def _is_finite(model: Any) -> Bool[Array, ""]:
    leaves = jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array))
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in leaves]))


def _note(journal: Journal, progress: _Progress, numbers: dict[str, float | None]) -> None:
    """Write the state of training into its record, and a line into the run's statistics."""
    record = journal.levels[0]
    record.training_steps, record.num_nonfinite = int(progress.done), int(progress.num_bad)
    record.train_loss = numbers["loss"]
    record.acceptance = numbers.get("acceptance", record.acceptance)
    record.evaluations = {stage: num for stage, num in journal.ledger.points.items() if stage not in APART}
    journal.store.log({"event": "block", "step": int(progress.done), **numbers})


def _tell(on_event: OnEvent, stage: str, done: int, total: int, ledger: Ledger, plan: Plan, **numbers: Any) -> None:
    on_event(Event(stage, 0, 1, done, total, ledger.total, plan.evaluations, **numbers))
