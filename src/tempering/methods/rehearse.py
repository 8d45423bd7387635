"""Programs of learning and of drawing, compiled on another thread while modes are still searched for.

Their shapes are known before the density is: those of the network, and of a dataset as large as a model needs.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp

from tempering.compilation import Ahead, rounded_up
from tempering.diffusion import DiffusionModel
from tempering.diffusion.calibrate import blank_dataset, blank_levels, stack
from tempering.diffusion.fit import compile_training
from tempering.diffusion.noise import Prior
from tempering.diffusion.precondition import Denoiser
from tempering.methods.atlas import has_atlas
from tempering.methods.budget import default_budget
from tempering.methods.finish import judging
from tempering.methods.from_modes import enough_draws
from tempering.methods.known_modes import likely_components, with_components
from tempering.methods.learn import new_networks
from tempering.settings import MethodSettings
from tempering.targets import Target
from tempering.weights.ess import NUM_JUDGED

__all__ = ["rehearse"]

_LIKELY_SHARE = 0.9
"""Effective share of draws from the modes that the size of the dataset is guessed for."""


def rehearse(ahead: Ahead, target: Target, settings: MethodSettings, budget: int | None) -> None:
    """Have the programs compiled that a run needs if its modes are found; those of drawing it needs anyway."""
    dim, network = target.dim, settings.network
    if not settings.network.is_shared or network.is_of_particles:
        return
    sampling = judging(settings.sampling, dim)
    zeros, ones = jnp.zeros((dim,)), jnp.ones((dim,))

    def model() -> DiffusionModel:
        (own,) = new_networks(jax.random.key(0), dim, network, 1)
        denoiser = Denoiser(own, zeros, ones, jnp.zeros(()))  # pyright: ignore[reportArgumentType]
        return DiffusionModel(denoiser, Prior(zeros, jnp.eye(dim)), blank_levels(settings.noise, jnp.ones(())))

    if has_atlas(settings, target):
        wanted = int(enough_draws(dim) / _LIKELY_SHARE)
        left = int((1.0 - settings.atlas.share) * (budget or default_budget(dim)))
        size = rounded_up(min(wanted, left))
        # A guess: a few modes, from which the density is drawn at once.
        network = with_components(network, dim, likely_components(dim))
        settings = dataclasses.replace(settings, network=network)
        ahead.compile(functools.partial(_compile_training, dim, size, settings))
    judged = min(sampling.chunk_size, rounded_up(NUM_JUDGED))
    ahead.compile(lambda: model().compile_log_prob(judged, sampling))
    final = min(sampling.chunk_size, rounded_up(settings.num_final_draws or sampling.chunk_size))
    ahead.compile(lambda: model().compile(final, sampling, with_density=True))


def _compile_training(dim: int, size: int, settings: MethodSettings) -> None:
    networks = stack(*new_networks(jax.random.key(0), dim, settings.network, 1))
    keys = jax.random.split(jax.random.key(0), 1)
    compile_training(keys, networks, stack(blank_dataset(dim, size, settings.noise)), settings.training)
