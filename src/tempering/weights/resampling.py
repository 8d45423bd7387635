"""Importance weights: effective size, truncation, resampling, log Z. Arrays in, arrays out; no evaluations."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp

from tempering.numerics import log_mean_exp, where_finite
from tempering.types import Array, Float, Int, Key

__all__ = ["ess_fraction", "log_z_estimate", "normalised", "indices_by_weight", "truncate", "truncate_to_ess"]


def normalised(log_weights: Float[Array, " particle"]) -> Float[Array, " particle"]:
    """Self-normalised weights that sum to one."""
    return jax.nn.softmax(log_weights)


@eqx.filter_jit
def ess_fraction(log_weights: Float[Array, " particle"]) -> Float[Array, ""]:
    """(sum w)^2 / (n sum w^2), in [1/n, 1]; 0 if no weight is positive. Call it before truncation, or name it so.

    The largest weight is divided out first: with log weights of 1e5, as energies of molecules give, the difference
    of two logsumexps would be off by a per cent in float32.
    """
    weights = jnp.exp(log_weights - where_finite(jnp.max(log_weights), 0.0))
    total, square = jnp.sum(weights), jnp.sum(weights**2)
    return jnp.where(total == 0.0, 0.0, jnp.minimum(total**2 / (square * log_weights.shape[0]), 1.0))


@eqx.filter_jit
def truncate(log_weights: Float[Array, " particle"], quantile: float) -> Float[Array, " particle"]:
    """Weights above the `quantile` of all weights are cut to it (Ionides 2008). Biased, and of bounded variance.

    The quantile is one of the weights themselves (the next higher, and a positive one where there is any), so -inf
    weights cannot make it NaN and few survivors among many -inf are made equal, not lost.
    """
    cut = jnp.quantile(log_weights, quantile, method="higher")
    smallest = jnp.min(jnp.where(jnp.isneginf(log_weights), jnp.inf, log_weights))
    return jnp.minimum(log_weights, jnp.maximum(cut, smallest))


@eqx.filter_jit
def truncate_to_ess(log_weights: Float[Array, " particle"], least: float) -> Float[Array, " particle"]:
    """Cut the largest weights to one height, as high as leaves an effective share of `least`; none if it is larger.

    The share falls as the cut rises, so bisection finds it, between the largest weight and the one that a part `least`
    of all is as large as: cut there, the share is `least` or more, however small the smallest weights are. It cannot
    exceed the share of positive weights: where that is below `least`, all positive weights become equal.
    """
    num = log_weights.shape[0]
    ordered = jnp.sort(log_weights)
    top = where_finite(ordered[-1], 0.0)
    enough = ordered[max(0, num - math.ceil(least * num))]
    bottom = jnp.where(enough > -jnp.inf, enough, jnp.min(jnp.where(log_weights > -jnp.inf, log_weights, top)))

    def halve(bounds: tuple[Array, Array], _) -> tuple[tuple[Array, Array], None]:
        low, high = bounds
        middle = 0.5 * (low + high)
        is_enough = ess_fraction(jnp.minimum(log_weights, middle)) >= least
        return (jnp.where(is_enough, middle, low), jnp.where(is_enough, high, middle)), None

    (low, _), _ = jax.lax.scan(halve, (bottom, top), length=40)
    return jnp.where(ess_fraction(log_weights) >= least, log_weights, jnp.minimum(log_weights, low))


@eqx.filter_jit
def log_z_estimate(log_weights: Float[Array, " particle"]) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """log of the mean weight, and its standard error by the delta method: std(w) / (mean(w) sqrt(n)).

    The standard error is too small when the weights have a heavy tail, whose largest are seldom drawn:
    `pareto.log_z_with_tail` allows for that.
    """
    n = log_weights.shape[0]
    log_z = log_mean_exp(log_weights)
    relative = jnp.exp(log_weights - log_z)
    return log_z, jnp.std(relative) / jnp.sqrt(float(n))


@eqx.filter_jit
def indices_by_weight(key: Key, log_weights: Float[Array, " particle"], num: int, scheme: str) -> Int[Array, " draw"]:
    """Indices of `num` particles drawn in proportion to their weights, of which one at least must be positive.

    Args:
        scheme: multinomial draws independently; systematic shares one uniform, which keeps every count within one of
            its expectation and comes back in random order.
    """
    size = log_weights.shape[0]
    key_position, key_order = jax.random.split(key)
    if scheme == "multinomial":
        positions = jax.random.uniform(key_position, (num,))
    else:
        positions = (jnp.arange(num, dtype=jnp.float32) + jax.random.uniform(key_position)) / num
    cumulative = jnp.cumsum(normalised(log_weights))
    indices = jnp.searchsorted(cumulative / cumulative[-1], positions, side="right")
    # A parallel sum rounds every prefix on its own, so a particle without weight may own an ulp of it, and a position
    # that rounds up to 1 falls behind the last. Both belong to the particle of positive weight before.
    own = jnp.where(log_weights > -jnp.inf, jnp.arange(size), -1)
    indices = jnp.maximum(jax.lax.cummax(own)[jnp.minimum(indices, size - 1)], jnp.argmax(own >= 0))
    return indices if scheme == "multinomial" else jax.random.permutation(key_order, indices)
