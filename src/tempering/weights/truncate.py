"""Truncated importance weights: the largest are lowered. This bounds their variance, at the price of a bias."""

import math

import jax
import jax.numpy as jnp

from tempering.compilation import quick
from tempering.numerics import where_finite
from tempering.settings import Resampling
from tempering.types import Array, Float
from tempering.weights.ess import ess_fraction
from tempering.weights.weigh import Weighted

__all__ = ["truncate", "truncate_to_ess", "truncated"]


_DEEPEST = 50.0
"""Nats below the largest weight from which a sample is none of the level: no cut may make it count as one."""


def truncated(weighted: Weighted, resampling: Resampling) -> Weighted:
    """The same samples with weights truncated as the settings say: at a quantile, or to an effective share.

    Raises:
        DensityError: if no sample has a positive weight.
    """
    weighted.require_weight()
    if resampling.quantile is None:
        least = resampling.least_share(weighted.log_weights.shape[0])
        log_weights = truncate_to_ess(_without_the_deepest(weighted.log_weights, least), least)
    else:
        log_weights = truncate(weighted.log_weights, resampling.quantile)
    return Weighted(weighted.states, log_weights, weighted.num_nonfinite)


@quick
def _without_the_deepest(log_weights: Float[Array, " particle"], least: float) -> Float[Array, " particle"]:
    """The weights, those far below the largest taken out where a cut to a share of `least` would reach them."""
    is_near = log_weights >= jnp.max(log_weights) - _DEEPEST
    return jnp.where(is_near | (jnp.mean(is_near) >= least), log_weights, -jnp.inf)


@quick
def truncate(log_weights: Float[Array, " particle"], quantile: float) -> Float[Array, " particle"]:
    """Weights above the `quantile` of all weights are lowered to it (Ionides 2008). Biased, and of bounded variance.

    The quantile is one of the weights themselves (the next higher, and a positive one where there is any), so -inf
    weights cannot make it NaN and few survivors among many -inf are made equal, not lost.
    """
    cut = jnp.quantile(log_weights, quantile, method="higher")
    smallest = jnp.min(jnp.where(jnp.isneginf(log_weights), jnp.inf, log_weights))
    return jnp.minimum(log_weights, jnp.maximum(cut, smallest))


@quick
def truncate_to_ess(log_weights: Float[Array, " particle"], least: float) -> Float[Array, " particle"]:
    """The largest weights are lowered to one height, the highest that leaves an effective share of `least`.

    Nothing is lowered where the share is larger already. The share falls as the height rises, so bisection finds it,
    between the largest weight and the one that a part `least` of all weights reach: at that height the share is `least`
    or more, however small the smallest weights are. It cannot exceed the share of positive weights: where that is below
    `least`, all positive weights become equal.
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
