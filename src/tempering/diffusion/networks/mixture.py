"""A network beside the denoiser of a mixture of Gaussians: what is known of the modes need not be learned."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from tempering.numerics import exact_products
from tempering.types import Array, Float

__all__ = ["GaussianMixture", "OnMixture", "blank_mixture"]


class GaussianMixture(eqx.Module):
    """Gaussians in the coordinates of the density.

    Args:
        log_weight: of every component, up to a common constant.
        mean: their places.
        variance, axes: eigenvalues of their covariances, and eigenvectors as columns.
    """

    log_weight: Float[Array, "*model component"]
    mean: Float[Array, "*model component dim"]
    variance: Float[Array, "*model component dim"]
    axes: Float[Array, "*model component dim dim"]

    @exact_products()
    def denoise(self, x_noisy: Float[Array, " dim"], sigma: Float[Array, ""]) -> Float[Array, " dim"]:
        """E[x0 | x_noisy] at noise level sigma, if the density were this mixture."""
        off = jnp.einsum("kij,ki->kj", self.axes, x_noisy[None] - self.mean)
        total = self.variance + sigma**2
        log_share = self.log_weight - 0.5 * jnp.sum(off**2 / total + jnp.log(total), axis=1)
        denoised = self.mean + jnp.einsum("kij,kj->ki", self.axes, self.variance / total * off)
        return jax.nn.softmax(log_share) @ denoised


def blank_mixture(dim: int, num: int) -> GaussianMixture:
    """`num` standard normals of equal weight: the shapes of a mixture, before there is one."""
    ones = jnp.ones((num, dim))
    return GaussianMixture(jnp.zeros((num,)), jnp.zeros((num, dim)), ones, jnp.tile(jnp.eye(dim)[None], (num, 1, 1)))


class OnMixture(eqx.Module):
    """A network whose denoiser starts from a mixture (`Denoiser`). Training leaves the mixture as it is."""

    network: Any
    mixture: GaussianMixture

    def __call__(
        self, x: Float[Array, " dim"], c_noise: Float[Array, ""], c_temperature: Float[Array, ""]
    ) -> Float[Array, " dim"]:
        """What the network adds."""
        return self.network(x, c_noise, c_temperature)
