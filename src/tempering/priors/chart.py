"""The chart of a prior: normal coordinates z, in which it is the standard normal, and the user's x."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from tempering.priors.distributions import DISTRIBUTIONS, Distribution, Numbers, Uniform
from tempering.priors.maps import Map
from tempering.priors.student import JointStudent
from tempering.transforms import Constrained
from tempering.types import Array, Bool, Float

__all__ = ["GIVEN", "Entry", "Part", "PriorChart", "box_chart", "prior_chart"]

GIVEN = "NumPyro"
"""The name of a part whose distribution the folder does not hold."""
_JOINT = "joint StudentT"


@dataclass(frozen=True)
class Entry:
    """One distribution and the numbers it stands for.

    Args:
        distribution: ours; or None, where only its map is known.
        size: how many numbers it stands for.
        parameters: flat, of that size.
        given: the map of a distribution that is not ours, and its name.
    """

    distribution: type[Distribution] | None
    size: int
    parameters: Numbers
    is_joint: bool = False
    given: tuple[Map, str] | None = None

    @property
    def name(self) -> str:
        """Of its part."""
        if self.distribution is None:
            return GIVEN
        return _JOINT if self.is_joint else self.distribution.__name__


class Part(eqx.Module):
    """Coordinates of one kind: where they are in the vector, their parameters and their map."""

    map: Map
    parameters: dict[str, Array]
    name: str = eqx.field(static=True)
    places: tuple[int, ...] = eqx.field(static=True)
    words: str = eqx.field(static=True, default="")

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        numbers = {name: np.asarray(value).tolist() for name, value in self.parameters.items()}
        return {"name": self.name, "places": list(self.places), "parameters": numbers, "words": self.words}


class PriorChart(eqx.Module):
    """x = F^-1(Phi(z)), part by part.

    Args:
        is_box: whether it stands for a box in which a density of x is given, in place of a prior with a likelihood;
            then log Z is the integral over the box.
    """

    parts: tuple[Part, ...]
    is_box: bool = eqx.field(static=True, default=False)

    @property
    def dim(self) -> int:
        """Number of normal coordinates."""
        return sum(len(part.places) for part in self.parts)

    @property
    def full_dim(self) -> int:
        """Number of the user's coordinates."""
        return self.dim

    @property
    def log_mass(self) -> Float[Array, ""]:
        """log of the integral of what the normal coordinates are uniform in: 0 of a prior, the volume of a box."""
        if not self.is_box:
            return jnp.zeros(())
        widths = [part.parameters["high"] - part.parameters["low"] for part in self.parts]
        return jnp.sum(jnp.log(jnp.concatenate(widths)))

    def embed(self, y: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """The user's point, strictly inside the support."""
        return self._joined([part.map.embed(_take(y, part.places)) for part in self.parts])

    def restrict(self, x: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """The normal coordinates of a point inside the support."""
        return self._joined([part.map.restrict(_take(x, part.places)) for part in self.parts])

    def log_volume(self, y: Float[Array, " dim"]) -> Float[Array, ""]:
        """log |det dx/dz|."""
        return jnp.sum(jnp.concatenate([part.map.log_slope(_take(y, part.places)) for part in self.parts]))

    def contains(self, x: Float[Array, " dim"]) -> Bool[Array, ""]:
        """Whether x is inside the support of the prior."""
        return jnp.all(jnp.concatenate([part.map.contains(_take(x, part.places)) for part in self.parts]))

    def _joined(self, values: list[Array]) -> Float[Array, " dim"]:
        order = np.argsort(np.concatenate([part.places for part in self.parts]))
        return _take(jnp.concatenate(values), tuple(order.tolist()))

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready. `from_dict` reads it back, unless a part is of a distribution that is not ours."""
        parts = [part.as_dict() for part in self.parts]
        is_given = any(part.name == GIVEN for part in self.parts)
        return {"name": "given prior" if is_given else "prior", "is_box": self.is_box, "parts": parts}

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> "PriorChart":
        """The chart that `as_dict` described."""
        parts = []
        for each in stored["parts"]:
            numbers = {name: np.asarray(value, np.float32) for name, value in each["parameters"].items()}
            is_joint = each["name"] == _JOINT
            kind = DISTRIBUTIONS["StudentT" if is_joint else each["name"]]
            parts.append(_part(Entry(kind, len(each["places"]), numbers, is_joint), tuple(each["places"])))
        return cls(tuple(parts), bool(stored["is_box"]))

    def __str__(self) -> str:
        return ", ".join(
            f"{part.words or part.name} for {len(part.places)} coordinate{'s' if len(part.places) > 1 else ''}"
            for part in self.parts
        )


def prior_chart(entries: Sequence[Entry]) -> PriorChart:
    """The chart of a vector made of entries, one after another; independent ones of one kind share a part."""
    starts = np.cumsum([0, *(entry.size for entry in entries)]).tolist()
    groups: dict[Any, list[tuple[Entry, range]]] = {}
    for index, entry in enumerate(entries):
        is_alone = entry.is_joint or entry.given is not None
        group = groups.setdefault((entry.name, index if is_alone else None), [])
        group.append((entry, range(starts[index], starts[index + 1])))
    parts = []
    for group in groups.values():
        first = group[0][0]
        places = tuple(place for _, each in group for place in each)
        names = first.parameters
        numbers = {name: np.concatenate([entry.parameters[name] for entry, _ in group]) for name in names}
        merged = Entry(first.distribution, len(places), numbers, first.is_joint, first.given)
        parts.append(_part(merged, places))
    return PriorChart(tuple(parts))


def box_chart(support: Constrained) -> PriorChart | None:
    """Normal coordinates of a box: of supports that are all intervals. None for others."""
    bounds = support.bounds
    if bounds is None:
        return None
    numbers = {"low": np.asarray(bounds[0], np.float32), "high": np.asarray(bounds[1], np.float32)}
    part = _part(Entry(Uniform, support.dim, numbers), tuple(range(support.dim)))
    return PriorChart((part,), is_box=True)


def _part(entry: Entry, places: tuple[int, ...]) -> Part:
    if entry.given is not None:
        return Part(entry.given[0], {}, entry.name, places, entry.given[1])
    if entry.distribution is None:
        raise ValueError("an entry is a distribution of ours, or has a map")
    made = JointStudent(entry.parameters) if entry.is_joint else entry.distribution.map_of(entry.parameters)
    parameters = {name: jnp.asarray(value) for name, value in entry.parameters.items()}
    return Part(made, parameters, entry.name, places)


def _take(vector: Float[Array, " n"], places: tuple[int, ...]) -> Float[Array, " k"]:
    """The entries at `places`; neighbours by a slice, which costs nothing."""
    if places == tuple(range(places[0], places[0] + len(places))):
        return vector[places[0] : places[0] + len(places)]
    return vector[np.asarray(places)]
