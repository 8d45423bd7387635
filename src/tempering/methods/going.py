"""What every stage of an improvement needs: the sampler, the account, the plan and the record."""

from dataclasses import dataclass, field
from typing import Any

import equinox as eqx
import jax
import numpy as np

from tempering.atlas.mixture import StudentMixture
from tempering.buffer import Buffer
from tempering.diffusion import DiffusionModel
from tempering.errors import BudgetError
from tempering.methods.budget import num_final_draws
from tempering.runs.ledger import Ledger
from tempering.runs.records import IMPROVED, LevelRecord
from tempering.sampler import Sampler
from tempering.settings import MethodSettings, PTSDSettings, resolved
from tempering.targets import Target
from tempering.targets.cost import has_gradient, points_per_gradient
from tempering.types import Array, Event, Float, Key, OnEvent
from tempering.weights.weigh import Weighted

__all__ = ["Going", "Known", "Modes", "begin_again"]

_LEAST = 1000
"""Points below which neither searches nor draws nor weights say anything."""
_SEARCH_SHARE = 0.25
"""Of the budget, for searches, at the most."""
_LEAST_SEARCH = 1000
"""Points below which searches do not arrive anywhere."""
_LARGEST_DIM = 256
"""As of the atlas: second derivatives are as many evaluations for every optimum."""

Modes = tuple[StudentMixture, float] | None
"""Modes that a model lacks, and their mass over that of all; None where it lacks none."""


@dataclass
class Going:
    """What every stage needs.

    Args:
        ledger: a copy of the sampler's, with `budget` evaluations more.
        keys: one for each stage, by name.
        plan: points of the searches, of the draws and of the final weights.
        record: of this improvement.
        fresh: new draws of the model from before, by name.
    """

    sampler: Sampler
    target: Target
    settings: MethodSettings
    ledger: Ledger
    keys: dict[str, Key]
    plan: dict[str, int]
    record: LevelRecord
    on_event: OnEvent
    fresh: dict[str, Weighted] = field(default_factory=dict)

    def log_model(self, key: Key, position: Float[Array, "point dim"]) -> np.ndarray:
        """Log density of the model from before."""
        if position.shape[0] == 0:
            return np.zeros(0)
        return np.asarray(self.sampler.model.log_prob(key, position, self.sampler.sampling), np.float64)

    def tell(self, stage: str, done: int, total: int, **numbers) -> None:
        """Report progress."""
        level, spent, planned = self.record.level, self.ledger.total, self.ledger.budget or 0
        self.on_event(Event(stage, level, level + 1, done, total, spent, planned, temperature=1.0, **numbers))

    def draw(self, key: Key, num: int, model: DiffusionModel, stage: str) -> tuple[Array, Array]:
        """Draws of a model with their log densities."""
        tell = lambda done: self.tell(stage, done, num)  # noqa: E731
        return model.draw(key, num, self.sampler.sampling, with_density=True, on_chunk=tell)


class Known(eqx.Module):
    """Weighted draws of the model from before, with its log density at each, and log Z from them."""

    draws: Buffer
    log_model: np.ndarray
    log_z: float


def begin_again(sampler: Sampler, budget: int, key: Key, on_event: OnEvent) -> Going:
    """The account, the plan and the keys; a budget that is too small is refused.

    Raises:
        BudgetError: with the least.
    """
    target, settings = sampler.target, _settings(sampler)
    each = points_per_gradient(target)
    num = budget // each
    if num < _LEAST:
        raise BudgetError(
            f"a budget of {budget:,} evaluations is too small to improve a sampler: give at least {_LEAST * each:,}"
        )
    old = sampler.ledger
    ledger = Ledger(old.total + budget, dict(old.points), dict(old.value_only))
    # Another call with the same seed must not make the same draws again.
    names = ("first", "search", "modes", "draw", "pool", "learn", "judge", "final")
    keys: dict[str, Key] = dict(
        zip(names, jax.random.split(jax.random.fold_in(key, old.total % 2**32), len(names)), strict=True)
    )
    is_searched = has_gradient(target) and target.geometry is None and target.dim <= _LARGEST_DIM
    is_flow = sampler.sampling.solver in ("heun", "euler")  # weights of churned paths have no density to mix with
    final = num_final_draws(settings, num)
    search = int(_SEARCH_SHARE * num) if is_searched and is_flow else 0
    search = search if search >= _LEAST_SEARCH else 0
    plan = {"search": search, "final": final, "draw": num - final - search}
    record = LevelRecord(len(sampler.levels), 1.0, proposal=IMPROVED)
    return Going(sampler, target, settings, ledger, keys, plan, record, on_event)


def _settings(sampler: Sampler) -> MethodSettings:
    """Those of the fit, or the defaults where they are not known."""
    if sampler.settings is not None:
        return sampler.settings
    particles: dict[str, Any] = {} if sampler.geometry is None else sampler.geometry.as_dict()
    own = PTSDSettings(network=sampler.network, sampling=sampler.sampling)
    return resolved(own, sampler.target.dim, **particles)
