"""A target in the coordinates that a method works in: those of a chart."""

from typing import Any

import equinox as eqx
import jax

from tempering.charts import Chart
from tempering.geometry import Centred
from tempering.targets.base import Target
from tempering.types import Array, Float, Key

__all__ = ["Inner", "InnerReference", "in_inner_coordinates"]


class InnerReference(eqx.Module):
    """A normalised reference in the user's coordinates as a normalised density of y."""

    reference: Any
    chart: Chart

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        """Normalised log density of one point, given in inner coordinates."""
        return self.reference.log_density(self.chart.embed(x)) + self.chart.log_volume(x)

    def sample(self, key: Key, num: int) -> Float[Array, "num dim"]:
        """Independent draws, in inner coordinates."""
        return jax.vmap(self.chart.restrict)(self.reference.sample(key, num))


class Inner(Target):
    """The target as a density of y, with x = chart.embed(y): log p(x) + log |det dx/dy|."""

    dim: int = eqx.field(static=True)
    target: Any
    chart: Chart

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        """Unnormalised log density of one point, given in inner coordinates."""
        return self.target.log_density(self.chart.embed(x)) + self.chart.log_volume(x)

    @property
    def geometry(self) -> Centred | None:
        """Of particles, where the chart is theirs."""
        return self.chart if isinstance(self.chart, Centred) else None

    @property
    def reference(self) -> InnerReference | None:
        """The target's own, in inner coordinates. None for particles: on all coordinates it has another volume."""
        reference = None if self.geometry is not None else getattr(self.target, "reference", None)
        return None if reference is None else InnerReference(reference, self.chart)

    @property
    def structure(self) -> Any:
        """What restores a point in the user's coordinates to the user's own tree, or None."""
        return getattr(self.target, "structure", None)


def in_inner_coordinates(target: Any, chart: Chart | None = None) -> Any:
    """What a method fits: the target itself, or the target in a chart's coordinates.

    Args:
        chart: None takes the target's `geometry`, if it has one. A target with a `chart` of its own is in its
            coordinates already.
    """
    if getattr(target, "chart", None) is not None:
        return target
    chart = getattr(target, "geometry", None) if chart is None else chart
    return target if chart is None else Inner(chart.dim, target, chart)
