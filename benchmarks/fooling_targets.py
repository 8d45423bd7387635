"""Targets made to fool a sampler, or its verdict, with exact facts to find out by.

Consumes a few numbers; produces exact targets. Off-centre and lopsided throughout. Their regions are what a fooled
sampler gets wrong: the weights of modes, the neck and the mouth of a funnel, the sectors of a ring.
"""

import math
from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax.scipy.stats import norm

from tempering.targets.base import ExactTarget
from tempering.targets.densities.gaussian import anisotropic_gaussian
from tempering.targets.densities.gaussian_mixture import GaussianMixture
from tempering.types import Array, Float, Key

__all__ = ["FOOLING", "Banana", "Funnel", "Ring", "StudentMixture", "far_modes", "spike_and_slab"]


def far_modes(second: float = 0.5, *, is_one_sided: bool = False) -> GaussianMixture:
    """Two normals of widths 1 and 0.6 some twenty standard deviations apart, the second of a given weight.

    Args:
        is_one_sided: the first sits where chains start by default, around the origin, and the second far from it.
    """
    means = [[0.3, -0.2], [17.0, 11.0]] if is_one_sided else [[-7.0, 5.0], [8.0, -6.0]]
    return GaussianMixture(means, [1.0, 0.6], [1.0 - second, second], log_constant=0.8)


def spike_and_slab() -> GaussianMixture:
    """Three tenths of the mass in a spike thirty times as narrow as the slab around it."""
    return GaussianMixture([[1.2, -0.7], [0.5, 0.5]], [0.1, 3.0], [0.3, 0.7], log_constant=-0.4)


class Funnel(ExactTarget):
    r"""Neal's funnel: v ~ N(m, 3^2), x_i ~ N(0, e^v); log Z is 0.7. The first coordinate is v.

    Its regions are the neck, v < m - 3, and the mouth, v > m + 1.5. p^(1/T) puts its mass at enormous x.
    """

    dim: int = eqx.field(static=True)
    location: Float[Array, ""]

    regions_partition: ClassVar[bool] = False

    def __init__(self, dim: int = 5, location: float = 0.5):
        self.dim, self.location = dim, jnp.asarray(float(location))

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        v, rest = x[0], x[1:]
        first = -0.5 * ((v - self.location) / 3.0) ** 2 - math.log(3.0) - 0.5 * math.log(2.0 * math.pi)
        scale = 0.5 * (self.dim - 1) * (v + math.log(2.0 * math.pi))
        return 0.7 + first - 0.5 * jnp.sum((rest * jnp.exp(-0.5 * v)) ** 2) - scale

    def sample(self, key: Key, num: int) -> Float[Array, "num dim"]:
        noise = jax.random.normal(key, (num, self.dim))
        v = self.location + 3.0 * noise[:, 0]
        return jnp.concatenate([v[:, None], jnp.exp(0.5 * v)[:, None] * noise[:, 1:]], axis=1)

    def log_z(self) -> float:
        return 0.7

    def mean(self) -> Float[Array, " dim"]:
        return jnp.zeros((self.dim,)).at[0].set(self.location)

    def second_moment(self) -> float:
        """m^2 + 9 + (dim - 1) exp(m + 9/2)."""
        location = float(self.location)
        return location**2 + 9.0 + (self.dim - 1) * math.exp(location + 4.5)

    def region_weights(self) -> Float[Array, " region"]:
        return jnp.stack([norm.cdf(-1.0), norm.cdf(-0.5)])

    def region_indicators(self, x: Float[Array, " dim"]) -> Float[Array, " region"]:
        v = x[0] - self.location.astype(x.dtype)
        return jnp.stack([v < -3.0, v > 1.5]).astype(x.dtype)


class Banana(ExactTarget):
    r"""x_0 = 1 + 2 a, x_1 = -2 + b / 2 + 1.6 a^2 with a, b standard normal: a shear bends a normal and keeps log Z.

    Its regions are the two horns, a < -1 and a > 1.5.
    """

    dim: int = eqx.field(static=True)
    log_constant: Float[Array, ""]

    regions_partition: ClassVar[bool] = False

    def __init__(self, log_constant: float = -0.3):
        self.dim, self.log_constant = 2, jnp.asarray(float(log_constant))

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        a = 0.5 * (x[0] - 1.0)
        b = (x[1] + 2.0 - 1.6 * a**2) / 0.5
        peak = self.log_constant.astype(x.dtype) - math.log(2.0 * math.pi) - math.log(2.0 * 0.5)
        return peak - 0.5 * (a**2 + b**2)

    def sample(self, key: Key, num: int) -> Float[Array, "num dim"]:
        noise = jax.random.normal(key, (num, 2))
        a, b = noise[:, 0], noise[:, 1]
        return jnp.stack([1.0 + 2.0 * a, -2.0 + 0.5 * b + 1.6 * a**2], axis=1)

    def log_z(self) -> float:
        return float(self.log_constant)

    def mean(self) -> Float[Array, " dim"]:
        return jnp.array([1.0, -0.4])

    def second_moment(self) -> float:
        """E(1 + 2 a)^2 + E(-2 + b / 2 + 1.6 a^2)^2 = 5 + 4 + 1/4 + 3 * 1.6^2 - 4 * 1.6."""
        return 5.0 + 4.0 + 0.25 + 3.0 * 1.6**2 - 4.0 * 1.6

    def region_weights(self) -> Float[Array, " region"]:
        return jnp.stack([norm.cdf(-1.0), norm.cdf(-1.5)])

    def region_indicators(self, x: Float[Array, " dim"]) -> Float[Array, " region"]:
        a = 0.5 * (x[0] - 1.0)
        return jnp.stack([a < -1.0, a > 1.5]).astype(x.dtype)


class StudentMixture(ExactTarget):
    r"""sum_k w_k t_nu(x; m_k, s_k): multivariate Student components; the regions are the components.

    p^(1/T) has no normaliser for T above (nu + dim) / dim.
    """

    dim: int = eqx.field(static=True)
    freedom: float = eqx.field(static=True)
    means: Float[Array, "component dim"]
    scales: Float[Array, " component"]
    weights: Float[Array, " component"]

    regions_partition: ClassVar[bool] = True

    def __init__(self, means: npt.ArrayLike, scales: npt.ArrayLike, weights: npt.ArrayLike, freedom: float = 3.0):
        self.means = jnp.asarray(np.asarray(means, np.float32))
        self.dim, self.freedom = self.means.shape[1], float(freedom)
        self.scales = jnp.asarray(np.asarray(scales, np.float32))
        self.weights = jnp.asarray(np.asarray(weights, np.float32) / np.sum(weights))

    def _log_parts(self, x: Float[Array, " dim"]) -> Float[Array, " component"]:
        nu, dim = self.freedom, self.dim
        constant = math.lgamma(0.5 * (nu + dim)) - math.lgamma(0.5 * nu) - 0.5 * dim * math.log(nu * math.pi)
        # Norms before squares: a point at 1e25 must not overflow.
        z = (x[None] - self.means.astype(x.dtype)) / self.scales.astype(x.dtype)[:, None]
        largest = jnp.maximum(jnp.max(jnp.abs(z), axis=1), 1.0)
        square = jnp.sum((z / largest[:, None]) ** 2, axis=1) / nu
        tail = 2.0 * jnp.log(largest) + jnp.log(largest**-2.0 + square)
        log_weights = jnp.log(self.weights.astype(x.dtype)) - dim * jnp.log(self.scales.astype(x.dtype))
        return log_weights + constant - 0.5 * (nu + dim) * tail

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        return jax.nn.logsumexp(self._log_parts(x))

    def sample(self, key: Key, num: int) -> Float[Array, "num dim"]:
        key_component, key_noise, key_tail = jax.random.split(key, 3)
        component = jax.random.categorical(key_component, jnp.log(self.weights), shape=(num,))
        noise = jax.random.normal(key_noise, (num, self.dim))
        stretch = jnp.sqrt(0.5 * self.freedom / jax.random.gamma(key_tail, 0.5 * self.freedom, (num,)))
        return self.means[component] + (self.scales[component] * stretch)[:, None] * noise

    def log_z(self) -> float:
        return 0.0

    def mean(self) -> Float[Array, " dim"]:
        return self.weights @ self.means

    def second_moment(self) -> float:
        """sum_k w_k (|m_k|^2 + dim s_k^2 nu / (nu - 2))."""
        means, scales = np.asarray(self.means, np.float64), np.asarray(self.scales, np.float64)
        parts = np.sum(means**2, axis=1) + self.dim * scales**2 * self.freedom / (self.freedom - 2.0)
        return float(np.asarray(self.weights, np.float64) @ parts)

    def region_weights(self) -> Float[Array, " component"]:
        return self.weights

    def region_indicators(self, x: Float[Array, " dim"]) -> Float[Array, " component"]:
        return jax.nn.softmax(self._log_parts(x))


class Ring(ExactTarget):
    r"""log_density(x) = -(|x - c| - R)^2 / (2 w^2) in 2-D; the regions are sectors of 0.1, 0.2, 0.3 and 0.4 turns.

    Its normaliser is 2 pi int r exp(-(r - R)^2 / (2 w^2)) dr, by quadrature, as is the table to draw r from.
    """

    dim: int = eqx.field(static=True)
    centre: Float[Array, " dim"]
    radius: float = eqx.field(static=True)
    width: float = eqx.field(static=True)
    table_r: Float[Array, " node"]
    table_cdf: Float[Array, " node"]

    regions_partition: ClassVar[bool] = True

    def __init__(self, radius: float = 8.0, width: float = 0.4, centre: tuple[float, float] = (2.0, -1.0)):
        self.dim, self.radius, self.width = 2, float(radius), float(width)
        self.centre = jnp.asarray(centre)
        r, mass = self._nodes()
        cdf = np.concatenate([[0.0], np.cumsum(0.5 * (mass[1:] + mass[:-1]) * np.diff(r))])
        self.table_r, self.table_cdf = jnp.asarray(r), jnp.asarray(cdf / cdf[-1])

    def _nodes(self) -> tuple[np.ndarray, np.ndarray]:
        r = np.linspace(max(0.0, self.radius - 9.0 * self.width), self.radius + 9.0 * self.width, 4001)
        return r, r * np.exp(-0.5 * ((r - self.radius) / self.width) ** 2)

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        offset = x - self.centre.astype(x.dtype)
        largest = jnp.maximum(jnp.max(jnp.abs(offset)), 1e-12)
        r = largest * jnp.sqrt(jnp.sum((offset / largest) ** 2))
        return -0.5 * ((r - self.radius) / self.width) ** 2

    def sample(self, key: Key, num: int) -> Float[Array, "num dim"]:
        key_radius, key_angle = jax.random.split(key)
        r = jnp.interp(jax.random.uniform(key_radius, (num,)), self.table_cdf, self.table_r)
        angle = 2.0 * jnp.pi * jax.random.uniform(key_angle, (num,))
        return self.centre[None] + r[:, None] * jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=1)

    def log_z(self) -> float:
        r, mass = self._nodes()
        return float(np.log(2.0 * np.pi * np.trapezoid(mass, r)))

    def mean(self) -> Float[Array, " dim"]:
        return self.centre

    def second_moment(self) -> float:
        """|c|^2 + E r^2."""
        r, mass = self._nodes()
        centre = np.asarray(self.centre, np.float64)
        return float(np.sum(centre**2) + np.trapezoid(mass * r**2, r) / np.trapezoid(mass, r))

    def region_weights(self) -> Float[Array, " region"]:
        return jnp.array([0.1, 0.2, 0.3, 0.4])

    def region_indicators(self, x: Float[Array, " dim"]) -> Float[Array, " region"]:
        offset = x - self.centre.astype(x.dtype)
        turn = jnp.arctan2(offset[1], offset[0]) / (2.0 * jnp.pi) + 0.5
        edges = jnp.array([0.1, 0.3, 0.6]).astype(x.dtype)
        sector = jnp.clip(jnp.sum(turn > edges), 0, 3)
        return jax.nn.one_hot(sector, 4, dtype=x.dtype)


FOOLING: dict[str, Callable[[], ExactTarget]] = {
    "far-modes-50-50": lambda: far_modes(0.5),
    "far-modes-99-1": lambda: far_modes(0.01),
    "one-sided-50-50": lambda: far_modes(0.5, is_one_sided=True),
    "one-sided-99-1": lambda: far_modes(0.01, is_one_sided=True),
    "one-sided-1-99": lambda: far_modes(0.99, is_one_sided=True),
    "funnel-5": lambda: Funnel(5),
    "banana": Banana,
    "student-mixture": lambda: StudentMixture([[-3.0, 2.0], [5.0, -1.0]], [1.0, 0.7], [0.6, 0.4]),
    "spike-and-slab": spike_and_slab,
    "ring": Ring,
    "gaussian-50": lambda: anisotropic_gaussian(50, seed=1),
    "gaussian-100": lambda: anisotropic_gaussian(100, seed=1),
}
"""Every target of the benchmark `benchmarks/fooling.py` by name."""
