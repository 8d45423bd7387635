"""A coupling flow (RealNVP, Dinh et al. 2017) between a diagonal Gaussian and the density. Unbatched.

All layers are of one shape and are scanned over, so that a flow of fifteen layers compiles as quickly as one of two.
Densities, which training asks for far more often than draws, take the cheap direction of the linear maps.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular

from tempering.types import Array, Float, Int, Key

__all__ = ["Flow"]

_HALF_LOG_TAU = 0.5 * float(np.log(2 * np.pi))


class _Linear(eqx.Module):
    """x -> L U x[order], with L of unit diagonal: the identity times a permutation at the start."""

    lower: Float[Array, "dim dim"]
    upper: Float[Array, "dim dim"]
    log_diagonal: Float[Array, " dim"]
    order: Int[Array, " dim"]

    def matrices(self) -> tuple[Array, Array]:
        """L and U."""
        dim = self.log_diagonal.shape[0]
        lower = jnp.tril(self.lower, -1) + jnp.eye(dim)
        return lower, jnp.triu(self.upper, 1) + jnp.diag(jnp.exp(self.log_diagonal))

    def inward(self, x: Float[Array, " dim"]) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        """Towards the Gaussian, and the log determinant."""
        lower, upper = self.matrices()
        return lower @ (upper @ x[self.order]), jnp.sum(self.log_diagonal)

    def outward(self, z: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """Towards the density."""
        lower, upper = self.matrices()
        half = solve_triangular(lower, z, lower=True, unit_diagonal=True)
        return solve_triangular(upper, half)[jnp.argsort(self.order)]


class _Layer(eqx.Module):
    """A linear map, or a permutation, and an affine coupling: the first half says how the second is moved."""

    linear: _Linear | Int[Array, " dim"]
    network: eqx.nn.MLP
    num_given: int = eqx.field(static=True)

    def __init__(self, key: Key, dim: int, width: int, depth: int, is_mixing: bool):
        key_order, key_network = jax.random.split(key)
        self.num_given = dim // 2
        network = eqx.nn.MLP(dim // 2, 2 * (dim - dim // 2), width, depth, jax.nn.relu, key=key_network)
        last = network.layers[-1]
        zeros = (jnp.zeros_like(last.weight), jnp.zeros(last.out_features))
        self.network = eqx.tree_at(lambda own: (own.layers[-1].weight, own.layers[-1].bias), network, zeros)
        order = jnp.arange(dim - 1, -1, -1)
        if not is_mixing:
            self.linear = order
            return
        square = jnp.zeros((dim, dim))
        order = jax.random.permutation(key_order, dim) if dim > 2 else order
        self.linear = _Linear(square, square, jnp.zeros((dim,)), order)

    def _moves(self, given: Float[Array, " given"]) -> tuple[Array, Array]:
        log_scale, shift = jnp.split(self.network(given), 2)
        return log_scale, shift

    def inward(self, x: Float[Array, " dim"]) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        """Towards the Gaussian, and the log determinant."""
        given, moved = x[: self.num_given], x[self.num_given :]
        log_scale, shift = self._moves(given)
        z = jnp.concatenate([given, (moved - shift) * jnp.exp(-log_scale)])
        if not isinstance(self.linear, _Linear):
            return z[self.linear], -jnp.sum(log_scale)
        z, log_det = self.linear.inward(z)
        return z, log_det - jnp.sum(log_scale)

    def outward(self, z: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """Towards the density."""
        x = self.linear.outward(z) if isinstance(self.linear, _Linear) else z[jnp.argsort(self.linear)]
        given, moved = x[: self.num_given], x[self.num_given :]
        log_scale, shift = self._moves(given)
        return jnp.concatenate([given, moved * jnp.exp(log_scale) + shift])


class Flow(eqx.Module):
    """A normalising flow: exact draws and exact densities. It begins as the standard normal.

    Args:
        num_layers: couplings.
        width, depth: of their networks.
        is_mixing: whether a learned linear map goes with each of them.
    """

    location: Float[Array, " dim"]
    log_scale: Float[Array, " dim"]
    layers: _Layer

    def __init__(self, key: Key, dim: int, num_layers: int, width: int, depth: int, is_mixing: bool):
        self.location, self.log_scale = jnp.zeros((dim,)), jnp.zeros((dim,))
        make = lambda key: _Layer(key, dim, width, depth, is_mixing)  # noqa: E731
        self.layers = eqx.filter_vmap(make)(jax.random.split(key, num_layers))

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        """Normalised log density of one point."""
        arrays, rest = eqx.partition(self.layers, eqx.is_array)

        def inward(carry: tuple[Array, Array], layer) -> tuple[tuple[Array, Array], None]:
            z, log_det = carry
            z, change = eqx.combine(layer, rest).inward(z)
            return (z, log_det + change), None

        # HIGHEST: TF32 rounds inputs to three digits, and a density that is not the one of its draws biases weights.
        with jax.default_matmul_precision("highest"):
            (z, log_det), _ = jax.lax.scan(inward, (x, jnp.zeros(())), arrays)
        whitened = (z - self.location) * jnp.exp(-self.log_scale)
        return log_det + jnp.sum(-0.5 * whitened**2 - self.log_scale - _HALF_LOG_TAU)

    def draw(self, key: Key) -> Float[Array, " dim"]:
        """One draw."""
        arrays, rest = eqx.partition(self.layers, eqx.is_array)
        noise = jax.random.normal(key, self.location.shape)
        outward = lambda z, layer: (eqx.combine(layer, rest).outward(z), None)  # noqa: E731
        with jax.default_matmul_precision("highest"):
            x, _ = jax.lax.scan(outward, self.location + jnp.exp(self.log_scale) * noise, arrays, reverse=True)
        return x

    def sample(self, key: Key, num: int) -> Float[Array, "num dim"]:
        """Independent draws."""
        return jax.vmap(self.draw)(jax.random.split(key, num))
