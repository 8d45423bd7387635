"""What a denoiser regresses on. Consumes one sample and its tempered gradient; produces one number.

Denoising score matching regresses on x0. The gradient g = beta * grad log density of the same sample gives a second
unbiased target, x_noisy + sigma^2 g (the target-score identity), and any blend of the two is unbiased as well.
"""

import jax
import jax.numpy as jnp

from tempering.diffusion.noise import NoiseLevels
from tempering.diffusion.precondition import Denoiser, output_scale
from tempering.types import Array, Float, Key

__all__ = ["denoising_loss", "regression_target"]


def regression_target(
    x: Float[Array, " dim"],
    x_noisy: Float[Array, " dim"],
    tempered_grad: Float[Array, " dim"],
    sigma: Float[Array, ""],
    blend_variance: Float[Array, " dim"],
) -> Float[Array, " dim"]:
    """a x0 + (1 - a) (x_noisy + sigma^2 g) with a = sigma^2 / (sigma^2 + s^2), written without cancellation.

    For a Gaussian of variance s^2 this has no variance left; `blend_variance` s^2 = 0 is denoising score matching.
    """
    share = blend_variance / (sigma**2 + blend_variance)  # 1 - a
    return (1.0 - share) * x + share * x_noisy + share * sigma**2 * tempered_grad


def denoising_loss(
    denoiser: Denoiser,
    key: Key,
    x: Float[Array, " dim"],
    tempered_grad: Float[Array, " dim"],
    levels: NoiseLevels,
    blend_variance: Float[Array, " dim"],
) -> Float[Array, ""]:
    """EDM's loss of one sample at one random noise level: the squared error in units of c_out, averaged over dim."""
    key_sigma, key_noise = jax.random.split(key)
    sigma = levels.sample(key_sigma)
    x_noisy = x + sigma * jax.random.normal(key_noise, x.shape, x.dtype)
    wanted = regression_target(x, x_noisy, tempered_grad, sigma, blend_variance)
    error = (denoiser(x_noisy, sigma) - wanted) / output_scale(sigma, denoiser.sigma_data)
    return jnp.mean(error**2)
