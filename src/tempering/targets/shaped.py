"""A target in the coordinates of a learned chart, which stand before whatever chart the target has."""

from typing import Any

import equinox as eqx

from tempering.targets.base import Target
from tempering.targets.inner import InnerReference, within_precision
from tempering.transforms import Chart
from tempering.transforms.triangular import Composed, Triangular
from tempering.types import Array, Float

__all__ = ["Shaped", "as_saved"]


class Shaped(Target):
    """The target as a density of y, with x = learned.embed(y) in the coordinates that the target takes.

    Its `chart` leads from y to the user's coordinates: through the learned chart and the target's own, if it has one.
    It brings the target's reference and structure. What it says of particles has no meaning in learned coordinates.
    """

    dim: int = eqx.field(static=True)
    target: Target
    learned: Triangular

    def __init__(self, target: Target, learned: Triangular):
        self.dim, self.target, self.learned = target.dim, target, learned

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        outer = self.learned.embed(x)
        return within_precision(outer, self.target.log_density(outer) + self.learned.log_volume(x))

    @property
    def chart(self) -> Chart:
        """From y to the user's coordinates."""
        outer = self.target.chart
        return self.learned if outer is None else Composed(outer, self.learned)

    @property
    def reference(self) -> InnerReference | None:
        """The target's own, in learned coordinates."""
        reference = self.target.reference
        return None if reference is None else InnerReference(reference, self.learned)

    @property
    def structure(self) -> Any:
        """What restores a point in the user's coordinates to the user's own tree, or None."""
        return self.target.structure

    def invariants(self, y: Float[Array, " dim"]) -> Float[Array, " feature"]:
        """What must have mixed in chains: the target's own choice, else y."""
        own = self.target.invariants
        return y if own is None else own(self.learned.embed(y))


def as_saved(target: Target | None, chart: Chart | None) -> Target | None:
    """The target in the coordinates of a sampler that was saved with `chart`, which may have a learned part."""
    learned = chart.inner if isinstance(chart, Composed) else chart
    if target is None or not isinstance(learned, Triangular):
        return target
    return Shaped(target.target if isinstance(target, Shaped) else target, learned)
