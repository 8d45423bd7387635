"""PT+DM: parallel tempering over the whole ladder, then one diffusion model on the samples at T = 1.

Consumes a target and a key; produces a `Sampler`. Algorithm only; the numerics are the stages'.
"""

import equinox as eqx
import jax

from tempering.buffer import Buffer, blank_buffer
from tempering.diffusion.calibrate import dataset_of, largest_sigma
from tempering.errors import BudgetError
from tempering.methods.exploration import Explored, explore
from tempering.methods.learning import Networks, final_sampler, learn, new_networks
from tempering.methods.preparation import Teller, kernel_of, planned_pilot, prepare
from tempering.parallel_tempering import betas_of, initial, temperatures_of
from tempering.runs.checkpoint import Nowhere, Progress, Store
from tempering.runs.ledger import Ledger
from tempering.sampler import Sampler
from tempering.settings import PTDMSettings
from tempering.targets.cost import has_gradient, points_per_gradient
from tempering.types import Array, Float, Key, OnEvent, ignore_event

__all__ = ["fit", "plan"]


class Coldest(eqx.Module):
    """The buffer at T = 1 and the noise range."""

    buffer: Buffer
    sigma_max: Float[Array, ""]


def plan(settings: PTDMSettings, dim: int) -> dict[str, int]:
    """The evaluations a run will make, by stage: exactly, given a ladder whose hottest temperature is known."""
    num_levels = len(temperatures_of(settings.ladder, dim=dim))
    return planned_pilot(settings, kernel_of(settings, dim)) | {
        "initial_pt": initial.planned_evaluations(settings.initial, num_levels, kernel_of(settings, dim)),
        "final_weights": settings.num_final_draws,
    }


def fit(
    target,
    key: Key,
    settings: PTDMSettings,
    *,
    start_fn: initial.StartFn | None = None,
    ledger: Ledger | None = None,
    store: Store | None = None,
    on_event: OnEvent = ignore_event,
) -> Sampler:
    """Train a sampler for `target` by PT+DM; arguments as in `ptsd.fit`."""
    progress = Progress(ledger or Ledger(), store or Nowhere())
    tell = Teller(on_event, progress, 0)
    settings, prepared = prepare(jax.random.fold_in(key, 0), target, settings, start_fn, progress, tell)
    temperatures = prepared.temperatures
    last = len(temperatures) - 1
    _announce(settings, len(temperatures), target, progress, tell)
    key_explore, key_network, key_learn, key_final = jax.random.split(jax.random.fold_in(key, 1), 4)

    def explored() -> Coldest:
        found: Explored = explore(
            key_explore,
            target,
            kernel_of(settings, target.dim),
            prepared.start_fn,
            prepared.units,
            temperatures,
            settings,
            progress,
            tell,
        )
        coldest = found.buffers[-1]
        sigma_max = largest_sigma(settings.noise, coldest)
        return Coldest(coldest, sigma_max)

    betas = betas_of(temperatures)
    blank = Coldest(blank_buffer(target.dim, has_reference=getattr(target, "reference", None) is not None), betas[0])
    coldest: Coldest = progress.part(last, "buffer", blank, explored)

    def learned() -> Networks:
        data = dataset_of(
            settings.noise,
            (coldest.buffer,),
            betas[-1:],
            coldest.sigma_max,
            use_gradients=settings.training.use_gradients,
            has_gradients=has_gradient(target),
        )
        networks = new_networks(key_network, target.dim, settings.network, 1)
        steps = settings.training.num_steps
        return learn(key_learn, networks.all, (data,), (last,), steps, settings, progress, tell)

    like = new_networks(key_network, target.dim, settings.network, 1, is_blank=True)
    networks = progress.part(last, "model", like, learned)
    return final_sampler(
        key_final,
        target,
        "PT+DM",
        networks.all[0],
        coldest.buffer,
        coldest.sigma_max,
        settings,
        progress,
        tell,
        prepared.warnings(),
        prepared.checks,
        ((coldest.buffer, betas[-1]),),
    )


def _announce(settings: PTDMSettings, num_levels: int, target, progress: Progress, tell: Teller) -> None:
    """Settle what the run will cost, and refuse it if the budget is smaller."""
    tell.num_levels = num_levels
    cost = initial.planned_evaluations(settings.initial, num_levels, kernel_of(settings, target.dim))
    cost = points_per_gradient(target) * (cost + settings.num_final_draws)
    tell.planned = progress.ledger.points.get("pilot", 0) + cost
    budget = progress.ledger.budget
    if budget is not None and tell.planned > budget:
        raise BudgetError(
            f"the plan needs {tell.planned:,} evaluations over {num_levels} temperatures, more than the budget of "
            f"{budget:,}; raise the budget, or lower initial.num_steps, initial.num_chains or the number of levels"
        )
