"""Maps whose quantiles are splines through a table: a smooth function d(z) first, then x of d in closed form.

d is log x, logit x or asinh x, centred where that helps (`quantiles`). Between nodes it is a cubic, beyond the last one
a straight line. The error in z is that of single precision.
"""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering.errors import SettingsError
from tempering.priors.maps import LARGEST_EXPONENT, Map, inside
from tempering.priors.quantiles import NODES, STEP
from tempering.types import Array, Bool, Float, Int

__all__ = ["Table", "TabledAbove", "TabledBelow", "TabledBetween", "TabledReal"]

_FLATTEST = 1e-30
"""A slope that has a logarithm, where a table is flat to the last digit."""
_HALVINGS = 40
"""Of 60, the width of the table: far below single precision."""


class Table(eqx.Module):
    """Increasing splines of z, one in each row, and which of them belongs to which coordinate."""

    cubics: Float[Array, "row node four"]
    row: Int[Array, " k"]

    def __init__(self, values: np.ndarray, row: np.ndarray, name: str):
        """From values at `NODES`.

        Args:
            name: of the distribution, for the refusal.

        Raises:
            SettingsError: if the values do not increase.
        """
        from scipy.interpolate import CubicSpline, PchipInterpolator

        if not (np.all(np.isfinite(values)) and np.all(np.diff(values, axis=1) > 0)):
            raise SettingsError(
                f"the quantiles of {name} do not increase, or are not finite: its numbers are too extreme for single "
                "precision, or it gives weight to single points; choose others"
            )
        slopes = np.asarray(CubicSpline(NODES, values, axis=1)(NODES, 1))
        rises = np.diff(values, axis=1) / STEP
        # Fritsch and Carlson: slopes of at most three times the rise keep a cubic monotone.
        is_smooth = np.all(slopes > 0) and np.all(np.maximum(slopes[:, 1:], slopes[:, :-1]) < 3.0 * rises)
        slopes = slopes if is_smooth else np.asarray(PchipInterpolator(NODES, values, axis=1)(NODES, 1))
        s0, s1, rise = slopes[:, :-1], slopes[:, 1:], rises
        # Of t = z - node, so that d and its slope are each as precise as single precision allows.
        cubics = values[:, :-1], s0, (3.0 * rise - 2.0 * s0 - s1) / STEP, (s0 + s1 - 2.0 * rise) / STEP**2
        self.cubics = jnp.asarray(np.stack(cubics, axis=2), jnp.float32)
        self.row = jnp.asarray(row, jnp.int32)

    def __call__(self, z: Float[Array, " k"]) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
        """d and dd/dz."""
        last = float(NODES[-1])
        within = jnp.clip(z, -last, last)
        node = jnp.clip(jnp.floor((within + last) / STEP).astype(jnp.int32), 0, len(NODES) - 2)
        t = within - (node.astype(jnp.float32) * STEP - last)
        value, first, second, third = jnp.moveaxis(self.cubics[self.row, node], -1, 0)
        d = value + t * (first + t * (second + t * third))
        slope = jnp.maximum(first + t * (2.0 * second + 3.0 * t * third), _FLATTEST)
        return d + slope * (z - within), slope

    def inverse(self, d: Float[Array, " k"]) -> Float[Array, " k"]:
        """z of d, by bisection; what is beyond the table is at its end."""

        def halve(_: Any, ends: tuple[Array, Array]) -> tuple[Array, Array]:
            low, high = ends
            middle = 0.5 * (low + high)
            is_below = self(middle)[0] < d
            return jnp.where(is_below, middle, low), jnp.where(is_below, high, middle)

        ends = jnp.full_like(d, NODES[0]), jnp.full_like(d, NODES[-1])
        low, high = jax.lax.fori_loop(0, _HALVINGS, halve, ends)
        return 0.5 * (low + high)


class _Tabled(Map):
    """x = outer(d(z))."""

    table: eqx.AbstractVar[Table]

    @abstractmethod
    def outer(self, d: Float[Array, " k"]) -> Float[Array, " k"]:
        """x of d."""

    @abstractmethod
    def inner(self, x: Float[Array, " k"]) -> Float[Array, " k"]:
        """d of x."""

    @abstractmethod
    def log_outer_slope(self, d: Float[Array, " k"]) -> Float[Array, " k"]:
        """log dx/dd."""

    def embed(self, z: Float[Array, " k"]) -> Float[Array, " k"]:
        return self.outer(self.table(z)[0])

    def restrict(self, x: Float[Array, " k"]) -> Float[Array, " k"]:
        return self.table.inverse(self.inner(x))

    def log_slope(self, z: Float[Array, " k"]) -> Float[Array, " k"]:
        d, slope = self.table(z)
        return self.log_outer_slope(d) + jnp.log(slope)


class TabledAbove(_Tabled):
    """x = low + scale exp(d)."""

    table: Table
    low: Float[Array, " k"]
    scale: Float[Array, " k"]
    least: Float[Array, " k"]

    def __init__(self, table: Table, low: np.ndarray, scale: np.ndarray):
        self.table = table
        self.low, self.scale = jnp.asarray(low, jnp.float32), jnp.asarray(scale, jnp.float32)
        self.least = jnp.asarray(inside(low, np.inf)[0], jnp.float32)

    def outer(self, d: Float[Array, " k"]) -> Float[Array, " k"]:
        most = LARGEST_EXPONENT - jnp.maximum(jnp.log(self.scale), 0.0)
        x = self.low + self.scale * jnp.exp(jnp.clip(d, -LARGEST_EXPONENT, most))
        return jnp.maximum(x, self.least)

    def inner(self, x: Float[Array, " k"]) -> Float[Array, " k"]:
        return jnp.log((x - self.low) / self.scale)

    def log_outer_slope(self, d: Float[Array, " k"]) -> Float[Array, " k"]:
        return jnp.log(self.scale) + d

    def contains(self, x: Float[Array, " k"]) -> Bool[Array, " k"]:
        return (x > self.low) & jnp.isfinite(x)


class TabledBelow(_Tabled):
    """x = high - scale exp(-d)."""

    table: Table
    high: Float[Array, " k"]
    scale: Float[Array, " k"]
    greatest: Float[Array, " k"]

    def __init__(self, table: Table, high: np.ndarray, scale: np.ndarray):
        self.table = table
        self.high, self.scale = jnp.asarray(high, jnp.float32), jnp.asarray(scale, jnp.float32)
        self.greatest = jnp.asarray(inside(-np.inf, high)[1], jnp.float32)

    def outer(self, d: Float[Array, " k"]) -> Float[Array, " k"]:
        most = LARGEST_EXPONENT - jnp.maximum(jnp.log(self.scale), 0.0)
        x = self.high - self.scale * jnp.exp(jnp.clip(-d, -LARGEST_EXPONENT, most))
        return jnp.minimum(x, self.greatest)

    def inner(self, x: Float[Array, " k"]) -> Float[Array, " k"]:
        return -jnp.log((self.high - x) / self.scale)

    def log_outer_slope(self, d: Float[Array, " k"]) -> Float[Array, " k"]:
        return jnp.log(self.scale) - d

    def contains(self, x: Float[Array, " k"]) -> Bool[Array, " k"]:
        return (x < self.high) & jnp.isfinite(x)


class TabledBetween(_Tabled):
    """x = low + (high - low) / (1 + exp(-d)), from the nearer end."""

    table: Table
    low: Float[Array, " k"]
    high: Float[Array, " k"]
    least: Float[Array, " k"]
    greatest: Float[Array, " k"]

    def __init__(self, table: Table, low: np.ndarray, high: np.ndarray):
        self.table = table
        numbers = (low, high, *inside(low, high))
        self.low, self.high, self.least, self.greatest = (jnp.asarray(each, jnp.float32) for each in numbers)

    def outer(self, d: Float[Array, " k"]) -> Float[Array, " k"]:
        width = self.high - self.low
        x = jnp.where(d < 0, self.low + width * jax.nn.sigmoid(d), self.high - width * jax.nn.sigmoid(-d))
        return jnp.clip(x, self.least, self.greatest)

    def inner(self, x: Float[Array, " k"]) -> Float[Array, " k"]:
        return jnp.log(x - self.low) - jnp.log(self.high - x)

    def log_outer_slope(self, d: Float[Array, " k"]) -> Float[Array, " k"]:
        return jnp.log(self.high - self.low) + jax.nn.log_sigmoid(d) + jax.nn.log_sigmoid(-d)

    def contains(self, x: Float[Array, " k"]) -> Bool[Array, " k"]:
        return (x > self.low) & (x < self.high)


class TabledReal(_Tabled):
    """x = location + scale sinh(d)."""

    table: Table
    location: Float[Array, " k"]
    scale: Float[Array, " k"]

    def outer(self, d: Float[Array, " k"]) -> Float[Array, " k"]:
        most = LARGEST_EXPONENT - jnp.maximum(jnp.log(self.scale), 0.0)
        return self.location + self.scale * jnp.sinh(jnp.clip(d, -most, most))

    def inner(self, x: Float[Array, " k"]) -> Float[Array, " k"]:
        return jnp.arcsinh((x - self.location) / self.scale)

    def log_outer_slope(self, d: Float[Array, " k"]) -> Float[Array, " k"]:
        size = jnp.abs(d)  # log cosh, which overflows where the logarithm does not
        return jnp.log(self.scale) + size + jnp.log1p(jnp.exp(-2.0 * size)) - float(np.log(2.0))

    def contains(self, x: Float[Array, " k"]) -> Bool[Array, " k"]:
        return jnp.isfinite(x)
