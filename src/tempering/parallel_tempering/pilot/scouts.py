"""Scouts: chains sent far above the temperature at which the pilot's mix, and brought down. Every evaluation counts.

The pilot sees no further than its chains go. If all of them start in one mode they agree with each other at T = 1 and
hotter, and a mode twenty standard deviations away is never seen. Scouts start from the pilot's chains and are heated by
a constant factor per leg. Of all points on the way those are picked whose gradient points away from the pilot's chains
most: something else attracts them. These go uphill, to the level of log density that the pilot's chains have; cooling
instead would lead back to the widest mode, because what a narrow one holds of p^(1/T) falls with dim. Of the points
they come to, the most remote from the pilot's chains and from each other are handed back, to be run beside them at the
pilot's temperature.

A density with heavy tails has no p^(1/T) at a high T: chains run away. Scouts turn round where they do.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering.adapters.pace import at_own_pace
from tempering.compilation import quick
from tempering.devices import by_row, on_devices
from tempering.kernels import ChainState, Kernel, StepSizes, init
from tempering.parallel_tempering.ladder import betas_of
from tempering.parallel_tempering.run import Rules, collect, evenly
from tempering.parallel_tempering.state import TemperingState
from tempering.runs.ledger import Ledger
from tempering.targets.base import Target
from tempering.targets.cost import spend
from tempering.types import Array, Float, Int, Key

__all__ = ["LEG_GROWTH", "Journey", "ascend", "is_running_away", "largest_growth", "most_remote", "send"]

LEG_GROWTH = 4.0
"""Factor of temperature per leg: inside a quadratic well the spread doubles, which takes a handful of steps."""
_LEAST_VIRIAL = 0.2
"""Chains that had equilibrium before a leg have a virial of 1 / LEG_GROWTH when it starts; lagging keeps them above."""
_RUNNING = 1.5
"""Growth of spread over a leg: chains with a low virial that do not spread are in a box, not on the run."""
_BELOW = 5.0
"""Units of T by which a scout may stay below the pilot's chains and still count: a wide mode has a low peak."""


class Journey(eqx.Module):
    """Where scouts went: what they found, temperatures of the legs that held, and the spreads there.

    `found` has as many chains as were sent, in one level.
    """

    found: ChainState
    temperatures: tuple[float, ...]
    spreads: tuple[Float[Array, " dim"], ...]
    is_running_away: bool


def is_running_away(virial: float, growth: float) -> bool:
    """Whether chains whose spread grew by `growth` in a leg are on their way to infinity."""
    return virial < _LEAST_VIRIAL and growth > _RUNNING


@quick
def largest_growth(spread: Float[Array, " dim"], before: Float[Array, " dim"]) -> Float[Array, ""]:
    """The factor by which the spread of a coordinate grew, the largest of all coordinates."""
    return jnp.max(spread / before)


def send(
    key: Key,
    target: Target,
    kernel: Kernel,
    state: TemperingState,
    temperature: float,
    typical: Float[Array, " draw"],
    *,
    num_legs: int,
    num_steps: int,
    block: int = 1,
    target_acceptance: float,
    ledger: Ledger,
) -> Journey:
    """Heat the chains leg by leg, let copies go uphill after each, and keep the most remote of what they find.

    Costs 2 `num_steps` steps of every chain at the most, half of them uphill.

    Args:
        state: chains at `temperature`, one level, in units of their spread there; step sizes are theirs.
        typical: log densities, along the path at `temperature`, of draws of these chains.
        num_steps: of the way up.
        block: steps at a time, where a leg is a multiple of it: the pilot's, whose program then serves here.
    """
    num_chains, cost = state.chain.log_density.shape[1], kernel.evaluations_per_step
    num, num_uphill = num_steps // num_legs, num_steps * cost // num_legs
    if min(num, num_uphill) < 1:
        raise ValueError(f"{num_steps} steps do not make {num_legs} legs")
    beta = jnp.asarray(np.float32(1.0) / np.float32(temperature))
    low, middle, centre, first_step = _departure(state, typical, kernel.scale_power)
    now, temperatures, spreads = state, [temperature], [_spread(state)]
    points: list[ChainState] = []
    num_running = 0
    for _ in range(num_legs):
        hotter = temperatures[-1] * LEG_GROWTH
        now = eqx.tree_at(lambda state: state.step_sizes, now, _longer(now.step_sizes, kernel.scale_power))
        spend(ledger, "pilot", target, num * num_chains * cost)
        rules = Rules.of(target_acceptance, 1, int(now.step) + num, "even_odd")
        betas, block = betas_of((hotter,)), block if num % block == 0 else num
        parts = []
        for _ in range(num // block):
            now, part = collect(key, target, kernel, now, betas, rules, evenly(1, block))
            parts.append(part)
        path = _path(parts)
        spread = _spread(now)
        growth = float(largest_growth(spread, spreads[-1]))
        # Once may be chance, or one step of a lagging chain; what runs away does so again when it is hotter still.
        num_running = num_running + 1 if is_running_away(float(_virial(now, betas)), growth) else 0
        temperatures.append(hotter)
        spreads.append(spread)
        if num_running == 2:
            temperatures, spreads, points = temperatures[:-2], spreads[:-2], points[:-1]
            break
        spend(ledger, "pilot", target, num_uphill * num_chains)
        astray = _most_astray(path, centre, beta, num_chains)
        way_up = (target, astray, beta, first_step, middle, num_uphill)
        points.append(at_own_pace(ascend, way_up, target=target, num_rows=num_chains, num_visits=num_uphill))
    found = _brought_back(state.chain, points, beta, low) if points else state.chain
    return Journey(found, tuple(temperatures[1:]), tuple(spreads[1:]), num_running == 2)


@quick
def _path(parts: list[ChainState]) -> ChainState:
    """All draws of a leg, in their order."""
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *parts)


@quick
def _departure(state: TemperingState, typical: Float[Array, " draw"], scale_power: float) -> tuple[Array, ...]:
    """What the pilot's chains give scouts along: a low and a middle log density, their centre, a first step uphill."""
    low, middle = jnp.quantile(typical, jnp.array([0.02, 0.5]))
    first_step = jnp.exp(state.step_sizes.log_step_size[0]) ** (2.0 / scale_power)
    return low, middle, jnp.mean(state.chain.position[0], axis=0), first_step


@quick
def _longer(step_sizes: StepSizes, scale_power: float) -> StepSizes:
    """Steps for the next leg: lengths inside a mode scale with sqrt(T)."""
    return StepSizes.at(jnp.exp(step_sizes.log_step_size) * LEG_GROWTH ** (scale_power / 2.0))


@quick
def _brought_back(
    stayed: ChainState, points: list[ChainState], beta: Float[Array, ""], low: Float[Array, ""]
) -> ChainState:
    """In place of every chain that stayed the next most remote of the points that are not too low, while they last."""
    here, everywhere = jax.tree.map(lambda leaf: leaf[0], stayed), jax.tree.map(lambda *a: jnp.concatenate(a), *points)
    usable = everywhere.tempered(beta) > low - _BELOW
    chosen = most_remote(here.position, everywhere.position, usable, here.log_density.shape[0])

    def place(there: Array, own: Array) -> Array:
        is_chosen = (chosen >= 0).reshape((-1,) + (1,) * (own.ndim - 1))
        return jnp.where(is_chosen, there[jnp.maximum(chosen, 0)], own)[None]

    return jax.tree.map(place, everywhere, here)


@quick
def _most_astray(path: ChainState, centre: Float[Array, " dim"], beta: Float[Array, ""], num: int) -> ChainState:
    """The `num` states of a path whose gradient makes the largest angle with the way to the centre."""
    flat = jax.tree.map(lambda leaf: leaf.reshape((-1, *leaf.shape[3:])), path)
    way, gradient = centre[None] - flat.position, flat.tempered_grad(beta)
    lengths = jnp.sqrt(jnp.sum(way**2, axis=1) * jnp.sum(gradient**2, axis=1))
    cosine = jnp.sum(way * gradient, axis=1) / jnp.maximum(lengths, 1e-30)
    return jax.tree.map(lambda leaf: leaf[jnp.argsort(cosine)[:num]], flat)


@on_devices
def ascend(
    target: Target,
    chain: ChainState,
    beta: Float[Array, ""],
    step_size: Float[Array, ""],
    level: Float[Array, ""],
    num_steps: int,
) -> ChainState:
    """Gradient ascent of every chain at inverse temperature beta until it stands above `level`.

    A step that does not lead uphill is taken back and the next is a quarter as long; one that does is followed by one
    twice as long. One evaluation per step and chain, made or not.
    """

    def one(state: ChainState) -> ChainState:
        def step(carry: tuple[ChainState, Array], _) -> tuple[tuple[ChainState, Array], None]:
            state, size = carry
            there = init(state.position + size * state.tempered_grad(beta), target)
            is_up = (there.tempered(beta) > state.tempered(beta)) & jnp.all(jnp.isfinite(there.log_density_grad))
            is_done = state.tempered(beta) > level
            kept = jax.tree.map(lambda new, old: jnp.where(is_up & ~is_done, new, old), there, state)
            return (kept, size * jnp.where(is_up, 2.0, 0.25)), None

        return jax.lax.scan(step, (state, step_size), length=num_steps)[0][0]

    return by_row(one)(chain)


@quick
def most_remote(
    stayed: Float[Array, "chain dim"], points: Float[Array, "point dim"], usable: Array, num: int
) -> Int[Array, " num"]:
    """Indices of `num` points, one after another the furthest from all that stayed and all chosen before.

    -1 where no usable point is left.
    """

    def distance(a: Array, b: Array) -> Array:
        return jnp.sqrt(jnp.sum((a - b) ** 2, axis=-1))

    nearest = jnp.min(jax.vmap(lambda point: distance(stayed, point[None]))(points), axis=1)

    def choose(nearest: Array, _) -> tuple[Array, Array]:
        best = jnp.argmax(nearest)
        is_left = nearest[best] > -jnp.inf
        nearest = jnp.minimum(nearest, distance(points, points[best][None]))
        return nearest.at[best].set(-jnp.inf), jnp.where(is_left, best, -1)

    return jax.lax.scan(choose, jnp.where(usable, nearest, -jnp.inf), length=num)[1]


@quick
def _spread(state: TemperingState) -> Float[Array, " dim"]:
    """Half the range that holds two thirds of the chains: one that is lost does not count for all."""
    low, high = jnp.quantile(state.chain.position[0], jnp.array([1.0 / 6.0, 5.0 / 6.0]), axis=0)
    return jnp.maximum(0.5 * (high - low), 1e-12)


@quick
def _virial(state: TemperingState, betas: Float[Array, " one"]) -> Float[Array, ""]:
    """As `mixing.virial`, of the present states alone, about their median."""
    position = state.chain.position[0]
    centred = position - jnp.median(position, axis=0)[None]
    gradient = state.chain.tempered_grad(betas[0])[0]
    return jnp.mean(-jnp.sum(centred * gradient, axis=1)) / position.shape[1]
