"""What can be seen of a callable without calling it: names, source, and the numbers, text and arrays that it holds."""

import functools
import hashlib
import inspect
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

__all__ = ["density_mark", "seen"]

_DEEPEST = 4
"""How far into what a callable holds the search goes: an object of an object of an object's array."""


def density_mark(functions: tuple[Any, ...], dim: int, mode: str) -> str:
    """A hash that tells the black box of a store of points from another; how it is batched does not matter."""
    digest = hashlib.sha256(f"{dim} {mode}".encode())
    for function in functions:
        for part in seen(function):
            digest.update(part)
    return digest.hexdigest()


def seen(thing: Any, depth: int = 0) -> Iterator[bytes]:
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
            yield from seen(thing[key], depth + 1)
    elif isinstance(thing, list | tuple):
        yield f"{type(thing).__name__} of {len(thing)}".encode()
        for part in thing:
            yield from seen(part, depth + 1)
    elif isinstance(thing, functools.partial):
        yield from seen((thing.func, thing.args, thing.keywords), depth)
    elif inspect.ismethod(thing):
        yield from seen((thing.__func__, thing.__self__), depth)
    elif inspect.isfunction(thing):
        yield _named(thing)
        held = inspect.getclosurevars(thing).nonlocals
        yield from seen((held, thing.__defaults__, thing.__kwdefaults__), depth + 1)
    else:
        yield _named(type(thing) if not hasattr(thing, "__qualname__") else thing)
        yield from seen(getattr(thing, "__dict__", None) if not inspect.isclass(thing) else None, depth + 1)


def _named(thing: Any) -> bytes:
    """Qualified name, and the source where there is one (not at a prompt, not of compiled code)."""
    try:
        source = inspect.getsource(thing)
    except (OSError, TypeError):
        source = ""
    return f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', '')}\n{source}".encode()
