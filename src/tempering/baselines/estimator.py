r"""Monte Carlo estimates of a noised density: what iDEM and BNEM regress on.

Noise of variance h(t) = sigma_min^2 ((sigma_max / sigma_min)^{2t} - 1), t from 0 to 1, makes of a density p

    p_t(x) = E[p(x + sqrt(h) noise)],        grad log p_t(x) = E[p(x') grad log p(x')] / E[p(x')],

with x' = x + sqrt(h) noise. Both expectations are means over `num_mc` points. The log of the first is BNEM's target and
needs values alone; the second is iDEM's. Both are biased for a finite number of points, the more the larger h is.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from tempering.settings.score_baselines import ScoreSettings
from tempering.targets.base import Target, evaluate
from tempering.transforms.centred import Centred
from tempering.types import Array, Float, Key

__all__ = [
    "clipped",
    "fast_normal",
    "in_chunks",
    "log_mean",
    "noised_parts",
    "noised_score",
    "rate",
    "size_of",
    "time_of",
    "variance",
]

_LARGEST = 2**28
"""Numbers of one array inside an estimate, at most: 1 GB. More rows go one after the other."""


def variance(t: Float[Array, "*batch"], settings: ScoreSettings) -> Float[Array, "*batch"]:
    """h(t)."""
    log_ratio = jnp.log(settings.sigma_max / settings.sigma_min)
    return settings.sigma_min**2 * jnp.expm1(2.0 * t * log_ratio)


def rate(t: Float[Array, "*batch"], settings: ScoreSettings) -> Float[Array, "*batch"]:
    """g(t)^2 = h'(t)."""
    log_ratio = jnp.log(settings.sigma_max / settings.sigma_min)
    return settings.sigma_min**2 * 2.0 * log_ratio * jnp.exp(2.0 * t * log_ratio)


def time_of(h: Float[Array, "*batch"], settings: ScoreSettings) -> Float[Array, "*batch"]:
    """t of a variance."""
    log_ratio = jnp.log(settings.sigma_max / settings.sigma_min)
    return 0.5 * jnp.log1p(h / settings.sigma_min**2) / log_ratio


def fast_normal(key: Key, shape: tuple[int, ...]) -> Float[Array, "..."]:
    """Normal numbers by the device's own generator: an estimate takes tens of millions, and Threefry most of its time.

    One key for a whole array: batches of such keys would not be independent.
    """
    words = jax.random.key_data(key).reshape(-1)
    words = jnp.concatenate([words, words ^ jnp.uint32(0x9E3779B9)])[:4]
    return jax.random.normal(jax.random.wrap_key_data(words, impl="rbg"), shape)


def log_mean(values: Float[Array, "mc *part"]) -> Float[Array, "*part"]:
    """log of the mean of exp(values) over the first axis."""
    return jax.nn.logsumexp(values, axis=0) - jnp.log(values.shape[0])


def noised_parts(
    parts_fn: Callable[[Array], Array], x: Float[Array, " dim"], h: Float[Array, ""], noise: Float[Array, "mc dim"]
) -> Float[Array, " part"]:
    """log p_t(x) from values at x + sqrt(h) noise; of each part by itself where the log density comes in parts."""
    return log_mean(jax.vmap(parts_fn)(x[None] + jnp.sqrt(h) * noise))


def noised_score(
    target: Target, x: Float[Array, " dim"], h: Float[Array, ""], noise: Float[Array, "mc dim"]
) -> Float[Array, " dim"]:
    """grad log p_t(x) from values and gradients at x + sqrt(h) noise; 0 where all of them have density 0."""
    values, gradients = jax.vmap(lambda point: evaluate(target, point))(x[None] + jnp.sqrt(h) * noise)
    values = jnp.where(jnp.isfinite(values), values, -jnp.inf)
    is_possible = jnp.any(jnp.isfinite(values))
    shares = jax.nn.softmax(jnp.where(is_possible, values, 0.0))[:, None]
    score = jnp.sum(jnp.where(shares > 0, shares * gradients, 0.0), axis=0)
    return jnp.where(is_possible, score, 0.0)


def clipped(score: Float[Array, " dim"], largest: float, geometry: Centred | None) -> Float[Array, " dim"]:
    """The score with a norm of at most `largest`; that of every particle where there are particles."""
    if geometry is None:
        return score * _shrink(jnp.linalg.norm(score), largest)
    forces = geometry.embed(score).reshape(geometry.num_particles, geometry.spatial_dim)
    forces = forces * _shrink(jnp.sqrt(jnp.sum(forces**2, axis=1, keepdims=True)), largest)
    return geometry.restrict(forces.reshape(-1))


def _shrink(norm: Array, largest: float) -> Array:
    return jnp.minimum(1.0, largest / jnp.maximum(norm, 1e-12))


def size_of(target: Target) -> int:
    """Numbers of the largest array that one evaluation makes, about: coordinates, or pairs of particles."""
    geometry = target.geometry
    return max(target.dim, 0 if geometry is None else geometry.num_particles**2)


def in_chunks(estimate: Callable[..., Array], *rows: Any, each: int) -> Array:
    """`estimate` of every row, as many rows at a time as memory allows: no row is padded.

    Args:
        each: numbers of the largest array that the estimate of one row makes.
    """
    num = rows[0].shape[0]
    size = max(chunk for chunk in range(1, num + 1) if num % chunk == 0 and (chunk * each <= _LARGEST or chunk == 1))
    return jax.lax.map(lambda row: estimate(*row), rows, batch_size=size)
