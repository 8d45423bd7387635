"""What a baseline gives back: a `Sampler` with the same face as ours, and honest about what its method cannot say."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering.adapters import reporting
from tempering.baselines.contract import Baseline, Cost, row_keys
from tempering.baselines.findings import baseline_findings, compared
from tempering.baselines.plan import Plan, enter
from tempering.baselines.registry import baseline_of
from tempering.baselines.units import in_units
from tempering.compilation import methods_in_plain_jax
from tempering.devices import on_one
from tempering.errors import DensityError, SettingsError
from tempering.kernels import ChainState
from tempering.runs.checkpoint import Journal
from tempering.runs.ledger import APART
from tempering.runs.records import Checks, finite_or_none
from tempering.sampler import Sampler
from tempering.sampler.diagnosis import Verdict
from tempering.sampler.paid import FIT
from tempering.settings import BaselineSettings, require_count
from tempering.targets.base import Target
from tempering.targets.cost import points_per_gradient
from tempering.types import Array, Event, Float, Key, Keys, OnEvent
from tempering.weights.weigh import Weighted

__all__ = ["FORMAT", "BaselineSampler", "finished"]

FORMAT = "tempering baseline 1"
"""Of sampler.json."""
_CHUNK = 4096
"""Draws that are made side by side."""
_MOST_DRAWS = 2**31 - 1


@methods_in_plain_jax
@dataclasses.dataclass(repr=False)
class BaselineSampler(Sampler):
    """A trained baseline. Its arguments are those of a `Sampler`; `model` is whatever the method draws with.

    Args:
        inner_dim: dimension of the coordinates that the method works in.
        atoms, bonds: of a molecule, as its target has them; a network of particles is built by them.
    """

    # A method draws with a model of its own, and has neither the network nor the solver of a diffusion model.
    model: Any
    network: None
    sampling: None
    settings: Any = None
    inner_dim: int = 0
    atoms: tuple[int, ...] = ()
    bonds: tuple[tuple[int, int], ...] = ()

    @property
    def baseline(self) -> Baseline:
        """The method."""
        return baseline_of(self.settings.method)

    @property
    def dim(self) -> int:
        """Dimension of a draw."""
        return self.inner_dim if self.chart is None else self.chart.full_dim

    @property
    def _unit(self) -> float:
        return self.settings.scale

    @property
    def evaluations_per_draw(self) -> int:
        """Evaluations that every draw of `sample` costs: 0 for most methods."""
        return self._draw_cost.in_points(1 if self.target is None else points_per_gradient(self.target))

    @property
    def _draw_cost(self) -> Cost:
        return self.baseline.draw_cost(self.settings, self.inner_dim)

    def sample(self, num: int, *, seed: int = 0, solver: str | None = None) -> Any:
        """Independent draws. Methods that pay for a draw (`evaluations_per_draw`) enter it in the ledger as drawing.

        Args:
            num: how many.
            seed: the same seed gives the same draws; draw i does not depend on `num`.
            solver: None; baselines draw in one way.
        """
        require_count("num", num, most=_MOST_DRAWS)
        if solver is not None:
            raise SettingsError(f"solver = {solver!r} is not allowed: {self.method} draws in one way; leave it out")
        return self._seen(self.inner_draws(self._key(seed), int(num), "drawing"))

    def inner_draws(self, key: Key, num: int, stage: str) -> Float[Array, "num dim"]:
        """Draws in the coordinates of the target; what they cost is entered under `stage`."""
        cost, target = self._draw_cost, None
        if cost.points:
            target = self._known_target("draws")
            enter(self.ledger, stage, target, cost * num)
        inner = None if target is None else in_units(target, self._unit)
        drawn = [_drawn(self.baseline, keys, self.model, inner, self.settings) for keys in _chunks(key, num)]
        return self._unit * jnp.concatenate(drawn)

    def _known_target(self, what: str) -> Target:
        if self.target is None:
            raise DensityError(f"{what} need the density, which is not stored: load with tp.load(folder, log_density)")
        return self.target

    def proposed(self, key: Key, num: int, *, is_quasi_random: bool = False) -> Any:
        """What `weigh_proposed` takes: nothing is drawn yet, because weights come with the draws."""
        if is_quasi_random:
            raise SettingsError(f"is_quasi_random = True is not allowed: draws of {self.method} are independent")
        return key, num

    def weigh_proposed(self, proposal: Any, stage: str) -> Weighted:
        """Draws with weights; what the draw itself costs is entered as drawing, unless `stage` is apart from it."""
        key, num = proposal
        if not self.baseline.has_weights:
            raise DensityError(
                f"{self.method} has no density of its draws, and so no weights and no log Z; use `sample`, or fit by "
                "'fab', 'dds', 'cmcd' or 'ptsd', which have them"
            )
        target, whole = self._known_target("weights"), self.baseline.weigh_cost(self.settings, self.inner_dim)
        drawing = self._draw_cost if stage == "sampling" else Cost()
        if drawing.points:
            enter(self.ledger, "drawing", target, drawing * num)
        enter(self.ledger, stage, target, (whole - drawing) * num)
        with reporting(target):
            return _weighted(self.baseline, key, num, self.model, target, self.settings)

    @property
    def has_weights(self) -> bool:
        """Whether the method has weights."""
        return self.baseline.has_weights

    def inner_log_prob(self, key: Key, points: Float[Array, "num dim"]) -> Float[Array, " num"] | None:
        """Normalised log density of the model in the target's coordinates; None where the method has none."""
        del key
        shift = self.inner_dim * float(np.log(self._unit))
        values = _log_probs(self.baseline, self.model, jnp.asarray(points) / self._unit, self.settings)
        return None if values is None else values - shift

    def diagnose(self, other: Sampler | None = None, *, num: int = 2000, seed: int = 0) -> Verdict:
        """Whether the draws can be trusted, as far as the method can say: see `Sampler.diagnose`."""
        findings = baseline_findings(self)
        return Verdict((*findings, *(() if other is None else compared(self, other, num=num, seed=seed))))

    def improve(self, budget: int, *, seed: int = 0, progress: bool = True) -> Sampler:
        """Refused: baselines are trained in one go.

        Raises:
            SettingsError: always.
        """
        del budget, seed, progress
        raise SettingsError(
            f"{self.method} cannot go on after its fit; fit again with a larger `budget`, or by method='ptsd'"
        )

    def facts(self) -> dict[str, Any]:
        """Everything but the arrays, JSON-ready."""
        own = {"format": FORMAT, "inner_dim": self.inner_dim, "evaluations_per_draw": self.evaluations_per_draw}
        molecule = {"atoms": self.atoms, "bonds": self.bonds} if self.atoms else {}
        return super().facts() | own | molecule


def _chunks(key: Key, num: int) -> list[Keys]:
    return [row_keys(key, min(_CHUNK, num - first), first) for first in range(0, num, _CHUNK)]


@on_one
def _drawn(method: Baseline, keys: Keys, model: Any, target: Any, settings: Any) -> Float[Array, "num dim"]:
    return method.draw(keys, model, target, settings)


@on_one
def _drawn_weighted(method: Baseline, keys: Keys, model: Any, target: Any, settings: Any) -> Any:
    return method.draw_weighted(keys, model, target, settings)


@eqx.filter_jit
def _log_probs(method: Baseline, model: Any, points: Array, settings: Any) -> Any:
    if method.log_prob(model, points[0], settings) is None:
        return None
    return jax.lax.map(lambda x: method.log_prob(model, x, settings), points, batch_size=_CHUNK)


def _weighted(method: Baseline, key: Key, num: int, model: Any, target: Target, settings: Any) -> Weighted:
    """Weighted draws in the target's coordinates. Nobody asks for gradients there, and none are made: they are 0."""
    inner = in_units(target, settings.scale)
    parts = [_drawn_weighted(method, keys, model, inner, settings) for keys in _chunks(key, num)]
    position, log_weight, log_density = (jnp.concatenate(part) for part in zip(*parts, strict=True))
    is_usable = jnp.isfinite(log_weight) & jnp.all(jnp.isfinite(position), axis=1)
    is_outside = jnp.isneginf(log_density)
    log_density = log_density - target.dim * float(np.log(settings.scale))
    states = ChainState(settings.scale * position, log_density, jnp.zeros_like(position))
    return Weighted(states, jnp.where(is_usable, log_weight, -jnp.inf), int(jnp.sum(~is_usable & ~is_outside)))


def finished(
    key: Key, model: Any, target: Target, settings: BaselineSettings, plan: Plan, journal: Journal, on_event: OnEvent
) -> BaselineSampler:
    """The sampler of a trained model, weighed on `plan.num_final` draws where the method has weights."""
    method, ledger = baseline_of(settings.method), journal.ledger
    clock = ledger.clock
    sampler = BaselineSampler(
        model=model,
        target=target,
        method=method.title,
        network=None,
        sampling=None,
        levels=journal.ordered(),
        ledger=ledger,
        checks=Checks(time_limit=clock.limit, hurried=", ".join(clock.hurried) or None),
        chart=target.chart,
        structure=target.structure,
        settings=settings,
        inner_dim=target.dim,
        atoms=tuple(map(int, target.atom_kinds)),
        bonds=tuple((int(a), int(b)) for a, b in target.bonds),
    )
    if plan.num_final == 0:
        return sampler
    on_event(Event("final weights", 0, 1, 0, plan.num_final, ledger.total, plan.evaluations))
    weighted = sampler.weigh_proposed((key, plan.num_final), "final_weights")
    sampler.log_z, sampler.log_z_error = (finite_or_none(number) for number in weighted.log_z)
    sampler.ess_fraction, sampler.pareto_k = weighted.ess_fraction, finite_or_none(weighted.pareto_k)
    sampler.checks = dataclasses.replace(
        sampler.checks,
        num_final_draws=plan.num_final,
        log_z_final=sampler.log_z,
        log_z_final_error=sampler.log_z_error,
        determinants="exact",
    )
    sampler.levels[0].ess_fraction, sampler.levels[0].pareto_k = sampler.ess_fraction, sampler.pareto_k
    # Of what was made, and not of the plan: a time limit may have ended training.
    sampler.levels[0].evaluations = {stage: num for stage, num in ledger.points.items() if stage not in APART}
    sampler.paid.note(FIT, weighted)
    return sampler
