"""Exchanges between neighbouring temperatures, as permutations of the level axis. No evaluations.

A pair (k, k+1) of one ladder swaps with probability min(1, exp((beta_{k+1} - beta_k)(l_k - l_{k+1}))), l the
untempered log densities, relative to those of a reference where there is one: what beta multiplies.
"""

import jax
import jax.numpy as jnp

from tempering.types import Array, Bool, Float, Int, Key

__all__ = ["even_odd", "sweep"]


def even_odd(
    key: Key, log_density: Float[Array, " level"], betas: Float[Array, " level"], round_index: Int[Array, ""]
) -> tuple[Int[Array, " level"], Bool[Array, " pair"], Bool[Array, " pair"]]:
    """Swap the even pairs in even rounds and the odd ones in odd rounds: the non-reversible scheme.

    Deterministic alternation moves replicas ballistically, not by diffusion (Syed et al. 2022).

    Returns:
        The permutation of one ladder's levels, which pairs were tried, which swapped.
    """
    num_levels = betas.shape[0]
    pair = jnp.arange(num_levels - 1)
    # Two levels have one pair and nothing to alternate with: a short refinement would never come to an even round.
    is_tried = (pair % 2 == round_index % 2) | (num_levels == 2)
    uniform = jax.random.uniform(key, (num_levels - 1,))
    log_ratio = (betas[1:] - betas[:-1]) * (log_density[:-1] - log_density[1:])
    is_swapped = is_tried & (jnp.log(uniform) < log_ratio)
    edge = jnp.zeros((1,), jnp.int32)
    up = jnp.concatenate([is_swapped.astype(jnp.int32), edge])
    down = jnp.concatenate([edge, is_swapped.astype(jnp.int32)])
    return jnp.arange(num_levels, dtype=jnp.int32) + up - down, is_tried, is_swapped


def sweep(
    key: Key, log_density: Float[Array, " level"], betas: Float[Array, " level"], round_index: Int[Array, ""]
) -> tuple[Int[Array, " level"], Bool[Array, " pair"], Bool[Array, " pair"]]:
    """Swap all pairs one after the other, hot to cold, so that one state may travel down the whole ladder.

    This is the order of the paper's code; `round_index` plays no part.
    """
    del round_index
    num_levels = betas.shape[0]
    log_uniforms = jnp.log(jax.random.uniform(key, (num_levels - 1,)))

    def one_pair(permutation: Array, pair_and_uniform: tuple[Array, Array]) -> tuple[Array, Array]:
        pair, log_uniform = pair_and_uniform
        hot, cold = permutation[pair], permutation[pair + 1]
        log_ratio = (betas[pair + 1] - betas[pair]) * (log_density[hot] - log_density[cold])
        is_swapped = log_uniform < log_ratio
        swapped = permutation.at[pair].set(cold).at[pair + 1].set(hot)
        return jnp.where(is_swapped, swapped, permutation), is_swapped

    start = jnp.arange(num_levels, dtype=jnp.int32)
    permutation, is_swapped = jax.lax.scan(one_pair, start, (jnp.arange(num_levels - 1), log_uniforms))
    return permutation, jnp.ones_like(is_swapped), is_swapped
