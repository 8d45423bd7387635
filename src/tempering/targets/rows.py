"""Densities of many points for the host: one program for any number of them, and exactly one evaluation each.

`evaluate_many` is a program for every number of points. A search asks for a few hundred here, a few thousand there; on
a GPU each program takes as long to compile as a million evaluations of a cheap density.
"""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering.devices.mesh import active_mesh
from tempering.targets.base import Target, evaluate, evaluate_many
from tempering.targets.cost import is_black_box
from tempering.types import Array, Float, Int

__all__ = ["evaluate_rows"]

_ROOM = 8192
"""Points of a call: room for so many, of which those asked for are evaluated, part by part."""
_PART, _PART_OF_GPU = 64, 2048
"""Points of a part. The last one is filled up: the more points, the larger the share of them that nobody asked for. On
a GPU these take no time, and a small part would leave it idle."""
_FEW = 2
"""Points up to which a small program serves."""


def evaluate_rows(target: Target, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log densities and gradients of the points, as arrays of the host.

    What fills up a part is no point of its own, and is not in the account. A function of the host is called for the
    given points alone, and several devices share them out (`evaluate_many`).
    """
    points = np.asarray(points, np.float32)
    num, dim = points.shape
    if num == 0:
        return np.zeros((0,), np.float32), np.zeros((0, dim), np.float32)
    if is_black_box(target) or active_mesh() is not None:
        values, gradients = jax.device_get(evaluate_many(target, jax.device_put(points)))
        return values, gradients
    if num <= _FEW:
        values, gradients = jax.device_get(evaluate_many(target, jax.device_put(np.resize(points, (_FEW, dim)))))
        return values[:num], gradients[:num]
    made = []
    for begin in range(0, num, _ROOM):
        own = points[begin : begin + _ROOM]
        room = jax.device_put(np.resize(own, (_ROOM, dim)))
        counted = jax.device_put(np.asarray(len(own), np.int32))
        made.append((len(own), _evaluate_part_by_part(target, room, counted, _part_size())))
    parts = [tuple(array[:size] for array in jax.device_get(pair)) for size, pair in made]
    values, gradients = zip(*parts, strict=True)
    return np.concatenate(values), np.concatenate(gradients)


@functools.cache
def _part_size() -> int:
    return _PART if jax.default_backend() == "cpu" else _PART_OF_GPU


@eqx.filter_jit
def _evaluate_part_by_part(
    target: Target, room: Float[Array, "place dim"], num: Int[Array, ""], size: int
) -> tuple[Float[Array, " place"], Float[Array, "place dim"]]:
    """Of the first `num` points, rounded up to whole parts; zeros beyond."""

    def part(index: Array, made: tuple[Array, Array]) -> tuple[Array, Array]:
        own = jax.lax.dynamic_slice_in_dim(room, index * size, size)
        new = jax.vmap(lambda point: evaluate(target, point))(own)
        put = lambda whole, rows: jax.lax.dynamic_update_slice_in_dim(whole, rows, index * size, 0)  # noqa: E731
        return put(made[0], new[0]), put(made[1], new[1])

    shapes = jax.eval_shape(lambda point: evaluate(target, point), room[0])
    empty = tuple(jnp.zeros((room.shape[0], *shape.shape), shape.dtype) for shape in shapes)
    return jax.lax.fori_loop(0, (num + size - 1) // size, part, empty)
