"""Long densities, such as a Python loop that JAX unrolls: on CPUs their programs are compiled without fusion.

Fusion merges operations, and gives each of those that need a result a copy of all that makes it. Along a chain of
operations the copies multiply: ten steps of an ODE take a minute to compile, for a program that then runs slower.
"""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.core import Tracer
from jax.extend.core import Literal

__all__ = ["LONGEST_FUSED", "holds_long_density", "on_one", "steps_in_a_row", "without_passes"]

LONGEST_FUSED = 125
"""Operations in a row, each of which needs the one before. Densities of molecules, with up to 121 of them, take as long
to compile without fusion and run half as fast; loops with as many run no slower, and compile in less time."""


def without_passes(*names: str) -> dict[str, Any]:
    """Options of the compiler that switch off passes of XLA, for a CPU."""
    options: dict[str, Any] = {"xla_disable_hlo_passes": ",".join(names)}
    if "fusion" in names and jax.__version_info__[:2] == (0, 10):
        # `_compat` switches emitters off. Operations by themselves compile ten times as slowly without them.
        options["xla_cpu_use_fusion_emitters"] = True
    return options


class _OnOne:
    """A function compiled for one device."""

    def __init__(self, function: Callable[..., Any]):
        functools.update_wrapper(self, function)
        self._usual = eqx.filter_jit(function)
        options = without_passes("fusion")
        self._unfused = functools.cache(lambda: eqx.filter_jit(function, **{"compiler_options": options}))  # pyright: ignore

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._program(args, kwargs)(*args, **kwargs)

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """As of `eqx.filter_jit`."""
        return self._program(args, kwargs).lower(*args, **kwargs)

    def _program(self, args: Any, kwargs: Any) -> Any:
        return self._unfused() if _platform() == "cpu" and holds_long_density(args, kwargs) else self._usual


def on_one(function: Callable[..., Any]) -> Any:
    """`eqx.filter_jit` for a program that evaluates a density and runs on one device."""
    return _OnOne(function)


def _platform() -> str:
    device = jax.config.values["jax_default_device"] or jax.local_devices()[0]
    return getattr(device, "platform", device)


def holds_long_density(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether one of the arguments of a program is a long density. Inside another program it does not matter."""
    densities = [_innermost(each) for each in (*args, *kwargs.values()) if _is_density(each)]
    if not densities or any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves((args, kwargs))):
        return False
    return any(_is_long(density) for density in densities)


def _is_density(node: Any) -> bool:
    return callable(getattr(node, "log_density", None)) and isinstance(getattr(node, "dim", None), int)


def _innermost(density: Any) -> Any:
    """What was handed over: without the coordinates, units and references that were put round it."""
    while _is_density(getattr(density, "target", None)):
        density = density.target
    return density


def _is_long(density: Any) -> bool:
    leaves, treedef = jax.tree.flatten(density)
    is_array = lambda leaf: hasattr(leaf, "shape") and hasattr(leaf, "dtype")  # noqa: E731
    known = (jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) if is_array(leaf) else leaf for leaf in leaves)
    try:
        return _length(treedef, tuple(known)) > LONGEST_FUSED
    except Exception:  # a density that cannot be traced is refused elsewhere, in better words
        return False


@functools.lru_cache(maxsize=16)
def _length(treedef: Any, leaves: tuple[Any, ...]) -> int:
    """Of the density that has these leaves, arrays given by shape: it is traced once in a process."""
    arrays, rest = eqx.partition(leaves, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))

    def value(arrays: Any, x: Any) -> Any:
        return treedef.unflatten(eqx.combine(arrays, rest)).log_density(x)

    dim = treedef.unflatten(leaves).dim
    return steps_in_a_row(jax.make_jaxpr(value)(arrays, jax.ShapeDtypeStruct((dim,), jnp.float32)).jaxpr)


def steps_in_a_row(jaxpr: Any) -> int:
    """The longest chain of operations of which each needs the one before; the body of a loop in JAX counts once."""
    lengths: dict[Any, int] = {}
    for equation in jaxpr.eqns:
        before = max((lengths.get(atom, 0) for atom in equation.invars if not isinstance(atom, Literal)), default=0)
        own = max((steps_in_a_row(inner) for inner in _inner(equation)), default=0)
        lengths.update(dict.fromkeys(equation.outvars, before + max(1, own)))
    return max(lengths.values(), default=0)


def _inner(equation: Any) -> list[Any]:
    """The programs within an operation: bodies of loops, branches, functions with a name."""
    found = [part for value in equation.params.values() for part in (value if isinstance(value, tuple) else (value,))]
    return [inner for inner in (getattr(part, "jaxpr", part) for part in found) if hasattr(inner, "eqns")]
