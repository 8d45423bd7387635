"""The diffusion model of a run's last level."""

import equinox as eqx
import jax.numpy as jnp

from tempering.buffer import Levels
from tempering.diffusion import DiffusionModel
from tempering.diffusion.calibrate import denoiser_of, noise_levels, prior_of
from tempering.methods.run import Run

__all__ = ["model_of"]


def model_of(run: Run, levels: Levels, network: eqx.Module) -> DiffusionModel:
    """What the network makes of the last level."""
    noise, buffer, beta = run.settings.noise, levels.buffers[-1], jnp.ones(())
    denoiser, prior = denoiser_of(network, noise, buffer, beta), prior_of(noise, buffer, levels.sigma_max)
    sigmas = noise_levels(noise, buffer, beta, levels.sigma_max, has_gradients=levels.has_gradients)
    return DiffusionModel(denoiser, prior, sigmas)
