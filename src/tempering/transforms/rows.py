"""Charts over many points at a time, each a compiled program."""

import equinox as eqx
import jax
import jax.numpy as jnp

from tempering.transforms.protocol import Chart
from tempering.types import Array, Float

__all__ = ["embed_rows", "restrict_rows"]


@eqx.filter_jit
def embed_rows(chart: Chart, points: Float[Array, "particle dim"]) -> Float[Array, "particle full_dim"]:
    """The user's points."""
    return jax.vmap(chart.embed)(points)


@eqx.filter_jit
def restrict_rows(chart: Chart, rows: Float[Array, "particle full_dim"]) -> tuple[Array, Array, Array]:
    """Inner coordinates, log volumes there, and which rows have any; the others are at the origin."""

    def one(x: Array) -> tuple[Array, Array, Array]:
        is_inside = chart.contains(x)
        y = jnp.where(is_inside, chart.restrict(x), 0.0)
        return y, chart.log_volume(y), is_inside

    return jax.vmap(one)(rows)
