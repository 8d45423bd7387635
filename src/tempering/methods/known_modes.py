"""What a search knows of the modes, put under the network: a mixture of Gaussians that its denoiser starts from.

A network sees coordinates in units of the whole spread. Many narrow modes are then a function of high frequency, which
it learns last: with the exact denoiser 32 Heun steps draw the 40 Gaussians as well as exact samples are, with a network
of 15,000 steps a draw in a thousand lies between modes. A mixture knows the modes before the first step.
"""

import dataclasses

import equinox as eqx
import jax
import numpy as np

from tempering.atlas.mixture import StudentMixture, log_densities_of_parts
from tempering.buffer import Buffer
from tempering.compilation import rounded_up
from tempering.diffusion.networks.mixture import GaussianMixture
from tempering.methods.atlas import Found
from tempering.settings import Network

__all__ = [
    "components_of",
    "has_several",
    "likely_components",
    "linear_mixture",
    "mixture_of_buffer",
    "places_for",
    "with_components",
    "with_mixture",
]

_LEAST_COMPONENTS = 8
"""Places for components: fits of few modes share their programs."""
_MOST_COMPONENTS, _MOST_NUMBERS = 256, 32_768
"""Components, and numbers of all covariances: beyond, the mixture costs more than the network, and memory."""
_BACKGROUND = 1e-6
"""Weight of a component as wide as all samples together. Where no mode is near, a network then learns what it would
learn without a mixture: `improve` may find a mode there. A larger weight leaves draws between the modes."""
_NO_WEIGHT = -1e30
"""Log weight of an empty place: finite, because a check of networks refuses what is not."""


_LARGEST_SHARED = 16
"""Dimensions up to which one mode alone has a mixture too, of one component that is no news: so it shares the programs
that were compiled for several modes while these were searched for. Beyond, empty places cost more than that saves."""


def has_several(found: Found) -> bool:
    """Whether there are modes to tell apart; not in learned coordinates, in which there is one.

    One mode alone may be far from a Gaussian (docs/decisions/0025-known-modes.md).
    """
    return len(found.log_density) > 1 and not found.is_shaped


def components_of(found: Found) -> int:
    """Components to start from: those of the reference; of one mode alone one or none."""
    if has_several(found):
        return found.reference.log_weight.shape[0]
    return likely_components(found.reference.mean.shape[1])


def likely_components(dim: int) -> int:
    """Components of one mode alone, and the guess before anything is known of the modes."""
    return 1 if dim <= _LARGEST_SHARED else 0


def with_components(network: Network, dim: int, num_modes: int) -> Network:
    """The settings of the network with places for so many modes, where it takes them; 0 modes are no mixture."""
    takes_them = network.is_on_modes and not network.is_of_particles and num_modes > 0
    return dataclasses.replace(network, num_components=places_for(num_modes, dim) if takes_them else 0)


def places_for(num_modes: int, dim: int) -> int:
    """Places of a mixture with so many modes, or the heaviest of them, and one more; 0 if that would be too large."""
    num = min(rounded_up(num_modes + 1, _LEAST_COMPONENTS), _MOST_COMPONENTS)
    return num if num * dim**2 <= _MOST_NUMBERS else 0


def with_mixture(networks: tuple[eqx.Module, ...], mixture: GaussianMixture) -> tuple[eqx.Module, ...]:
    """The networks on this mixture."""
    return tuple(eqx.tree_at(lambda own: own.mixture, network, mixture) for network in networks)


def linear_mixture(location: np.ndarray, sigma_data: np.ndarray, num: int) -> GaussianMixture:
    """One component, whose denoiser is the best linear one of each coordinate: what a network without a mixture has."""
    dim = len(location)
    log_weight = np.full(num, _NO_WEIGHT)
    log_weight[0] = 0.0
    parts = (
        log_weight,
        np.tile(location, (num, 1)),
        np.tile(sigma_data**2, (num, 1)),
        np.tile(np.eye(dim), (num, 1, 1)),
    )
    return GaussianMixture(*jax.device_put(tuple(np.asarray(part, np.float32) for part in parts)))


def mixture_of_buffer(reference: StudentMixture, buffer: Buffer, num: int) -> GaussianMixture:
    """Masses, means and covariances that weighted samples show of every component of the reference.

    Args:
        num: places; what the reference leaves of them is empty, but for one that covers all samples. If there are more
            components than places, the heaviest have them.
    """
    position, log_weight = np.asarray(buffer.position, np.float64), np.asarray(buffer.log_weight, np.float64)
    weight = np.exp(log_weight - np.max(log_weight))
    weight = weight / np.sum(weight)
    parts = log_densities_of_parts(reference, position) + np.asarray(reference.log_weight)[None]
    own = weight[:, None] * np.exp(parts - np.logaddexp.reduce(parts, axis=1, keepdims=True))
    mass, dim = np.sum(own, axis=0), position.shape[1]
    # Samples of every component: where all are far away, their many small parts are not many samples.
    size = np.minimum(mass**2 / np.maximum(np.sum(own**2, axis=0), 1e-300), mass / np.sum(mass) * len(position))
    factor = np.asarray(reference.factor, np.float64)
    means, covariances = np.asarray(reference.mean, np.float64).copy(), factor @ factor.transpose(0, 2, 1)
    for k in np.flatnonzero(mass > 0):
        # As far as samples are enough to show it; else what the reference has.
        means[k] += size[k] / (size[k] + 1.0) * (own[:, k] @ position / mass[k] - means[k])
        away = position - means[k]
        shown = (own[:, k, None] * away).T @ away / mass[k]
        covariances[k] += size[k] / (size[k] + 3.0 * dim) * (shown - covariances[k])
    kept = np.sort(np.argsort(-mass, kind="stable")[: num - 1])
    mass, means, covariances = mass[kept], means[kept], covariances[kept]
    centre = weight @ position / np.sum(weight)
    away = position - centre
    spread = (weight[:, None] * away).T @ away / np.sum(weight)
    empty = num - len(mass) - 1
    log_weight = np.concatenate(
        [np.log(np.maximum(mass / np.sum(mass), 1e-30)), [np.log(_BACKGROUND)], np.full(empty, _NO_WEIGHT)]
    )
    means = np.concatenate([means, centre[None], np.tile(centre, (empty, 1))])
    covariances = np.concatenate([covariances, np.tile(spread, (empty + 1, 1, 1))])
    variance, axes = np.linalg.eigh(covariances)
    variance = np.maximum(variance, 1e-12 * np.max(variance, axis=1, keepdims=True) + 1e-30)
    numbers = (log_weight, means, variance, axes)
    return GaussianMixture(*jax.device_put(tuple(np.asarray(part, np.float32) for part in numbers)))
