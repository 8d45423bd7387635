"""The progressive loop: Algorithm 1 of the paper. It reads as the algorithm and holds no numerics.

Consumes a target and a key; produces a `Sampler`. Parallel tempering at the two hottest levels and a first fit; then,
level by level: the next temperature, a proposal from what is known, importance weights, local PT refinement, learning.
"""

from dataclasses import dataclass

import equinox as eqx
import jax

from tempering.buffer import Buffer, blank_buffer, in_units, out_of_units, reweighted
from tempering.diffusion import Dataset
from tempering.diffusion.calibrate import dataset_of, largest_sigma
from tempering.errors import BudgetError
from tempering.guidance.choose import History, choose
from tempering.kernels.step_size import rescale
from tempering.methods.exploration import Explored, explore
from tempering.methods.learning import (
    Networks,
    checked_log_z,
    data_of_all_levels,
    final_sampler,
    learn,
    new_networks,
    num_places,
    place_size,
)
from tempering.methods.planning import plan, planned_draws, planned_refinements
from tempering.methods.preparation import Prepared, Teller, kernel_of, prepare
from tempering.parallel_tempering import betas_of, initial, next_temperature
from tempering.refinement import refine
from tempering.runs.checkpoint import Nowhere, Progress, Store
from tempering.runs.ledger import Ledger
from tempering.runs.records import LevelRecord, finite_or_none
from tempering.sampler import Sampler
from tempering.sampler.diagnosis import coverage
from tempering.settings import PTSDSettings
from tempering.targets import Scaled
from tempering.targets.cost import has_gradient, points_per_gradient
from tempering.types import Array, Float, Key, OnEvent, ignore_event
from tempering.weights.weigh import Weighted, corrected, keep_usable, weigh

__all__ = ["fit", "plan"]

_MOST_LEVELS = 64
"""Of an adaptive ladder without a budget that ends it sooner."""


class Pair(eqx.Module):
    """The buffers of two neighbouring levels and their step sizes; `sigma_max` holds for the whole run."""

    hot: Buffer
    cold: Buffer
    step_size: Float[Array, " two"]
    sigma_max: Float[Array, ""]


@dataclass
class _Run:
    """What every stage needs, and the levels so far: temperatures (the next one included), buffers, networks."""

    target: object
    settings: PTSDSettings
    prepared: Prepared
    progress: Progress
    tell: Teller
    most_levels: int
    temperatures: list[float]
    buffers: list[Buffer]
    step_size: Float[Array, " two"]
    sigma_max: Float[Array, ""]
    networks: Networks

    def history(self) -> History:
        betas, has_gradients = betas_of(tuple(self.temperatures)), has_gradient(self.target)
        return History(tuple(self.buffers), betas, self.networks.all, self.sigma_max, has_gradients)


def fit(
    target,
    key: Key,
    settings: PTSDSettings,
    *,
    start_fn: initial.StartFn | None = None,
    ledger: Ledger | None = None,
    store: Store | None = None,
    on_event: OnEvent = ignore_event,
) -> Sampler:
    """Train a sampler for `target` by PTSD.

    Args:
        start_fn: starting points of chains; None takes normals of `settings.initial.scale`.
        ledger: where evaluations are entered; it may carry a budget.
        store: where finished parts are kept and found again.
        on_event: told of progress.

    Raises:
        BudgetError: if the plan exceeds the ledger's budget; nothing is spent then but a pilot.
    """
    progress = Progress(ledger or Ledger(), store or Nowhere())
    tell = Teller(on_event, progress, 0)
    settings, prepared = prepare(jax.random.fold_in(key, 0), target, settings, start_fn, progress, tell)
    most_levels = _announce(settings, prepared, target, progress, tell)

    run = _start(jax.random.fold_in(key, 1), target, settings, prepared, most_levels, progress, tell)
    while len(run.temperatures) > len(run.buffers):
        _descend(jax.random.fold_in(key, len(run.buffers)), run)
    return final_sampler(
        jax.random.fold_in(key, len(run.temperatures)),
        target,
        "PTSD",
        run.networks.all[-1],
        run.buffers[-1],
        run.sigma_max,
        settings,
        progress,
        tell,
        prepared.warnings(),
        prepared.checks,
        tuple(zip(run.buffers[:-1], betas_of(tuple(run.temperatures[:-1])), strict=True)),
    )


def _announce(settings: PTSDSettings, prepared: Prepared, target, progress: Progress, tell: Teller) -> int:
    """Settle what the run will cost, and refuse it if the budget is smaller; the most levels it may have."""
    tell.num_levels = len(prepared.temperatures)
    kernel, budget, each = kernel_of(settings, target.dim), progress.ledger.budget, points_per_gradient(target)
    draws, refined = planned_draws(settings), planned_refinements(settings, kernel)
    per_level, last = (each * (drawn + moved) for drawn, moved in zip(draws, refined, strict=True))
    first = initial.planned_evaluations(settings.initial, 2, kernel)
    fixed = progress.ledger.points.get("pilot", 0) + each * (first + settings.num_final_draws)
    most_levels = tell.num_levels
    if _is_adaptive(settings):
        most_levels = settings.ladder.num_levels or _MOST_LEVELS
        if budget is not None:
            most_levels = max(3, min(most_levels, 3 + (budget - fixed - last) // per_level))
        tell.num_levels = min(tell.num_levels, most_levels)
    tell.planned = fixed + (per_level * (tell.num_levels - 3) + last if tell.num_levels > 2 else 0)
    if budget is not None and tell.planned > budget:
        raise BudgetError(
            f"the plan needs {tell.planned:,} evaluations over {tell.num_levels} levels, more than the budget of "
            f"{budget:,}; raise the budget, or lower buffer_size, initial.num_steps, refinement.num_steps or the levels"
        )
    return most_levels


def _is_adaptive(settings: PTSDSettings) -> bool:
    return settings.ladder.spacing == "adaptive" and settings.ladder.temperatures is None


def _add_next_temperature(run: _Run) -> None:
    """Append the next temperature: of the ladder, or as cold as the last buffer can be reweighted to."""
    done = len(run.buffers)
    if run.temperatures[-1] <= 1.0:
        return
    if not _is_adaptive(run.settings):
        run.temperatures.append(run.prepared.temperatures[done])
        return
    last, buffer = run.temperatures[-1], run.buffers[-1]
    aim = next_temperature(buffer.states().log_ratio, buffer.weight, last)
    # No more levels than there are evaluations for: then they are spaced evenly instead.
    run.temperatures.append(min(aim, last ** (1.0 - 1.0 / max(1, run.most_levels - done))))


def _start(key, target, settings, prepared, most_levels, progress, tell) -> _Run:
    """Initialise the two hottest levels: PT, then a first fit."""
    key_explore, key_network, key_learn = jax.random.split(key, 3)
    first = prepared.temperatures[:2]

    def explored() -> Pair:
        kernel, units = kernel_of(settings, target.dim), prepared.units
        found: Explored = explore(
            key_explore, target, kernel, prepared.start_fn, units, first, settings, progress, tell
        )
        hot, cold = found.buffers
        return Pair(hot, cold, found.step_size, largest_sigma(settings.noise, hot))

    blank = blank_buffer(target.dim, has_reference=getattr(target, "reference", None) is not None)
    betas = betas_of(first)
    pair = progress.part(1, "buffer", Pair(blank, blank, betas, betas[0]), explored)
    networks = new_networks(key_network, target.dim, settings.network, _num_networks(settings))
    run = _Run(
        target,
        settings,
        prepared,
        progress,
        tell,
        most_levels,
        list(first),
        [pair.hot, pair.cold],
        pair.step_size,
        pair.sigma_max,
        networks,
    )
    _add_next_temperature(run)
    _learn(key_learn, run)
    return run


def _num_networks(settings: PTSDSettings) -> int:
    """One for all levels or for the last alone, or those of the last two."""
    return 1 if settings.network.is_shared or settings.is_reweighting else 2


def _descend(key: Key, run: _Run) -> None:
    """One level down: propose, weigh, refine, settle the next temperature, learn."""
    key_buffer, key_learn = jax.random.split(key)
    level = len(run.buffers)
    like = Pair(run.buffers[-1], run.buffers[-1], run.step_size, run.sigma_max)
    pair = run.progress.part(level, "buffer", like, lambda: _next_buffers(key_buffer, run, level))
    run.buffers[-1] = pair.hot
    run.buffers.append(pair.cold)
    run.step_size = pair.step_size
    _add_next_temperature(run)
    is_known = run.temperatures[-1] <= 1.0
    run.tell.num_levels = len(run.temperatures) if is_known else max(run.tell.num_levels, len(run.temperatures) + 1)
    _learn(key_learn, run)


def _learn(key: Key, run: _Run) -> None:
    """Fit the networks to what is known now; a warm start after the first time."""
    settings, level = run.settings, len(run.buffers) - 1
    is_first, is_last = level == 1, run.temperatures[-1] <= 1.0 and len(run.temperatures) == len(run.buffers)
    if settings.is_reweighting and not is_last:
        return
    steps = settings.training.num_finetune_steps
    steps = settings.training.num_steps if is_first or is_last or steps is None else steps

    def learned() -> Networks:
        if settings.network.is_shared:
            betas = betas_of(tuple(run.temperatures))
            room = num_places(settings, run.most_levels)
            has_gradients = has_gradient(run.target)
            everything = data_of_all_levels(tuple(run.buffers), betas, run.sigma_max, settings, room, has_gradients)
            data, networks, levels = (everything,), run.networks.all, (level,)
        else:
            num = _num_networks(settings)
            levels = tuple(range(level + 1 - num, level + 1))
            data = _own_data(run, levels)
            networks = run.networks.all if is_first else (run.networks.all[-1],) * num
        return learn(key, networks, data, levels, steps, settings, run.progress, run.tell)

    run.networks = run.progress.part(level, "model", run.networks, learned)


def _own_data(run: _Run, levels: tuple[int, ...]) -> tuple[Dataset, ...]:
    """The data of one network a level."""
    settings, betas = run.settings, betas_of(tuple(run.temperatures))
    size = place_size(settings)
    room = max(-(-run.buffers[k].size // size) for k in levels)
    return tuple(
        dataset_of(
            settings.noise,
            (run.buffers[k],),
            betas[k : k + 1],
            run.sigma_max,
            use_gradients=settings.training.use_gradients,
            has_gradients=has_gradient(run.target),
            size=size,
            num_places=room,
        )
        for k in levels
    )


def _next_buffers(key: Key, run: _Run, level: int) -> Pair:
    """Samples of the new level from a proposal, corrected by weights and refinement."""
    key_choose, key_draw, key_resample, key_refine = jax.random.split(key, 4)
    settings, progress, temperature = run.settings, run.progress, run.temperatures[level]
    before = dict(progress.ledger.points)
    betas = betas_of((run.temperatures[level - 1], temperature))
    record = LevelRecord(level, temperature)
    if settings.is_reweighting:
        weighted = _taken_over(run, betas, record)
    else:
        weighted = _drawn(key_choose, key_draw, run, betas, record)
    levels = settings.resampling.levels
    if levels == "none" or (temperature <= 1.0 and levels == "but_last"):
        cold = keep_usable(key_resample, weighted)
    else:
        cold, record.truncated_ess_fraction = corrected(key_resample, weighted, settings.resampling)
    progress.levels[level] = record

    kernel = kernel_of(settings, cold.position.shape[1])
    previous = run.step_size[1], 1 / betas[0]
    step_size = jax.vmap(lambda temperature: rescale(previous[0], temperature, previous[1], kernel.scale_power))
    pair = Pair(run.buffers[-1], cold, step_size(1 / betas), run.sigma_max)
    if settings.refinement_at(temperature).num_steps > 0:
        pair = _refined(key_refine, run, betas, level, pair)
    points = progress.ledger.points
    record.evaluations = {stage: n - before.get(stage, 0) for stage, n in points.items() if n > before.get(stage, 0)}
    return pair


def _drawn(key: Key, key_draw: Key, run: _Run, betas: Array, record: LevelRecord) -> Weighted:
    """New samples from the proposal that promises most, with their weights; what they say goes into the record."""
    settings, progress, temperature, level = run.settings, run.progress, record.temperature, record.level
    is_last = temperature <= 1.0
    num = _num_draws(run, is_last)
    history = run.history()
    beta = betas[1]
    run.tell("choosing a proposal", level, 0, 1, temperature=temperature)
    name, model, promises = choose(key, history, settings)
    is_even = settings.sampling.is_quasi_random
    x, log_q = model.draw(
        key_draw,
        num,
        settings.sampling,
        with_density=True,
        is_quasi_random=is_even,
        on_chunk=lambda done: run.tell("guided sampling", level, done, num, temperature=temperature),
    )
    weighted = weigh(run.target, x, log_q, beta, ledger=progress.ledger, stage="importance_weights")
    record.ess_fraction, record.num_nonfinite = weighted.ess_fraction, weighted.num_nonfinite
    record.proposal, record.predicted_ess_fraction = name, promises.get(name)
    # Only at T = 1 does anybody rely on it.
    log_z = checked_log_z(key_draw, model, settings.sampling, weighted, is_quasi_random=is_even) if is_last else None
    record.log_z, record.log_z_error = (finite_or_none(value) for value in log_z or weighted.log_z)
    record.pareto_k, record.num_draws = finite_or_none(weighted.pareto_k), num
    above = ((history.buffers[-1], betas[0]),)
    log_prob = lambda key, x: model.log_prob(key, x, settings.sampling)  # noqa: E731
    seen = coverage(jax.random.fold_in(key, 1), log_prob, above, weighted.log_weights, beta)
    record.hidden_share, record.hidden_error = seen.get("hidden_share"), seen.get("hidden_error")
    record.num_hidden = seen.get("num_hidden")
    return weighted


def _taken_over(run: _Run, betas: Array, record: LevelRecord) -> Weighted:
    """The samples of the level before, weighted for this one by log densities that are paid for."""
    there = reweighted(run.buffers[-1], betas[0], betas[1])
    weighted = Weighted(there.states(), there.log_weight, num_nonfinite=0)
    record.proposal, record.ess_fraction = "reweighted", weighted.ess_fraction
    record.pareto_k = finite_or_none(weighted.pareto_k)
    return weighted


def _num_draws(run: _Run, is_last: bool) -> int:
    """Samples of the next level. Where the budget sets the sizes, the last level has all that is left of it."""
    settings, ledger = run.settings, run.progress.ledger
    if not is_last:
        return settings.level_size or settings.buffer_size
    if settings.is_sized_by_budget and ledger.budget is not None:
        return (ledger.budget - ledger.total) // points_per_gradient(run.target) - settings.num_final_draws
    return settings.last_buffer_size or settings.buffer_size


def _refined(key: Key, run: _Run, betas: Array, level: int, pair: Pair) -> Pair:
    """Local PT between the previous and the new level."""
    settings, record = run.settings, run.progress.levels[level]
    kernel, refinement = kernel_of(settings, pair.cold.position.shape[1]), settings.refinement_at(record.temperature)
    units = run.prepared.units
    hot, cold, step_size, tally = refine(
        key,
        Scaled(run.target, units),
        kernel,
        in_units(pair.hot, units),
        in_units(pair.cold, units),
        betas,
        pair.step_size,
        refinement,
        swap_interval=settings.exploration.swap_interval,
        swap_scheme=settings.exploration.swap_scheme,
        target_acceptance=kernel.optimal_acceptance,
        resampling_scheme=settings.resampling.scheme,
        ledger=run.progress.ledger,
        on_block=lambda done, state: run.tell(
            "refinement",
            level,
            done,
            refinement.num_steps,
            temperature=record.temperature,
            ess_fraction=record.ess_fraction,
            acceptance=float(state.tally.acceptance_rate[1]),
        ),
    )
    record.acceptance = finite_or_none(tally.acceptance_rate[1])
    record.swap_rate = finite_or_none(tally.swap_rate[0])
    record.round_trips = int(tally.round_trips)
    record.step_size = finite_or_none(step_size[1])
    record.num_nonfinite += int(tally.num_nonfinite.sum())
    return Pair(out_of_units(hot, units), out_of_units(cold, units), step_size, pair.sigma_max)
