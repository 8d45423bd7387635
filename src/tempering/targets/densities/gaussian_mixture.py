"""Mixtures of Gaussians, and the forty-component benchmark of the paper.

Consumes means, widths and weights; produces an exact target. Its regions are the components: the indicator of
component k is the posterior probability that k made the point, whose expectation is exactly the weight of k.
"""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from tempering.errors import SettingsError
from tempering.targets.base import ExactTarget
from tempering.targets.densities.gaussian import checked_cholesky
from tempering.types import Array, Float, Key

__all__ = ["GaussianMixture", "mog40"]


class GaussianMixture(ExactTarget):
    r"""log_density(x) = c + log sum_k w_k N(x; m_k, C_k), so that log Z = c.

    Args:
        means: m_k, shape (component, dim).
        stds: the standard deviation of every component, shape (component,) or one number: C_k = stds[k]^2 I.
        covariances: C_k, shape (component, dim, dim). Give either this or `stds`.
        weights: w_k > 0, shape (component,); divided by their sum here. Equal when not given.
        log_constant: c, so that log Z need not be 0.

    Raises:
        SettingsError: for wrong shapes, widths or weights that are not positive, a covariance that is not positive
            definite, or both or neither of `stds` and `covariances`.
    """

    dim: int = eqx.field(static=True)
    means: Float[Array, "component dim"]
    choleskys: Float[Array, "component dim dim"]
    whitenings: Float[Array, "component dim dim"]
    weights: Float[Array, " component"]
    log_peaks: Float[Array, " component"]
    log_constant: Float[Array, ""]

    regions_partition: ClassVar[bool] = True

    def __init__(
        self,
        means: npt.ArrayLike,
        stds: npt.ArrayLike | float | None = None,
        weights: npt.ArrayLike | None = None,
        *,
        covariances: npt.ArrayLike | None = None,
        log_constant: float = 0.0,
    ):
        locations = np.asarray(means, np.float64)
        if locations.ndim != 2 or locations.size == 0:
            raise SettingsError(f"means has shape {locations.shape}; give (component, dim)")
        if not np.all(np.isfinite(locations)) or not np.isfinite(log_constant):
            raise SettingsError("means and log_constant must be finite")
        num, dim = locations.shape
        choleskys = _checked_choleskys(stds, covariances, num, dim)
        probabilities = _checked_weights(weights, num)
        log_det_halves = np.log(np.diagonal(choleskys, axis1=1, axis2=2)).sum(axis=1)
        self.dim = dim
        self.means = jnp.asarray(locations)
        self.choleskys = jnp.asarray(choleskys)
        self.whitenings = jnp.asarray(np.linalg.inv(choleskys))
        self.weights = jnp.asarray(probabilities)
        self.log_peaks = jnp.asarray(
            float(log_constant) + np.log(probabilities) - log_det_halves - 0.5 * dim * np.log(2 * np.pi)
        )
        self.log_constant = jnp.asarray(float(log_constant))

    def _log_parts(self, x: Float[Array, " dim"]) -> Float[Array, " component"]:
        """c + log w_k N(x; m_k, C_k) for every k."""
        offsets = x[None] - self.means.astype(x.dtype)
        # HIGHEST: the default on recent GPUs is TF32, whose 1e-3 relative error is an error of the density itself.
        z = jnp.einsum("kij,kj->ki", self.whitenings.astype(x.dtype), offsets, precision=jax.lax.Precision.HIGHEST)
        return self.log_peaks.astype(x.dtype) - 0.5 * jnp.sum(z * z, axis=1)

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        parts = self._log_parts(x)
        largest = jnp.max(parts)
        # Where the squares overflow every part is -inf, and the gradient of logsumexp is 0/0. The maximum has the same
        # value there and the mean of the components' gradients, which points inwards and is finite.
        resolved = jnp.isfinite(largest)
        return jnp.where(resolved, jax.nn.logsumexp(jnp.where(resolved, parts, 0.0)), largest)

    @eqx.filter_jit
    def sample(self, key: Key, num: int) -> Float[Array, "num dim"]:
        key_component, key_noise = jax.random.split(key)
        component = jax.random.categorical(key_component, jnp.log(self.weights), shape=(num,))
        noise = jax.random.normal(key_noise, (num, self.dim), self.means.dtype)
        spread = jnp.einsum("nij,nj->ni", self.choleskys[component], noise, precision=jax.lax.Precision.HIGHEST)
        return self.means[component] + spread

    def log_z(self) -> float:
        return float(self.log_constant)

    def mean(self) -> Float[Array, " dim"]:
        return jnp.asarray(np.asarray(self.weights, np.float64) @ np.asarray(self.means, np.float64))

    def second_moment(self) -> float:
        """E|x|^2 = sum_k w_k (|m_k|^2 + trace C_k)."""
        means, choleskys = np.asarray(self.means, np.float64), np.asarray(self.choleskys, np.float64)
        parts = np.sum(means**2, axis=1) + np.sum(choleskys**2, axis=(1, 2))
        return float(np.asarray(self.weights, np.float64) @ parts)

    def region_weights(self) -> Float[Array, " component"]:
        return self.weights

    def region_indicators(self, x: Float[Array, " dim"]) -> Float[Array, " component"]:
        parts = self._log_parts(x)
        resolved = jnp.isfinite(jnp.max(parts))
        # A point too far away to be told apart belongs to every component by its weight.
        return jnp.where(resolved, jax.nn.softmax(jnp.where(resolved, parts, 0.0)), self.weights.astype(x.dtype))


def _checked_choleskys(
    stds: npt.ArrayLike | float | None, covariances: npt.ArrayLike | None, num: int, dim: int
) -> np.ndarray:
    if (stds is None) == (covariances is None):
        raise SettingsError("give either `stds` (one number or one per component) or `covariances`, and not both")
    if covariances is not None:
        matrices = np.asarray(covariances, np.float64)
        if matrices.shape != (num, dim, dim):
            raise SettingsError(
                f"covariances has shape {matrices.shape}; {num} means in {dim}-D need {(num, dim, dim)}"
            )
        return np.stack([checked_cholesky(matrix, dim, f"covariances[{k}]") for k, matrix in enumerate(matrices)])
    widths = np.asarray(stds, np.float64)
    if widths.shape not in ((), (num,)):
        raise SettingsError(f"stds has shape {widths.shape}; give one number or shape ({num},), one per component")
    if not np.all(np.isfinite(widths)) or not np.all(widths > 0):
        raise SettingsError(f"stds must be positive and finite; the smallest given is {widths.min()}")
    return np.broadcast_to(widths, (num,))[:, None, None] * np.eye(dim)[None]


def _checked_weights(weights: npt.ArrayLike | None, num: int) -> np.ndarray:
    if weights is None:
        return np.full(num, 1.0 / num)
    masses = np.asarray(weights, np.float64)
    if masses.shape != (num,):
        raise SettingsError(f"weights has shape {masses.shape}; give ({num},), one per component")
    if not np.all(np.isfinite(masses)) or not np.all(masses > 0):
        raise SettingsError(
            f"weights must be positive and finite; the smallest given is {masses.min()}. "
            "Leave out a component that has no weight"
        )
    return masses / masses.sum()


def mog40() -> GaussianMixture:
    """The paper's MoG-40: forty equal components in 2-D of standard deviation softplus(1); log Z = 0.

    The means are (u - 1/2) * 80 with u uniform from PyTorch's CPU generator with seed 0, kept here as numbers.
    """
    return GaussianMixture(np.reshape(_MOG40_MEANS, (40, 2)), stds=np.log1p(np.e))


# fmt: off
_MOG40_MEANS = (
    -0.299473, 21.457745, -32.921806, -29.437561, -15.406175, 10.726295, -0.792527, 31.715580,
    -3.549762, 10.584502, -12.088523, -7.862616, -38.213940, -26.491283, -16.488924, 1.481743,
    15.813408, 24.000912, -27.117643, -17.418514, 14.528685, 33.215519, -8.232007, 29.932470,
    -6.447334, 4.232564, 36.219048, -37.106815, -25.181519, -10.126610, -15.591998, 34.560032,
    -25.927185, -18.413315, -27.945618, -37.462440, -23.349619, 34.383923, 17.848736, 19.386902,
    2.103662, -20.507339, 6.767387, -37.347790, -28.902649, -20.621201, 25.237518, 23.452850,
    -17.739801, -1.443295, 25.582428, 39.765324, 15.875287, 5.403714, 26.819454, -23.552094,
    7.453761, -31.012220, -27.723446, -20.663342, 18.098923, 16.086416, -23.694099, 12.084284,
    21.958881, -5.048695, 1.527262, 9.268188, 24.815063, 38.407764, -30.824944, -14.658790,
    15.720396, 33.141975, 34.808292, 35.294270, 7.960582, -34.783306, 3.679700, -25.024214,
)
# fmt: on
