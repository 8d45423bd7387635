"""The parameters of somebody else's model by their names: what PyMC's and Stan's have in common.

The model itself is not ours to store: a folder holds a mark of it, and whoever loads the folder brings the model.
"""

from typing import Any, Protocol

import equinox as eqx
import numpy as np

from tempering.adapters.structure import Structure

__all__ = ["NamedModel", "NamedStructure"]


class NamedModel(Protocol):
    """What a model must say of its parameters.

    Args:
        kind: whose model it is, as a folder marks it.
        outer: the constrained parameters, by name.
        derived: names of what the model computes from them.
        dims: names of the axes, where they are known.
    """

    kind: str
    outer: Structure
    derived: tuple[str, ...]
    dims: dict[str, list[str]]

    def derived_of(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """What the model computes from many points of constrained values."""
        ...


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
