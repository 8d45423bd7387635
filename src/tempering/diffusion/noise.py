"""Noise levels: how sigma is drawn in training and stepped through in sampling (Karras et al. 2022).

The process is variance exploding with sigma(t) = t, so sigma is the only clock; the variance-preserving process
(`process`) has a clock of its own, and is told by the same sigma.
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from tempering.compilation import quick
from tempering.diffusion.process import VariancePreserving
from tempering.numerics import exact_products
from tempering.types import Array, Float, Key

__all__ = ["NoiseLevels", "Prior", "sigma_grid"]

_RHO = 7.0
"""EDM's spacing of the sampling grid: most steps are spent at low noise, where errors show."""


class NoiseLevels(eqx.Module):
    """The range of sigma of one level; in training ln sigma is uniform over it. Numbers are arrays: no retrace.

    Without a `process` it is the variance-exploding one; with one its clock is what training and grid are even in.
    """

    sigma_min: Float[Array, "*model"]
    sigma_max: Float[Array, "*model"]
    process: VariancePreserving | None = None

    def sample(self, key: Key) -> Float[Array, ""]:
        """A noise level for one training example, always within [sigma_min, sigma_max]."""
        if self.process is not None:
            between = self.process.sigma_between(self.sigma_min, self.sigma_max, jax.random.uniform(key))
            return jnp.clip(between, self.sigma_min, self.sigma_max)
        low, high = jnp.log(self.sigma_min), jnp.log(self.sigma_max)
        return jnp.exp(jax.random.uniform(key, minval=low, maxval=high))


@quick
def sigma_grid(levels: NoiseLevels, num_steps: int) -> Float[Array, " node"]:
    """`num_steps` + 1 nodes from sigma_max down to sigma_min, evenly spaced in sigma^(1/rho) (Eq. 5, Karras et al.).

    The grid ends at sigma_min, not at 0, so that the map is invertible and has a density. Variance preserving, nodes
    are even in that process's clock.
    """
    fraction = jnp.linspace(0.0, 1.0, num_steps + 1)
    if levels.process is not None:
        return levels.process.sigma_between(levels.sigma_max, levels.sigma_min, fraction)
    high, low = levels.sigma_max ** (1.0 / _RHO), levels.sigma_min ** (1.0 / _RHO)
    return (high + fraction * (low - high)) ** _RHO


class Prior(eqx.Module):
    """The Gaussian that sampling starts from at sigma_max: N(location, scale scale^T), `scale` lower triangular.

    Full covariance, because sigma_max is only some times the spread: with the exact score of MoG-40 and sigma_max = 40,
    samples have W1 1.22 from a diagonal prior and 0.68-0.87, the floor, from a full one (N = 10,000).
    """

    location: Float[Array, " dim"]
    scale: Float[Array, "dim dim"]

    @classmethod
    def diagonal(cls, location: Float[Array, " dim"], std: Float[Array, " dim"]) -> "Prior":
        """Independent coordinates."""
        return cls(location, jnp.diag(std))

    def sample(self, key: Key) -> Float[Array, " dim"]:
        """One draw."""
        return self.place(jax.random.normal(key, self.location.shape))

    @exact_products()
    def place(self, normal: Float[Array, " dim"]) -> Float[Array, " dim"]:
        """Where a standard normal point lands."""
        return self.location + self.scale @ normal

    def log_prob(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        """Normalised log density of one point."""
        whitened = jax.scipy.linalg.solve_triangular(self.scale, x - self.location, lower=True)
        return jnp.sum(jax.scipy.stats.norm.logpdf(whitened)) - jnp.sum(jnp.log(jnp.diag(self.scale)))
