"""A chart that follows a density's own shape: coordinate by coordinate, each given those before it.

Consumes nothing; `shape.fit` makes one from weighted points. In its coordinates a funnel or a curved valley is nearly a
standard normal, so that one step size and a round reference suffice. It is a bijection of R^dim, whatever its numbers.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering.types import Array, Bool, Float, Int

__all__ = ["MOST_LOG_SCALE", "Composed", "Triangular", "bounded", "num_products", "products_of"]

MOST_LOG_SCALE = 12.0
"""A conditional width is between e^-12 and e^12 of the coordinate's own, so that nothing overflows in float32."""
_MOST_PRODUCTS = 256
"""All products of two coordinates up to dimension 22; squares alone above."""


def products_of(dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Which two coordinates each product is of: all pairs, or squares alone where there would be too many."""
    if dim * (dim + 1) // 2 <= _MOST_PRODUCTS:
        first, second = np.triu_indices(dim)
        return first, second
    return np.arange(dim), np.arange(dim)


def num_products(dim: int) -> int:
    """How many products a chart of the dimension has."""
    return len(products_of(dim)[0])


def bounded(log_scale: Any, xp: Any = jnp) -> Any:
    """The identity but near the ends of [-12, 12], which it does not leave: two softplus bends of width one."""
    low, high = xp.logaddexp(0.0, log_scale + MOST_LOG_SCALE), xp.logaddexp(0.0, log_scale - MOST_LOG_SCALE)
    return low - high - MOST_LOG_SCALE


class Triangular(eqx.Module):
    r"""x = centre + width b(u), and u one coordinate after another in the order given.

    u_i = m_i + e^{s_i} (shift_i + sinh(e^{t_i} asinh(y_k) + skew_i)): i is the k-th coordinate of the order, m_i a
    polynomial of degree 2 and s_i a bounded linear function of the coordinates before. Row k of every array is of the
    k-th in order; columns are of coordinates and products as they stand in x. Entries of coordinates that are not
    before must be zero. b bends every coordinate by itself, sinh(e^{own_log_tail} asinh(u) + own_skew), so that what
    is skewed as a whole, like the logarithm of a rate, is nearly normal before it is told from others.

    Args:
        order: a permutation of the coordinates.
        mean, mean_linear, mean_products: the polynomial m.
        log_scale, log_scale_linear: s before it is bounded.
        shift, skew, log_tail: of the last step, sinh-arcsinh (Jones and Pewsey 2009); zeros make it the identity.
        own_skew, own_log_tail: of b, in the order of x; likewise.
    """

    order: Int[Array, " dim"]
    centre: Float[Array, " dim"]
    width: Float[Array, " dim"]
    mean: Float[Array, " dim"]
    mean_linear: Float[Array, "dim dim"]
    mean_products: Float[Array, "dim product"]
    log_scale: Float[Array, " dim"]
    log_scale_linear: Float[Array, "dim dim"]
    shift: Float[Array, " dim"]
    skew: Float[Array, " dim"]
    log_tail: Float[Array, " dim"]
    own_skew: Float[Array, " dim"]
    own_log_tail: Float[Array, " dim"]

    @classmethod
    def identity(cls, dim: int) -> "Triangular":
        """The chart that changes nothing."""
        # By NumPy: JAX would compile a program for each shape.
        shapes = ((dim,), (dim, dim), (dim, num_products(dim)))
        none, square, products = (jax.device_put(np.zeros(shape, np.float32)) for shape in shapes)
        one, order = jax.device_put((np.ones(dim, np.float32), np.arange(dim, dtype=np.int32)))
        return cls(order, none, one, none, square, products, none, square, *(5 * (none,)))

    @property
    def dim(self) -> int:
        """Number of coordinates, the same on both sides."""
        return self.centre.shape[0]

    @property
    def full_dim(self) -> int:
        """The same."""
        return self.centre.shape[0]

    def embed(self, y: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """x, a coordinate at a time, for each needs those before."""
        return self.centre + self.width * self._bent(self._forward(y)[0])[0]

    def restrict(self, x: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """y, all coordinates at a time."""
        u = (x - self.centre) / self.width
        u = jnp.where(self._is_bent, jnp.sinh((jnp.arcsinh(u) - self.own_skew) * jnp.exp(-self.own_log_tail)), u)
        mean, log_scale = self._conditional(u)
        standard = (u[self.order] - mean) * jnp.exp(-log_scale) - self.shift
        return jnp.sinh((jnp.arcsinh(standard) - self.skew) * jnp.exp(-self.log_tail))

    def log_volume(self, y: Float[Array, " dim"]) -> Float[Array, ""]:
        """The Jacobian is triangular: its diagonal's logarithms add up."""
        u, total = self._forward(y)
        return jnp.sum(jnp.log(self.width)) + total + jnp.sum(self._bent(u)[1])

    def contains(self, x: Float[Array, " dim"]) -> Bool[Array, ""]:
        """Whether x is finite."""
        return jnp.all(jnp.isfinite(x))

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready, to the last bit; `from_dict` reads it back."""
        return {"name": "triangular"} | {name: np.asarray(value).tolist() for name, value in vars(self).items()}

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> "Triangular":
        """What `as_dict` described."""
        dim = len(stored["order"])
        stored = {"own_skew": [0.0] * dim, "own_log_tail": [0.0] * dim} | stored  # older folders have none
        arrays = {name: jnp.asarray(value, jnp.float32) for name, value in stored.items() if name != "name"}
        arrays["mean_products"] = arrays["mean_products"].reshape((dim, num_products(dim)))
        return cls(**arrays | {"order": jnp.asarray(stored["order"], jnp.int32)})

    def __str__(self) -> str:
        return "a learned triangular chart"

    @property
    def _is_bent(self) -> Bool[Array, " dim"]:
        """Which coordinates b changes: the others keep all their digits, as a narrow valley needs."""
        return (self.own_skew != 0.0) | (self.own_log_tail != 0.0)

    def _bent(self, u: Float[Array, " dim"]) -> tuple[Float[Array, " dim"], Float[Array, " dim"]]:
        """b(u), and the logarithms of its slopes."""
        bent, log_slope = _sinh_arcsinh(u, self.own_skew, self.own_log_tail)
        return jnp.where(self._is_bent, bent, u), jnp.where(self._is_bent, log_slope, 0.0)

    def _conditional(self, u: Float[Array, " dim"]) -> tuple[Array, Array]:
        """m and s of every row. Sums, not matrix products, which GPUs round to ten bits."""
        first, second = products_of(self.dim)
        products = u[first] * u[second]
        mean = self.mean + jnp.sum(self.mean_linear * u[None], axis=1)
        mean = mean + jnp.sum(self.mean_products * products[None], axis=1)
        return mean, bounded(self.log_scale + jnp.sum(self.log_scale_linear * u[None], axis=1))

    def _forward(self, y: Float[Array, " dim"]) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        """u, and the sum of the logarithms of du_i / dy_k."""
        first, second = products_of(self.dim)
        bent, log_slope = _sinh_arcsinh(y, self.skew, self.log_tail)
        rows = (
            *(self.order, self.mean, self.mean_linear, self.mean_products),
            *(self.log_scale, self.log_scale_linear, self.shift + bent),
        )

        def place(carry: tuple[Array, Array], row: tuple) -> tuple[tuple[Array, Array], None]:
            u, total = carry
            index, mean, linear, quadratic, log_scale, scale_linear, standard = row
            mean = mean + jnp.sum(linear * u) + jnp.sum(quadratic * (u[first] * u[second]))
            log_scale = bounded(log_scale + jnp.sum(scale_linear * u))
            return (u.at[index].set(mean + jnp.exp(log_scale) * standard), total + log_scale), None

        (u, total), _ = jax.lax.scan(place, (jnp.zeros_like(y), jnp.zeros((), y.dtype)), rows)
        return u, total + jnp.sum(log_slope)


def _sinh_arcsinh(y: Array, skew: Array, log_tail: Array) -> tuple[Array, Array]:
    """sinh(e^{log tail} asinh(y) + skew), and the logarithms of its slopes."""
    angle = jnp.exp(log_tail) * jnp.arcsinh(y) + skew
    # log cosh without overflow; the slope of asinh is (1 + y^2)^(-1/2).
    log_cosh = jnp.logaddexp(angle, -angle) - jnp.log(2.0)
    return jnp.sinh(angle), log_tail + log_cosh - 0.5 * jnp.log1p(y * y)


class Composed(eqx.Module):
    """One chart after another: x = outer.embed(inner.embed(y)). `outer` leads to the user's coordinates."""

    outer: Any
    inner: Triangular

    @property
    def dim(self) -> int:
        """Number of inner coordinates."""
        return self.inner.dim

    @property
    def full_dim(self) -> int:
        """Number of the user's coordinates."""
        return self.outer.full_dim

    def embed(self, y: Float[Array, " dim"]) -> Float[Array, " full_dim"]:
        """The user's point."""
        return self.outer.embed(self.inner.embed(y))

    def restrict(self, x: Float[Array, " full_dim"]) -> Float[Array, " dim"]:
        """The inner coordinates of a point that the outer chart contains."""
        return self.inner.restrict(self.outer.restrict(x))

    def log_volume(self, y: Float[Array, " dim"]) -> Float[Array, ""]:
        """The sum of both."""
        return self.inner.log_volume(y) + self.outer.log_volume(self.inner.embed(y))

    def contains(self, x: Float[Array, " full_dim"]) -> Bool[Array, ""]:
        """Whether the outer chart contains x."""
        return self.outer.contains(x)

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {"name": "composed", "outer": self.outer.as_dict(), "inner": self.inner.as_dict()}

    def __str__(self) -> str:
        return str(self.outer)
