"""The path from hot to cold: what a density is at inverse temperature beta. Pure arithmetic on stored values.

log p_beta = beta l + (1 - beta) r, with l the log density at T = 1 and r that of a normalised reference. Without a
reference r = 0: the paper's p^(1/T). With one, beta -> 0 ends at the reference, which has a normaliser and can be drawn
from, where p^(1/T) may have none: a posterior with a flat likelihood, or heavy tails that heat makes heavier still.
"""

import equinox as eqx
import jax.numpy as jnp

from tempering.types import Array, Float

__all__ = ["ReferenceValues", "log_ratio", "tempered"]

_BEYOND = 1.001
"""Above which a beta is meant, and is no rounding error of 1."""
_LOWEST = -1e30
"""Stands for -inf of a reference, so that at beta = 1 it counts for nothing instead of 0 times infinity."""


class ReferenceValues(eqx.Module):
    """Log density of the reference and its gradient, at points whose own are stored beside them."""

    log_density: Float[Array, "*batch"]
    log_density_grad: Float[Array, "*batch dim"]


def tempered(beta: Float[Array, "*beta"], value: Array, of_reference: Array | None) -> Array:
    """beta value + (1 - beta) of_reference: of log densities or of gradients; `of_reference` None means zero."""
    if of_reference is None:
        return beta * value
    mixed = beta * value + (1.0 - beta) * jnp.maximum(of_reference, _LOWEST)
    # 0 times a gradient that is not finite would be NaN. Beyond 1 the path goes on: FAB's ends at p^2 / r.
    return jnp.where((beta < 1.0) | (beta > _BEYOND), mixed, value)


def log_ratio(log_density: Array, reference: ReferenceValues | None) -> Array:
    """l - r, which beta multiplies: what swaps, reweighting between temperatures and log Z ratios are made of."""
    if reference is None:
        return log_density
    return log_density - jnp.maximum(reference.log_density, _LOWEST)
