"""Densities of many points for the host: hardly a program for each number of them, and exactly one evaluation each.

`evaluate_many` is a program for every number of points. A search asks for a few thousand here, ten thousand there; on a
GPU each program takes as long to compile as a million evaluations of a cheap density.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tempering.devices import on_one
from tempering.devices.mesh import active_mesh
from tempering.targets.base import Target, evaluate, evaluate_many
from tempering.targets.cost import is_black_box
from tempering.types import Array, Float, Int

__all__ = ["HARDLY_ANY", "PART", "evaluate_rows", "whole_parts"]

PART = 250
"""Points of a part. One program serves all whole parts; what is left over is a program of its own."""
_PARTS_AT_ONCE = 32
HARDLY_ANY = 0.05
"""Share of draws that need not be made, where whole parts are so many fewer."""


def whole_parts(num: int, most_lost: float = 1.0) -> int:
    """The number rounded down to whole parts, if that is at least one and loses no more than a share of it."""
    whole = num // PART * PART
    return whole if whole > 0 and num - whole <= most_lost * num else num


def evaluate_rows(target: Target, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log densities and gradients of the points, as arrays of the host.

    Functions of the host, and several devices, are given all points at once (`evaluate_many`).
    """
    points = np.asarray(points, np.float32)
    num, dim = points.shape
    is_at_once = is_black_box(target) or active_mesh() is not None
    whole = 0 if is_at_once else num // PART * PART
    made: list[tuple[int, Any]] = [(0, (np.zeros((0,), np.float32), np.zeros((0, dim), np.float32)))]
    room = _PARTS_AT_ONCE * PART
    for begin in range(0, whole, room):
        own = points[begin : min(whole, begin + room)]
        num_parts = jax.device_put(np.asarray(len(own) // PART, np.int32))
        made.append((len(own), _evaluate_parts(target, jax.device_put(np.resize(own, (room, dim))), num_parts)))
    if num > whole:
        made.append((num - whole, evaluate_many(target, jax.device_put(points[whole:]))))
    parts = [tuple(array[:size] for array in jax.device_get(pair)) for size, pair in made]
    values, gradients = zip(*parts, strict=True)
    return np.concatenate(values), np.concatenate(gradients)


@on_one
def _evaluate_parts(
    target: Target, room: Float[Array, "place dim"], num_parts: Int[Array, ""]
) -> tuple[Float[Array, " place"], Float[Array, "place dim"]]:
    """Of the points of the first parts; zeros beyond, where nothing is evaluated."""

    def part(index: Array, made: tuple[Array, Array]) -> tuple[Array, Array]:
        own = jax.lax.dynamic_slice_in_dim(room, index * PART, PART)
        new = jax.vmap(lambda point: evaluate(target, point))(own)
        put = lambda whole, rows: jax.lax.dynamic_update_slice_in_dim(whole, rows, index * PART, 0)  # noqa: E731
        return put(made[0], new[0]), put(made[1], new[1])

    shapes = jax.eval_shape(lambda point: evaluate(target, point), room[0])
    empty = tuple(jnp.zeros((room.shape[0], *shape.shape), shape.dtype) for shape in shapes)
    return jax.lax.fori_loop(0, num_parts, part, empty)
