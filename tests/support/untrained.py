"""A sampler that was never trained: the way from a method's coordinates to the user, without a fit."""

import jax.numpy as jnp
import numpy as np

import tempering as tp
from tempering.diffusion import Denoiser, DiffusionModel, NoiseLevels, Prior
from tempering.diffusion.networks import make_network

__all__ = ["untrained"]


def untrained(target, key, settings, *, ledger, **_) -> tp.Sampler:
    """What a fit of a standard normal target in the method's coordinates would come to."""
    zeros, ones = jnp.zeros(target.dim), jnp.ones(target.dim)
    denoiser = Denoiser(make_network(key, target.dim, settings.network), zeros, ones, jnp.zeros(()))
    numbers = (jnp.asarray(number, jnp.float32) for number in (0.01, 10.0))
    model = DiffusionModel(denoiser, Prior.diagonal(zeros, np.sqrt(101.0) * ones), NoiseLevels(*numbers))
    own = {"chart": target.chart, "structure": target.structure}
    return tp.Sampler(model, target, "ptsd", settings.network, settings.sampling, [], ledger, **own)
