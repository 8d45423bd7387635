"""What is drawn in a learned chart's coordinates: a standard normal made safe by heavy tails, one and all at a time."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp

from tempering.types import Array, Float, Key

__all__ = ["Spread"]

_NU = 4.0
"""Degrees of freedom of both tails. A chi-square of four is a sum of two exponentials, which compiles in no time."""
_LOG_2PI = 1.8378770664093453


class Spread(eqx.Module):
    """A normalised density of y, close to the standard normal, which no tail of a nearly normal density outruns.

    With probability 1 - `share_all` coordinates are independent, each normal, or with probability `share_each` Student
    (nu = 4) of width `width_each`: one direction that the chart knows too narrowly is met without spoiling the others.
    Else all of them are one multivariate Student (nu = 4) of width `width_all`.
    """

    dim: int = eqx.field(static=True)
    share_each: Float[Array, ""]
    width_each: Float[Array, ""]
    share_all: Float[Array, ""]
    width_all: Float[Array, ""]

    @classmethod
    def wide(cls, dim: int) -> "Spread":
        """To look beyond a chart that is still being learned."""
        return cls(dim, *(jnp.asarray(value) for value in (0.15, 2.0, 0.2, 1.2)))

    @classmethod
    def close(cls, dim: int) -> "Spread":
        """To draw in a chart that fits: of a standard normal the effective share is 0.9 in ten dimensions."""
        return cls(dim, *(jnp.asarray(value) for value in (0.05, 1.5, 0.1, 1.2)))

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        """Normalised log density of one point."""
        normal = -0.5 * x**2 - 0.5 * _LOG_2PI
        each = jnp.log1p(-self.share_each) + normal
        heavy = jnp.log(self.share_each) + _log_student(x**2, 1, self.width_each)
        apart = jnp.log1p(-self.share_all) + jnp.sum(jnp.logaddexp(each, heavy))
        together = jnp.log(self.share_all) + _log_student(jnp.sum(x**2), self.dim, self.width_all)
        return jnp.logaddexp(apart, together)

    def sample(self, key: Key, num: int) -> Float[Array, "num dim"]:
        """Independent draws."""
        key_normal, key_each, key_all, key_choice = jax.random.split(key, 4)
        shape = (num, self.dim)
        normal = jax.random.normal(key_normal, shape)
        choice_each, choice_all = jnp.split(jax.random.uniform(key_choice, (num, self.dim + 1)), [self.dim], axis=1)
        each = self.width_each * normal * _student_factor(key_each, shape)
        together = self.width_all * normal * _student_factor(key_all, (num, 1))
        apart = jnp.where(choice_each < self.share_each, each, normal)
        return jnp.where(choice_all < self.share_all, together, apart)


def _student_factor(key: Key, shape: tuple[int, ...]) -> Array:
    """What makes a normal a Student: the root of its degrees of freedom by a chi-square."""
    halves = jax.random.exponential(key, (2, *shape))
    return jax.lax.rsqrt(2.0 * jnp.sum(halves, axis=0) / _NU)


def _log_student(square: Array, dim: int, width: Array) -> Array:
    """Normalised log density of a Student in `dim` dimensions at squared distances."""
    constant = math.lgamma(0.5 * (_NU + dim)) - math.lgamma(0.5 * _NU) - 0.5 * dim * math.log(_NU * math.pi)
    return constant - dim * jnp.log(width) - 0.5 * (_NU + dim) * jnp.log1p(square / (width**2 * _NU))
