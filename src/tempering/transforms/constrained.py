"""The chart of a vector whose parts lie in supports: each part by the bijection of its support, one after another."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from tempering.errors import RunFolderError, SettingsError, what_is
from tempering.transforms.protocol import Chart
from tempering.transforms.supports import Support, real, support_from_dict
from tempering.transforms.triangular import Composed, Triangular
from tempering.types import Array, Bool, Float

__all__ = ["Block", "Constrained", "chart_of", "flat_chart", "read_chart"]
Reader = Callable[[dict[str, Any]], Chart]

_OTHERWISE = {
    "internal": "the same molecule, temperature and settings",
    "prior": "the same prior, or none: the folder holds it",
}
_MISSING = {
    "numpyro": "this sampler was fitted to a {name} model, whose coordinates the folder does not hold; load it with "
    "that model: tp.load(folder, tp.from_numpyro(model, ...))",
    "pymc": "this sampler was fitted to a PyMC model, whose coordinates the folder does not hold; load it with that "
    "model: tp.load(folder, tp.from_pymc(model))",
    "stan": "this sampler was fitted to a Stan model, whose coordinates the folder does not hold; load it with that "
    "model: tp.load(folder, tp.from_stan(model, data))",
    "given prior": "this sampler was fitted with a prior of NumPyro's distributions, which the folder does not hold; "
    "load it with that prior: tp.load(folder, log_likelihood, prior=...)",
    "prior_transform": "this sampler was fitted with a prior_transform, which the folder does not hold; load it with "
    "that function: tp.load(folder, log_likelihood, prior_transform=...)",
}
"""What to load a sampler with whose coordinates are not those that were given, or are needed and are missing."""


@dataclass(frozen=True)
class Block:
    """`num` vectors of `size` entries, one after another, each in the support."""

    support: Support
    num: int
    size: int

    def __post_init__(self) -> None:
        if self.support.is_joint and self.size < 2:
            raise SettingsError(
                f"support {self.support} is of vectors with at least 2 entries along the last axis, not {self.size}"
            )

    @property
    def dim(self) -> int:
        """Inner coordinates of the block."""
        return self.num * self.support.num_inner(self.size)

    @property
    def full_dim(self) -> int:
        """The user's coordinates of the block."""
        return self.num * self.size


class Constrained(eqx.Module):
    """The chart of a flat vector made of blocks."""

    blocks: tuple[Block, ...] = eqx.field(static=True)

    @property
    def dim(self) -> int:
        """Number of inner coordinates."""
        return sum(block.dim for block in self.blocks)

    @property
    def full_dim(self) -> int:
        """Number of the user's coordinates."""
        return sum(block.full_dim for block in self.blocks)

    def embed(self, y: Float[Array, " dim"]) -> Float[Array, " full_dim"]:
        """The user's point of the inner coordinates y."""
        parts = self._map(lambda support: support.embed, y, lambda block: block.dim)
        return jnp.concatenate([part.reshape(-1) for part in parts])

    def restrict(self, x: Float[Array, " full_dim"]) -> Float[Array, " dim"]:
        """The inner coordinates of x; not finite where x is outside the support."""
        parts = self._map(lambda support: support.restrict, x, lambda block: block.full_dim)
        return jnp.concatenate([part.reshape(-1) for part in parts])

    def log_volume(self, y: Float[Array, " dim"]) -> Float[Array, ""]:
        """log |det dx/dy|: blocks do not depend on each other, so that their logarithms add up."""
        parts = self._map(lambda support: support.log_volume, y, lambda block: block.dim)
        return jnp.sum(jnp.concatenate(parts))

    def contains(self, x: Float[Array, " full_dim"]) -> Bool[Array, ""]:
        """Whether every block of x is inside its support."""
        parts = self._map(lambda support: support.contains, x, lambda block: block.full_dim)
        return jnp.all(jnp.concatenate(parts))

    def _map(self, method: Callable[[Support], Callable], vector: Array, length: Callable[[Block], int]) -> list[Array]:
        parts, start = [], 0
        for block in self.blocks:
            part = vector[start : start + length(block)].reshape((block.num, -1))
            parts.append(jax.vmap(method(block.support))(part))
            start += length(block)
        return parts

    @property
    def bounds(self) -> tuple[list[float], list[float]] | None:
        """Lower and upper ends of all coordinates, where each lies in an interval; None where one does not."""
        if any(block.support.name != "interval" for block in self.blocks):
            return None
        ends = [block.support.as_dict() for block in self.blocks for _ in range(block.full_dim)]
        return [each["low"] for each in ends], [each["high"] for each in ends]

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready; `read_chart` reads it back."""
        blocks = [{"support": block.support.as_dict(), "num": block.num, "size": block.size} for block in self.blocks]
        return {"name": "supports", "blocks": blocks}

    def __str__(self) -> str:
        return ", ".join(
            f"{block.support} for {block.full_dim} coordinate{'s' if block.full_dim > 1 else ''}"
            for block in self.blocks
        )


def chart_of(blocks: Sequence[Block]) -> Constrained | None:
    """The chart of blocks; neighbours that stand alone and share a support are one. None if all are real."""
    merged: list[Block] = []
    for block in blocks:
        if block.full_dim == 0:
            continue
        if block.support.is_joint:
            merged.append(block)
        elif merged and merged[-1].support == block.support:
            merged[-1] = Block(block.support, 1, merged[-1].full_dim + block.full_dim)
        else:
            merged.append(Block(block.support, 1, block.full_dim))
    return None if all(block.support == real for block in merged) else Constrained(tuple(merged))


def flat_chart(support: Any, dim: int) -> Constrained | None:
    """The chart of a plain vector.

    Args:
        support: one for all coordinates, or a list with one for each, None meaning real.
    """
    if support is None or isinstance(support, Support):
        return chart_of([Block(support or real, 1, dim)])
    if not isinstance(support, list | tuple):
        raise SettingsError(
            f"support is {what_is(support)}; give one such as tp.positive, or a list with one for each of the "
            f"{dim} coordinates" + ("; names need like=, a tree of parameters" if isinstance(support, dict) else "")
        )
    if len(support) != dim:
        raise SettingsError(f"support has {len(support)} entries for {dim} coordinates; give one for each")
    entries = [real if entry is None else entry for entry in support]
    for index, entry in enumerate(entries):
        if not isinstance(entry, Support):
            raise SettingsError(f"support[{index}] is {what_is(entry)}; give one such as tp.positive, or None")
        if entry.is_joint:
            raise SettingsError(
                f"support[{index}] = {entry} is of a vector, not of one coordinate; give it for all of them, or name "
                "the vector in a tree of parameters: like={'weights': jnp.zeros(3)}, support={'weights': tp.simplex}"
            )
    return chart_of([Block(entry, 1, 1) for entry in entries])


def read_chart(
    stored: dict[str, Any] | None, full_dim: int, own: Chart | None = None, readers: dict[str, Reader] | None = None
) -> Chart | None:
    """The chart that `as_dict` described, or the target's own where only the target has it.

    Args:
        own: the target's chart, where there is a target and it has one.
        readers: of charts that later rooms define, by the name in their `as_dict`; supports and learned charts are
            read here.

    Raises:
        RunFolderError: if it describes none.
        SettingsError: if the target's is needed, and is missing or of another dimension; if the target's is another.
    """
    if stored is None:
        return None
    if stored["name"] == "triangular":
        return _read(Triangular.from_dict, stored)
    if stored["name"] == "composed":
        outer = read_chart(stored["outer"], full_dim, own.outer if isinstance(own, Composed) else own, readers)
        return Composed(outer, _read(Triangular.from_dict, stored["inner"]))
    readers = {"supports": _read_supports, **(readers or {})}
    if stored["name"] in readers:
        if own is not None and stored["name"] != "supports" and not _is_alike(own.as_dict(), stored):
            advice = _OTHERWISE.get(stored["name"], _OTHERWISE["internal"])
            raise SettingsError(
                f"the sampler's {stored['name']} coordinates are not those of the target; load it with the target it "
                f"was fitted to: {advice}"
            )
        return _read(readers[stored["name"]], stored)
    if own is None or own.as_dict() != stored or own.full_dim != full_dim:
        raise SettingsError(_MISSING.get(stored["name"], _MISSING["numpyro"]).format(name=stored["name"]))
    return own


def _read(reader: Reader, stored: dict[str, Any]) -> Any:
    """What the reader makes of a description; another version may have put it in other words."""
    try:
        return reader(stored)
    except (KeyError, TypeError, ValueError) as error:
        raise RunFolderError(
            "the sampler's coordinates were written by another version; fit again, or use that version"
        ) from error


def _read_supports(stored: dict[str, Any]) -> Constrained:
    blocks = [Block(support_from_dict(each["support"]), each["num"], each["size"]) for each in stored["blocks"]]
    return Constrained(tuple(blocks))


def _is_alike(one: Any, other: Any) -> bool:
    """Whether two descriptions are the same but for the last digits, in which a CPU and a GPU differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_alike(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_alike, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    return one == other
