"""A mixture of Student distributions: a normalised density that can be drawn from exactly and covers what it is of.

As a part of other programs it is JAX. A search asks it for draws and densities of ever other numbers of points and of
components: the host answers these in double precision, so that nothing is compiled for any of them.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering.compilation import rounded_up
from tempering.devices.keys import generator
from tempering.numerics import exact_products
from tempering.types import Array, Float, Int, Key

__all__ = [
    "StudentMixture",
    "blank_mixture",
    "drawn_of",
    "joined",
    "log_densities",
    "log_densities_of_parts",
    "mixture_of",
]

_MOST_ON_HOST = 4e9
"""Multiplications up to which the host takes a second or so; beyond, a program is worth its compilation."""
_MOST_NUMBERS = 4_000_000
"""Held at a time by the host."""


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
    return _placed(log_weight, mean, factor, np.linalg.inv(factor), np.broadcast_to(nu, log_weight.shape))


def blank_mixture(dim: int) -> StudentMixture:
    """Of no components."""
    return _placed(*(np.zeros((0, *shape)) for shape in ((), (dim,), (dim, dim), (dim, dim), ())))


def _placed(*arrays: np.ndarray) -> StudentMixture:
    """In single precision. Copied and not converted by JAX, which would compile a program for every shape."""
    return StudentMixture(*jax.device_put(tuple(np.asarray(array, np.float32) for array in arrays)))


def joined(mixtures: list[StudentMixture], nums: list[int]) -> StudentMixture:
    """The mixture that `nums` draws of each, taken together, are draws of."""
    shares = np.log(np.asarray(nums, np.float64) / np.sum(nums))
    parts = [_arrays(mixture) for mixture in mixtures]
    log_weights = [part[0] + share for part, share in zip(parts, shares, strict=True)]
    rest = (np.concatenate([part[index] for part in parts]) for index in range(1, 5))
    return _placed(np.concatenate(log_weights), *rest)


def _arrays(mixture: StudentMixture) -> tuple[np.ndarray, ...]:
    """Log weights, means, factors, inverses and degrees of freedom in double precision."""
    return tuple(np.asarray(array, np.float64) for array in jax.device_get(jax.tree.leaves(mixture)))


def drawn_of(key: Key, mixture: StudentMixture, num: int) -> np.ndarray:
    """Draws as `StudentMixture.sample` makes them, by the host: every component has its share of them."""
    log_weight, mean, factor, _, nu = _arrays(mixture)
    rng, dim = generator(key), mean.shape[1]
    ends = np.cumsum(np.exp(log_weight))
    at = (np.arange(num) + rng.uniform()) / num * ends[-1]
    which = np.minimum(np.searchsorted(ends, at, side="right"), len(ends) - 1)
    draws = rng.standard_normal((num, dim))
    bounds = np.searchsorted(which, np.arange(len(ends) + 1))
    for k in range(len(ends)):
        own = slice(bounds[k], bounds[k + 1])
        draws[own] = draws[own] @ factor[k].T
    width = 1.0 / np.sqrt(2.0 * rng.standard_gamma(0.5 * nu[which]) / nu[which])
    draws = mean[which] + width[:, None] * draws
    return rng.permutation(draws).astype(np.float32)


def log_densities(mixture: StudentMixture, points: np.ndarray) -> np.ndarray:
    """Of many points, in double precision where the host can."""
    log_weight = np.asarray(mixture.log_weight, np.float64)
    parts = log_densities_of_parts(mixture, points)
    top = np.max(parts + log_weight, axis=1, initial=-np.inf)
    shift = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(np.sum(np.exp(parts + log_weight - shift[:, None]), axis=1)) + shift


def log_densities_of_parts(mixture: StudentMixture, points: np.ndarray) -> np.ndarray:
    """Of many points (rows) in every component, without its weight."""
    points = np.asarray(points)
    num, dim = points.shape
    if float(num) * mixture.nu.shape[0] * dim**2 > _MOST_ON_HOST:
        padded = np.resize(points, (rounded_up(num), dim)).astype(np.float32)
        return np.asarray(_log_parts(mixture, jax.device_put(padded)), np.float64)[:num]
    return _log_parts_on_host(mixture, points.astype(np.float64))


def _log_parts_on_host(mixture: StudentMixture, points: np.ndarray) -> np.ndarray:
    from scipy.special import gammaln  # here: it would be a fifth of what importing the library takes

    _, mean, factor, inverse, nu = _arrays(mixture)
    (num, dim), half = points.shape, 0.5 * nu
    log_det = np.sum(np.log(np.diagonal(factor, axis1=1, axis2=2)), axis=1)
    constant = gammaln(half + 0.5 * dim) - gammaln(half) - 0.5 * dim * np.log(nu * np.pi) - log_det
    found = np.empty((num, len(nu)))
    size = max(1, _MOST_NUMBERS // max(1, len(nu) * dim))
    with np.errstate(over="ignore", invalid="ignore"):  # a point that is not finite has no density
        for begin in range(0, num, size):
            own = points[begin : begin + size]
            white = (own[None] - mean[:, None]) @ np.swapaxes(inverse, 1, 2)  # component, point, dim
            square = np.einsum("kni,kni->nk", white, white)
            found[begin : begin + size] = constant - (half + 0.5 * dim) * np.log1p(square / nu)
    return found


@eqx.filter_jit
def _log_parts(mixture: StudentMixture, points: Float[Array, "point dim"]) -> Float[Array, "point component"]:
    return jax.lax.map(mixture.log_parts, points, batch_size=4096)
