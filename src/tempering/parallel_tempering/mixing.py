"""Have the chains of one level forgotten where they started? No evaluations."""

import jax
import jax.numpy as jnp

from tempering.types import Array, Float

__all__ = ["split_rhat"]


@jax.jit
def split_rhat(draws: Float[Array, "draw chain dim"]) -> Float[Array, " dim"]:
    """Split R-hat of every coordinate (Gelman et al. 2013): each chain is cut in two halves that must agree.

    A coordinate that never moved gives NaN, or inf where chains sit at different values; both read as "not mixed".
    """
    num_half = draws.shape[0] // 2
    halves = jnp.concatenate([draws[:num_half], draws[num_half : 2 * num_half]], axis=1)
    within = jnp.mean(jnp.var(halves, axis=0, ddof=1), axis=0)
    between = jnp.var(jnp.mean(halves, axis=0), axis=0, ddof=1)
    return jnp.sqrt((num_half - 1) / num_half + between / within)
