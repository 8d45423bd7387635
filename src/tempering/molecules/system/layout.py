"""Distances, angles and dihedrals of many conformations at once, coordinates first and the batch last.

Positions are (3, atom, *batch): every operation runs along whole rows of a batch, which on CPU takes half the time of
the batch in front. Per-term numbers get trailing axes of size one by `column`. Nothing here is NaN for atoms at one
place: a distance of zero has no slope.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tempering.types import Array, Float

__all__ = ["Pairs", "angle_between", "cross", "column", "dihedral_parts", "dot", "norm", "take"]


def column(numbers: Any, like: Array) -> Array:
    """Per-term numbers (term, ...) as an array that broadcasts against `like`, (term, ..., *batch)."""
    numbers = np.asarray(numbers)
    return jnp.asarray(numbers.reshape(numbers.shape + (1,) * (like.ndim - numbers.ndim)), like.dtype)


def take(rows: Float[Array, "atom *batch"], places: np.ndarray) -> Float[Array, "term *batch"]:
    """rows[places]."""
    # The places are known to be right: without checks and wrapping the program is smaller.
    return rows.at[places].get(mode="promise_in_bounds")


def norm(squares: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """The root, with slope 0 at 0, where that of the root is infinite."""
    is_positive = squares > 0
    return jnp.where(is_positive, jnp.sqrt(jnp.where(is_positive, squares, 1.0)), 0.0)


class Pairs:
    """All pairs i < j of atoms, with their distances."""

    def __init__(self, positions: Float[Array, "3 atom *batch"]):
        self.num_atoms = positions.shape[1]
        self.first, self.second = np.triu_indices(self.num_atoms, 1)
        offsets = [take(axis, self.first) - take(axis, self.second) for axis in positions]
        self.squares = dot(offsets, offsets)
        self.distances = norm(self.squares)


def dot(a: Sequence[Array], b: Sequence[Array]) -> Array:
    """Scalar product of vectors given as three arrays."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def cross(a: Sequence[Array], b: Sequence[Array]) -> list[Array]:
    """Vector product of vectors given as three arrays."""
    return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]


def _between(positions: Array, start: np.ndarray, end: np.ndarray) -> list[Array]:
    return [take(axis, end) - take(axis, start) for axis in positions]


def angle_between(positions: Float[Array, "3 atom *batch"], atoms: np.ndarray) -> Float[Array, "term *batch"]:
    """The angle at the middle one of three atoms, in [0, pi]; accurate near both ends."""
    a = _between(positions, atoms[:, 1], atoms[:, 0])
    b = _between(positions, atoms[:, 1], atoms[:, 2])
    normal = cross(a, b)
    sine, cosine = norm(dot(normal, normal)), dot(a, b)
    # Where an arm has no length both are 0, and the slope of atan2 is not defined.
    is_flat = (sine == 0) & (cosine == 0)
    return jnp.arctan2(sine, jnp.where(is_flat, 1.0, cosine))


def dihedral_parts(
    positions: Float[Array, "3 atom *batch"], atoms: np.ndarray
) -> tuple[Float[Array, "term *batch"], Float[Array, "term *batch"]]:
    """cos and sin of the dihedral of four atoms, by the convention of IUPAC: 0 is cis, positive is clockwise.

    (1, 0), without a slope, where three of the atoms are on a line.
    """
    b1 = _between(positions, atoms[:, 0], atoms[:, 1])
    b2 = _between(positions, atoms[:, 1], atoms[:, 2])
    b3 = _between(positions, atoms[:, 2], atoms[:, 3])
    n1, n2 = cross(b1, b2), cross(b2, b3)
    cosine = dot(n1, n2)
    sine = dot(b1, n2) * norm(dot(b2, b2))
    squares = cosine * cosine + sine * sine
    is_defined = squares > 0
    inverse = jax.lax.rsqrt(jnp.where(is_defined, squares, 1.0))
    return jnp.where(is_defined, cosine * inverse, 1.0), jnp.where(is_defined, sine * inverse, 0.0)
