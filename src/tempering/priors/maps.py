"""Maps from normal coordinates to those of a prior: x_i = F_i^-1(Phi(z_i)), so that z is standard normal under it.

Consumes vectors z of float32; produces vectors x that lie strictly inside the prior's support, whatever z is: what
rounds to the boundary is moved to the nearest number within. `log_slope`, log dx/dz, stays exact there. Gradients are
finite. Distributions whose quantiles have no closed form have maps made of tables (`tables`).
"""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr, ndtri

from tempering.types import Array, Bool, Float

__all__ = ["LARGEST_EXPONENT", "Affine", "Between", "ExpAffine", "Map", "inside", "log_normal"]

LARGEST_EXPONENT = 87.0
"""exp of it, and of its negative, is a normal number of single precision."""


def log_normal(z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Log density of the standard normal."""
    return -0.5 * z**2 - 0.5 * float(np.log(2.0 * np.pi))


def inside(low: Any, high: Any) -> tuple[np.ndarray, np.ndarray]:
    """The least and the greatest numbers of single precision strictly between the ends; no denormal ones."""
    low, high, tiny = np.float32(low), np.float32(high), np.finfo(np.float32).tiny
    least, greatest = np.nextafter(low, np.float32(np.inf)), np.nextafter(high, np.float32(-np.inf))
    least, greatest = np.where(np.abs(least) < tiny, tiny, least), np.where(np.abs(greatest) < tiny, -tiny, greatest)
    return least.astype(np.float32), greatest.astype(np.float32)


class Map(eqx.Module):
    """z to x, coordinate by coordinate or, for a joint prior, by a triangle. All are arrays of one axis."""

    @abstractmethod
    def embed(self, z: Float[Array, " k"]) -> Float[Array, " k"]:
        """x of z, strictly inside the support."""

    @abstractmethod
    def restrict(self, x: Float[Array, " k"]) -> Float[Array, " k"]:
        """z of an x inside the support."""

    @abstractmethod
    def log_slope(self, z: Float[Array, " k"]) -> Float[Array, " k"]:
        """log dx_i/dz_i; of a triangle the diagonal."""

    @abstractmethod
    def contains(self, x: Float[Array, " k"]) -> Bool[Array, " k"]:
        """Whether x is finite and strictly inside the support."""


class Affine(Map):
    """x = location + scale z: a normal."""

    location: Float[Array, " k"]
    scale: Float[Array, " k"]

    def embed(self, z: Float[Array, " k"]) -> Float[Array, " k"]:
        return self.location + self.scale * z

    def restrict(self, x: Float[Array, " k"]) -> Float[Array, " k"]:
        return (x - self.location) / self.scale

    def log_slope(self, z: Float[Array, " k"]) -> Float[Array, " k"]:
        return jnp.log(self.scale) + jnp.zeros_like(z)

    def contains(self, x: Float[Array, " k"]) -> Bool[Array, " k"]:
        return jnp.isfinite(x)


class ExpAffine(Map):
    """x = exp(location + scale z): a log-normal."""

    location: Float[Array, " k"]
    scale: Float[Array, " k"]

    def embed(self, z: Float[Array, " k"]) -> Float[Array, " k"]:
        return jnp.exp(jnp.clip(self.location + self.scale * z, -LARGEST_EXPONENT, LARGEST_EXPONENT))

    def restrict(self, x: Float[Array, " k"]) -> Float[Array, " k"]:
        return (jnp.log(x) - self.location) / self.scale

    def log_slope(self, z: Float[Array, " k"]) -> Float[Array, " k"]:
        return self.location + self.scale * z + jnp.log(self.scale)

    def contains(self, x: Float[Array, " k"]) -> Bool[Array, " k"]:
        return (x > 0) & jnp.isfinite(x)


class Between(Map):
    """x = low + (high - low) Phi(z): a uniform. From the nearer end, so that the distance to it keeps its precision."""

    low: Float[Array, " k"]
    high: Float[Array, " k"]
    least: Float[Array, " k"]
    greatest: Float[Array, " k"]

    def __init__(self, low: np.ndarray, high: np.ndarray):
        numbers = (low, high, *inside(low, high))
        self.low, self.high, self.least, self.greatest = (jnp.asarray(each, jnp.float32) for each in numbers)

    def embed(self, z: Float[Array, " k"]) -> Float[Array, " k"]:
        width = self.high - self.low
        x = jnp.where(z < 0, self.low + width * ndtr(z), self.high - width * ndtr(-z))
        return jnp.clip(x, self.least, self.greatest)

    def restrict(self, x: Float[Array, " k"]) -> Float[Array, " k"]:
        below, above = (part / (self.high - self.low) for part in (x - self.low, self.high - x))
        tiny = float(np.finfo(np.float32).tiny)
        return jnp.where(below < above, ndtri(jnp.maximum(below, tiny)), -ndtri(jnp.maximum(above, tiny)))

    def log_slope(self, z: Float[Array, " k"]) -> Float[Array, " k"]:
        return jnp.log(self.high - self.low) + log_normal(z)

    def contains(self, x: Float[Array, " k"]) -> Bool[Array, " k"]:
        return (x > self.low) & (x < self.high)
