"""The progressive loop: Algorithm 1 of the paper. It reads as the algorithm and holds no numerics.

Consumes a target and a key; produces a `Sampler`. Parallel tempering at the two hottest levels, a denoiser for each;
then, level by level: guided samples, importance weights, resampling, local PT refinement, fine-tuning.
"""

import equinox as eqx
import jax

from tempering.buffer import Buffer, blank_buffer
from tempering.checkpoint import Nowhere, Progress, Store
from tempering.diffusion import Denoiser, DiffusionModel
from tempering.diffusion.calibrate import largest_sigma, noise_levels, prior_of
from tempering.errors import BudgetError
from tempering.exploration import Explored, explore
from tempering.guidance import Guided, guidance_weight
from tempering.importance import importance_resample, keep_usable, weigh
from tempering.kernels.step_size import rescale
from tempering.learning import denoiser_like, final_sampler, fresh, learn, warm
from tempering.ledger import Ledger
from tempering.parallel_tempering import betas_of, initial, temperatures_of
from tempering.preparation import Prepared, Teller, kernel_of, prepare
from tempering.records import LevelRecord, finite_or_none
from tempering.refinement import planned_evaluations as refinement_evaluations
from tempering.refinement import refine
from tempering.sampler import Sampler
from tempering.settings import PTSDSettings
from tempering.types import Array, Float, Key, OnEvent, ignore_event

__all__ = ["fit", "plan"]


class Pair(eqx.Module):
    """The buffers of two neighbouring levels and their step sizes; `sigma_max` holds for the whole run."""

    hot: Buffer
    cold: Buffer
    step_size: Float[Array, " two"]
    sigma_max: Float[Array, ""]


class Models(eqx.Module):
    """The denoisers of two neighbouring levels."""

    hot: Denoiser
    cold: Denoiser


def plan(settings: PTSDSettings, dim: int) -> dict[str, int]:
    """The evaluations a run will make, by stage: exactly, given a ladder whose hottest temperature is known."""
    kernel = kernel_of(settings)
    num_levels = len(temperatures_of(settings.ladder, dim=dim))
    refinement = refinement_evaluations(settings.refinement, settings.buffer_size, kernel)
    return {
        "initial_pt": initial.planned_evaluations(settings.initial, min(2, num_levels), kernel),
        "importance_weights": settings.buffer_size * max(0, num_levels - 2),
        "refinement": refinement * max(0, num_levels - 2),
        "final_weights": settings.num_final_draws,
    }


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
    prepared = prepare(jax.random.fold_in(key, 0), target, settings, start_fn, progress, tell)
    _announce(settings, prepared, target.dim, progress, tell)
    betas = betas_of(prepared.temperatures)

    pair, models = _start(jax.random.fold_in(key, 1), target, settings, prepared, betas, progress, tell)
    for level in range(2, len(prepared.temperatures)):
        pair, models = _descend(
            jax.random.fold_in(key, level), target, settings, prepared, betas, level, pair, models, progress, tell
        )
    return final_sampler(
        jax.random.fold_in(key, len(prepared.temperatures)),
        target,
        "PTSD",
        models.cold,
        pair.cold,
        pair.sigma_max,
        settings,
        progress,
        tell,
        prepared.warnings(),
    )


def _announce(settings: PTSDSettings, prepared: Prepared, dim: int, progress: Progress, tell: Teller) -> None:
    """Settle what the run will cost, and refuse it if the budget is smaller."""
    tell.num_levels = len(prepared.temperatures)
    kernel = kernel_of(settings)
    per_level = settings.buffer_size + refinement_evaluations(settings.refinement, settings.buffer_size, kernel)
    first = initial.planned_evaluations(settings.initial, 2, kernel)
    tell.planned = (
        progress.ledger.points.get("pilot", 0) + first + per_level * (tell.num_levels - 2) + settings.num_final_draws
    )
    budget = progress.ledger.budget
    if budget is not None and tell.planned > budget:
        raise BudgetError(
            f"the plan needs {tell.planned:,} evaluations over {tell.num_levels} levels, more than the budget of "
            f"{budget:,}; raise the budget, or lower buffer_size, initial.num_steps, refinement.num_steps or the levels"
        )


def _start(key, target, settings, prepared, betas, progress, tell) -> tuple[Pair, Models]:
    """Initialise the two hottest levels: PT, then a model for each."""
    key_explore, key_network, key_learn = jax.random.split(key, 3)
    blank = blank_buffer(target.dim)

    def explored() -> Pair:
        found: Explored = explore(
            key_explore,
            target,
            kernel_of(settings),
            prepared.start_fn,
            prepared.temperatures[:2],
            settings,
            progress,
            tell,
        )
        hot, cold = found.buffers
        return Pair(hot, cold, found.step_size, largest_sigma(settings.noise, hot))

    pair = progress.part(1, "buffer", Pair(blank, blank, betas[:2], betas[0]), explored)

    def learned() -> Models:
        buffers = (pair.hot, pair.cold)
        denoisers = fresh(key_network, buffers, settings)
        steps = settings.training.num_steps
        return Models(
            *learn(key_learn, denoisers, buffers, (0, 1), betas, pair.sigma_max, settings, steps, progress, tell)
        )

    like = denoiser_like(target.dim, settings.network)
    return pair, progress.part(1, "model", Models(like, like), learned)


def _descend(key, target, settings, prepared, betas, level, pair, models, progress, tell) -> tuple[Pair, Models]:
    """One level down: extrapolate, weigh, resample, refine, fine-tune."""
    key_buffer, key_learn = jax.random.split(key)

    def buffered() -> Pair:
        return _next_buffers(key_buffer, target, settings, prepared, betas, level, pair, models, progress, tell)

    new_pair = progress.part(level, "buffer", pair, buffered)

    def learned() -> Models:
        buffers = (new_pair.hot, new_pair.cold)
        denoisers = warm(models.cold, buffers, settings)
        is_last = level == len(prepared.temperatures) - 1
        steps = settings.training.num_finetune_steps
        steps = settings.training.num_steps if is_last or steps is None else steps
        levels = (level - 1, level)
        return Models(
            *learn(key_learn, denoisers, buffers, levels, betas, new_pair.sigma_max, settings, steps, progress, tell)
        )

    return new_pair, progress.part(level, "model", models, learned)


def _next_buffers(key, target, settings, prepared, betas, level, pair, models, progress, tell) -> Pair:
    """Samples of the new level by temperature guidance, corrected by weights and refinement."""
    key_draw, key_resample, key_refine = jax.random.split(key, 3)
    num, temperature = settings.buffer_size, prepared.temperatures[level]
    is_last = level == len(prepared.temperatures) - 1
    before = dict(progress.ledger.points)

    weight = guidance_weight(1 / betas[level], 1 / betas[level - 1], 1 / betas[level - 2], settings.guidance.coordinate)
    guided = DiffusionModel(
        Guided(models.cold, models.hot, weight),
        prior_of(settings.noise, pair.cold, pair.sigma_max),
        noise_levels(
            settings.noise, pair.cold, betas[level - 1], pair.sigma_max, colder_by=betas[level] / betas[level - 1]
        ),
    )
    x, log_q = guided.draw(
        key_draw,
        num,
        settings.sampling,
        with_density=True,
        on_chunk=lambda done: tell("guided sampling", level, done, num, temperature=temperature),
    )
    weighted = weigh(target, x, log_q, betas[level], ledger=progress.ledger, stage="importance_weights")
    record = LevelRecord(level, temperature, ess_fraction=weighted.ess_fraction, num_nonfinite=weighted.num_nonfinite)
    record.log_z, record.log_z_error = (finite_or_none(value) for value in weighted.log_z)
    if is_last and not settings.resampling.is_last_resampled:
        cold = keep_usable(key_resample, weighted)
    else:
        cold, record.truncated_ess_fraction = importance_resample(key_resample, weighted, settings.resampling)
    progress.levels[level] = record

    colder = rescale(pair.step_size[1], 1 / betas[level], 1 / betas[level - 1], kernel_of(settings).scale_power)
    hot, step_size = pair.cold, pair.step_size.at[0].set(pair.step_size[1]).at[1].set(colder)
    if settings.refinement.num_steps > 0:
        hot, cold, step_size = _refined(
            key_refine, target, settings, betas, level, hot, cold, step_size, progress, tell
        )
    points = progress.ledger.points
    record.evaluations = {stage: n - before.get(stage, 0) for stage, n in points.items() if n > before.get(stage, 0)}
    return Pair(hot, cold, step_size, pair.sigma_max)


def _refined(key, target, settings, betas, level, hot, cold, step_size, progress, tell) -> tuple[Buffer, Buffer, Array]:
    """Local PT between the previous and the new level."""
    kernel = kernel_of(settings)
    record = progress.levels[level]
    hot, cold, step_size, tally = refine(
        key,
        target,
        kernel,
        hot,
        cold,
        betas[level - 1 : level + 1],
        step_size,
        settings.refinement,
        swap_interval=settings.exploration.swap_interval,
        swap_scheme=settings.exploration.swap_scheme,
        target_acceptance=settings.exploration.target_acceptance or kernel.optimal_acceptance,
        ledger=progress.ledger,
        on_block=lambda done, state: tell(
            "refinement",
            level,
            done,
            settings.refinement.num_steps,
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
    return hot, cold, step_size
