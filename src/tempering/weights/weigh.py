"""Model samples weighed by the target: one evaluation a sample, then weights, truncation, a buffer, log Z."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering.adapters import reporting
from tempering.buffer import Buffer, from_states
from tempering.errors import DensityError
from tempering.kernels import ChainState
from tempering.runs.ledger import Ledger
from tempering.settings import Resampling
from tempering.targets.base import evaluate_many, evaluate_reference
from tempering.targets.cost import spend
from tempering.types import Array, Float, Key
from tempering.weights.pareto import log_z_with_tail, pareto_k
from tempering.weights.resampling import ess_fraction, indices_by_weight, truncate, truncate_to_ess

__all__ = ["Weighted", "corrected", "evened", "keep_usable", "weigh"]


class Weighted(eqx.Module):
    """Samples with their untempered log densities and gradients and their raw log weights for one beta."""

    states: ChainState
    log_weights: Float[Array, " particle"]
    num_nonfinite: int

    @property
    def ess_fraction(self) -> float:
        """Of the raw weights, before any truncation."""
        return float(ess_fraction(self.log_weights))

    @property
    def log_z(self) -> tuple[float, float]:
        """log Z of the level and its standard error, which allows for the weights' tail."""
        return log_z_with_tail(self.log_weights)

    @property
    def pareto_k(self) -> float:
        """The tail index of the raw weights."""
        return pareto_k(self.log_weights)


def weigh(
    target,
    x: Float[Array, "particle dim"],
    log_q: Float[Array, " particle"],
    beta: Float[Array, ""],
    *,
    ledger: Ledger,
    stage: str,
) -> Weighted:
    """log w = log p_beta(x) - log q(x), up to the normaliser of p_beta.

    A sample outside the support weighs nothing. So does one whose density is NaN or +inf, whose gradient is not finite
    or whose own log q is not: these are counted, because they should not happen.
    """
    spend(ledger, stage, target, x.shape[0])
    with reporting(target):
        states, log_weights, num_nonfinite = _weighed(target, x, log_q, beta)
        return Weighted(states, log_weights, int(num_nonfinite))


@eqx.filter_jit
def _weighed(target, x: Array, log_q: Array, beta: Array) -> tuple[ChainState, Array, Array]:
    """The samples with their values, their log weights, and the number of those that should not happen."""
    reference = jax.vmap(lambda point: evaluate_reference(target, point))(x)
    states = ChainState(x, *evaluate_many(target, x), reference)
    is_usable = jnp.isfinite(states.log_density) & jnp.isfinite(log_q)
    is_usable &= jnp.all(jnp.isfinite(states.tempered_grad(beta)), axis=-1)
    is_outside = jnp.isneginf(states.log_density) & jnp.isfinite(log_q)
    log_weights = jnp.where(is_usable, states.tempered(beta) - log_q, -jnp.inf)
    return states, log_weights, jnp.sum(~is_usable & ~is_outside)


def corrected(key: Key, weighted: Weighted, resampling: Resampling) -> tuple[Buffer, float]:
    """A buffer of the level from truncated weights, kept or resampled, and the ESS after truncation.

    Raises:
        DensityError: if no sample has a positive weight.
    """
    _refuse_weightless(weighted)
    if resampling.quantile is None:
        least = resampling.least_share(weighted.log_weights.shape[0])
        log_weights = truncate_to_ess(weighted.log_weights, least)
    else:
        log_weights = truncate(weighted.log_weights, resampling.quantile)
    ess = float(ess_fraction(log_weights))
    if resampling.is_resampled:
        indices = indices_by_weight(key, log_weights, log_weights.shape[0], resampling.scheme)
        return from_states(weighted.states, "importance_resampled").take(indices), ess
    return _with_weights(weighted.states, log_weights), ess


@jax.jit
def _with_weights(states: ChainState, log_weights: Array) -> Buffer:
    """The samples as they are, with their weights."""
    # A sample without weight may have no density; a copy of a usable one in its place keeps every number finite.
    own = jnp.where(log_weights > -jnp.inf, jnp.arange(log_weights.shape[0]), jnp.argmax(log_weights))
    return eqx.tree_at(lambda tree: tree.log_weight, from_states(states, "weighted").take(own), log_weights)


def evened(key: Key, buffer: Buffer, scheme: str) -> Buffer:
    """The same distribution with even weights, for chains to start from; a buffer of even weights stays as it is."""
    if not bool(jnp.any(buffer.log_weight != buffer.log_weight[0])):
        return buffer
    taken = buffer.take(indices_by_weight(key, buffer.log_weight, buffer.size, scheme))
    return eqx.tree_at(lambda tree: tree.log_weight, taken, jnp.zeros_like(taken.log_weight))


def keep_usable(key: Key, weighted: Weighted) -> Buffer:
    """The samples as generated, unweighted; those that cannot start a chain are replaced by others at random.

    Raises:
        DensityError: if none can start a chain.
    """
    _refuse_weightless(weighted)
    is_usable = weighted.log_weights > -jnp.inf
    indices = indices_by_weight(key, jnp.where(is_usable, 0.0, -jnp.inf), is_usable.shape[0], "systematic")
    own = jnp.where(is_usable, jnp.arange(is_usable.shape[0]), indices)
    return from_states(weighted.states, "generated").take(own)


def _refuse_weightless(weighted: Weighted) -> None:
    if not np.any(np.asarray(weighted.log_weights) > -np.inf):
        num = weighted.log_weights.shape[0]
        raise DensityError(
            f"none of the {num} samples of the model has a usable density ({weighted.num_nonfinite} NaN, +inf or "
            "without a finite gradient or log q, the rest outside the support); one at least is needed: train longer, "
            "take more levels, or mend the density"
        )
