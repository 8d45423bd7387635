"""What every method does before it samples: settle ladder, start and sizes, by a counted pilot if need be."""

import dataclasses
from dataclasses import dataclass, field
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering.kernels import Kernel, make_kernel
from tempering.methods.automatic import default_budget, pilot_settings, sized
from tempering.methods.start import own_start
from tempering.parallel_tempering import heat, temperatures_of
from tempering.parallel_tempering.initial import StartFn, rows_start
from tempering.parallel_tempering.pilot.heat import Measure, planned_evaluations
from tempering.runs.checkpoint import Progress
from tempering.runs.records import finite_or_none
from tempering.settings import MethodSettings, require
from tempering.targets import Units
from tempering.targets.cost import has_gradient, points_per_gradient
from tempering.targets.units import chosen_units
from tempering.types import Array, Event, Float, Int, Key, OnEvent

Settings = TypeVar("Settings", bound=MethodSettings)

__all__ = ["Prepared", "Teller", "kernel_of", "planned_pilot", "prepare", "suited"]


@dataclass(frozen=True)
class Prepared:
    """The ladder and the start of a run, and the units in which kernels move.

    `rhats` are the pilot's, by temperature; empty where none was run, and units are then those of masses alone.
    `checks` is what the pilot has to say to a verdict.
    """

    temperatures: tuple[float, ...]
    start_fn: StartFn
    units: Units
    rhats: tuple[tuple[float, float], ...] = ()
    is_mixed: bool = True
    checks: dict[str, float | bool | None] = field(default_factory=dict)

    def warnings(self) -> tuple[str, ...]:
        """What the pilot found wanting."""
        if self.is_mixed:
            return ()
        temperature, rhat = self.rhats[-1]
        return (
            f"the pilot's chains did not mix at any temperature it tried (R-hat {rhat:.2f} at T = {temperature:g}): "
            "modes may be missing; give `scale=` or `init=` that covers them, a hotter `ladder=`, or more pilot steps",
        )


class Teller:
    """Turns what a stage knows into events: it adds level count, evaluations spent and evaluations planned."""

    def __init__(self, on_event: OnEvent, progress: Progress, planned: int):
        self.on_event, self.progress, self.planned = on_event, progress, planned
        self.num_levels = 0

    def __call__(self, stage: str, level: int, done: int, total: int, **numbers) -> None:
        """One event."""
        spent = self.progress.ledger.total
        self.on_event(Event(stage, level, self.num_levels, done, total, spent, self.planned, **numbers))


class _PilotPart(eqx.Module):
    """The pilot's result as arrays, so that it can be kept."""

    hottest: Float[Array, ""]
    is_mixed: Int[Array, ""]
    rhats: Float[Array, "round two"]
    positions: Float[Array, "chain dim"]
    scale: Float[Array, " dim"]
    scouts: Float[Array, " three"]
    matrix: Float[Array, "m m"] | None
    inverse: Float[Array, "m m"] | None


def kernel_of(settings: MethodSettings, dim: int) -> Kernel:
    """The Markov kernel of the settings."""
    return make_kernel(settings.exploration.kernel, settings.exploration.num_leapfrog, dim)


def suited(settings: Settings, target) -> Settings:
    """The settings as a target without gradient needs them; unchanged for all others.

    Chains walk at random, and the model learns from samples alone.

    Raises:
        SettingsError: if the settings name a kernel that needs gradients.
    """
    if has_gradient(target):
        return settings
    require(
        settings.exploration.kernel in ("automatic", "random_walk"),
        "exploration.kernel",
        settings.exploration.kernel,
        "'random_walk' or 'automatic' for a target without gradient",
        "or give the target a gradient: tp.from_callable(fn, dim, gradient='finite')",
    )
    return dataclasses.replace(
        settings,
        exploration=dataclasses.replace(settings.exploration, kernel="random_walk"),
        training=dataclasses.replace(settings.training, use_gradients=False),
    )


def planned_pilot(settings: MethodSettings, kernel: Kernel) -> dict[str, int]:
    """The most that a pilot below a given ladder spends; without one it finds the ladder, and no plan is made."""
    pilot = _with_adaptation(settings).pilot
    return {} if pilot.ceiling is None else {"pilot": planned_evaluations(pilot, kernel)}


def _with_adaptation(settings: Settings) -> Settings:
    """With a pilot up to the hottest temperature of a given ladder, where masses are to be measured in one."""
    ladder, pilot = settings.ladder, settings.pilot
    hottest = ladder.temperatures[0] if ladder.temperatures is not None else ladder.hottest
    if settings.exploration.mass != "adapted" or settings.exploration.masses or hottest is None or pilot.ceiling:
        return settings
    return dataclasses.replace(settings, pilot=dataclasses.replace(pilot, ceiling=float(hottest)))


def prepare(
    key: Key,
    target,
    settings: Settings,
    start_fn: StartFn | None,
    progress: Progress,
    tell: Teller,
) -> tuple[Settings, Prepared]:
    """The settings with every number settled, and the ladder: as given, or from a counted pilot and the budget.

    Args:
        start_fn: starting points; None takes draws of the target's reference, else the target's own points, else
            normals of `settings.initial.scale`.
    """
    settings = _with_adaptation(suited(settings, target))
    start_fn = start_fn or _default_start(target, settings.initial.scale)
    ledger, ladder, each = progress.ledger, settings.ladder, points_per_gradient(target)
    budget = ledger.budget or default_budget(target.dim) * each
    if settings.is_sized_by_budget:
        ledger.budget = tell.planned = budget
    is_given = ladder.temperatures is not None or ladder.hottest is not None
    if is_given and settings.pilot.ceiling is None:
        prepared = Prepared(temperatures_of(ladder, dim=target.dim), start_fn, _first_units(settings, target))
    else:
        if settings.is_sized_by_budget:
            pilot = pilot_settings(settings.pilot, budget // each, kernel_of(settings, target.dim))
            settings = dataclasses.replace(settings, pilot=pilot)
        prepared = _piloted(key, target, settings, start_fn, progress, tell)
    if settings.is_sized_by_budget:
        left = (budget - ledger.points.get("pilot", 0)) // each
        settings = sized(settings, target.dim, len(prepared.temperatures), left, kernel_of(settings, target.dim))
    return settings, prepared


def _default_start(target, scale: float) -> StartFn:
    return own_start(None, target, scale, prefers_own=True)


def _first_units(settings: MethodSettings, target) -> Units:
    return chosen_units(target, settings.exploration.mass, settings.exploration.masses)


def _measure(settings: MethodSettings, target) -> Measure:
    """What the pilot makes of coordinates: given masses are kept, and scaled all alike."""
    exploration, geometry = settings.exploration, getattr(target, "geometry", None)
    has_masses = exploration.masses is not None or getattr(target, "masses", None) is not None
    if exploration.masses is None and exploration.mass == "adapted":
        return "coordinates" if geometry is None else "forces" if has_gradient(target) else "together"
    is_one = has_masses or exploration.mass == "unit" or settings.noise.is_isotropic
    return "together" if is_one else "coordinates"


def _piloted(
    key: Key, target, settings: MethodSettings, start_fn: StartFn, progress: Progress, tell: Teller
) -> Prepared:
    """The ladder below the coolest temperature at which chains mix."""
    kernel, units = kernel_of(settings, target.dim), _first_units(settings, target)
    key_start, key_heat = jax.random.split(key)

    def run_pilot() -> _PilotPart:
        pilot = settings.pilot
        found = heat(
            key_heat,
            target,
            kernel,
            start_fn(key_start, pilot.num_chains),
            pilot,
            kernel.optimal_acceptance,
            progress.ledger,
            units=units,
            measure=_measure(settings, target),
            on_round=lambda index, temperature, rhat: tell(
                "pilot", 0, index + 1, pilot.max_rounds, temperature=temperature
            ),
        )
        flag = jnp.asarray(found.is_mixed, jnp.int32)
        scouts = jnp.asarray([found.scout_rhat, found.scout_reach, float(found.is_running_away)])
        rhats = jnp.asarray(found.rhats)
        own = (found.units.scale, scouts, found.units.matrix, found.units.inverse)
        return _PilotPart(jnp.asarray(found.hottest), flag, rhats, found.positions, *own)

    points, is_mixing = jnp.zeros((1, target.dim)), units.matrix is not None or _measure(settings, target) == "forces"
    own = (points[0], jnp.zeros((3,)), *((jnp.zeros((1, 1)),) * 2 if is_mixing else (None, None)))
    like = _PilotPart(jnp.zeros(()), jnp.zeros((), jnp.int32), jnp.zeros((1, 2)), points, *own)
    part = progress.part(0, "pilot", like, run_pilot)
    rhats = tuple((temperature, rhat) for temperature, rhat in np.asarray(part.rhats).tolist())
    temperatures = temperatures_of(settings.ladder, dim=target.dim, hottest=float(part.hottest))
    scout_rhat, scout_reach, is_running_away = np.asarray(part.scouts).tolist()
    checks = {
        "pilot_temperature": float(part.hottest),
        "pilot_rhat": finite_or_none(rhats[-1][1]),
        "pilot_is_mixed": bool(part.is_mixed),
        "scout_rhat": finite_or_none(scout_rhat),
        "scout_reach": finite_or_none(scout_reach),
        "is_running_away": bool(is_running_away),
    }
    units = Units(part.scale, part.matrix, part.inverse)
    return Prepared(temperatures, rows_start(part.positions), units, rhats, bool(part.is_mixed), checks)
