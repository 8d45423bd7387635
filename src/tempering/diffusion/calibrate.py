"""A buffer's scales made into what a diffusion model needs: noise range, prior, preconditioning, training data."""

import equinox as eqx
import jax
import jax.numpy as jnp

from tempering.buffer import Buffer, inner_scale, spread
from tempering.diffusion.fit import Dataset
from tempering.diffusion.networks import make_network
from tempering.diffusion.noise import NoiseLevels, Prior
from tempering.diffusion.precondition import Denoiser
from tempering.settings import Network, Noise
from tempering.types import Array, Float, Key

__all__ = ["adjust", "dataset_of", "largest_sigma", "new_denoiser", "noise_levels", "prior_of", "stack", "unstack"]

_INNER_SHARE = 0.03
"""sigma_min over the within-mode scale: inflates a mode's variance by 0.1 %."""
_TRAINING_MARGIN = 3.0
"""Training reaches this much below the level's own sigma_min, because the next, colder level samples there."""
_SPREAD_MULTIPLE = 5.0
"""sigma_max over the spread: the noised density is then Gaussian but for 4 % of its variance; the prior matches."""


def largest_sigma(noise: Noise, hottest: Buffer) -> Float[Array, ""]:
    """sigma_max of the whole run, from the settings or the hottest buffer."""
    if noise.sigma_max is not None:
        return jnp.asarray(noise.sigma_max, jnp.float32)
    _, std = spread(hottest)
    return _SPREAD_MULTIPLE * jnp.max(std)


def noise_levels(
    noise: Noise,
    buffer: Buffer,
    beta: Float[Array, ""],
    sigma_max: Float[Array, ""],
    *,
    colder_by: Float[Array, ""] | float = 1.0,
    is_training: bool = False,
) -> NoiseLevels:
    """The noise range for sampling at `beta * colder_by`, or for training at `beta`, from the buffer at `beta`."""
    if noise.sigma_min is not None:
        sigma_min = jnp.asarray(noise.sigma_min, jnp.float32)
    else:
        smallest = jnp.min(inner_scale(buffer, beta)) / jnp.sqrt(jnp.asarray(colder_by, jnp.float32))
        sigma_min = _INNER_SHARE * smallest / (_TRAINING_MARGIN if is_training else 1.0)
        sigma_min = jnp.minimum(sigma_min, 0.1 * sigma_max)  # a flat density has no inner scale
    log_mean, log_std, rho = (jnp.asarray(n, jnp.float32) for n in (noise.log_mean, noise.log_std, noise.rho))
    return NoiseLevels(sigma_min, sigma_max, log_mean, log_std, rho, noise.distribution)


def _location_and_scale(noise: Noise, buffer: Buffer) -> tuple[Float[Array, " dim"], Float[Array, " dim"]]:
    """The paper centres nothing and uses one scale; otherwise every coordinate has its own."""
    location, std = spread(buffer)
    if noise.is_isotropic:
        return jnp.zeros_like(location), jnp.full_like(std, jnp.std(buffer.position))
    return location, jnp.maximum(std, 1e-6 * jnp.max(std))


def prior_of(noise: Noise, buffer: Buffer, sigma_max: Float[Array, ""]) -> Prior:
    """Where sampling starts at sigma_max: the noised buffer's mean and covariance, or plain noise about the origin."""
    location, std = spread(buffer)
    if noise.prior == "noise":
        return Prior.diagonal(jnp.zeros_like(location), jnp.full_like(std, sigma_max))
    covariance = jnp.cov(buffer.position, rowvar=False, ddof=0).reshape((location.shape[0],) * 2)
    return Prior(location, jnp.linalg.cholesky(covariance + sigma_max**2 * jnp.eye(location.shape[0])))


def new_denoiser(key: Key, network: Network, noise: Noise, buffer: Buffer) -> Denoiser:
    """A denoiser with fresh weights, preconditioned for the buffer."""
    dim = buffer.position.shape[1]
    return Denoiser(make_network(key, dim, network), *_location_and_scale(noise, buffer))


def adjust(denoiser: Denoiser, noise: Noise, buffer: Buffer) -> Denoiser:
    """The same weights, preconditioned for another buffer: the warm start."""
    return Denoiser(denoiser.network, *_location_and_scale(noise, buffer))


def dataset_of(
    noise: Noise, buffer: Buffer, beta: Float[Array, ""], sigma_max: Float[Array, ""], use_gradients: bool
) -> Dataset:
    """What a model of this level learns from; `use_gradients` sets the blend to the within-mode variance."""
    levels = noise_levels(noise, buffer, beta, sigma_max, is_training=True)
    variance = inner_scale(buffer, beta) ** 2
    blend = variance if use_gradients else jnp.zeros_like(variance)
    return Dataset(buffer.position, beta * buffer.log_density_grad, levels, blend)


def stack(*trees):
    """Pytrees of equal structure along a new leading axis `model`."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves) if eqx.is_array(leaves[0]) else leaves[0], *trees)


def unstack(tree, num: int) -> tuple:
    """The inverse of `stack`."""
    return tuple(jax.tree.map(lambda leaf, k=k: leaf[k] if eqx.is_array(leaf) else leaf, tree) for k in range(num))
