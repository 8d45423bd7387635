"""A plain JAX function, or any object with `dim` and `log_density`, as a target.

The checks trace the function abstractly: they cost no evaluation.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from tempering.errors import DensityError, SettingsError
from tempering.settings import require_count
from tempering.targets.base import Target
from tempering.types import Array, Float, TargetLike

__all__ = ["FunctionTarget", "as_target"]


class FunctionTarget(Target):
    """log_density(x) of a function of one point; the function is part of the compilation's key."""

    dim: int = eqx.field(static=True)
    log_density_fn: Callable[[Array], Array] = eqx.field(static=True)

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        """The function's value."""
        return self.log_density_fn(x)


def as_target(density: Any, dim: int | None = None) -> Any:
    """The target of a function or object, after checking shape, dtype and differentiability.

    Args:
        density: a function of one point of shape (dim,), or an object with `dim` and `log_density`.
        dim: needed for a function; must agree with the object's own where both are given.

    Raises:
        SettingsError: if `dim` is missing, not a positive integer, or contradicts the object.
        DensityError: if the density does not map (dim,) float32 to one real number, raises, or has no gradient.
    """
    if isinstance(density, TargetLike):
        if dim is not None and dim != density.dim:
            raise SettingsError(f"dim = {dim} contradicts the target's own dim = {density.dim}; leave `dim` out")
        require_count("dim", density.dim)
        target = density if isinstance(density, eqx.Module) else FunctionTarget(density.dim, density.log_density)
    elif callable(density):
        if dim is None:
            raise SettingsError("dim is missing: a plain function needs it, as in tp.fit(log_density, dim=2)")
        require_count("dim", dim)
        target = FunctionTarget(dim, density)
    else:
        raise DensityError(
            f"log_density is a {type(density).__name__}; it must be a function of one point, or an object with `dim` "
            "and `log_density(x)`"
        )
    _check_value(target)
    _check_gradient(target)
    return target


def _check_value(target: Any) -> None:
    point = jax.ShapeDtypeStruct((target.dim,), jnp.float32)
    try:
        out = eqx.filter_eval_shape(target.log_density, point)
    except (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError) as error:
        raise DensityError(
            "log_density is not traceable by JAX: it converts its argument to a NumPy array or a Python number; write it "
            f"with jax.numpy, and use jnp.where or lax.cond in place of `if` on values ({_first_line(error)})"
        ) from error
    except Exception as error:
        raise DensityError(
            f"log_density raised {type(error).__name__} on a point of shape ({target.dim},) and dtype float32: "
            f"{_first_line(error)}; it takes one point, not a batch"
        ) from error
    shape, dtype = getattr(out, "shape", None), getattr(out, "dtype", None)
    if shape is None and isinstance(out, float):
        return
    if shape != () or dtype is None or not jnp.issubdtype(dtype, jnp.floating):
        got = f"shape {shape} and dtype {dtype}" if shape is not None else f"a {type(out).__name__}"
        raise DensityError(
            f"log_density returned {got} for one point of shape ({target.dim},); it must return one real number, of shape "
            "() and a floating dtype: sum over coordinates, and do not batch"
        )


def _check_gradient(target: Any) -> None:
    point = jax.ShapeDtypeStruct((target.dim,), jnp.float32)
    try:
        jax.eval_shape(lambda x: jax.grad(lambda y: jnp.asarray(target.log_density(y), jnp.float32))(x), point)
    except Exception as error:
        raise DensityError(
            f"log_density has no gradient: jax.grad raised {type(error).__name__}: {_first_line(error)}; write it in "
            "differentiable JAX, or give it a gradient by jax.custom_vjp"
        ) from error


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else "no message"
