"""Starting points moved out of walls: capped steps uphill before any chain starts. Every evaluation counts.

Normal starting points of particles overlap, and where a repulsion of r^-12 rules, gradients are 10^6 times those of
typical points: step sizes taken from them move nothing. Lengths here are in units of the starting points' spread.
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from tempering.ledger import Ledger
from tempering.targets.cost import spend
from tempering.types import Array, Bool, Float

__all__ = ["NUM_STEPS", "climb", "is_steep"]

NUM_STEPS = 100
"""Of the ascent, where there is need for one."""
_REACH = 0.05
"""The longest step of a coordinate."""
_STEEP = 1000.0
"""Nats that the log density may change over such a step; where half of the points exceed it, all are moved."""


@jax.jit
def is_steep(gradients: Float[Array, "chain dim"]) -> Bool[Array, ""]:
    """Whether half of the points stand in a wall, from gradients already paid for."""
    steepest = jnp.max(jnp.where(jnp.isnan(gradients), jnp.inf, jnp.abs(gradients)), axis=1)
    return jnp.median(steepest) * _REACH > _STEEP


def climb(target, positions: Float[Array, "chain dim"], ledger: Ledger, stage: str) -> Float[Array, "chain dim"]:
    """Gradient ascent by steps d tanh(d g): d^2 g where the density is smooth, at most d where it is steep.

    Costs 100 evaluations a point. A point whose step is not finite stays where it is.
    """
    spend(ledger, stage, target, positions.shape[0] * NUM_STEPS)
    return _climb(target, positions)


@eqx.filter_jit
def _climb(target, positions: Float[Array, "chain dim"]) -> Float[Array, "chain dim"]:
    def step(position: Array, _) -> tuple[Array, None]:
        moved = position + _REACH * jnp.tanh(_REACH * jax.grad(target.log_density)(position))
        return jnp.where(jnp.all(jnp.isfinite(moved)), moved, position), None

    return jax.vmap(lambda position: jax.lax.scan(step, position, length=NUM_STEPS)[0])(positions)
