"""The parameters of somebody else's model: what NumPyro's, PyMC's and Stan's have in common.

The model itself is not ours to store: a folder holds a mark of it, and whoever loads the folder brings the model.
"""

from typing import Any, Protocol

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from tempering.adapters.structure import Structure
from tempering.types import Array, Bool, Float

__all__ = ["CLOSE", "ModelChart", "NamedModel", "NamedStructure"]

CLOSE = 1e-3
"""A point that comes back from the unconstrained space within this, relative to its size, was in the support."""


class NamedModel(Protocol):
    """What a model must say of its parameters.

    Args:
        kind: whose model it is, as a folder marks it.
        parts: what the model calls its parameters.
        dim: number of unconstrained coordinates.
        outer: the constrained parameters, by name.
        derived: names of what the model computes from them.
        dims: names of the axes, where they are known.
    """

    kind: str
    parts: str
    dim: int
    outer: Structure
    derived: tuple[str, ...]
    dims: dict[str, list[str]]

    def embed(self, y: Array) -> Array:
        """Constrained values of one unconstrained point."""
        ...

    def restrict(self, x: Array) -> Array:
        """The unconstrained point of constrained values."""
        ...

    def log_volume(self, y: Array) -> Array:
        """log |det dx/dy|."""
        ...

    def derived_of(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """What the model computes from many points of constrained values."""
        ...


class ModelChart(eqx.Module):
    """A model's own maps from R^dim to the constrained values, flat; a support may depend on other parameters.

    For a simplex or a correlation matrix the volume is the model's: that of the coordinates its densities are with
    respect to.
    """

    model: Any = eqx.field(static=True)

    @property
    def dim(self) -> int:
        """Number of unconstrained coordinates."""
        return self.model.dim

    @property
    def full_dim(self) -> int:
        """Number of constrained values."""
        return self.model.outer.size

    def embed(self, y: Float[Array, " dim"]) -> Float[Array, " full_dim"]:
        """Constrained values."""
        return self.model.embed(y)

    def restrict(self, x: Float[Array, " full_dim"]) -> Float[Array, " dim"]:
        """Unconstrained values."""
        return self.model.restrict(x)

    def log_volume(self, y: Float[Array, " dim"]) -> Float[Array, ""]:
        """log |det dx/dy|."""
        return self.model.log_volume(y)

    def contains(self, x: Float[Array, " full_dim"]) -> Bool[Array, ""]:
        """Whether x has finite unconstrained coordinates and comes back from them."""
        y = self.restrict(x)
        is_finite = jnp.all(jnp.isfinite(y))
        gap = jnp.abs(self.embed(jnp.where(is_finite, y, jnp.zeros_like(y))) - x)
        return is_finite & jnp.all(gap <= CLOSE * jnp.maximum(jnp.abs(x), 1e-2 * jnp.max(jnp.abs(x))))

    def as_dict(self) -> dict[str, Any]:
        """A mark that there is one: to read it back the model is needed."""
        return {"name": self.model.kind}

    def __str__(self) -> str:
        return f"that of the model's {self.model.parts}"


class NamedStructure(eqx.Module):
    """Parameters by name; draws also have what the model computes from them."""

    model: Any = eqx.field(static=True)

    @property
    def dims(self) -> dict[str, list[str]]:
        """Names of the axes of every parameter."""
        return self.model.dims

    def restore(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Named values of many points given by their constrained coordinates, each with a leading axis."""
        named = self.model.outer.restore(rows)
        return named | self.model.derived_of(rows) if self.model.derived else named

    def flatten(self, tree: Any, what: str) -> np.ndarray:
        """The constrained coordinates of one point or of many; computed values are not needed and not read."""
        if isinstance(tree, dict):
            tree = {name: value for name, value in tree.items() if name not in self.model.derived}
        return self.model.outer.flatten(tree, what)

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready; the model is needed to read it back."""
        outer = self.model.outer
        sites = [[name, list(shape)] for name, shape in zip(outer.names, outer.shapes, strict=True)]
        return {"name": self.model.kind, "sites": sites, "derived": list(self.model.derived)}
