"""Finding the hottest temperature and a start there: heat until chains mix. Every evaluation counts.

Chains start where the user says and run at T = 1, then hotter and hotter by a constant factor, until the largest
split R-hat over coordinates falls below a limit. What mixes at T has no barrier that matters at T; the final states
are a start for the initial parallel tempering. Coordinates are measured in units of their spread, in every round once
chains have warmed up and again at its end: on Many-Well-32 at T = 8 one coordinate is five times as wide as the other,
and steps made for the narrow one take a hundred to cross the wide, so that the pilot would go far too hot.

Chains that all start in one mode mix there at once. So scouts are sent from the temperature that was found (`scouts`),
for as many evaluations as two rounds take, where two are left. If they come back elsewhere, heating goes on with chains
from both places.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp

from tempering.compilation import quick
from tempering.kernels import ChainState, Kernel, StepSizes
from tempering.parallel_tempering.ladder import betas_of
from tempering.parallel_tempering.mixing import split_rhat, virial
from tempering.parallel_tempering.pilot.hopeless import refuse_hopeless
from tempering.parallel_tempering.pilot.relax import NUM_STEPS, settled
from tempering.parallel_tempering.pilot.scouts import LEG_GROWTH, Journey, largest_growth, send
from tempering.parallel_tempering.run import Rules, block_size, run
from tempering.parallel_tempering.state import TemperingState
from tempering.runs.ledger import Ledger
from tempering.settings import Pilot
from tempering.targets import Scaled, Units
from tempering.targets.base import Target
from tempering.targets.cost import has_gradient
from tempering.targets.units import force_masses, units_of_masses
from tempering.types import Array, Float, Key

__all__ = ["PilotResult", "heat", "planned_evaluations"]

_SCOUT_ROUNDS = 2
"""What scouts cost, in rounds: half a round of heat, half a round uphill, a round to be judged."""
_LEAST_VIRIAL = 0.5
"""Below it, with a spread that grew faster than sqrt(T), chains are on the run."""
_RUNNING = 1.25
"""Growth of spread in a round; chains with a low virial that do not spread are in a box, not on the run."""
_SCOUT_LEGS = 6
"""Factors of four by which scouts are heated at the most."""
_HOTTEST_SCOUT = 4.0**7
"""Scouts go no hotter, but two legs at the least: chains that had to be heated have seen the way up to there."""
_PART_OF_PROPER = 0.8
"""Of the hottest temperature at which a power-law tail still has a normaliser."""
_CROSSING = 6.0
"""Two normals d apart mix where their standard deviation is about d / 6: the barrier is then 4 or 5."""

Measure = Literal["coordinates", "together", "forces"]


class PilotResult(eqx.Module):
    """What the pilot found.

    Args:
        hottest: the temperature for the ladder to start from.
        is_mixed: whether chains mixed there, scouts included where they were sent.
        rhats: R-hat by temperature tried.
        positions: final states, a start for the initial parallel tempering; scouts' among them if they came back.
        units: of every coordinate, its spread at the hottest temperature.
        num_replaced: starting points that could not start a chain.
        scout_rhat: of chains and returned scouts together, at the temperature scouts left from; NaN where none went.
        scout_reach: the hottest temperature scouts reached, over that they left from; NaN where none went.
        is_running_away: hot chains ran away: p^(1/T) has no normaliser, or hardly one.
    """

    hottest: float
    is_mixed: bool
    rhats: tuple[tuple[float, float], ...]
    positions: Float[Array, "chain dim"]
    units: Units
    num_replaced: int
    scout_rhat: float = math.nan
    scout_reach: float = math.nan
    is_running_away: bool = False


def planned_evaluations(pilot: Pilot, kernel: Kernel) -> int:
    """The most the pilot can spend; scouts take the place of rounds."""
    return pilot.num_chains * (2 + NUM_STEPS + pilot.max_rounds * _num_steps(pilot) * kernel.evaluations_per_step)


def _num_steps(pilot: Pilot) -> int:
    """Steps per round, a multiple of four: half adapt, half are judged in pairs of steps."""
    return 4 * (pilot.num_steps // 4)


class _Round(eqx.Module):
    """Chains after a round: their state in `units`, and what was drawn, in the target's own."""

    state: TemperingState
    units: Units
    draws: Float[Array, "draw chain dim"]
    log_density: Float[Array, "draw chain"]
    log_density_grad: Float[Array, "draw chain dim"]
    rhat: float
    virial: tuple[float, float]


@dataclass(frozen=True)
class _Oven:
    """What does not change between rounds."""

    key: Key
    target: Target
    kernel: Kernel
    pilot: Pilot
    target_acceptance: float
    ledger: Ledger
    measure: Measure

    def bake(
        self, state: TemperingState, units: Units, temperature: float, half: int, *, is_hotter: bool = False
    ) -> _Round:
        """One round of 2 `half` steps at one temperature; afterwards coordinates are measured again.

        Args:
            is_hotter: than when `units` were measured: they are measured while chains adapt, too.
        """
        betas, burn_in, block = betas_of((temperature,)), half, block_size(half // 2)
        rules = Rules.of(self.target_acceptance, 1, int(state.step) + half, "even_odd")

        def moved(state: TemperingState, units: Units, **lengths: int) -> tuple[TemperingState, ChainState]:
            target, common = Scaled(self.target, units), {"ledger": self.ledger, "stage": "pilot", "block": block}
            return run(self.key, target, self.kernel, state, betas, rules, **lengths, **common)

        if is_hotter:
            num = block * max(1, half // 4 // block)
            state, warm = moved(state, units, burn_in=half // 2 - num, num_draws=num, thin=1)
            state, units = self.remeasured(state, warm, units)
            burn_in -= half // 2
        state, drawn = moved(state, units, burn_in=burn_in, num_draws=half // 2, thin=2)
        draws, log_density, gradient = _drawn(drawn, units, betas)
        rhat = float(_largest_rhat(self.target, draws))
        # Without a gradient there is no virial, and no telling whether chains run away.
        balance = (math.nan, math.nan)
        if has_gradient(self.target):
            balance = _balance(drawn, betas)
        state, units = self.remeasured(state, drawn, units)
        return _Round(state, units, draws, log_density, gradient, rhat, (float(balance[0]), float(balance[1])))

    def refuse_hopeless(self, rounds: list[_Round], *, is_mixed: bool) -> None:
        """Stop where no budget will do, by what the first round drew, at T = 1, and how the last one went."""
        first, (balance, error) = rounds[0], rounds[-1].virial
        is_held = is_mixed
        if has_gradient(self.target):
            is_held = error < 2.0 and balance + 2.0 * error > _LEAST_VIRIAL
        known = (first.draws, first.log_density, first.log_density_grad)
        refuse_hopeless(self.target, *known, self.ledger, "pilot", is_held=is_held)

    def remeasured(self, state: TemperingState, drawn: ChainState, units: Units) -> tuple[TemperingState, Units]:
        """The state in new units, and these, from what was drawn in the old ones."""
        chain = state.chain
        positions = drawn.position.reshape((-1, units.dim))
        if self.measure == "forces":
            geometry = self.target.geometry
            assert geometry is not None, "forces are measured on particles only"
            forces = units.gradient_outward(drawn.log_density_grad.reshape((-1, units.dim)))
            heavy = units_of_masses(force_masses(geometry, forces), units.dim, geometry)
            chain, positions = chain.out_of_units(units).in_units(heavy), heavy.inward(units.outward(positions))
            units = heavy
        chain, units = _widened(chain, positions, units, is_isotropic=self.measure != "coordinates")
        return eqx.tree_at(lambda state: state.chain, state, chain), units

    def scout(self, mixed: _Round, temperature: float) -> tuple[Journey, _Round]:
        """Scouts sent out and judged: their own round at the same temperature, with the R-hat of both groups."""
        half = _num_steps(self.pilot) // 2
        num_legs = round(math.log(_HOTTEST_SCOUT / temperature) / math.log(LEG_GROWTH))
        journey = send(
            jax.random.fold_in(self.key, 1),
            Scaled(self.target, mixed.units),
            self.kernel,
            mixed.state,
            temperature,
            mixed.log_density.reshape(-1),
            num_legs=min(_SCOUT_LEGS, max(2, num_legs), half),
            num_steps=half,
            block=block_size(half // 2),
            target_acceptance=self.target_acceptance,
            ledger=self.ledger,
        )
        state = eqx.tree_at(lambda state: state.chain, mixed.state, journey.found)
        back = self.bake(state, mixed.units, temperature, half)
        rhat = float(_largest_rhat(self.target, mixed.draws, back.draws))
        return journey, eqx.tree_at(lambda back: back.rhat, back, rhat)


_LIKE_REFERENCE = 1024.0
"""The temperature that stands for the reference itself, or a prior: as hot as the verdict asks for (`FAR_ENOUGH`)."""
_TIME_SHARE = 0.4
"""Of a time limit, after which the pilot takes what it has."""


def heat(
    key: Key,
    target: Target,
    kernel: Kernel,
    positions: Float[Array, "chain dim"],
    pilot: Pilot,
    target_acceptance: float,
    ledger: Ledger,
    *,
    units: Units | None = None,
    measure: Measure = "coordinates",
    can_scout: bool = True,
    on_round: Callable[[int, float, float], None] = lambda index, temperature, rhat: None,
) -> PilotResult:
    """Heat by `pilot.growth` per round until mixed, or until `pilot.max_rounds` are spent: `is_mixed` says which.

    T = 1 itself is never returned: a ladder needs two temperatures.

    Args:
        units: to start in, which carry the masses of particles; None has none.
        measure: what units become in a round. coordinates: the spread of each. together: one spread for all, as
            particles need it. forces: the same, and particles weigh in proportion to the mean squared force on them.
        can_scout: send scouts once chains mix. None are sent below a ceiling, nor without a gradient: they go uphill.

    Raises:
        DensityError: if the density cannot be sampled, whatever the budget (`hopeless`).
    """
    can_scout = can_scout and pilot.ceiling is None and has_gradient(target)
    # No scouts go uphill there, but a path that begins at the prior itself has seen all of it.
    is_blind = not has_gradient(target) and target.reference is not None and pilot.ceiling is None
    key_start, key_run = jax.random.split(key)
    oven = _Oven(key_run, target, kernel, pilot, target_acceptance, ledger, measure)
    units = units or Units.plain(target.dim)
    where, units = _in_own_units(positions, units, is_isotropic=measure != "coordinates")
    state, num_replaced = settled(key_start, Scaled(target, units), kernel, where, betas_of((1.0,)), ledger, "pilot")
    ceiling = pilot.ceiling or math.inf
    rounds: list[_Round] = []
    rhats: list[tuple[float, float]] = []
    temperature, spent, is_mixed, is_running = 1.0, 0, False, False
    scout_rhat = scout_reach = math.nan
    while spent < pilot.max_rounds:
        if rounds and ledger.clock.ends("the pilot", _TIME_SHARE):
            break
        is_last = temperature >= ceiling
        half = _num_steps(pilot) // 2 * (pilot.max_rounds - spent if is_last else 1)
        rounds.append(oven.bake(state, units, temperature, half, is_hotter=len(rounds) > 0))
        latest, spent = rounds[-1], spent + 1
        state, units = latest.state, latest.units
        rhats.append((temperature, latest.rhat))
        on_round(spent - 1, temperature, latest.rhat)
        is_mixed = latest.rhat < pilot.max_rhat  # NaN compares false: a coordinate that never moved has not mixed
        is_running = _is_running_away(rounds, rhats)
        if is_last or is_running:
            break
        if not (is_mixed and temperature > 1):
            temperature = min(temperature * pilot.growth, ceiling)
            continue
        if is_blind and temperature < _LIKE_REFERENCE:
            temperature = _LIKE_REFERENCE
            continue
        if not can_scout or not math.isnan(scout_rhat) or spent + _SCOUT_ROUNDS > pilot.max_rounds:
            break
        journey, back = oven.scout(latest, temperature)
        spent += _SCOUT_ROUNDS
        is_running = journey.is_running_away
        scout_rhat = back.rhat
        scout_reach = journey.temperatures[-1] / temperature if journey.temperatures else 1.0
        is_mixed = scout_rhat < pilot.max_rhat
        both = _in_other_units(back.state.chain, back.units, latest.units)
        if is_mixed:
            oven.refuse_hopeless(rounds, is_mixed=True)
            found = _all_positions(latest.state.chain, both, latest.units)
            return PilotResult(
                temperature, True, tuple(rhats), found, units, num_replaced, scout_rhat, scout_reach, is_running
            )
        if spent == pilot.max_rounds:
            break
        state, separation = _mixture(latest, both)
        temperature = _crossing(temperature, pilot.growth, journey, separation)
    oven.refuse_hopeless(rounds, is_mixed=is_mixed)
    hottest = rhats[-1][0] if rhats[-1][0] > 1 else min(pilot.growth, ceiling)
    if is_running and math.isnan(scout_rhat):
        # (nu + dim) / (T dim) = 1 marks the hottest temperature at which a Student's tail has a normaliser.
        hottest = min(max(1.2, _PART_OF_PROPER * rounds[-1].virial[0] * temperature), hottest)
        kept = [r for r, (t, _) in zip(rounds, rhats, strict=True) if t <= hottest][-1]
        state, units = kept.state, kept.units
    positions = units.outward(state.chain.position[0])
    return PilotResult(
        hottest, is_mixed, tuple(rhats), positions, units, num_replaced, scout_rhat, scout_reach, is_running
    )


def _is_running_away(rounds: list[_Round], rhats: list[tuple[float, float]]) -> bool:
    """Whether the last round's chains are on their way to infinity: too low a virial, and too fast a growth."""
    if len(rounds) < 2:
        return False
    balance, error = rounds[-1].virial
    growth = float(largest_growth(rounds[-1].units.scale, rounds[-2].units.scale))
    hotter_by = rhats[-1][0] / rhats[-2][0]
    # Chains that had equilibrium before have a virial of 1 / hotter_by when the round starts; lagging keeps them above.
    is_fast = balance + 2.0 * error < _LEAST_VIRIAL and growth > math.sqrt(hotter_by)
    return is_fast or (balance + 2.0 * error < 1.0 / hotter_by and growth > _RUNNING)


@quick
def _in_other_units(chain: ChainState, units: Units, other: Units) -> ChainState:
    return chain.out_of_units(units).in_units(other)


@quick
def _all_positions(first: ChainState, second: ChainState, units: Units) -> Float[Array, "chain dim"]:
    """Where the chains of both are in the target's own units, of one level each in `units`."""
    return units.outward(jnp.concatenate([first.position[0], second.position[0]]))


@quick
def _mixture(mixed: _Round, scouts: ChainState) -> tuple[TemperingState, Float[Array, " dim"]]:
    """Half of the chains that stayed and the half of the scouts that is furthest from them, and how far that is."""
    stayed = mixed.state.chain
    num = stayed.log_density.shape[1]
    centre = jnp.mean(stayed.position[0], axis=0)
    distance = jnp.max(jnp.abs(scouts.position[0] - centre[None]), axis=1)
    furthest = jnp.argsort(-distance)[: num - num // 2]

    def join(a: Array, b: Array) -> Array:
        return jnp.concatenate([a[:, : num // 2], b[:, furthest]], axis=1)

    chain = jax.tree.map(join, stayed, scouts)
    state = eqx.tree_at(
        lambda state: (state.chain, state.step_sizes),
        mixed.state,
        (chain, StepSizes.at(jnp.exp(mixed.state.step_sizes.log_step_size))),
    )
    return state, jnp.max(jnp.abs(scouts.position[0] - centre[None]), axis=0)


def _crossing(temperature: float, growth: float, journey: Journey, separation: Float[Array, " dim"]) -> float:
    """The next temperature worth trying: the coolest leg whose spread could bridge the separation."""
    for hotter, spread in zip(journey.temperatures, journey.spreads, strict=True):
        if float(jnp.min(_CROSSING * spread / separation)) >= 1.0:
            return max(hotter, temperature * growth)
    return max([temperature * growth, *journey.temperatures[-1:]])


@quick
def _drawn(drawn: ChainState, units: Units, betas: Float[Array, " one"]) -> tuple[Array, Array, Array]:
    """Draws of axes (draw, chain) in the target's own units, their log densities at beta, and gradients at T = 1."""
    gradient = units.gradient_outward(drawn.log_density_grad[0])
    return units.outward(drawn.position[0]), drawn.tempered(betas[0])[0], gradient


@quick
def _balance(drawn: ChainState, betas: Float[Array, " one"]) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """The virial of one level's draws, and its error."""
    return virial(drawn.position[0], drawn.tempered_grad(betas[0])[0])


@quick
def _largest_rhat(target: Target, *groups: Float[Array, "draw chain dim"]) -> Float[Array, ""]:
    """Of all that must have mixed, over the chains of all groups."""
    return jnp.max(split_rhat(_features(target, jnp.concatenate(groups, axis=1))))


def _features(target: Target, draws: Float[Array, "draw chain dim"]) -> Float[Array, "draw chain n"]:
    """What must have mixed: coordinates, or what symmetry leaves of particles."""
    if target.geometry is None or target.invariants is None:
        return draws
    return jax.vmap(jax.vmap(target.invariants))(draws)


@quick
def _widened(
    chain: ChainState, positions: Float[Array, "point dim"], units: Units, *, is_isotropic: bool
) -> tuple[ChainState, Units]:
    """The chains in units of the spread of `positions`, which are in the same units as they, and the units of both."""
    wider = _spread(positions, is_isotropic=is_isotropic)
    return chain.in_units(Units(wider)), units.widened(wider)


@quick
def _in_own_units(
    positions: Float[Array, "chain dim"], units: Units, *, is_isotropic: bool
) -> tuple[Float[Array, "1 chain dim"], Units]:
    """Points in units of their own spread, as one level, and these units."""
    units = units.widened(_spread(units.inward(positions), is_isotropic=is_isotropic))
    return units.inward(positions)[None], units


@quick
def _spread(positions: Float[Array, "point dim"], *, is_isotropic: bool) -> Float[Array, " dim"]:
    """Standard deviation of every coordinate; one that does not move keeps a thousandth of the widest.

    Points that differ by no more than rounding, such as copies of one starting point, have no spread: their unit is 1.
    """
    std = jnp.std(positions, axis=0)
    if is_isotropic:
        std = jnp.full_like(std, jnp.sqrt(jnp.mean(std**2)))
    widest, rounding = jnp.max(std), 10 * jnp.finfo(positions.dtype).eps * jnp.max(jnp.abs(positions))
    return jnp.where(widest > rounding, jnp.maximum(std, 1e-3 * widest), 1.0)
