"""A mixture of Student distributions: a normalised density that can be drawn from exactly and covers what it is of."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering.numerics import exact_products
from tempering.types import Array, Float, Int, Key

__all__ = ["StudentMixture", "joined", "mixture_of"]


class StudentMixture(eqx.Module):
    """Components with places, scale matrices L L^T and degrees of freedom of their own.

    Args:
        log_weight: of every component; they sum to one.
        factor, inverse: L and its inverse, lower triangular.
        nu: degrees of freedom; small means heavy tails.
    """

    log_weight: Float[Array, " component"]
    mean: Float[Array, "component dim"]
    factor: Float[Array, "component dim dim"]
    inverse: Float[Array, "component dim dim"]
    nu: Float[Array, " component"]

    @property
    def dim(self) -> int:
        """Of a draw."""
        return self.mean.shape[1]

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        """Normalised log density of one point."""
        return jax.nn.logsumexp(self.log_weight + self.log_parts(x))

    @exact_products()
    def log_parts(self, x: Float[Array, " dim"]) -> Float[Array, " component"]:
        """Normalised log density of one point in every component."""
        white = jnp.einsum("kij,kj->ki", self.inverse, x[None] - self.mean)
        half, dim = 0.5 * self.nu, self.dim
        log_det = jnp.sum(jnp.log(jnp.diagonal(self.factor, axis1=1, axis2=2)), axis=1)
        constant = jax.lax.lgamma(half + 0.5 * dim) - jax.lax.lgamma(half) - 0.5 * dim * jnp.log(self.nu * jnp.pi)
        return constant - log_det - (half + 0.5 * dim) * jnp.log1p(jnp.sum(white**2, axis=1) / self.nu)

    @exact_products()
    def sample(self, key: Key, num: int) -> Float[Array, "num dim"]:
        """Draws: every component has its share of them to within one draw, in random order."""
        key_which, key_order, key_normal, key_width = jax.random.split(key, 4)
        which = _shares(key_which, self.log_weight, num)[jax.random.permutation(key_order, num)]
        normals = jax.random.normal(key_normal, (num, self.dim))
        nu = self.nu[which]
        width = jax.lax.rsqrt(2.0 * jax.random.gamma(key_width, 0.5 * nu) / nu)
        return self.mean[which] + width[:, None] * jnp.einsum("nij,nj->ni", self.factor[which], normals)


def _shares(key: Key, log_weight: Float[Array, " component"], num: int) -> Int[Array, " num"]:
    """Components by their weights, systematically: one random number for all."""
    ends = jnp.cumsum(jnp.exp(log_weight))
    at = (jnp.arange(num, dtype=jnp.float32) + jax.random.uniform(key)) / num * ends[-1]
    return jnp.minimum(jnp.searchsorted(ends, at, side="right"), log_weight.shape[0] - 1)


def mixture_of(
    weight: np.ndarray, mean: np.ndarray, covariance: np.ndarray, nu: float | np.ndarray, widening: float = 1.0
) -> StudentMixture:
    """The mixture with these scale matrices, `widening` times as wide."""
    factor = widening * np.linalg.cholesky(np.asarray(covariance, np.float64))
    log_weight = np.log(np.maximum(weight, 1e-300)) - np.log(np.sum(weight))
    arrays = (log_weight, mean, factor, np.linalg.inv(factor), np.broadcast_to(nu, log_weight.shape))
    return StudentMixture(*(jnp.asarray(np.asarray(array, np.float32)) for array in arrays))


def joined(mixtures: list[StudentMixture], nums: list[int]) -> StudentMixture:
    """The mixture that `nums` draws of each, taken together, are draws of."""
    shares = np.log(np.asarray(nums, np.float64) / np.sum(nums)).astype(np.float32)
    parts = [eqx.tree_at(lambda m: m.log_weight, m, m.log_weight + s) for m, s in zip(mixtures, shares, strict=True)]
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *parts)
