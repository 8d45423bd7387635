"""What tells one density from another without evaluating either, so that a folder of one is not used for the other."""

import hashlib
import re
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tempering.adapters.callback import boxes_of
from tempering.adapters.seen import seen
from tempering.targets.base import Target

__all__ = ["fingerprint"]


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
            for part in seen(function):
                digest.update(part)
    return int.from_bytes(digest.digest()[:6])


def _constants(program: Any) -> Iterator[Any]:
    """The arrays a traced program holds, those of programs within it included: the text shows their shapes only."""
    yield from getattr(program, "consts", ())
    for equation in program.eqns:
        inner = jax.tree.leaves(list(equation.params.values()), is_leaf=lambda value: hasattr(value, "eqns"))
        for value in inner:
            if hasattr(value, "eqns"):
                yield from _constants(value)
