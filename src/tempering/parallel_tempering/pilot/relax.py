"""Chains started, their points moved out of walls first: capped steps uphill. Every evaluation counts.

Normal starting points of particles overlap, and where a repulsion of r^-12 rules, gradients are 10^6 times those of
typical points: step sizes taken from them move nothing. Lengths here are in units of the starting points' spread.
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from tempering.adapters.pace import at_own_pace
from tempering.compilation import quick
from tempering.devices import by_row, on_devices
from tempering.kernels import Kernel
from tempering.parallel_tempering.run import start
from tempering.parallel_tempering.state import TemperingState
from tempering.runs.ledger import Ledger
from tempering.targets.base import Target, evaluate
from tempering.targets.cost import has_gradient, points_per_gradient, spend
from tempering.types import Array, Bool, Float, Int, Key

__all__ = ["NUM_STEPS", "climb", "is_steep", "settled", "substitutes"]

NUM_STEPS = 100
"""Of the ascent, where there is need for one."""
_REACH = 0.05
"""The longest step of a coordinate."""
_STEEP = 1000.0
"""Nats that the log density may change over such a step; where half of the points exceed it, all are moved."""
_OUTLYING = 20.0
"""Median deviations below the median at which a point that climbed is stuck; a normal's tail has 4 to 5 of them."""


@quick
def is_steep(gradients: Float[Array, "*chain dim"]) -> Bool[Array, ""]:
    """Whether half of the points stand in a wall, from gradients already paid for."""
    steepest = jnp.max(jnp.where(jnp.isnan(gradients), jnp.inf, jnp.abs(gradients)), axis=-1)
    return jnp.median(steepest) * _REACH > _STEEP


def settled(
    key: Key,
    target: Target,
    kernel: Kernel,
    positions: Float[Array, "level chain dim"],
    betas: Float[Array, " level"],
    ledger: Ledger,
    stage: str,
) -> tuple[TemperingState, int]:
    """As `run.start`; points that stand in walls are moved out of them first, for 101 evaluations more each.

    They stay where they are if that would take more than half of what is left of the budget.
    """
    state, num_replaced = start(key, target, kernel, positions, betas, ledger, stage)
    num_levels, num_chains, dim = positions.shape
    cost = num_levels * num_chains * (NUM_STEPS + 1) * points_per_gradient(target)
    is_affordable = ledger.budget is None or 2 * cost <= ledger.budget - ledger.total
    if not (is_affordable and has_gradient(target) and is_steep(state.chain.log_density_grad)):
        return state, num_replaced
    moved = climb(target, state.chain.position.reshape((-1, dim)), ledger, stage)
    state, num_replaced = start(key, target, kernel, moved.reshape(positions.shape), betas, ledger, stage)
    rows = substitutes(state.chain.log_density.reshape(-1))

    def taken(leaf: Array) -> Array:
        return leaf.reshape((num_levels * num_chains, *leaf.shape[2:]))[rows].reshape(leaf.shape)

    return eqx.tree_at(lambda state: state.chain, state, jax.tree.map(taken, state.chain)), num_replaced


def climb(
    target: Target, positions: Float[Array, "chain dim"], ledger: Ledger, stage: str
) -> Float[Array, "chain dim"]:
    """Gradient ascent by steps d tanh(d g): d^2 g where the density is smooth, at most d where it is steep.

    Costs 100 evaluations per point. A point whose step is not finite stays where it is.
    """
    spend(ledger, stage, target, positions.shape[0] * NUM_STEPS)
    num_rows = positions.shape[0]
    return at_own_pace(_climb, (target, positions), target=target, num_rows=num_rows, num_visits=NUM_STEPS)


@on_devices
def _climb(target: Target, positions: Float[Array, "chain dim"]) -> Float[Array, "chain dim"]:
    def step(position: Array, _) -> tuple[Array, None]:
        moved = position + _REACH * jnp.tanh(_REACH * evaluate(target, position)[1])
        return jnp.where(jnp.all(jnp.isfinite(moved)), moved, position), None

    return by_row(lambda position: jax.lax.scan(step, position, length=NUM_STEPS)[0])(positions)


@quick
def substitutes(log_density: Float[Array, " chain"]) -> Int[Array, " chain"]:
    """Which point each chain starts from: its own, or, where the climb left it in a wall, one of the others in turn.

    Two particles caught in one cage are 2,000 nats above the rest, and no step that suits the rest moves them: of 100
    chains of LJ-55 one or two would stay there for good.
    """
    log_density = jnp.where(jnp.isnan(log_density), -jnp.inf, log_density)
    middle = jnp.median(log_density)
    deviation = jnp.median(jnp.abs(log_density - middle))
    is_stuck = ~(log_density >= middle - _OUTLYING * deviation - 1.0)
    own = jnp.arange(log_density.shape[0])
    others = jnp.argsort(is_stuck, stable=True)  # those that are not stuck first, in order
    turn = (jnp.cumsum(is_stuck) - 1) % jnp.maximum(1, jnp.sum(~is_stuck))
    return jnp.where(is_stuck, others[turn], own)
