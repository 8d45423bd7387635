"""Tabulated functions of OpenMM's expressions: discrete ones of one to three arguments, and splines of one.

A table is plain arrays and a kind, so that it can be stored; calling it takes and gives JAX arrays.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["Table", "spline_table"]


@dataclass(frozen=True, eq=False)
class Table:
    """One tabulated function.

    Args:
        kind: `discrete`, whose arguments are rounded to whole numbers from 0, or `spline`, cubic and 0 outside.
        arrays: of a discrete one `values`, with one axis for each argument; of a spline `ends`, the first and last
            argument, and `coefficients`, (4, piece), of powers 3 to 0 of the distance from a piece's left end.
    """

    kind: str
    arrays: Mapping[str, np.ndarray]

    @property
    def arity(self) -> int:
        """The number of arguments."""
        return self.arrays["values"].ndim if self.kind == "discrete" else 1

    def __call__(self, *arguments: Any) -> Any:
        """The function at those arguments, element by element; NaN outside a discrete table."""
        dtype = next((value.dtype for value in arguments if isinstance(value, jax.Array)), None)
        given = [jnp.asarray(value, dtype) for value in arguments]
        if self.kind == "discrete":
            values = jnp.asarray(self.arrays["values"], given[0].dtype)
            shape = jnp.broadcast_shapes(*(value.shape for value in given))
            whole = tuple(jnp.broadcast_to(jnp.round(value).astype(int), shape) for value in given)
            is_inside = jnp.ones(shape, bool)
            for place, size in zip(whole, values.shape, strict=True):
                is_inside &= (place >= 0) & (place < size)
            return jnp.where(is_inside, values.at[whole].get(mode="clip"), jnp.nan)
        return self._spline(given[0])

    def _spline(self, x: jax.Array) -> jax.Array:
        low, high = (float(end) for end in self.arrays["ends"])
        coefficients = jnp.asarray(self.arrays["coefficients"], x.dtype)
        num = coefficients.shape[1]
        width = (high - low) / num
        place = jnp.clip(jnp.floor((x - low) / width), 0, num - 1)
        offset = x - (low + place * width)
        cubic, square, linear, constant = (row[place.astype(int)] for row in coefficients)
        value = ((cubic * offset + square) * offset + linear) * offset + constant
        return jnp.where((x >= low) & (x <= high), value, 0.0)


def spline_table(values: np.ndarray, low: float, high: float, *, is_periodic: bool = False) -> Table:
    """The cubic spline through equally spaced values, natural or periodic, as OpenMM's Continuous1DFunction has it."""
    from scipy.interpolate import CubicSpline

    values = np.asarray(values, np.float64)
    spline = CubicSpline(np.linspace(low, high, len(values)), values, bc_type="periodic" if is_periodic else "natural")
    return Table("spline", {"ends": np.array([low, high]), "coefficients": np.asarray(spline.c)})
