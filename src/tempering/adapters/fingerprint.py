"""What tells one density from another without evaluating either, so that a folder of one is not used for the other."""

import functools
import hashlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tempering.adapters.callback import boxes_of
from tempering.targets.base import Target

__all__ = ["fingerprint"]

_DEEPEST = 4
"""How far into what a callable holds the search goes: an object of an object of an object's array."""


def fingerprint(target: Target) -> int:
    """48 bits of a hash of the density's traced program and of the arrays in it.

    What a host callback or a hand-written gradient computes is not in the program and goes unseen. For a black box of
    `from_callable` the hash takes in the name and source of its functions, the numbers, text and arrays that they hold
    (defaults, closures, attributes), the dimension and the kind of gradient. What they call or read elsewhere, such as
    files and globals, goes unseen.
    """
    program = jax.make_jaxpr(target.log_density)(jax.ShapeDtypeStruct((target.dim,), jnp.float32))
    text = re.sub(r"0x[0-9a-fA-F]+", "", str(program))  # addresses of functions differ between processes
    digest = hashlib.sha256(text.encode())
    for array in _constants(program):
        digest.update(np.asarray(array).tobytes())
    for box in boxes_of(target):
        mode = "function" if callable(box.gradient) else box.gradient
        digest.update(f"{box.dim} {mode} {box.batched} {box.finite_step if mode == 'finite' else ''}".encode())
        for function in box.functions:
            for seen in _seen(function):
                digest.update(seen)
    return int.from_bytes(digest.digest()[:6])


def _constants(program: Any) -> Iterator[Any]:
    """The arrays a traced program holds, those of programs within it included: the text shows their shapes only."""
    yield from getattr(program, "consts", ())
    for equation in program.eqns:
        inner = jax.tree.leaves(list(equation.params.values()), is_leaf=lambda value: hasattr(value, "eqns"))
        for value in inner:
            if hasattr(value, "eqns"):
                yield from _constants(value)


def _seen(thing: Any, depth: int = 0) -> Iterator[bytes]:
    """What is visible of a callable or of a value that it holds, in an order that is the same in every process."""
    if depth > _DEEPEST:
        return
    if isinstance(thing, bool | int | float | complex | str | bytes | type(None)):
        yield repr(thing).encode()
    elif isinstance(thing, np.ndarray | np.generic | jax.Array):
        array = np.asarray(thing)
        yield f"{array.shape} {array.dtype}".encode()
        yield b"" if array.dtype.hasobject else array.tobytes()
    elif isinstance(thing, dict):
        for key in sorted(thing, key=repr):
            yield repr(key).encode()
            yield from _seen(thing[key], depth + 1)
    elif isinstance(thing, list | tuple):
        yield f"{type(thing).__name__} of {len(thing)}".encode()
        for part in thing:
            yield from _seen(part, depth + 1)
    elif isinstance(thing, functools.partial):
        yield from _seen((thing.func, thing.args, thing.keywords), depth)
    elif inspect.ismethod(thing):
        yield from _seen((thing.__func__, thing.__self__), depth)
    elif inspect.isfunction(thing):
        yield _named(thing)
        held = inspect.getclosurevars(thing).nonlocals
        yield from _seen((held, thing.__defaults__, thing.__kwdefaults__), depth + 1)
    else:
        yield _named(type(thing) if not hasattr(thing, "__qualname__") else thing)
        yield from _seen(getattr(thing, "__dict__", None) if not inspect.isclass(thing) else None, depth + 1)


def _named(thing: Any) -> bytes:
    """Qualified name, and the source where there is one (not at a prompt, not of compiled code)."""
    try:
        source = inspect.getsource(thing)
    except (OSError, TypeError):
        source = ""
    return f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', '')}\n{source}".encode()
