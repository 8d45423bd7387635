"""Models of two temperatures, and every way from them to a colder one. Consumes buffers; produces diffusion models."""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp

from tempering.buffer import Levels
from tempering.diffusion import DiffusionModel, fit_networks
from tempering.diffusion.calibrate import dataset_of, stack, unstack
from tempering.diffusion.networks import make_network
from tempering.guidance.choose import candidates
from tempering.lab.extrapolation import WAYS
from tempering.settings import Guidance, PTSDSettings
from tempering.types import Key

__all__ = ["GUIDANCE", "TITLES", "model_by", "trained"]

GUIDANCE = {
    "me": Guidance("conditioned", "T", is_anticipating=False),
    "ad": Guidance("autodiff", "T", is_anticipating=False),
    "rs": Guidance("rescale", "T", is_anticipating=False),
    "fd": Guidance("finite_difference", "T", is_anticipating=False),
    "fd-log": Guidance("finite_difference", "log_T", is_anticipating=False),
    "none": Guidance("none", "T", is_anticipating=False),
}
"""The ways; `none` is the colder model as it is: what a way has to beat."""
TITLES = {
    "me": "NN generalisation (ME)",
    "ad": "autodiff (AD)",
    "rs": "rescaled score (RS)",
    "fd": "finite difference in T, the paper's",
    "fd-log": "finite difference in log T",
    "none": "the colder model as it is",
}
_SHARED = ("me", "ad")
"""Ways that ask one network for a temperature; the others need two networks."""


def trained(
    key: Key, dim: int, settings: PTSDSettings, levels: Levels, on_check: Callable[[int, float], None]
) -> dict[bool, tuple]:
    """Networks of the two levels, by whether one serves both; all begin alike and see as many batches."""
    key_network, key_shared, key_apart = jax.random.split(key, 3)
    training = settings.training

    def data_of(own: list[int]):
        kept = tuple(levels.buffers[level] for level in own)
        betas = levels.betas[jnp.asarray(own)]
        return dataset_of(settings.noise, kept, betas, levels.sigma_max, use_gradients=training.use_gradients)

    def fit(key: Key, is_shared: bool, parts: list[list[int]]) -> tuple:
        first = make_network(key_network, dim, dataclasses.replace(settings.network, is_shared=is_shared))
        data, keys = stack(*(data_of(own) for own in parts)), jax.random.split(key, len(parts))
        networks = stack(*[first] * len(parts))
        fitted, _ = fit_networks(keys, networks, data, training, num_steps=training.num_steps, on_check=on_check)
        return unstack(fitted, len(parts))

    return {True: fit(key_shared, True, [[0, 1]]), False: fit(key_apart, False, [[0], [1]])}


def model_by(way: str, levels: Levels, settings: PTSDSettings, networks: dict[bool, tuple]) -> DiffusionModel:
    """The model at the temperature that `levels` goes towards, without any correction."""
    is_shared = way in _SHARED
    network = dataclasses.replace(settings.network, is_shared=is_shared)
    chosen = dataclasses.replace(settings, guidance=GUIDANCE[way], network=network)
    (model,) = candidates(dataclasses.replace(levels, networks=networks[is_shared]), chosen, WAYS).values()
    return model
