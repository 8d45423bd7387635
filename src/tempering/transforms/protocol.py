"""What a chart is, for those that use one without knowing which, and charts over many points at a time."""

from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp

from tempering.numerics import exact_products
from tempering.types import Array, Bool, Float

__all__ = ["Chart", "embed_rows", "restrict_rows"]


@runtime_checkable
class Chart(Protocol):
    """Inner coordinates y in R^dim and the user's x in R^full_dim, for one point; batch by `jax.vmap`."""

    @property
    def dim(self) -> int:
        """Number of inner coordinates."""
        ...

    @property
    def full_dim(self) -> int:
        """Number of the user's coordinates."""
        ...

    def embed(self, y: Float[Array, " dim"]) -> Float[Array, " full_dim"]:
        """The user's point."""
        ...

    def restrict(self, x: Float[Array, " full_dim"]) -> Float[Array, " dim"]:
        """The inner coordinates of a point that the chart contains."""
        ...

    def log_volume(self, y: Float[Array, " dim"]) -> Float[Array, ""]:
        """log |det d embed / dy|: what turns a density of x into one of y."""
        ...

    def contains(self, x: Float[Array, " full_dim"]) -> Bool[Array, ""]:
        """Whether x has inner coordinates."""
        ...

    def as_dict(self) -> dict[str, Any]:
        """What it is, JSON-ready."""
        ...


@eqx.filter_jit
@exact_products()
def embed_rows(chart: Chart, points: Float[Array, "particle dim"]) -> Float[Array, "particle full_dim"]:
    """The user's points."""
    return jax.vmap(chart.embed)(points)


@eqx.filter_jit
@exact_products()
def restrict_rows(chart: Chart, rows: Float[Array, "particle full_dim"]) -> tuple[Array, Array, Array]:
    """Inner coordinates, log volumes there, and which rows have any; the others are at the origin."""

    def one(x: Array) -> tuple[Array, Array, Array]:
        is_inside = chart.contains(x)
        y = jnp.where(is_inside, chart.restrict(x), 0.0)
        return y, chart.log_volume(y), is_inside

    return jax.vmap(one)(rows)
