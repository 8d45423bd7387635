"""Gradients of functions that JAX can differentiate forwards alone, such as one with `jax.lax.while_loop`.

`jax.grad` goes backwards through a program. A loop whose number of turns depends on values keeps no way back. Forwards
there is one slope for each direction: a gradient costs as many of them as there are dimensions.
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from tempering.targets.base import Target, Wrapper
from tempering.types import Array, Float

__all__ = ["ForwardTarget", "is_only_forwards"]


class ForwardTarget(Wrapper):
    """The target with a gradient that is made of slopes along all coordinates."""

    dim: int = eqx.field(static=True)
    target: Target

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        @jax.custom_vjp
        def value(x: Array) -> Array:
            return self.target.log_density(x)

        def with_slopes(x: Array) -> tuple[Array, Array]:
            along = lambda axis: jax.jvp(self.target.log_density, (x,), (axis,))  # noqa: E731
            values, slopes = jax.vmap(along)(jnp.eye(self.dim, dtype=x.dtype))
            return values[0], slopes

        value.defvjp(with_slopes, lambda slopes, change: (change * slopes,))
        return value(x)


def is_only_forwards(target: Target) -> bool:
    """Whether slopes of a density can be had, and its gradient cannot."""
    point = jax.ShapeDtypeStruct((target.dim,), jnp.float32)
    try:
        jax.eval_shape(jax.grad(target.log_density), point)
    except ValueError as error:
        return "Reverse-mode differentiation" in str(error)
    except Exception:  # what else is wrong is said elsewhere, in better words
        return False
    return False
