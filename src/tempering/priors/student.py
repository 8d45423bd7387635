"""The multivariate Student distribution in normal coordinates."""

import jax.numpy as jnp
import numpy as np

from tempering.priors.distributions import Numbers, StudentT
from tempering.priors.maps import Map
from tempering.types import Array, Bool, Float

__all__ = ["JointStudent"]

_FARTHEST = 1e18
"""Its square is a number of single precision."""


class JointStudent(Map):
    r"""One coordinate after another: given those before it, each is a Student of its own.

    With y = (x - mean) / scale, y_k given y_1 .. y_{k-1} is a Student with m_k = nu + k - 1 degrees of freedom and
    scale sqrt((nu + sum_{j<k} y_j^2) / m_k). With w_k the quantile of such a Student at Phi(z_k) the sum is a product:
    nu + sum_{j<=k} y_j^2 = nu prod_{j<=k} (1 + w_j^2 / m_j).
    """

    single: Map
    location: Float[Array, " k"]
    scale: Float[Array, " k"]
    degrees: Float[Array, " k"]

    def __init__(self, numbers: Numbers):
        mean, nu = numbers["mean"], numbers["nu"]
        degrees = nu + np.arange(len(mean), dtype=np.float32)
        standard = {"mean": np.zeros_like(mean), "scale": np.ones_like(mean), "nu": degrees}
        self.single = StudentT.map_of(standard)
        self.location, self.scale, self.degrees = map(jnp.asarray, (mean, numbers["scale"], degrees))

    def _log_widths(self, log_growth: Float[Array, " k"]) -> Float[Array, " k"]:
        """log of the scale of every coordinate, of log(1 + w^2 / m)."""
        before = jnp.concatenate([jnp.zeros((1,)), jnp.cumsum(log_growth)[:-1]])
        return 0.5 * (jnp.log(self.degrees[0]) + before - jnp.log(self.degrees))

    def _parts(self, z: Float[Array, " k"]) -> tuple[Array, Array]:
        w = jnp.clip(self.single.embed(z), -_FARTHEST, _FARTHEST)
        return w, self._log_widths(jnp.log1p(w**2 / self.degrees))

    def embed(self, z: Float[Array, " k"]) -> Float[Array, " k"]:
        w, log_widths = self._parts(z)
        return self.location + self.scale * w * jnp.exp(jnp.minimum(log_widths, 40.0))

    def restrict(self, x: Float[Array, " k"]) -> Float[Array, " k"]:
        y = jnp.clip((x - self.location) / self.scale, -_FARTHEST, _FARTHEST)
        before = jnp.concatenate([jnp.zeros((1,)), jnp.cumsum(y**2)[:-1]])
        return self.single.restrict(y * jnp.sqrt(self.degrees / (self.degrees[0] + before)))

    def log_slope(self, z: Float[Array, " k"]) -> Float[Array, " k"]:
        _, log_widths = self._parts(z)
        return jnp.log(self.scale) + log_widths + self.single.log_slope(z)

    def contains(self, x: Float[Array, " k"]) -> Bool[Array, " k"]:
        return jnp.isfinite(x)
