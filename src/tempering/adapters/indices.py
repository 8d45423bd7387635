"""A fixed index outside its array, found in a traced density: JAX takes the nearest element in its place, in silence.

Consumes a traced function; evaluates nothing. An index that follows from values is not known here, and passes.
"""

from collections.abc import Callable, Iterator
from typing import Any

import jax
from jax.extend import core

__all__ = ["index_outside"]

_FOLDED: dict[str, Callable[..., Any]] = {
    "lt": lambda a, b: a < b,
    "add": lambda a, b: a + b,
    "select_n": lambda which, *cases: cases[int(which)],
    "convert_element_type": lambda a: a,
}
"""What JAX makes of a fixed index on its way to the slice: `x[-1]` is an index from the end, if it is below 0."""


def index_outside(function: Callable[[Any], Any], shape: tuple[int, ...]) -> tuple[int, int] | None:
    """A fixed index that lies outside its axis, and the length of the axis; None where there is none.

    Args:
        function: in JAX, of one float32 array.
        shape: of that array.
    """
    traced = jax.make_jaxpr(function)(jax.ShapeDtypeStruct(shape, "float32"))
    return next(_found(traced.jaxpr), None)


def _found(jaxpr: Any) -> Iterator[tuple[int, int]]:
    known: dict[Any, Any] = {}

    def value(atom: Any) -> Any:
        """The number that an input is, if it is one whatever the point."""
        if isinstance(atom, core.Literal):
            return atom.val if getattr(atom.val, "shape", ()) == () else None
        return known.get(atom)

    for equation in jaxpr.eqns:
        values = [value(atom) for atom in equation.invars]
        fold = _FOLDED.get(equation.primitive.name)
        if fold is not None and all(given is not None for given in values):
            known[equation.outvars[0]] = fold(*values)
        elif equation.primitive.name == "dynamic_slice":
            axes = zip(values[1:], equation.invars[0].aval.shape, equation.params["slice_sizes"], strict=True)
            for start, length, size in axes:
                if start is not None and size == 1 and not 0 <= start < length:
                    yield int(start) if start >= 0 else int(start) - length, length
        for inner in equation.params.values():
            for part in inner if isinstance(inner, tuple | list) else (inner,):
                part = getattr(part, "jaxpr", part)
                if hasattr(part, "eqns"):
                    yield from _found(part)
