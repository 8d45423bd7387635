"""Programs that run on all devices of the mesh: `on_devices` in place of `eqx.filter_jit`.

Arguments are copied to all devices, and what comes out is the same on each; it comes back to JAX's default device, so
that nothing outside knows about the mesh. Inside, `by_row` shares the rows out.
"""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax.core import Tracer
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tempering.compilation import on_device
from tempering.devices.keys import bare, keyed
from tempering.devices.mesh import active_mesh, num_lanes
from tempering.devices.rows import is_sharing, shared_out
from tempering.devices.unrolled import holds_long_density, on_one, without_passes

__all__ = ["Program", "resident", "on_devices"]

_ALIKE = "cse"
"""A pass that is left out. For several devices XLA merges equal operations before it simplifies, for one device after.
What it then makes of x / sqrt(y) or of a division by a number rounds in another way. Where it merges nothing, both come
out alike, and the code generator merges most of it later. Seen on CPUs, where it is done; on GPUs faster programs are
worth more than the last bit between one device and several."""


class Program:
    """A function compiled for one device, or for those of the mesh that is active when it is called."""

    def __init__(self, function: Callable[..., Any]):
        functools.update_wrapper(self, function)
        self._function = function
        self._on_one = on_one(function)
        self._on_mesh = functools.cache(self._compiled)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        mesh = active_mesh()
        if is_sharing():
            return self._function(*args, **kwargs)
        if mesh is None or not _can_spread((args, kwargs)):
            return self._on_one(*args, **kwargs)
        return _home(self._for(mesh, args, kwargs)(*_given(mesh, args, kwargs)))

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """As of `eqx.filter_jit`, for the devices that are active now."""
        mesh = active_mesh()
        if mesh is None or not _can_spread((args, kwargs)):
            return self._on_one.lower(*args, **kwargs)
        return self._for(mesh, args, kwargs).lower(*_given(mesh, args, kwargs))

    def _for(self, mesh: Mesh, args: Any, kwargs: Any) -> Any:
        is_on_cpu = mesh.local_devices[0].platform == "cpu"
        unfused = ("fusion",) if is_on_cpu and holds_long_density(args, kwargs) else ()
        return self._on_mesh(mesh, (_ALIKE, *unfused) if is_on_cpu else ())

    def _compiled(self, mesh: Mesh, left_out: tuple[str, ...]) -> Any:
        # One for each mesh: a function that was traced for another has its number of devices in it.
        def program(turns: Any, args: Any, kwargs: Any) -> Any:
            arrays, rest = eqx.partition((args, kwargs), eqx.is_array)
            others: list[Any] = []

            def on_each(turns: Any, arrays: Any) -> Any:
                args, kwargs = keyed(eqx.combine(arrays, rest))
                with shared_out(mesh, turns):
                    made, other = eqx.partition(bare(self._function(*args, **kwargs)), eqx.is_array)
                others.append(other)
                return made

            same = PartitionSpec()
            made = jax.shard_map(on_each, mesh=mesh, in_specs=same, out_specs=same, check_vma=False)(turns, arrays)
            return eqx.combine(made, others[-1])

        options = without_passes(*left_out) if left_out else {}
        return eqx.filter_jit(program, **{"compiler_options": options})  # pyright: ignore


def on_devices(function: Callable[..., Any]) -> Any:
    """`eqx.filter_jit` for a program with many rows: on all devices of the mesh, where one is active (`mesh.use`)."""
    return Program(function)


def _given(mesh: Mesh, args: Any, kwargs: Any) -> tuple[Any, Any, Any]:
    turns = np.asarray(-(-num_lanes(mesh) // mesh.size), np.int32)
    return _placed((turns, args, kwargs), mesh)


def _can_spread(tree: Any) -> bool:
    """Not inside another program, and not with a function of the host: each device would call it for all rows."""
    is_box = lambda node: hasattr(node, "points_per_gradient")  # noqa: E731
    leaves = jax.tree.leaves(tree, is_leaf=is_box)
    return not any(isinstance(leaf, Tracer) or is_box(leaf) for leaf in leaves)


def resident(tree: Any) -> Any:
    """The tree where `on_devices` programs run, for what many calls take: it then travels once."""
    mesh = active_mesh()
    return on_device(tree) if mesh is None else keyed(_placed(tree, mesh))


def _placed(tree: Any, mesh: Mesh) -> Any:
    """The tree with its arrays on every device of the mesh, keys as numbers."""
    everywhere = NamedSharding(mesh, PartitionSpec())

    def one(leaf: Any) -> Any:
        if not eqx.is_array(leaf) and not isinstance(leaf, np.ndarray | np.generic):
            return leaf
        if isinstance(leaf, jax.Array) and leaf.sharding == everywhere:
            return leaf
        copies = [jax.device_put(leaf, device) for device in mesh.local_devices]
        return jax.make_array_from_single_device_arrays(np.shape(leaf), everywhere, copies)

    return jax.tree.map(one, bare(tree))


def _home(tree: Any) -> Any:
    """The tree with its arrays on JAX's default device, as a program of that device leaves them.

    By way of the host: an array that is copied from one device to another is bound to it from then on.
    """

    def one(leaf: Any) -> Any:
        return jax.device_put(np.asarray(leaf.addressable_data(0))) if isinstance(leaf, jax.Array) else leaf

    return keyed(jax.tree.map(one, tree))
