"""Before a method samples: ladder, starting points and units of its chains, by a counted pilot if need be."""

import dataclasses
from dataclasses import dataclass
from typing import TypeVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from tempering.devices.keys import split
from tempering.kernels import kernel_of
from tempering.methods.atlas import Found, OnModes, Tell, find_modes, has_atlas, no_modes
from tempering.methods.budget import default_budget, pilot_settings, sized_if_possible, with_ceiling
from tempering.methods.from_modes import Way, way_from, with_modes
from tempering.methods.start import inhabited, own_start
from tempering.parallel_tempering import heat, temperatures_of
from tempering.parallel_tempering.initial import StartFn, rows_start
from tempering.parallel_tempering.pilot.heat import Measure
from tempering.runs.checkpoint import Journal
from tempering.runs.records import Checks, finite_or_none
from tempering.settings import MethodSettings, require
from tempering.targets import Units
from tempering.targets.cost import has_gradient, points_per_gradient
from tempering.targets.units import chosen_units
from tempering.types import Array, Float, Int, Key
from tempering.weights.ess import NUM_JUDGED

Settings = TypeVar("Settings", bound=MethodSettings)

__all__ = ["Start", "prepare", "suited"]


@dataclass(frozen=True)
class Start:
    """Where a run starts: the ladder, the starting points, and the units in which kernels move.

    Args:
        checks: the numbers of the pilot; empty where none was run, and units are then those of masses alone.
        found: the atlas of modes, where one was made.
        way: how the density is drawn from these modes, where it is.
        num_kept: points that are kept for optima which the final model may have dropped.
    """

    temperatures: tuple[float, ...]
    start_fn: StartFn
    units: Units
    checks: Checks = Checks()
    found: Found | None = None
    way: Way | None = None
    num_kept: int = 0


_LARGE = 40
"""Budgets this many times as large as a batch of judging keep one for optima that the final model may have dropped."""


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


def prepare(
    key: Key,
    target,
    settings: Settings,
    start_fn: StartFn | None,
    journal: Journal,
    tell: Tell,
    on_modes: OnModes = no_modes,
) -> tuple[Settings, Start]:
    """The settings with every number settled, and the ladder: as given, or from a counted pilot and the budget.

    Args:
        start_fn: starting points; None takes draws of the target's reference, else the target's own points, else
            normals of `settings.initial.scale`.
        on_modes: called once or more with the number of modes, when a search has found nearly all.
    """
    settings = with_ceiling(suited(settings, target))
    start_fn = start_fn or own_start(None, target, settings.initial.scale, prefers_own=True)
    ledger, ladder, each = journal.ledger, settings.ladder, points_per_gradient(target)
    kernel = kernel_of(settings.exploration, target.dim)
    budget = ledger.budget or default_budget(target.dim) * each
    if settings.is_sized_by_budget:
        ledger.budget = budget
    found = None
    if has_atlas(settings, target):
        key, key_atlas = split(key)
        found = find_modes(key_atlas, target, settings, start_fn, journal, tell, on_modes)
        if found.has_reference:
            settings, way = way_from(found, settings, target, (budget - ledger.total) // each, kernel)
            units = _first_units(settings, target)
            return settings, Start(way.temperatures, start_fn, units, found.checks(Checks()), found, way)
        start_fn = with_modes(start_fn, found)
        if found.saw_nothing or found.is_mostly_outside:
            key, key_starts = split(key)
            own_fn = start_fn
            tried = lambda: inhabited(key_starts, target, own_fn, ledger)  # noqa: E731
            points = journal.part(0, "starts", jnp.zeros((0, target.dim)), tried)
            start_fn = rows_start(points) if len(points) else start_fn
    is_given = ladder.temperatures is not None or ladder.hottest is not None
    if is_given and settings.pilot.ceiling is None:
        prepared = Start(temperatures_of(ladder, dim=target.dim), start_fn, _first_units(settings, target))
    else:
        if settings.is_sized_by_budget:
            pilot = pilot_settings(settings.pilot, budget // each, kernel, ledger.total // each)
            settings = dataclasses.replace(settings, pilot=pilot)
        prepared = _piloted(key, target, settings, start_fn, journal, tell)
    num_kept = NUM_JUDGED if found is not None and budget // each > _LARGE * NUM_JUDGED else 0
    if settings.is_sized_by_budget:
        left = (budget - ledger.total) // each - num_kept
        num_levels, is_begun = len(prepared.temperatures), found is not None
        settings, num = sized_if_possible(settings, target.dim, num_levels, left, kernel, is_begun=is_begun)
        if num < len(prepared.temperatures):
            hottest = prepared.temperatures[0]
            ladder = temperatures_of(dataclasses.replace(ladder, num_levels=num), dim=target.dim, hottest=hottest)
            prepared = dataclasses.replace(prepared, temperatures=ladder)
    if found is not None:
        checks = found.checks(prepared.checks)
        prepared = dataclasses.replace(prepared, found=found, checks=checks, num_kept=num_kept)
    return settings, prepared


def _first_units(settings: MethodSettings, target) -> Units:
    return chosen_units(target, settings.exploration.mass, settings.exploration.masses)


def _measure(settings: MethodSettings, target) -> Measure:
    """What the pilot makes of coordinates: given masses are kept, and scaled all alike."""
    exploration, geometry = settings.exploration, target.geometry
    has_masses = exploration.masses is not None or target.masses is not None
    if exploration.masses is None and exploration.mass == "adapted":
        return "coordinates" if geometry is None else "forces" if has_gradient(target) else "together"
    is_one = has_masses or exploration.mass == "unit" or settings.noise.is_isotropic
    return "together" if is_one else "coordinates"


def _piloted(key: Key, target, settings: MethodSettings, start_fn: StartFn, journal: Journal, tell: Tell) -> Start:
    """The ladder below the coolest temperature at which chains mix."""
    kernel, units = kernel_of(settings.exploration, target.dim), _first_units(settings, target)
    key_start, key_heat = split(key)

    def run_pilot() -> _PilotPart:
        pilot = settings.pilot
        found = heat(
            key_heat,
            target,
            kernel,
            start_fn(key_start, pilot.num_chains),
            pilot,
            kernel.optimal_acceptance,
            journal.ledger,
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
    part = journal.part(0, "pilot", like, run_pilot)
    temperatures = temperatures_of(settings.ladder, dim=target.dim, hottest=float(part.hottest))
    scout_rhat, scout_reach, is_running_away = np.asarray(part.scouts).tolist()
    checks = Checks(
        pilot_temperature=float(part.hottest),
        pilot_rhat=finite_or_none(np.asarray(part.rhats)[-1, 1]),
        pilot_is_mixed=bool(part.is_mixed),
        scout_rhat=finite_or_none(scout_rhat),
        scout_reach=finite_or_none(scout_reach),
        is_running_away=bool(is_running_away),
    )
    units = Units(part.scale, part.matrix, part.inverse)
    return Start(temperatures, rows_start(part.positions), units, checks)
