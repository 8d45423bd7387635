"""A plain JAX function, or any object with `dim` and `log_density`, as a target: the one door for what is not ours.

Beyond this door every target has all that `targets.base.Target` lists. The checks trace the function abstractly: they
cost no evaluation.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering.adapters.forward import ForwardTarget, is_only_forwards
from tempering.adapters.indices import index_outside
from tempering.adapters.structure import StructuredTarget, hashable
from tempering.errors import DensityError, SettingsError, first_line, what_is
from tempering.settings import require_count
from tempering.targets.base import OPTIONAL, Target
from tempering.targets.references import ReferenceLike, as_reference, check_reference
from tempering.transforms import Chart
from tempering.transforms.centred import Centred
from tempering.types import Array, Float, TargetLike

__all__ = ["FunctionTarget", "as_target"]


class FunctionTarget(Target):
    """log_density(x) of a function of one point, with the optional things that came with it.

    A plain function is part of the compilation's key. A callable module (Equinox) stays a tree, whose arrays are
    arguments of the compiled programs; a static field could not be hashed then.
    """

    dim: int = eqx.field(static=True)
    log_density_fn: Callable[..., Any]
    geometry: Centred | None = None
    chart: Chart | None = None
    structure: Any = None
    reference: ReferenceLike | None = None
    init: Any = None
    masses: Any = None
    atom_kinds: tuple[int, ...] = ()
    bonds: tuple[tuple[int, int], ...] = ()
    invariants: Callable[[Array], Array] | None = None

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        return self.log_density_fn(x)


def as_target(density: Any, dim: int | None = None) -> Target:
    """The target of a function or object, after checking shape, dtype, differentiability and batching.

    Args:
        density: a function of one point of shape (dim,), or an object with `dim` and `log_density`, which may have
            any of the optional attributes of a `Target` as well.
        dim: needed for a function; must agree with the object's own where both are given.

    Raises:
        SettingsError: if `dim` is missing, not a positive integer, or contradicts the object; if an optional attribute
            is of another kind than a target's.
        DensityError: if the density does not map (dim,) float32 to one real number, raises, has a fixed index outside
            its array, has no gradient, or cannot be batched by jax.vmap.
    """
    if isinstance(density, TargetLike):
        if dim is not None and dim != density.dim:
            raise SettingsError(f"dim = {dim} contradicts the target's own dim = {density.dim}; leave `dim` out")
        require_count("dim", density.dim)
        target = density if isinstance(density, Target) else _adopted(density)
    elif callable(density):
        if dim is None:
            raise SettingsError("dim is missing: a plain function needs it, as in tp.fit(log_density, dim=2)")
        require_count("dim", dim)
        target = FunctionTarget(dim, hashable(density))
    else:
        raise DensityError(
            f"log_density is {what_is(density)}; it must be a function of one point, or an object with `dim` "
            "and `log_density(x)`"
        )
    _check_value(target)
    _check_indices(target)
    if isinstance(target, FunctionTarget | StructuredTarget) and is_only_forwards(target):
        target = ForwardTarget(target.dim, target)
    _check_gradient(target)
    return target


_ARRAY = (np.ndarray, jax.Array, list, tuple)
_KINDS = {
    "geometry": (Centred, "a Centred, of particles"),
    "chart": (Chart, "a chart from its coordinates to the user's"),
    "init": (_ARRAY, "an array of starting points, (point, dim)"),
    "masses": (_ARRAY, "an array of numbers"),
    "atom_kinds": (tuple, "a tuple of whole numbers"),
    "bonds": (tuple, "a tuple of pairs of atoms"),
    "invariants": (Callable, "a function of one point"),
}
"""What optional attributes of a user's object must be, by type and in words; a reference has a check of its own."""


def _adopted(density: Any) -> FunctionTarget:
    """The target of an object of the user's own class."""
    brought = {name: getattr(density, name, None) for name in OPTIONAL}  # the one place that asks whether there is any
    brought = {name: value for name, value in brought.items() if value is not None}
    for name in brought.keys() & _KINDS.keys():
        value, (kind, words) = brought[name], _KINDS[name]
        if not isinstance(value, kind) or name == "init" and np.shape(value)[1:] != (density.dim,):
            raise SettingsError(
                f"the attribute {name} of {what_is(density)} is {what_is(value)}; a target's {name} is "
                f"{words}: fix it, or give it another name"
            )
    if "reference" in brought:
        check_reference(brought["reference"], density.dim)
        brought["reference"] = as_reference(brought["reference"])
    return FunctionTarget(density.dim, density.log_density, **brought)


def _check_value(target: Target) -> None:
    point = jax.ShapeDtypeStruct((target.dim,), jnp.float32)
    try:
        out = eqx.filter_eval_shape(target.log_density, point)
    except (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError) as error:
        raise DensityError(
            "log_density is not traceable by JAX: it converts its argument to a NumPy array or a Python number; write "
            "it with jax.numpy, and use jnp.where or lax.cond in place of `if` on values; or hand it over as it is, by "
            f"tp.from_callable(fn, dim={target.dim}) ({first_line(error)})"
        ) from error
    except Exception as error:
        takes = "one point, not a batch" if _names(target) is None else "one argument, the nested parameters"
        raise DensityError(
            f"log_density raised {type(error).__name__} on {_point(target)}: {first_line(error)}; it "
            f"takes {takes}{_other_dim(target)}"
        ) from error
    shape, dtype = getattr(out, "shape", None), getattr(out, "dtype", None)
    if shape is None and isinstance(out, float):
        return
    if shape != () or dtype is None or not jnp.issubdtype(dtype, jnp.floating):
        got = f"shape {shape} and dtype {dtype}" if shape is not None else f"{what_is(out)}"
        raise DensityError(
            f"log_density returned {got} for {_point(target)}; it must return one real number, of shape () and a "
            "floating dtype: sum over coordinates, and do not batch"
        )


def _check_indices(target: Target) -> None:
    """Of a function of a user's own: library targets have tests of their own, and take longer to trace."""
    if not isinstance(target, FunctionTarget | StructuredTarget):
        return
    outside = index_outside(target.log_density, (target.dim,))
    if outside is not None:
        index, length = outside
        raise DensityError(
            f"log_density takes element {index} of an axis of length {length}, where JAX gives the nearest element "
            "without a word; correct the index or `dim`, and take element -1 if you mean the last"
        )


def _names(target: Target) -> str | None:
    """The names and shapes of nested parameters, as the function gets them; None for a plain vector."""
    if not isinstance(target, StructuredTarget):
        return None
    structure = target.structure
    return ", ".join(f"{name} {shape}" for name, shape in zip(structure.names, structure.shapes, strict=True))


def _point(target: Target) -> str:
    """What the function was called with, in words."""
    names = _names(target)
    if names is None:
        return f"one point of shape ({target.dim},) and dtype float32"
    return f"parameters nested as you gave them ({names})"


_MOST_TRIED = 32


def _other_dim(target: Target) -> str:
    """A hint for a wrong `dim`: the smallest from 2 on with which the density would run, if there is one."""
    if isinstance(target, StructuredTarget):
        return ""
    for dim in range(2, _MOST_TRIED + 1):
        try:
            out = eqx.filter_eval_shape(target.log_density, jax.ShapeDtypeStruct((dim,), jnp.float32))
        except Exception:  # whatever it raises: this is not the dimension
            continue
        if getattr(out, "shape", None) == ():
            return f"; with dim={dim} it runs: is that the dimension?"
    return ""


def _check_gradient(target: Target) -> None:
    gradient = jax.grad(lambda x: jnp.asarray(target.log_density(x), jnp.float32))
    problem = "has no gradient: jax.grad"
    remedy = (
        "write it in differentiable JAX, or give it a gradient by jax.custom_vjp; hand over a function of NumPy as it "
        f"is, by tp.from_callable(fn, dim={target.dim})"
    )
    try:
        jax.eval_shape(gradient, jax.ShapeDtypeStruct((target.dim,), jnp.float32))
        problem = "cannot be batched: jax.vmap"
        remedy = "a jax.pure_callback needs a vmap_method, such as 'sequential'"
        jax.eval_shape(jax.vmap(gradient), jax.ShapeDtypeStruct((2, target.dim), jnp.float32))
    except Exception as error:
        raise DensityError(
            f"log_density {problem} raised {type(error).__name__}: {first_line(error)}; {remedy}"
        ) from error
