"""What the next level is drawn from: the ways to reach a colder temperature, and a choice between them for nothing.

Consumes the networks and buffers so far; produces a diffusion model at the next temperature. Every candidate is judged
on points that are paid for: the last buffer, reweighted to the next temperature.
"""

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import numpy as np

from tempering.buffer import Buffer, Levels
from tempering.compilation import quick
from tempering.diffusion import Denoiser, DiffusionModel
from tempering.diffusion.calibrate import denoiser_of, noise_levels, prior_of
from tempering.guidance.extrapolate import Guided, GuidedByOne, extrapolation_weights
from tempering.settings import PTSDSettings, Sampling, require
from tempering.types import Array, Denoise, Float, Key
from tempering.weights.ess import NUM_JUDGED, predicted_ess_fraction

__all__ = ["WAYS", "Ways", "candidates", "choose", "predicted_ess"]


def denoiser_at(levels: Levels, age: int, settings: PTSDSettings) -> Denoiser:
    """The denoiser of the coldest level (age 1), the one before (2), and so on."""
    network = levels.networks[max(0, len(levels.networks) - age)]
    return denoiser_of(network, settings.noise, levels.buffers[-age], levels.beta(age))


def finite_difference(levels: Levels, settings: PTSDSettings, coordinate: str, num_nodes: int = 2) -> Denoise:
    """Extrapolated from the models of the coldest `num_nodes` levels: the paper's guidance for two."""
    temperatures = 1.0 / np.asarray(levels.betas)
    nodes = jax.device_put(temperatures[-2 : -2 - num_nodes : -1])
    weights = extrapolation_weights(jnp.asarray(temperatures[-1]), nodes, coordinate)
    models = tuple(denoiser_at(levels, age, settings) for age in range(1, num_nodes + 1))
    return GuidedByOne.of(models, weights) if len(levels.networks) == 1 else Guided(models, weights)


def _conditioned(levels: Levels, settings: PTSDSettings, coordinate: str) -> Denoise:
    del coordinate
    buffer = levels.anticipated() if settings.guidance.is_anticipating else levels.buffers[-1]
    return denoiser_of(levels.networks[0], settings.noise, buffer, levels.beta(0))


def _coldest(levels: Levels, settings: PTSDSettings, coordinate: str) -> Denoise:
    del coordinate
    return denoiser_at(levels, 1, settings)


Ways = Mapping[str, Callable[..., Denoise]]
"""Denoisers at the next temperature, by `guidance.kind`: functions of levels, settings and the coordinate."""

WAYS: Ways = {"finite_difference": finite_difference, "conditioned": _conditioned, "none": _coldest}


def candidates(levels: Levels, settings: PTSDSettings, ways: Ways = WAYS) -> dict[str, DiffusionModel]:
    """The models to choose from by name: one, unless `guidance.kind` is automatic.

    Automatic looks at the finite difference linear in log T and in T and, with one network for all levels, at that
    network asked for the next temperature and at the second order in log T.

    Raises:
        SettingsError: for a way that is not among `ways`.
    """
    guidance = settings.guidance
    if guidance.kind == "automatic":
        denoisers = {name: finite_difference(levels, settings, name) for name in ("log_T", "T")}
        if settings.network.is_shared:
            denoisers["conditioned"] = _conditioned(levels, settings, "log_T")
            if levels.num_done >= 3:
                denoisers["log_T, second order"] = finite_difference(levels, settings, "log_T", 3)
    else:
        allowed = f"one of {', '.join(map(repr, ('automatic', *ways)))} here"
        require(guidance.kind in ways, "guidance.kind", guidance.kind, allowed, "the others are of `tempering run`")
        denoisers = {guidance.kind: ways[guidance.kind](levels, settings, guidance.coordinate)}
    beta, beta_next = levels.beta(1), levels.beta(0)
    known = {"has_gradients": levels.has_gradients}
    if guidance.is_anticipating:
        buffer = levels.anticipated()
        noise = noise_levels(settings.noise, buffer, beta_next, levels.sigma_max, **known)
    else:
        buffer = levels.buffers[-1]
        noise = noise_levels(settings.noise, buffer, beta, levels.sigma_max, colder_by=beta_next / beta, **known)
    prior = prior_of(settings.noise, buffer, levels.sigma_max)
    return {name: DiffusionModel(denoise, prior, noise) for name, denoise in denoisers.items()}


def predicted_ess(
    key: Key, model: DiffusionModel, buffer: Buffer, beta: Float[Array, ""], sampling: Sampling
) -> Float[Array, ""]:
    """The effective share that importance weights of the model's draws will have, from weighted samples of the level.

    Where the buffer does not reach, nothing is seen.
    """
    few = _evenly_spaced(buffer)
    return _share(few, beta, model.log_prob(key, few.position, sampling))


@quick
def _evenly_spaced(buffer: Buffer) -> Buffer:
    """The samples that a candidate is judged on."""
    return buffer.take(jnp.arange(0, buffer.size, max(1, buffer.size // NUM_JUDGED))[:NUM_JUDGED])


@quick
def _share(buffer: Buffer, beta: Float[Array, ""], log_q: Float[Array, " particle"]) -> Float[Array, ""]:
    log_ratio = buffer.states().tempered(beta) - log_q
    log_weight = jnp.where(buffer.weight > 0, jnp.log(buffer.weight), -jnp.inf)
    return predicted_ess_fraction(log_ratio, log_weight)


def choose(
    key: Key, levels: Levels, settings: PTSDSettings, ways: Ways = WAYS
) -> tuple[str, DiffusionModel, dict[str, float]]:
    """The candidate that promises most, with the promises of all; a single one is taken unseen."""
    found = candidates(levels, settings, ways)
    if len(found) == 1:
        ((name, model),) = found.items()
        return name, model, {}
    buffer, beta = levels.anticipated(), levels.beta(0)
    promises = {
        name: float(predicted_ess(key, model, buffer, beta, settings.sampling)) for name, model in found.items()
    }
    name = max(promises, key=lambda name: promises[name])
    return name, found[name], promises
