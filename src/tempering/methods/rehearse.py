"""Programs of learning and of drawing, compiled on another thread while modes are still searched for.

Their shapes are known before the density is, but for the number of modes, which the network starts from: they are
begun when the search has found nearly all. The dataset is as large as a model needs.
"""

import dataclasses
import functools

import jax
import numpy as np

from tempering.compilation import Ahead, rounded_up
from tempering.devices.keys import from_seed
from tempering.diffusion import DiffusionModel
from tempering.diffusion.calibrate import blank_dataset, blank_levels, stack
from tempering.diffusion.fit import compile_training
from tempering.diffusion.noise import Prior
from tempering.diffusion.precondition import Denoiser
from tempering.methods.atlas import has_atlas
from tempering.methods.budget import default_budget, num_final_draws
from tempering.methods.finish import judging
from tempering.methods.from_modes import enough_draws
from tempering.methods.known_modes import likely_components, with_components
from tempering.methods.learn import keys_of, new_networks
from tempering.settings import MethodSettings, Network
from tempering.targets import Target
from tempering.weights.ess import NUM_JUDGED

__all__ = ["Rehearsal"]

_LIKELY_SHARE = 0.9
"""Effective share of draws from the modes that the size of the dataset is guessed for."""


class Rehearsal:
    """The programs of one run that are compiled ahead."""

    def __init__(self, ahead: Ahead, target: Target, settings: MethodSettings, budget: int | None) -> None:
        self._ahead, self._dim, self._budget, self._is_begun = ahead, target.dim, budget, False
        self._settings, self._has_atlas = settings, has_atlas(settings, target)
        self._network: Network | None = None
        if not self._has_atlas:
            self._begin(settings.network)

    def on_modes(self, num: int, *, is_all: bool) -> bool:
        """So many modes are known. Programs are begun if these are all, or if twice as many need the same.

        Returns whether they have begun.
        """
        network = self._network_for(num)
        if is_all or network == self._network_for(2 * num):
            self._begin(network)
        return self._is_begun

    def _network_for(self, num: int) -> Network:
        # A few optima are found late, and a few components are added to them.
        num = num + max(1, num // 8) if num > 1 else likely_components(self._dim)
        return with_components(self._settings.network, self._dim, num)

    def fitting(self, network: Network) -> Network:
        """The network that programs were begun for, if it has places for this one's components and not far too many."""
        own, num = self._network, network.num_components
        has_room = own is not None and num <= own.num_components <= 2 * num
        is_alike = own is not None and dataclasses.replace(own, num_components=num) == network
        return own if own is not None and has_room and is_alike else network

    def _begin(self, network: Network) -> None:
        settings, dim, ahead = self._settings, self._dim, self._ahead
        if self._is_begun or not network.is_shared or network.is_of_particles:
            return
        self._is_begun, self._network = True, network
        sampling = judging(settings.sampling, dim)

        def model() -> DiffusionModel:
            zeros, ones, number, square = jax.device_put(_numbers(dim))
            (own,) = new_networks(from_seed(0), dim, network, 1)
            denoiser = Denoiser(own, zeros, ones, number)  # pyright: ignore[reportArgumentType]
            return DiffusionModel(denoiser, Prior(zeros, square), blank_levels(settings.noise, number))

        num_final = settings.num_final_draws
        if self._has_atlas:
            wanted = int(enough_draws(dim) / _LIKELY_SHARE)
            left = int((1.0 - settings.atlas.share) * (self._budget or default_budget(dim)))
            num_final = num_final_draws(settings, left)
            size = rounded_up(min(wanted, left))
            own = dataclasses.replace(settings, network=network)
            ahead.compile(functools.partial(_compile_training, dim, size, own), ("training", network, size))
        judged = min(sampling.chunk_size, rounded_up(NUM_JUDGED))
        ahead.compile(lambda: model().compile_log_prob(judged, sampling), ("densities", network))
        final = min(sampling.chunk_size, rounded_up(num_final or sampling.chunk_size))
        ahead.compile(lambda: model().compile(final, sampling, with_density=True), ("draws", network, final))


def _numbers(dim: int) -> tuple[np.ndarray, ...]:
    """Zeros and ones of the shapes that a model has."""
    single = np.float32
    return np.zeros(dim, single), np.ones(dim, single), np.asarray(1.0, single), np.eye(dim, dtype=single)


def _compile_training(dim: int, size: int, settings: MethodSettings) -> None:
    networks = stack(*new_networks(from_seed(0), dim, settings.network, 1))
    keys = keys_of(from_seed(0), jax.device_put(np.zeros((1,), np.int32)))
    compile_training(keys, networks, stack(blank_dataset(dim, size, settings.noise)), settings.training)
