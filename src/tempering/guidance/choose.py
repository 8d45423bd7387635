"""What the next level is drawn from: the ways to reach a colder temperature, and a choice between them for nothing.

Consumes the networks and buffers so far; produces a diffusion model at the next temperature. Every candidate is judged
on points that are paid for: the last buffer, reweighted to the next temperature.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering.buffer import Buffer, reweighted
from tempering.diffusion import Denoiser, DiffusionModel
from tempering.diffusion.calibrate import denoiser_of, noise_levels, prior_of
from tempering.guidance.ablations import Rescaled, Taylor
from tempering.guidance.extrapolate import Guided, GuidedByOne, extrapolation_weights
from tempering.settings import PTSDSettings, Sampling
from tempering.types import Array, Denoise, Float, Key

__all__ = ["NUM_JUDGED", "History", "candidates", "choose", "predicted_ess"]

NUM_JUDGED = 500
"""Points a model is judged on: enough to tell 0.1 from 0.3, a small part of what a level draws. One number, for the
density of so many points is one program."""


class History(eqx.Module):
    """Levels that are done, hottest first: `betas` has one more, the level to reach.

    `networks` is one for all levels, or those of the last two. `has_gradients` says whether buffers hold gradients.
    """

    buffers: tuple[Buffer, ...]
    betas: Float[Array, " next_level"]
    networks: tuple[eqx.Module, ...]
    sigma_max: Float[Array, ""]
    has_gradients: bool = eqx.field(static=True, default=True)

    @property
    def num_done(self) -> int:
        """The number of levels that are done."""
        return len(self.buffers)

    def beta(self, age: int) -> Float[Array, ""]:
        """Of the level to reach (age 0), the last level that is done (1), and so on."""
        # Picked on the host: a slice of an array is a new program for every length.
        return jnp.asarray(np.asarray(self.betas)[-1 - age])

    def anticipated(self) -> Buffer:
        """The last buffer weighted for the level to reach."""
        return reweighted(self.buffers[-1], self.beta(1), self.beta(0))

    def denoiser(self, age: int, settings: PTSDSettings) -> Denoiser:
        """Of the last level (age 1), the one before (2), and so on."""
        network = self.networks[max(0, len(self.networks) - age)]
        return denoiser_of(network, settings.noise, self.buffers[-age], self.beta(age))


def _finite_difference(history: History, settings: PTSDSettings, coordinate: str, num_nodes: int = 2) -> Denoise:
    temperatures = 1.0 / np.asarray(history.betas)
    nodes = jax.device_put(temperatures[-2 : -2 - num_nodes : -1])
    weights = extrapolation_weights(jnp.asarray(temperatures[-1]), nodes, coordinate)
    models = tuple(history.denoiser(age, settings) for age in range(1, num_nodes + 1))
    return GuidedByOne.of(models, weights) if len(history.networks) == 1 else Guided(models, weights)


def _second_order(history: History, settings: PTSDSettings, coordinate: str) -> Denoise:
    """From three levels, where one network knows so many."""
    has_three = len(history.networks) == 1 and history.num_done >= 3
    return _finite_difference(history, settings, coordinate, 3 if has_three else 2)


def _conditioned(history: History, settings: PTSDSettings, coordinate: str) -> Denoise:
    buffer = history.anticipated() if settings.guidance.is_anticipating else history.buffers[-1]
    return denoiser_of(history.networks[0], settings.noise, buffer, history.beta(0))


def _taylor(history: History, settings: PTSDSettings, coordinate: str) -> Denoise:
    return Taylor.towards(history.denoiser(1, settings), history.beta(1), history.beta(0), coordinate)


def _rescaled(history: History, settings: PTSDSettings, coordinate: str) -> Denoise:
    return Rescaled(history.denoiser(1, settings), history.beta(0) / history.beta(1))


def _coldest(history: History, settings: PTSDSettings, coordinate: str) -> Denoise:
    return history.denoiser(1, settings)


_WAYS: dict[str, Callable[[History, PTSDSettings, str], Denoise]] = {
    "finite_difference": _finite_difference,
    "second_order": _second_order,
    "conditioned": _conditioned,
    "autodiff": _taylor,
    "rescale": _rescaled,
    "none": _coldest,
}
"""Denoisers at the next temperature, by `guidance.kind`; the last argument is the coordinate."""


def candidates(history: History, settings: PTSDSettings) -> dict[str, DiffusionModel]:
    """The models to choose from by name: one, unless `guidance.kind` is automatic.

    Automatic looks at the finite difference linear in log T and in T and, with one network for all levels, at that
    network asked for the next temperature and at the second order in log T.
    """
    guidance = settings.guidance
    ways = {guidance.kind: (guidance.kind, guidance.coordinate)}
    if guidance.kind == "automatic":
        ways = {name: ("finite_difference", name) for name in ("log_T", "T")}
        if settings.network.is_shared:
            ways["conditioned"] = ("conditioned", "log_T")
            if history.num_done >= 3:
                ways["log_T, second order"] = ("second_order", "log_T")
    beta, beta_next = history.beta(1), history.beta(0)
    known = {"has_gradients": history.has_gradients}
    if guidance.is_anticipating:
        buffer = history.anticipated()
        levels = noise_levels(settings.noise, buffer, beta_next, history.sigma_max, **known)
    else:
        buffer = history.buffers[-1]
        levels = noise_levels(settings.noise, buffer, beta, history.sigma_max, colder_by=beta_next / beta, **known)
    prior = prior_of(settings.noise, buffer, history.sigma_max)
    denoisers = {name: _WAYS[kind](history, settings, coordinate) for name, (kind, coordinate) in ways.items()}
    return {name: DiffusionModel(denoise, prior, levels) for name, denoise in denoisers.items()}


def predicted_ess(
    key: Key, model: DiffusionModel, buffer: Buffer, beta: Float[Array, ""], sampling: Sampling
) -> Float[Array, ""]:
    """The effective share that importance weights of the model's draws will have, from weighted samples of the level.

    With l = log p - log q up to a constant it is 1 / (E_p[exp(l)] E_p[exp(-l)]): the first factor is the second moment
    of the weights under q, the second the inverse of their mean. Where the buffer does not reach, nothing is seen.
    """
    few = _evenly_spaced(buffer)
    return _share(few, beta, model.log_prob(key, few.position, sampling))


@jax.jit
def _evenly_spaced(buffer: Buffer) -> Buffer:
    """The samples that a candidate is judged on."""
    return buffer.take(jnp.arange(0, buffer.size, max(1, buffer.size // NUM_JUDGED))[:NUM_JUDGED])


@jax.jit
def _share(buffer: Buffer, beta: Float[Array, ""], log_q: Float[Array, " particle"]) -> Float[Array, ""]:
    log_ratio = buffer.states().tempered(beta) - log_q
    log_weight = jnp.where(buffer.weight > 0, jnp.log(buffer.weight), -jnp.inf)
    share = jnp.exp(-jax.nn.logsumexp(log_weight + log_ratio) - jax.nn.logsumexp(log_weight - log_ratio))
    return jnp.where(jnp.isfinite(share), share, 0.0)


def choose(key: Key, history: History, settings: PTSDSettings) -> tuple[str, DiffusionModel, dict[str, float]]:
    """The candidate that promises most, with the promises of all; a single one is taken unseen."""
    found = candidates(history, settings)
    if len(found) == 1:
        ((name, model),) = found.items()
        return name, model, {}
    buffer, beta = history.anticipated(), history.beta(0)
    promises = {
        name: float(predicted_ess(key, model, buffer, beta, settings.sampling)) for name, model in found.items()
    }
    name = max(promises, key=lambda name: promises[name])
    return name, found[name], promises
