"""Exact denoisers of tempered densities, by quadrature: on a line, of products of lines, and of mixtures in the plane.

With them the draws of a level have no learning error. What is left is the error of guidance itself.
"""

from collections.abc import Callable
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering.targets import GaussianMixture

__all__ = ["LINES", "Line", "LineDenoiser", "PlaneDenoiser", "ProductDenoiser"]

_FINE = 2.0
"""Sigma over the spacing of the nodes above which the nodes serve: the trapezoid rule is right to exp(-79) there."""
_NEAR = np.linspace(-8.0, 8.0, 97)
"""Places around x in units of sigma, where sigma is smaller. In the plane there are fewer: exp(-40) is left out."""
_NEAR_IN_PLANE = np.linspace(-4.8, 4.8, 15)


def _well(u):
    """A double well of Many-Well: u/2 + 6 u^2 - u^4. The right-hand well holds three quarters at T = 1."""
    return 0.5 * u + u * u * (6.0 - u * u)


def _normal(x, mean: float, width: float):
    return -0.5 * ((x - mean) / width) ** 2 - np.log(width)


def _narrow_and_wide(x):
    """Two modes of equal weight, one of them four times as narrow: tempering takes weight from it."""
    return jnp.logaddexp(_normal(x, -3.0, 1.0), _normal(x, 3.0, 0.25))


@dataclass(frozen=True)
class Line:
    """A density on a line.

    Args:
        log_density: unnormalised, at T = 1.
        reach: beyond +- reach it is taken as 0, at any temperature up to `hottest`.
        num: nodes of the quadrature.
    """

    log_density: Callable
    reach: float
    num: int
    hottest: float

    @property
    def nodes(self) -> np.ndarray:
        """Where the density is looked at."""
        return np.linspace(-self.reach, self.reach, self.num)

    def log_values(self) -> np.ndarray:
        """Log densities at the nodes, in float64 where JAX has it and in float32 where not."""
        return np.asarray(jax.vmap(self.log_density)(jnp.asarray(self.nodes)), np.float64)

    def facts(self, temperature: float) -> dict[str, float]:
        """log Z, mean, spread and the weight of x > 0 at a temperature, on a grid 16 times as fine."""
        x = np.linspace(-self.reach, self.reach, 16 * self.num)
        value = np.asarray(jax.vmap(self.log_density)(jnp.asarray(x)), np.float64) / temperature
        top = value.max()
        mass = np.exp(value - top)
        total = mass.sum()
        mean = float(mass @ x / total)
        return {
            "log_z": float(top + np.log(total * (x[1] - x[0]))),
            "mean": mean,
            "std": float(np.sqrt(mass @ (x - mean) ** 2 / total)),
            "right": float(mass[x > 0].sum() / total),
        }

    def denoiser(self, temperature: float) -> "LineDenoiser":
        """The exact denoiser at a temperature.

        Raises:
            ValueError: above `hottest`.
        """
        if temperature > self.hottest:
            raise ValueError(f"T = {temperature} is above {self.hottest}: the density reaches further than the nodes")
        return LineDenoiser(
            self.log_density,
            jnp.asarray(self.nodes, jnp.float32),
            jnp.asarray(self.log_values() / temperature, jnp.float32),
            jnp.asarray(temperature, jnp.float32),
        )


LINES = {
    "double well": Line(_well, 8.0, 768, 64.0),
    "narrow and wide": Line(_narrow_and_wide, 32.0, 1536, 16.0),
}


class LineDenoiser(eqx.Module):
    """E[x0 | x] = sum_i y_i w_i(x), with w_i proportional to p(y_i)^(1/T) exp(-(x - y_i)^2 / (2 sigma^2)).

    The y_i are the nodes where sigma is above two spacings, and places around x where it is smaller.
    """

    log_density: Callable = eqx.field(static=True)
    nodes: jax.Array
    log_mass: jax.Array
    temperature: jax.Array

    def __call__(self, x_noisy, sigma):
        """Of a point (1,)."""
        x = x_noisy[0]

        def wide(x):
            weight = jax.nn.softmax(self.log_mass - 0.5 * ((x - self.nodes) / sigma) ** 2)
            return jnp.sum(weight * self.nodes)

        def near(x):
            steps = jnp.asarray(_NEAR, jnp.float32)
            value = jax.vmap(self.log_density)(x + sigma * steps) / self.temperature
            return x + sigma * jnp.sum(jax.nn.softmax(value - 0.5 * steps**2) * steps)

        spacing = self.nodes[1] - self.nodes[0]
        return jax.lax.cond(sigma > _FINE * spacing, wide, near, x)[None]


class ProductDenoiser(eqx.Module):
    """Of independent coordinates with the same density: the denoiser of each by itself."""

    line: LineDenoiser

    def __call__(self, x_noisy, sigma):
        """Of a point (dim,)."""
        return jax.vmap(lambda x: self.line(x[None], sigma)[0])(x_noisy)


class PlaneDenoiser(eqx.Module):
    """Of a tempered mixture of Gaussians in the plane: its parts do not stay apart when it is tempered.

    On a square lattice the kernel is a product, so that a sum over all nodes is two products with a matrix.
    """

    target: GaussianMixture
    nodes: jax.Array
    mass: jax.Array
    temperature: jax.Array

    @classmethod
    def of(cls, target: GaussianMixture, temperature: float, reach: float, num: int) -> "PlaneDenoiser":
        """At a temperature, on a lattice of `num` by `num` nodes over [-reach, reach]^2."""
        nodes = jnp.linspace(-reach, reach, num)
        points = jnp.stack(jnp.meshgrid(nodes, nodes, indexing="ij"), axis=-1)
        value = jax.lax.map(jax.vmap(target.log_density), points) / temperature
        return cls(target, nodes, jnp.exp(value - jnp.max(value)), jnp.asarray(temperature, jnp.float32))

    def __call__(self, x_noisy, sigma):
        """Of a point (2,)."""

        def wide(x):
            kernel = jax.nn.softmax(-0.5 * ((x[:, None] - self.nodes[None]) / sigma) ** 2, axis=1)
            across = self.mass @ kernel[1]
            total = kernel[0] @ across
            first = (kernel[0] * self.nodes) @ across
            second = kernel[0] @ (self.mass @ (kernel[1] * self.nodes))
            return jnp.stack([first, second]) / jnp.maximum(total, 1e-37)

        def near(x):
            line = jnp.asarray(_NEAR_IN_PLANE, jnp.float32)
            steps = jnp.stack(jnp.meshgrid(line, line), axis=-1).reshape(-1, 2)
            value = jax.vmap(self.target.log_density)(x[None] + sigma * steps) / self.temperature
            weight = jax.nn.softmax(value - 0.5 * jnp.sum(steps**2, axis=1))
            return x + sigma * (weight @ steps)

        spacing = self.nodes[1] - self.nodes[0]
        return jax.lax.cond(sigma > 1.5 * spacing, wide, near, x_noisy)
