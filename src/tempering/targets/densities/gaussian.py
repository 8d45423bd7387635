"""A Gaussian with any mean and covariance: the oracle, for which every stage of the method has a closed form.

Consumes a mean and a covariance; produces an exact target. Matrices are factorised once, in float64; the arrays that
travel through jit are the mean, the Cholesky factor (to sample) and its inverse (to evaluate).
"""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax.scipy.stats import norm

from tempering.errors import SettingsError
from tempering.settings.checks import require_count
from tempering.targets.base import ExactTarget
from tempering.types import Array, Float, Key

__all__ = ["Gaussian", "anisotropic_gaussian", "checked_cholesky"]

_REGION_STDS = 0.5
"""Where the regions of a Gaussian begin, in marginal standard deviations above the mean. Off-centre on purpose: at the
mean itself the weight is one half for every symmetric density, and a wrong width would go unseen."""


def checked_cholesky(covariance: npt.ArrayLike, dim: int, name: str = "covariance") -> np.ndarray:
    """The lower Cholesky factor of a (dim, dim) covariance in float64."""
    matrix = np.asarray(covariance, np.float64)
    if matrix.shape != (dim, dim):
        raise SettingsError(f"{name} has shape {matrix.shape}, but the mean has {dim} entries; give it ({dim}, {dim})")
    if not np.all(np.isfinite(matrix)):
        raise SettingsError(f"{name} has non-finite entries; give finite numbers")
    if not np.allclose(matrix, matrix.T, rtol=1e-5, atol=1e-8 * np.abs(matrix).max()):
        raise SettingsError(f"{name} is not symmetric; give (C + C.T) / 2 if the difference is rounding")
    try:
        return np.linalg.cholesky((matrix + matrix.T) / 2)
    except np.linalg.LinAlgError:
        smallest = np.linalg.eigvalsh((matrix + matrix.T) / 2)[0]
        raise SettingsError(
            f"{name} is not positive definite (smallest eigenvalue {smallest:.3g}); every eigenvalue must be positive"
        ) from None


class Gaussian(ExactTarget):
    r"""log_density(x) = c - (d/2) log 2 pi - (1/2) log det C - (1/2) (x - m)^T C^{-1} (x - m), so that log Z = c.

    Its regions are half-spaces, one per coordinate: x_i above its mean by half a marginal standard deviation.

    Args:
        mean: m, shape (dim,).
        covariance: C, shape (dim, dim), symmetric and positive definite.
        log_constant: c, so that log Z need not be 0.

    Raises:
        SettingsError: for wrong shapes, non-finite entries or a covariance that is not positive definite.
    """

    dim: int = eqx.field(static=True)
    location: Float[Array, " dim"]
    cholesky: Float[Array, "dim dim"]
    whitening: Float[Array, "dim dim"]
    log_constant: Float[Array, ""]
    log_peak: Float[Array, ""]

    regions_partition: ClassVar[bool] = False

    def __init__(self, mean: npt.ArrayLike, covariance: npt.ArrayLike, log_constant: float = 0.0):
        location = np.asarray(mean, np.float64)
        if location.ndim != 1 or location.size == 0:
            raise SettingsError(f"mean has shape {location.shape}; give one number per dimension, shape (dim,)")
        if not np.all(np.isfinite(location)) or not np.isfinite(log_constant):
            raise SettingsError("mean and log_constant must be finite")
        dim = location.size
        cholesky = checked_cholesky(covariance, dim)
        log_det_half = np.log(np.diag(cholesky)).sum()
        self.dim = dim
        self.location = jnp.asarray(location)
        self.cholesky = jnp.asarray(cholesky)
        self.whitening = jnp.asarray(np.linalg.inv(cholesky))
        self.log_constant = jnp.asarray(float(log_constant))
        self.log_peak = jnp.asarray(float(log_constant) - log_det_half - 0.5 * dim * np.log(2 * np.pi))

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        # HIGHEST: the default on recent GPUs is TF32, whose 1e-3 relative error is an error of the density itself.
        whitening = self.whitening.astype(x.dtype)
        z = jnp.matmul(whitening, x - self.location.astype(x.dtype), precision=jax.lax.Precision.HIGHEST)
        return self.log_peak.astype(x.dtype) - 0.5 * jnp.sum(z * z)

    def sample(self, key: Key, num: int) -> Float[Array, "num dim"]:
        noise = jax.random.normal(key, (num, self.dim), self.location.dtype)
        return self.location[None] + jnp.matmul(noise, self.cholesky.T, precision=jax.lax.Precision.HIGHEST)

    def covariance(self) -> Float[Array, "dim dim"]:
        """C."""
        cholesky = np.asarray(self.cholesky, np.float64)
        return jnp.asarray(cholesky @ cholesky.T)

    def log_z(self) -> float:
        return float(self.log_constant)

    def mean(self) -> Float[Array, " dim"]:
        return self.location

    def second_moment(self) -> float:
        """E|x|^2 = |m|^2 + trace C."""
        location, cholesky = np.asarray(self.location, np.float64), np.asarray(self.cholesky, np.float64)
        return float(np.sum(location**2) + np.sum(cholesky**2))

    def region_weights(self) -> Float[Array, " dim"]:
        return jnp.full(self.dim, norm.cdf(-_REGION_STDS))

    def region_indicators(self, x: Float[Array, " dim"]) -> Float[Array, " dim"]:
        stds = jnp.sqrt(jnp.sum(self.cholesky**2, axis=1)).astype(x.dtype)
        return (x > self.location.astype(x.dtype) + _REGION_STDS * stds).astype(x.dtype)


def anisotropic_gaussian(dim: int = 2, seed: int = 0) -> Gaussian:
    """A Gaussian off the origin, with principal standard deviations from 0.5 to 2.5 along random axes and log Z = 1.5.

    The same `dim` and `seed` give the same target.
    """
    require_count("dim", dim)
    require_count("seed", seed, 0)
    rng = np.random.default_rng(seed)
    axes, _ = np.linalg.qr(rng.normal(size=(dim, dim)))
    stds = np.geomspace(0.5, 2.5, dim)
    return Gaussian(3.0 * rng.normal(size=dim), (axes * stds**2) @ axes.T, log_constant=1.5)
