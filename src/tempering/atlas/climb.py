"""Climbing: many searches side by side, each uphill by L-BFGS, one evaluation a tick.

A search takes a trial step along its direction. If the log density rises enough, the step is taken and the next
direction follows from the last few steps; if not, the step is shortened. Every tick is one evaluation for every search,
so that the account is exact and one compiled program serves all.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering.devices import by_row, on_devices
from tempering.targets.base import Target, evaluate
from tempering.types import Array, Bool, Float, Int

__all__ = ["Climbers", "climb", "placed"]

_MEMORY = 8
"""Steps that the curvature is guessed from."""
_ARMIJO = 1e-4
"""Part of the promised rise that a step must bring."""
_SHORTEST, _LONGEST_CUT = 0.1, 0.5
"""What a rejected step is shortened by: between these, where a parabola through both ends is highest."""
_FIRST_STEP = 0.1
"""Length of the first step over the width of the cloud that the start came from."""


class Climbers(eqx.Module):
    """The state of searches along the first axis.

    Args:
        position, log_density, gradient: where each stands: the highest point that it came to.
        direction, step: the next trial is position + step * direction.
        first_length: of the first step.
        moves, changes, num_kept: the last steps and the falls of the gradient along them, newest last.
        num_ticks, num_taken, num_looks: evaluations so far, steps that were taken, looks at second derivatives.
        at_wall: coordinates that stay as they are, because the search rests on a wall there.
    """

    position: Float[Array, "*search dim"]
    log_density: Float[Array, "*search"]
    gradient: Float[Array, "*search dim"]
    direction: Float[Array, "*search dim"]
    step: Float[Array, "*search"]
    first_length: Float[Array, "*search"]
    moves: Float[Array, "*search memory dim"]
    changes: Float[Array, "*search memory dim"]
    num_kept: Int[Array, "*search"]
    num_ticks: Int[Array, "*search"]
    num_taken: Int[Array, "*search"]
    num_looks: Int[Array, "*search"]
    at_wall: Bool[Array, "*search dim"]


def placed(starts: np.ndarray, widths: np.ndarray) -> Climbers:
    """Searches that begin at `starts`: their first tick evaluates the start itself.

    Args:
        widths: of the cloud that each start came from, which sets its first step.
    """
    num, dim = starts.shape
    # Made by NumPy: JAX would compile a program for each number of starts.
    memory, nothing = np.zeros((num, _MEMORY, dim), np.float32), np.zeros((num, dim), np.float32)
    zeros, ones = np.zeros((num,), np.int32), np.ones((num,), np.float32)
    points, first = starts.astype(np.float32), np.float32(_FIRST_STEP) * np.asarray(widths, np.float32)
    own = (points, -np.inf * ones, nothing, nothing, ones, first, memory, memory, zeros, zeros, zeros, zeros)
    return Climbers(*jax.device_put((*own, np.zeros((num, dim), bool))))


@on_devices
def climb(target: Target, climbers: Climbers, num_ticks: int) -> Climbers:
    """`num_ticks` trial steps of every search: as many evaluations each."""

    def tick(state: Climbers, _) -> tuple[Climbers, None]:
        return by_row(lambda one: _tick(target, one))(state), None

    return jax.lax.scan(tick, climbers, length=num_ticks)[0]


def _tick(target: Target, state: Climbers) -> Climbers:
    """One trial step of one search."""
    move = state.step * state.direction
    there = state.position + move
    value, gradient = evaluate(target, there)
    slope = jnp.sum(state.gradient * move)
    is_first = state.num_ticks == 0
    is_finite = jnp.isfinite(value) & jnp.all(jnp.isfinite(gradient))
    rise = value - state.log_density
    # Values of thousands have few digits left in single precision: a step within rounding counts as level.
    rounding = jnp.where(is_first, 0.0, 4e-7 * jnp.abs(state.log_density))
    is_taken = is_finite & (is_first | (rise >= _ARMIJO * slope - rounding))
    moved = _moved(state, there, value, gradient, move)
    # Shorter: where the parabola through both values with the slope here is highest.
    best = 0.5 * slope / jnp.maximum(slope - rise, 1e-30)
    cut = jnp.where(is_finite, jnp.clip(best, _SHORTEST, _LONGEST_CUT), _SHORTEST)
    stayed = eqx.tree_at(lambda s: s.step, state, state.step * cut)
    kept = jax.tree.map(lambda new, old: jnp.where(is_taken, new, old), moved, stayed)
    return eqx.tree_at(lambda s: s.num_ticks, kept, state.num_ticks + 1)


def _moved(state: Climbers, there: Array, value: Array, gradient: Array, move: Array) -> Climbers:
    """The search at its new point, with the direction that its last steps suggest."""
    free = jnp.where(state.at_wall, 0.0, gradient)
    change = jnp.where(state.at_wall, 0.0, state.gradient - gradient)
    curved = jnp.sum(move * change)
    is_curved = curved > 1e-6 * jnp.sqrt(jnp.sum(move**2) * jnp.sum(change**2))
    moves = jnp.where(is_curved, jnp.concatenate([state.moves[1:], move[None]]), state.moves)
    changes = jnp.where(is_curved, jnp.concatenate([state.changes[1:], change[None]]), state.changes)
    num_kept = jnp.where(is_curved, jnp.minimum(state.num_kept + 1, _MEMORY), state.num_kept)
    guess = _two_loops(free, moves, changes, num_kept)
    length = jnp.where(state.num_taken == 0, 0.5 * state.first_length, jnp.sqrt(jnp.sum(move**2)))
    size = jnp.sqrt(jnp.sum(free**2))
    # Where the surface curves upwards there is no summit to aim at: on along the gradient, twice as far.
    onward = free * 2.0 * length / jnp.maximum(size, 1e-30)
    is_uphill = is_curved & (jnp.sum(guess * free) > 0) & jnp.all(jnp.isfinite(guess))
    return Climbers(
        there,
        value,
        gradient,
        jnp.where(is_uphill, guess, onward),
        jnp.ones_like(state.step),
        state.first_length,
        moves,
        changes,
        num_kept,
        state.num_ticks,
        state.num_taken + 1,
        state.num_looks,
        state.at_wall,
    )


def _two_loops(gradient: Array, moves: Array, changes: Array, num_kept: Array) -> Array:
    """The inverse curvature that the last steps show, times the gradient (Nocedal 1980)."""
    is_kept = jnp.arange(_MEMORY) >= _MEMORY - num_kept
    products = jnp.where(is_kept, jnp.sum(moves * changes, axis=1), 1.0)
    rho = jnp.where(is_kept, 1.0 / jnp.maximum(products, 1e-30), 0.0)

    def back(rest: Array, pair: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        move, change, factor = pair
        share = factor * jnp.sum(move * rest)
        return rest - share * change, share

    rest, shares = jax.lax.scan(back, gradient, (moves, changes, rho), reverse=True)
    scale = products[-1] / jnp.maximum(jnp.sum(changes[-1] ** 2), 1e-30)
    result = jnp.where(num_kept > 0, scale, 1.0) * rest

    def forth(result: Array, pair: tuple[Array, Array, Array, Array]) -> tuple[Array, None]:
        move, change, factor, share = pair
        return result + move * (share - factor * jnp.sum(change * result)), None

    return jax.lax.scan(forth, result, (moves, changes, rho, shares))[0]
