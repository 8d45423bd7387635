"""The diffusion model of a run's last level."""

import equinox as eqx
import jax.numpy as jnp

from tempering.buffer import Buffer, Levels
from tempering.compilation import quick
from tempering.diffusion import DiffusionModel
from tempering.diffusion.calibrate import denoiser_of, noise_levels, prior_of
from tempering.diffusion.noise import NoiseLevels, Prior
from tempering.diffusion.precondition import Denoiser
from tempering.methods.run import Run
from tempering.settings import Noise
from tempering.types import Array, Float

__all__ = ["model_of", "model_of_buffer"]


def model_of(run: Run, levels: Levels, network: eqx.Module) -> DiffusionModel:
    """What the network makes of the last level."""
    noise, buffer, has_gradients = run.settings.noise, levels.buffers[-1], levels.has_gradients
    return model_of_buffer(noise, buffer, levels.sigma_max, network, has_gradients=has_gradients)


def model_of_buffer(
    noise: Noise, buffer: Buffer, sigma_max: Float[Array, ""], network: eqx.Module, *, has_gradients: bool
) -> DiffusionModel:
    """What the network makes of samples at T = 1."""
    denoiser, prior, levels = _round_network(noise, buffer, sigma_max, has_gradients=has_gradients)
    return DiffusionModel(eqx.tree_at(lambda own: own.network, denoiser, network), prior, levels)


def _no_network(*_: Array) -> Array:
    raise NotImplementedError


@quick
def _round_network(
    noise: Noise, buffer: Buffer, sigma_max: Float[Array, ""], *, has_gradients: bool
) -> tuple[Denoiser, Prior, NoiseLevels]:
    """All of a model but its network, by one program."""
    beta = jnp.ones(())
    denoiser, prior = denoiser_of(_no_network, noise, buffer, beta), prior_of(noise, buffer, sigma_max)
    return denoiser, prior, noise_levels(noise, buffer, beta, sigma_max, has_gradients=has_gradients)
