"""A likelihood and a prior as one target, in the coordinates in which the prior is the standard normal."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp

from tempering.priors import Normal, PriorChart, box_chart
from tempering.priors.cube import CubeChart
from tempering.priors.maps import log_normal
from tempering.targets.base import Target
from tempering.targets.inner import in_inner_coordinates
from tempering.targets.references import ReferenceLike
from tempering.transforms import Chart, Constrained
from tempering.types import Array, Float

__all__ = ["Posterior", "in_coordinates", "within_bounds"]


class Posterior(Target):
    """log L(x(z)) + log N(z; 0, I), with x = chart.embed(z), and N(0, I) for a reference.

    On the path r^(1 - beta) p^beta from that reference only the likelihood is tempered, and log Z is the evidence. In a
    box L is a density of x, and the log of the box's volume is added, so that log Z is the integral over it.
    """

    dim: int = eqx.field(static=True)
    target: Target
    chart: PriorChart | CubeChart
    reference: ReferenceLike

    def __init__(self, target: Target, chart: PriorChart | CubeChart):
        self.dim, self.target, self.chart = chart.dim, target, chart
        self.reference = Normal(jnp.zeros((chart.dim,)), 1.0)

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        """Log likelihood and log prior of one point, given in normal coordinates."""
        return self.target.log_density(self.chart.embed(x)) + jnp.sum(log_normal(x)) + self.chart.log_mass

    @property
    def structure(self) -> Any:
        """What restores a point in the user's coordinates to the user's own tree, or None."""
        return self.target.structure


def within_bounds(target: Target, support: Constrained | None) -> Target:
    """The target in unbounded coordinates: normal ones, where every coordinate lies in an interval.

    A target with a reference of its own follows the path from that one.
    """
    box = None if support is None or target.reference is not None else box_chart(support)
    return in_inner_coordinates(target, support) if box is None else Posterior(target, box)


def in_coordinates(target: Target, chart: Chart | None) -> Target:
    """The target in the coordinates of a chart, whichever it is: what a sampler that was read from a folder needs."""
    if isinstance(chart, PriorChart | CubeChart):
        return Posterior(target, chart)
    return in_inner_coordinates(target, chart)
