"""A target in the coordinates that a method works in: those of a chart."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from tempering.targets.base import Target
from tempering.targets.references import ReferenceLike
from tempering.transforms import Chart
from tempering.transforms.centred import Centred
from tempering.types import Array, Float, Key

__all__ = ["Inner", "InnerReference", "in_inner_coordinates", "within_precision"]


class InnerReference(eqx.Module):
    """A normalised reference in the user's coordinates as a normalised density of y."""

    reference: ReferenceLike
    chart: Chart

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        """Normalised log density of one point, given in inner coordinates."""
        return self.reference.log_density(self.chart.embed(x)) + self.chart.log_volume(x)

    def sample(self, key: Key, num: int) -> Float[Array, "num dim"]:
        """Independent draws, in inner coordinates."""
        return jax.vmap(self.chart.restrict)(self.reference.sample(key, num))


def within_precision(outer: Float[Array, " dim"], log_density: Float[Array, ""]) -> Float[Array, ""]:
    """The log density at a user's point; -inf where that point is beyond single precision.

    A density that has an integral has no mass there, and what it says of infinity is NaN.
    """
    return jnp.where(jnp.all(jnp.isfinite(outer)), log_density, -jnp.inf)


class Inner(Target):
    """The target as a density of y, with x = chart.embed(y): log p(x) + log |det dx/dy|.

    It brings what the target brings, as far as that can be said of y; what is of particles, where the chart is theirs.
    """

    dim: int = eqx.field(static=True)
    target: Target
    chart: Chart

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        outer = self.chart.embed(x)
        return within_precision(outer, self.target.log_density(outer) + self.chart.log_volume(x))

    @property
    def geometry(self) -> Centred | None:
        """Of particles, where the chart is theirs."""
        return self.chart if isinstance(self.chart, Centred) else None

    @property
    def reference(self) -> InnerReference | None:
        """The target's own, in inner coordinates. None for particles: on all coordinates it has another volume."""
        reference = None if self.geometry is not None else self.target.reference
        return None if reference is None else InnerReference(reference, self.chart)

    @property
    def masses(self) -> Any:
        """Of the particles, where the chart is theirs and the target brings any; masses of other charts are unknown."""
        return None if self.geometry is None else self.target.masses

    @property
    def init(self) -> Float[Array, "point dim"] | None:
        """The target's own starting points, such as a molecule's conformation, where the chart is of particles."""
        own = None if self.geometry is None else self.target.init
        return None if own is None else jax.vmap(self.chart.restrict)(jnp.asarray(own))

    @property
    def atom_kinds(self) -> tuple[int, ...]:
        """Who the particles are, where the target tells them apart; empty where they are alike."""
        return () if self.geometry is None else self.target.atom_kinds

    @property
    def bonds(self) -> tuple[tuple[int, int], ...]:
        """Pairs of particles that are joined; empty where none are."""
        return () if self.geometry is None else self.target.bonds

    @property
    def structure(self) -> Any:
        """What restores a point in the user's coordinates to the user's own tree, or None."""
        return self.target.structure

    def invariants(self, y: Float[Array, " dim"]) -> Float[Array, " feature"]:
        """What must have mixed in chains: the target's own choice, else what symmetries of particles leave alone."""
        own = self.target.invariants
        if own is not None:
            return own(self.chart.embed(y))
        return y if self.geometry is None else self.geometry.invariants(y)


def in_inner_coordinates(target: Target, chart: Chart | None = None) -> Target:
    """What a method fits: the target itself, or the target in a chart's coordinates.

    Args:
        chart: None takes the target's `geometry`, if it has one. A target with a `chart` of its own is in its
            coordinates already.
    """
    if target.chart is not None:
        return target
    chart = target.geometry if chart is None else chart
    return target if chart is None else Inner(chart.dim, target, chart)
