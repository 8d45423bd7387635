"""A tree of parameters, as users write it, and the flat vector that everything else works on.

Consumes a tree of real arrays (dicts, lists, tuples, any JAX pytree) and a prefix of it with supports; produces the
target of a function of such a tree, the chart of its coordinates, and draws as trees again. A leaf of shape s becomes
prod(s) neighbours in the vector, in the order of `jax.tree.leaves`. All is single precision.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering.errors import RunFolderError, SettingsError, first_line, what_is
from tempering.targets.base import Target
from tempering.transforms import Block, Constrained, Support, chart_of, real
from tempering.types import Array, Float

__all__ = [
    "Structure",
    "StructuredTarget",
    "chart_of_tree",
    "hashable",
    "leaves_of_prefix",
    "read_structure",
    "structure_of",
]


@dataclass(frozen=True)
class Structure:
    """The nesting of a tree and the shapes of its leaves.

    Args:
        treedef: JAX's description of the nesting.
        shapes: of the leaves.
        names: of the leaves, keys joined by dots; a tree that is one array has the name x.
    """

    treedef: Any
    shapes: tuple[tuple[int, ...], ...]
    names: tuple[str, ...]

    @property
    def size(self) -> int:
        """Entries of all leaves together."""
        return sum(math.prod(shape) for shape in self.shapes)

    @property
    def dims(self) -> dict[str, list[str]]:
        """Names of the axes, by leaf, where they are known."""
        return {}

    def unflatten(self, x: Float[Array, " size"]) -> Any:
        """The tree of one point."""
        return self.treedef.unflatten([part.reshape(shape) for part, shape in self._parts(x)])

    def restore(self, rows: np.ndarray) -> Any:
        """The tree of many points, (n, size): every leaf has a leading axis n."""
        leaves = [part.reshape((rows.shape[0], *shape)) for part, shape in self._parts(rows)]
        return self.treedef.unflatten(leaves)

    def _parts(self, x: Any) -> list[tuple[Any, tuple[int, ...]]]:
        ends = np.cumsum([math.prod(shape) for shape in self.shapes]).tolist()
        return [(x[..., a:b], s) for a, b, s in zip([0, *ends], ends, self.shapes, strict=False)]

    def flatten(self, tree: Any, what: str) -> np.ndarray:
        """The vector of one point, (size,), or the rows of many, (n, size).

        Args:
            tree: of this structure; its leaves have their own shapes, or all a leading axis n more.
            what: how a refusal calls the tree.
        """
        pairs, treedef = _flattened(tree, what)
        if treedef != self.treedef:
            given = _described(tree) if isinstance(tree, dict) else what_is(tree)
            node = self.treedef.node_data()
            remedy = "; give a dict with these names" if node is not None and node[0] is dict else ""
            raise SettingsError(f"{what} is {given}, which is not nested like {self}{remedy}")
        leaves = [_as_numbers(leaf, what, _name(path)) for path, leaf in pairs]
        leading = {leaf.shape[: max(0, leaf.ndim - len(s))] for leaf, s in zip(leaves, self.shapes, strict=True)}
        fits = all(leaf.shape[leaf.ndim - len(s) :] == s for leaf, s in zip(leaves, self.shapes, strict=True))
        if len(leading) != 1 or not fits or len(batch := leading.pop()) > 1:
            raise SettingsError(
                f"{what} has leaves {_described(tree)}; they must be {self}, or all have one more leading axis"
            )
        return np.concatenate([leaf.reshape((*batch, -1)) for leaf in leaves], axis=-1)

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready. A tree of dicts with text keys, lists and tuples is read back from it; others are not."""
        try:
            return {"name": "tree", "tree": _encode(self.treedef.unflatten(map(_blank, self.shapes)))}
        except TypeError:
            return {"name": "given", "leaves": [[n, list(s)] for n, s in zip(self.names, self.shapes, strict=True)]}

    def __str__(self) -> str:
        return "{" + ", ".join(f"{n}: {s}" for n, s in zip(self.names, self.shapes, strict=True)) + "}"


def hashable(function: Any) -> Any:
    """A callable that can be part of a compilation's key, or that is a tree of arrays itself.

    A bound method is hashed by its object's identity, where the object itself may have no hash (a dataclass).
    """
    if isinstance(function, eqx.Module) or getattr(function, "__hash__", None) is not None:
        return function
    return function.__call__


class StructuredTarget(Target):
    """The target of a function of a tree, in the entries of its leaves."""

    dim: int = eqx.field(static=True)
    log_density_fn: Any
    structure: Structure = eqx.field(static=True)

    def __init__(self, log_density_fn: Callable[..., Any], structure: Structure):
        self.log_density_fn = hashable(log_density_fn)
        self.dim, self.structure = structure.size, structure

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        """The function's value at the tree of x."""
        return self.log_density_fn(self.structure.unflatten(x))


def structure_of(like: Any) -> Structure:
    """The structure of a tree of real numbers or arrays; values do not matter, only nesting and shapes."""
    leaves, treedef = _flattened(like, "like")
    shapes = []
    for path, leaf in leaves:
        name, dtype = _name(path), getattr(leaf, "dtype", None)
        dtype = np.asarray(leaf).dtype if dtype is None and isinstance(leaf, bool | int | float | complex) else dtype
        if dtype is None:
            raise SettingsError(f"like has {what_is(leaf)} at {name!r}; leaves must be arrays of real numbers")
        if not jnp.issubdtype(dtype, jnp.floating):
            raise SettingsError(
                f"like has dtype {dtype} at {name!r}; only real numbers can be sampled: write 0.0 for 0, or sum out "
                "what is discrete and leave it out of the tree"
            )
        shapes.append(tuple(np.shape(leaf)))
    structure = Structure(treedef, tuple(shapes), tuple(_name(path) for path, _ in leaves))
    if structure.size == 0:
        raise SettingsError(f"like = {like!r} has no numbers in it; give a tree of arrays shaped like the parameters")
    return structure


def chart_of_tree(like: Any, support: Any) -> Constrained | None:
    """The chart of a tree's coordinates.

    Args:
        like: the tree.
        support: a prefix of it: one support for all, or dicts, lists and tuples nested as the tree is, as far down as
            there is need. What is missing or None is real.
    """
    blocks: list[Block] = []
    for name, shape, given in leaves_of_prefix(like, support, "support", Support, "tp.positive"):
        chosen = real if given is None else given
        size = shape[-1] if shape and chosen.is_joint else 1
        try:
            blocks.append(Block(chosen, math.prod(shape) // max(1, size), size))
        except SettingsError as error:
            raise SettingsError(f"{name!r} has shape {shape}: {error}") from None
    return chart_of(blocks)


def leaves_of_prefix(
    like: Any, prefix: Any, what: str, kind: type | Callable[[Any], bool], example: str
) -> list[tuple[str, tuple[int, ...], Any]]:
    """Name and shape of every leaf of a tree, and what a prefix of the tree says of it; None where it says nothing.

    Args:
        what: the prefix is called in a refusal.
        kind: of what it holds: a type, or a function that knows.
        example: of such, for a refusal.
    """
    is_entry = (lambda node: isinstance(node, kind)) if isinstance(kind, type) else kind
    seen: dict[int, tuple[str, Any, set[Any]]] = {}
    leaves = []
    for path, leaf in jax.tree_util.tree_leaves_with_path(like):
        leaves.append((_name(path), np.shape(leaf), _at(prefix, path, seen, what, is_entry, example)))
    for where, node, keys in seen.values():
        unknown = [key for key in _keys(node) if key not in keys]
        if unknown:
            raise SettingsError(
                f"{what}{where} has {', '.join(map(repr, unknown))}, which the parameters do not have; they have "
                f"{', '.join(map(repr, sorted(keys, key=str)))}"
            )
    return leaves


def _at(prefix: Any, path: tuple, seen: dict, what: str, is_entry: Callable[[Any], bool], example: str) -> Any:
    """What is said of one leaf: down the path as far as the prefix goes. `seen` gathers the keys that were asked for:
    by the identity of a node its place, itself and its keys."""
    where = ""
    for entry in path:
        if prefix is None or is_entry(prefix):
            break
        if not _is_alike(prefix, entry):
            raise SettingsError(
                f"{what}{where} is {what_is(prefix)}, which is not nested like the parameters there; give "
                f"one {what} for all below it, or names for names and lists for lists"
            )
        key = _key(entry)
        seen.setdefault(id(prefix), (where, prefix, set()))[2].add(key)
        if isinstance(prefix, Mapping):
            prefix = prefix.get(key)
        elif isinstance(key, int):
            if key >= len(prefix):
                raise SettingsError(f"{what}{where} has {len(prefix)} entries; the parameters have more there")
            prefix = prefix[key]
        else:
            prefix = getattr(prefix, key)
        where += f"[{key!r}]"
    if prefix is not None and not is_entry(prefix):
        raise SettingsError(
            f"{what}{where} is {what_is(prefix)}, where the parameters have an array; give one such as {example}"
        )
    return prefix


def _is_alike(support: Any, entry: Any) -> bool:
    """Whether a level of the prefix can be asked for an entry of the tree: names by names, places by places."""
    if isinstance(entry, jax.tree_util.SequenceKey):
        return isinstance(support, list | tuple) and not hasattr(support, "_fields")
    return isinstance(support, Mapping) or hasattr(support, str(_key(entry))) and hasattr(support, "_fields")


def _keys(node: Any) -> list[Any]:
    if isinstance(node, Mapping):
        return list(node)
    return list(node._fields) if hasattr(node, "_fields") else list(range(len(node)))


def _key(entry: Any) -> Any:
    return getattr(entry, "key", getattr(entry, "idx", getattr(entry, "name", entry)))


def _name(path: tuple) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".") or "x"


def _flattened(tree: Any, what: str) -> tuple[list[tuple[tuple, Any]], Any]:
    try:
        return jax.tree_util.tree_flatten_with_path(tree)
    except (TypeError, ValueError) as error:  # such as keys of a dict that have no order
        raise SettingsError(f"{what} is not a tree that JAX can flatten: {first_line(error)}") from error


def _as_numbers(leaf: Any, what: str, name: str) -> np.ndarray:
    try:
        array = np.asarray(leaf)
    except (TypeError, ValueError) as error:
        raise SettingsError(f"{what} has {what_is(leaf)} at {name!r}, which is not an array of numbers") from error
    if not (jnp.issubdtype(array.dtype, jnp.floating) or jnp.issubdtype(array.dtype, jnp.integer)):
        raise SettingsError(
            f"{what} has {what_is(leaf)} of dtype {array.dtype} at {name!r}, which is not an array of numbers"
        )
    with np.errstate(over="ignore"):  # what is too large for single precision is infinite, and refused as such
        return array.astype(np.float32)


def _described(tree: Any) -> str:
    leaves = jax.tree_util.tree_leaves_with_path(tree)[:20]
    return "{" + ", ".join(f"{_name(path)}: {np.shape(leaf)}" for path, leaf in leaves) + "}"


def _blank(shape: Iterable[int]) -> np.ndarray:
    """A leaf that has a shape and takes no memory."""
    return np.broadcast_to(np.float32(0), tuple(shape))


def _encode(node: Any) -> Any:
    if node is None:
        return None
    if isinstance(node, np.ndarray):
        return {"shape": list(node.shape)}
    if type(node) is dict and all(isinstance(key, str) for key in node):
        return {"dict": {key: _encode(value) for key, value in node.items()}}
    if type(node) in (list, tuple):
        return {type(node).__name__: [_encode(value) for value in node]}
    raise TypeError(f"JSON has no name for {what_is(node)}")


def _decode(content: Any) -> Any:
    if content is None:
        return None
    ((kind, inside),) = content.items()
    if kind == "shape":
        return _blank(inside)
    if kind == "dict":
        return {key: _decode(value) for key, value in inside.items()}
    return {"list": list, "tuple": tuple}[kind](_decode(value) for value in inside)


def read_structure(stored: dict[str, Any] | None, given: Any = None) -> Any:
    """The structure that `as_dict` described, or the one that was given, which must be the same.

    Raises:
        RunFolderError: if it describes none.
        SettingsError: if the given one is another, or one is needed and none was given.
    """
    if given is not None:
        if given.as_dict() != stored:
            raise SettingsError(f"the parameters given are nested or shaped otherwise than those saved, {stored}")
        return given
    if stored is None:
        return None
    if stored["name"] != "tree":
        raise SettingsError(
            "the parameters are nested in types of their own, which the folder does not hold; give a tree of them: "
            "tp.load(folder, log_density, like=params)"
        )
    try:
        return structure_of(_decode(stored["tree"]))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise RunFolderError(
            "the structure of the parameters was written by another version; fit again, or use that version"
        ) from error
