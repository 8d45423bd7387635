"""The effective size of weights: of weights that are there, and of weights that a model's draws will have."""

import jax
import jax.numpy as jnp
import numpy as np

from tempering.compilation import quick
from tempering.numerics import where_finite
from tempering.types import Array, Float

__all__ = [
    "NUM_JUDGED",
    "effective_size",
    "ess_fraction",
    "foretold_share",
    "normalised",
    "predicted_ess_fraction",
    "share_of",
]

NUM_JUDGED = 500
"""Samples that a model is judged on: enough to tell 0.1 from 0.3, a small part of what a level draws. It is one number
for all judges, because the density of so many points is one program."""


def normalised(log_weights: Float[Array, " particle"]) -> Float[Array, " particle"]:
    """Self-normalised weights that sum to one."""
    return jax.nn.softmax(log_weights)


@quick
def ess_fraction(log_weights: Float[Array, " particle"]) -> Float[Array, ""]:
    """(sum w)^2 / (n sum w^2), in [1/n, 1]; 0 if no weight is positive.

    The largest weight is divided out first: with log weights of 1e5, as energies of molecules give, the difference
    of two logsumexps would be off by a per cent in float32.
    """
    weights = jnp.exp(log_weights - where_finite(jnp.max(log_weights), 0.0))
    total, square = jnp.sum(weights), jnp.sum(weights**2)
    return jnp.where(total == 0.0, 0.0, jnp.minimum(total**2 / (square * log_weights.shape[0]), 1.0))


def foretold_share(log_ratios: np.ndarray, left_out: float = 0.0) -> float:
    """`predicted_ess_fraction` of even samples, on the host in float64.

    Args:
        left_out: share of the samples, those with the largest ratios, that does not count. One sample that q never
            draws decides the share of all others, and says nothing of how well q draws these.
    """
    own = np.sort(np.asarray(log_ratios, np.float64))
    own = own[: len(own) - int(left_out * len(own))]
    if not np.all(np.isfinite(own)):
        return 0.0
    log_share = 2.0 * np.log(len(own)) - np.logaddexp.reduce(own) - np.logaddexp.reduce(-own)
    return float(np.exp(log_share))


def share_of(log_weights: Float[Array, " particle"] | np.ndarray) -> float:
    """`ess_fraction` of known weights: on the host, in float64, without a program for each number of them."""
    log_weights = np.asarray(log_weights, np.float64)
    top = np.max(log_weights)
    weights = np.exp(log_weights - (top if np.isfinite(top) else 0.0))
    total = float(np.sum(weights))
    return 0.0 if total == 0.0 else min(total**2 / (float(np.sum(weights**2)) * len(weights)), 1.0)


def effective_size(weights: Float[Array, " particle"] | np.ndarray) -> float:
    """1 / sum(w^2) of weights that sum to one: as many samples of even weight are worth as much. In float64."""
    return float(1.0 / np.sum(np.asarray(weights, np.float64) ** 2))


@quick
def predicted_ess_fraction(
    log_ratios: Float[Array, " sample"], log_weights: Float[Array, " sample"]
) -> Float[Array, ""]:
    """The `ess_fraction` that the weights of a model's draws will have, from weighted samples of the target.

    With l = log p - log q up to a constant it is 1 / (E_p[exp(l)] E_p[exp(-l)]): the first factor is the second moment
    of the weights under q, the second is the inverse of their mean. Where no sample is, nothing is seen.

    Args:
        log_ratios: l at the samples.
        log_weights: of the samples as draws of the target, normalised; -inf for a sample that does not count.

    Returns:
        The share; 0 where a ratio is not finite.
    """
    share = jnp.exp(-jax.nn.logsumexp(log_weights + log_ratios) - jax.nn.logsumexp(log_weights - log_ratios))
    return jnp.where(jnp.isfinite(share), share, 0.0)
