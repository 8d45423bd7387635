"""Weights from none at all to too large for exp, and a density with a fault for each first coordinate."""

from functools import partial

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st

from tempering.targets import Target

__all__ = ["INFINITE", "LOG_WEIGHTS", "NAN", "NORMAL", "NO_GRADIENT", "NUM", "OUTSIDE", "Odd"]

NUM = 6
# Few sizes, so that few programs are compiled.
_NUMBERS = partial(st.floats, width=32, allow_subnormal=False)  # XLA flushes subnormals to zero
LOG_WEIGHTS = st.lists(
    st.one_of(st.just(-np.inf), _NUMBERS(-1e5, 1e5), _NUMBERS(-3.0, 3.0)), min_size=NUM, max_size=NUM
).map(lambda values: jnp.asarray(values, jnp.float32))

NORMAL, OUTSIDE, NAN, INFINITE, NO_GRADIENT = 0.0, 1.0, 2.0, 3.0, 4.0
"""First coordinates of a point of `Odd`."""


class Odd(Target):
    """log p = -x, except where the first coordinate says otherwise."""

    dim: int = eqx.field(static=True, default=2)

    def log_density(self, x):
        """Of one point."""
        value = -jnp.sum(x)
        value = jnp.where(x[0] == 1.0, -jnp.inf, value)
        value = jnp.where(x[0] == 2.0, jnp.nan, value)
        value = jnp.where(x[0] == 3.0, jnp.inf, value)
        # Finite at 4, where its gradient is not; the inner `where` keeps that gradient from all other points.
        return value + jnp.sqrt(jnp.where(x[0] == 4.0, x[0] - 4.0, 1.0)) - 1.0
