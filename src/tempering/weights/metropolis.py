"""Weighted draws made into equally weighted ones by independent Metropolis chains. Indices out; no evaluations.

Assumes that the draws are independent of each other and that their weights are p / q up to a constant.
"""

import jax
import jax.numpy as jnp

from tempering.types import Array, Float, Int, Key
from tempering.weights.resample import indices_by_weight

__all__ = ["equally_weighted", "independent_metropolis"]

_POLISH_KEY = 2**32 - 1
"""Folded into the seed's key for the polish: the draws' own keys are those of their index, which never gets here."""

_CHAIN_LENGTH = 10_000
"""Of one polishing chain at most. Each chain has a start to forget; on a GPU a step takes tens of microseconds."""


def equally_weighted(key: Key, log_weights: Float[Array, " draw"]) -> Int[Array, " draw"]:
    """As many indices as there are draws: chains from starts taken by weight, whose bias vanishes as 1 / num.

    Args:
        key: that the draws themselves were made with.
    """
    key_start, key_chains = jax.random.split(jax.random.fold_in(key, _POLISH_KEY))
    num_chains = -(-log_weights.shape[0] // _CHAIN_LENGTH)
    start = indices_by_weight(key_start, log_weights, num_chains, "multinomial")
    return independent_metropolis(key_chains, log_weights, num_chains, start)[0]


def independent_metropolis(
    key: Key,
    log_weights: Float[Array, " draw"],
    num_chains: int,
    start: Int[Array, " chain"] | None = None,
) -> tuple[Int[Array, " draw"], Float[Array, ""]]:
    """Chains whose proposals are the draws themselves, each used once: accept j from i with min(1, w_j / w_i).

    The target's distribution is invariant, so a chain that starts in it stays there, exactly and at any length; from
    elsewhere it forgets its start, at a rate of 1 / max w at the slowest. Resampling by weights is biased at any finite
    number of draws; here only the start is. Chains of low acceptance repeat draws often, and where the weights' tail is
    heavy a chain can sit on one of them for long: see `pareto.pareto_k`.

    Args:
        log_weights: log p - log q, up to a constant; -inf is never accepted.
        num_chains: the draws are dealt to this many chains in consecutive parts of equal length, the last may be
            shorter. One chain has one start to forget; more run faster.
        start: index of the draw that each chain starts from; by default the first of its own.

    Returns:
        The index of the state after every draw, in the draws' order, and the share of accepted proposals (those to
        move; a chain's proposal to stay where it starts is none).
    """
    num = log_weights.shape[0]
    length = -(-num // num_chains)
    # Filled up with draws of no weight, which no chain accepts.
    padded = jnp.full((num_chains * length,), -jnp.inf, log_weights.dtype).at[:num].set(log_weights)
    proposals = jnp.arange(num_chains * length).reshape((num_chains, length))
    log_uniform = jnp.log1p(-jax.random.uniform(key, proposals.shape, padded.dtype))  # of 1 - u, which is never 0

    def step(state, inputs):
        proposal, threshold = inputs
        # Both -inf gives NaN, which accepts nothing; -inf to finite is always accepted.
        is_accepted = threshold <= padded[proposal] - padded[state]
        state = jnp.where(is_accepted, proposal, state)
        return state, (state, is_accepted)

    def chain(first, chain_proposals, thresholds):
        return jax.lax.scan(step, first, (chain_proposals, thresholds))[1]

    first = proposals[:, 0] if start is None else start.astype(proposals.dtype)
    states, is_accepted = jax.vmap(chain)(first, proposals, log_uniform)
    before = jnp.concatenate([first[:, None], states[:, :-1]], axis=1)
    is_move = (proposals < num) & (proposals != before)
    acceptance = jnp.sum(is_accepted & is_move) / jnp.maximum(jnp.sum(is_move), 1)
    return states.reshape(-1)[:num], acceptance.astype(log_weights.dtype)
