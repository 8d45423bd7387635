"""Rows shared out: `by_row` in place of `jax.vmap`, and a mean with its gradient. Both inside programs of `on_devices`.

Rows are cut into `LANES` parts of equal size, and every CPU takes its parts one after another. The program of a part
knows neither how many devices there are nor how many parts come after it, so that its result is the same to the bit.
A GPU takes its parts side by side (`mesh.is_in_turn`).
Results are gathered on all devices, where everything else is done as on one: no sum crosses devices in an order that
depends on their number.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from tempering.devices.keys import bare, keyed
from tempering.devices.mesh import AXIS, is_in_turn, num_lanes
from tempering.types import Array

__all__ = ["by_row", "mean_and_grad", "shared_out"]

_LEAST_ROWS = 16
"""Below which rows are not shared out: a part would be a row or none."""


@dataclass(frozen=True)
class _Sharing:
    """What a program that is being traced knows of its devices.

    Args:
        turns: how many parts a device takes, a traced number: the compiler must not unroll a loop of one turn, because
            the rest of the program would then be fused with it.
    """

    mesh: Mesh
    turns: Array


_SHARING: ContextVar[_Sharing | None] = ContextVar("tempering_sharing", default=None)


@contextmanager
def shared_out(mesh: Mesh, turns: Array) -> Iterator[None]:
    """Rows are shared out over `mesh` in what is traced inside."""
    token = _SHARING.set(_Sharing(mesh, turns))
    try:
        yield
    finally:
        _SHARING.reset(token)


def is_sharing() -> bool:
    """Whether rows are shared out in the program that is being traced."""
    return _SHARING.get() is not None


def by_row(function: Callable[..., Any], *, num_axes: int = 1, chunk_size: int | None = None) -> Callable[..., Any]:
    """`jax.vmap(function)`; inside a program of `on_devices` that has several devices, shared out over them.

    Args:
        function: of one row of each argument.
        num_axes: leading axes to map over.
        chunk_size: rows at a time at the most, of all devices together; None takes all at once.
    """

    def on_one(*rows: Any) -> Any:
        if chunk_size is not None:
            return jax.lax.map(lambda row: function(*row), rows, batch_size=chunk_size)
        mapped = function
        for _ in range(num_axes):
            mapped = jax.vmap(mapped)
        return mapped(*rows)

    def call(*rows: Any) -> Any:
        sharing = _SHARING.get()
        shape = jax.tree.leaves(rows)[0].shape[:num_axes]
        num = reduce(lambda a, b: a * b, shape)
        if sharing is None or num < _LEAST_ROWS:
            return on_one(*rows)
        flat = jax.tree.map(lambda leaf: leaf.reshape((num, *leaf.shape[num_axes:])), rows)
        size = None if chunk_size is None else -(-chunk_size // num_lanes(sharing.mesh))
        many = by_row(function, chunk_size=None if size is None or size * num_lanes(sharing.mesh) >= num else size)
        lanes = _by_lane(lambda *own: _alone(many, own), flat, sharing)
        return jax.tree.map(
            lambda leaf: leaf.reshape((-1, *leaf.shape[2:]))[:num].reshape((*shape, *leaf.shape[2:])), lanes
        )

    return call


def _alone(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """A call inside a part: what it maps over in turn is not shared out again."""
    token = _SHARING.set(None)
    try:
        return function(*args)
    finally:
        _SHARING.reset(token)


def mean_and_grad(function: Callable[..., Array], params: Any, *rows: Any) -> tuple[Array, Any]:
    """The mean of `function(params, *row)` over rows, and its gradient with respect to `params`.

    Shared out, every part has a sum of its own, and these are added in the order of the parts.
    """

    def each(params: Any, rows: tuple[Any, ...]) -> Array:
        return jax.vmap(lambda *row: function(params, *row))(*rows)

    sharing, num = _SHARING.get(), jax.tree.leaves(rows)[0].shape[0]
    if sharing is None or num < _LEAST_ROWS:
        return jax.value_and_grad(lambda params: jnp.mean(each(params, rows)))(params)

    def of_part(is_first: Array, *own: Any) -> tuple[Array, Any]:
        total = lambda params: jnp.sum(jnp.where(is_first, each(params, own), 0.0)) / num  # noqa: E731
        return _alone(jax.value_and_grad(total), (params,))

    lanes = num_lanes(sharing.mesh)
    size = -(-num // lanes)
    is_first = jnp.arange(lanes * size) < num  # rows that fill up the last parts count nothing
    parts = _by_lane(of_part, rows, sharing, beside=(is_first,))
    return jax.tree.map(lambda leaf: reduce(jnp.add, [leaf[lane] for lane in range(lanes)]), parts)


def _by_lane(function: Callable[..., Any], rows: Any, sharing: _Sharing, beside: tuple[Array, ...] = ()) -> Any:
    """`function` of every part of the rows, with an axis of parts before its own.

    Args:
        beside: arrays with a row for each row of all parts, those that fill up the last ones as well.
    """
    lanes = num_lanes(sharing.mesh)
    size, per_device = -(-jax.tree.leaves(rows)[0].shape[0] // lanes), -(-lanes // sharing.mesh.size)

    def parts_of(leaf: Array) -> Array:
        if leaf.shape[0] != lanes * size:
            leaf = leaf[jnp.arange(lanes * size) % leaf.shape[0]]  # after the last row come the first
        return leaf.reshape((lanes, size, *leaf.shape[1:]))

    parts = jax.tree.map(parts_of, bare((*beside, *rows)))
    first = jax.lax.axis_index(AXIS) * per_device

    def made(index: Array) -> Any:
        lane = (first + index) % lanes  # a device that has nothing left repeats what others do
        own = jax.tree.map(lambda leaf: jax.lax.dynamic_index_in_dim(leaf, lane, keepdims=False), parts)
        return jax.lax.optimization_barrier(bare(function(*keyed(jax.lax.optimization_barrier(own)))))

    if not is_in_turn(sharing.mesh):
        return _gathered(jax.vmap(made)(jnp.arange(per_device)), lanes)

    def turn(index: Array, filled: Any) -> Any:
        put = lambda leaf, new: jax.lax.dynamic_update_index_in_dim(leaf, new, index, 0)  # noqa: E731
        return jax.tree.map(put, filled, made(index))

    shapes = jax.eval_shape(made, jnp.zeros((), jnp.int32))
    empty = jax.tree.map(lambda leaf: jnp.zeros((per_device, *leaf.shape), leaf.dtype), shapes)
    return _gathered(jax.lax.fori_loop(0, sharing.turns, turn, empty), lanes)


def _gathered(filled: Any, lanes: int) -> Any:
    """The parts of all devices, on every device."""
    gathered = jax.tree.map(lambda leaf: jax.lax.all_gather(leaf, AXIS, tiled=True)[:lanes], filled)
    return keyed(jax.lax.optimization_barrier(gathered))
