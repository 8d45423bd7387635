"""A prior as a transform of the unit cube, as nested samplers take it, made into a chart: x = transform(Phi(z)).

The transform is the user's. It is traced and tried at points of the cube before anything is spent: it is no evaluation
of the likelihood. Where it takes every coordinate by itself and is monotone, it has an inverse, by bisection; where
not, draws and weights need none, and the density of given points is refused.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr

from tempering.errors import SettingsError, first_line, what_is
from tempering.priors.maps import log_normal
from tempering.types import Array, Bool, Float

__all__ = ["CubeChart", "cube_chart", "is_at_end"]

_FARTHEST = 8.0
"""Normal coordinates beyond hold 1e-15 of the prior; the transform is inverted within."""
_LEAST, _GREATEST = float(np.finfo(np.float32).tiny), float(np.nextafter(np.float32(1), np.float32(0)))
_END = 5.2
"""Normal coordinate from which single precision hardly tells a point of the cube from 1: two numbers are left between,
and beyond 5.3 all are one point. Towards 0 numbers lie close for 12 standard deviations."""
_CLOSE = 1e-4
"""Relative to the spread of the prior: a point that comes back from the cube within this was in the support."""
_NUM_TRIED = 256
_HALVINGS = 40


class CubeChart(eqx.Module):
    """Normal coordinates z and x = transform(Phi(z)).

    Args:
        transform: of one point of the cube to a vector.
        signs: +1 for coordinates that increase with theirs of the cube, -1 for those that decrease; None where the
            transform is not of single coordinates.
        spread: of the prior, in every coordinate of x.
    """

    transform: Callable[[Array], Array] = eqx.field(static=True)
    dim: int = eqx.field(static=True)
    full_dim: int = eqx.field(static=True)
    signs: Float[Array, " dim"] | None
    spread: Float[Array, " full_dim"]

    @property
    def log_mass(self) -> Float[Array, ""]:
        """Of a prior: 0."""
        return jnp.zeros(())

    def embed(self, y: Float[Array, " dim"]) -> Float[Array, " full_dim"]:
        """The user's point."""
        return self.transform(_cube(y))

    def restrict(self, x: Float[Array, " full_dim"]) -> Float[Array, " dim"]:
        """The normal coordinates of x, by bisection.

        Raises:
            SettingsError: if the transform has no inverse that is known.
        """
        signs = self._signs()

        def halve(_: Any, ends: tuple[Array, Array]) -> tuple[Array, Array]:
            low, high = ends
            middle = 0.5 * (low + high)
            is_below = signs * (self.embed(middle) - x) < 0
            return jnp.where(is_below, middle, low), jnp.where(is_below, high, middle)

        ends = jnp.full((self.dim,), -_FARTHEST), jnp.full((self.dim,), _FARTHEST)
        low, high = jax.lax.fori_loop(0, _HALVINGS, halve, ends)
        return 0.5 * (low + high)

    def log_volume(self, y: Float[Array, " dim"]) -> Float[Array, ""]:
        """log |det dx/dz| of a transform of single coordinates."""
        self._signs()
        point = _cube(y)
        slopes = jax.jvp(self.transform, (point,), (jnp.ones_like(point),))[1]
        return jnp.sum(jnp.log(jnp.abs(slopes)) + log_normal(y))

    def contains(self, x: Float[Array, " full_dim"]) -> Bool[Array, ""]:
        """Whether x comes back from the cube."""
        gap = jnp.abs(self.embed(self.restrict(x)) - x)
        return jnp.all(gap <= _CLOSE * self.spread)

    def _signs(self) -> Float[Array, " dim"]:
        if self.signs is None:
            raise SettingsError(
                "points in your coordinates cannot be brought back to the unit cube: prior_transform mixes "
                "coordinates, is not monotone, or gives another number of them, so that its inverse is not known; "
                "sampling and weights need none, but `log_prob` and `init` do: give `prior=`, a distribution for each "
                "parameter"
            )
        return self.signs

    def as_dict(self) -> dict[str, Any]:
        """A mark that there is one: to read it back the transform is needed."""
        return {"name": "prior_transform", "dim": self.dim, "full_dim": self.full_dim}

    def __str__(self) -> str:
        return "that of prior_transform"


def _cube(z: Float[Array, " dim"]) -> Float[Array, " dim"]:
    """Phi(z), strictly between 0 and 1."""
    return jnp.clip(jnp.where(z < 0, ndtr(z), 1.0 - ndtr(-z)), _LEAST, _GREATEST)


def is_at_end(y: Float[Array, " dim"]) -> Bool[Array, ""]:
    """Whether a coordinate of the cube is so near to 1 that the transform cannot tell where it is."""
    return jnp.any(y > _END)


def cube_chart(transform: Any, dim: int) -> tuple[CubeChart, Any]:
    """The chart of a prior transform, and a tree shaped like what it returns; None for a plain vector.

    Raises:
        SettingsError: if it is no function that JAX can trace, returns anything but a vector or a tree of real numbers,
            or leaves the finite numbers.
    """
    if not callable(transform):
        raise SettingsError(
            f"prior_transform is {what_is(transform)}; give a function of a point u of the unit cube, an array "
            f"of shape ({dim},), that returns the parameters"
        )
    out = _traced(transform, dim)
    is_vector = not isinstance(out, dict | list | tuple) and len(jax.tree.leaves(out)) == 1
    shapes = [leaf.shape for leaf in jax.tree.leaves(out)]
    is_real = all(jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in jax.tree.leaves(out))
    if not is_real or not shapes or (is_vector and (len(shapes[0]) != 1 or shapes[0][0] == 0)):
        raise SettingsError(
            f"prior_transform returns {_described(out)} for a point u of shape ({dim},); it must return the parameters "
            "of one point: a vector of real numbers, or a tree of them such as a dict by name"
        )

    def flat(u: Array) -> Array:
        leaves = [jnp.asarray(leaf, jnp.float32).reshape(-1) for leaf in jax.tree.leaves(transform(u))]
        return jnp.concatenate(leaves)

    rows, jacobians = _tried(flat, dim)
    spread = np.maximum(np.std(rows, axis=0), 1e-30)
    chart = CubeChart(flat, dim, rows.shape[1], _monotone(jacobians), jnp.asarray(spread, jnp.float32))
    return chart, None if is_vector else out


def _traced(transform: Callable[[Array], Any], dim: int) -> Any:
    try:
        out = jax.eval_shape(transform, jax.ShapeDtypeStruct((dim,), jnp.float32))
    except (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError) as error:
        raise SettingsError(
            "prior_transform is not traceable by JAX: it uses NumPy or SciPy, or a Python `if`, on its argument; write "
            "it with jax.numpy (jax.scipy.special.ndtri is the inverse of the normal distribution function), or give "
            f"`prior=` a distribution for each parameter ({first_line(error)})"
        ) from error
    except Exception as error:
        raise SettingsError(
            f"prior_transform raised {type(error).__name__} for a point u of shape ({dim},): {first_line(error)}; it "
            "takes one point of the unit cube, not a batch, and must be written with jax.numpy"
        ) from error
    return out


def _tried(flat: Callable[[Array], Array], dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Parameters at points of the cube, those near its corners included, and Jacobians at some of them."""
    z = np.random.default_rng(0).normal(size=(_NUM_TRIED, dim))
    far = np.random.default_rng(1).choice([-5.0, -3.0, 0.0, 3.0, 5.0], size=(_NUM_TRIED, dim))
    points = jax.vmap(_cube)(jnp.asarray(np.concatenate([z, far]), jnp.float32))
    try:
        rows = np.asarray(jax.jit(jax.vmap(flat))(points))
        jacobians = np.asarray(jax.jit(jax.vmap(jax.jacfwd(flat)))(points[:_NUM_TRIED:4]))
    except Exception as error:
        raise SettingsError(
            f"prior_transform cannot be batched or differentiated by JAX: {type(error).__name__}: {first_line(error)}"
        ) from error
    is_bad = ~np.all(np.isfinite(rows), axis=1)
    if np.any(is_bad):
        first = int(np.argmax(is_bad))
        point, there = (np.array2string(each[first], precision=4, threshold=8) for each in (np.asarray(points), rows))
        raise SettingsError(
            f"prior_transform leaves the finite numbers at {np.sum(is_bad)} of {len(rows)} points of the unit cube, "
            f"the first at u = {point}, where it returns {there}; it must be finite inside the cube"
        )
    return rows[:_NUM_TRIED], jacobians


def _monotone(jacobians: np.ndarray) -> Float[Array, " dim"] | None:
    """Signs of the slopes, where every coordinate depends on its own alone, and always in the same sense."""
    if jacobians.shape[1] != jacobians.shape[2]:
        return None
    own = np.diagonal(jacobians, axis1=1, axis2=2)
    others = jacobians * (1.0 - np.eye(jacobians.shape[1], dtype=jacobians.dtype))
    if not np.all(np.isfinite(jacobians)) or np.any(others != 0):
        return None
    signs = np.sign(own)
    return jnp.asarray(signs[0], jnp.float32) if np.all(signs == signs[0]) and np.all(signs != 0) else None


def _described(out: Any) -> str:
    leaves = jax.tree.leaves(out)
    if len(leaves) == 1 and not isinstance(out, dict | list | tuple):
        return f"an array of shape {leaves[0].shape} and dtype {leaves[0].dtype}"
    return f"{what_is(out)} of {len(leaves)} arrays" + (
        f", of dtypes {', '.join(sorted({str(leaf.dtype) for leaf in leaves}))}" if leaves else ""
    )
