"""The likelihood of a method by a diffusion model refitted to its draws, the same model for every method.

The paper's way to compare methods whose densities nobody knows: fit one to 10,000 draws, and take the mean log
likelihood of exact samples under it, by the flow of the fitted model. No target is evaluated to fit it.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tempering.buffer import ORIGINS, Buffer
from tempering.diffusion import fit_networks
from tempering.diffusion.calibrate import dataset_of, largest_sigma, stack, unstack
from tempering.diffusion.networks import make_network
from tempering.lab.metrics.suite import log_densities
from tempering.lab.reproduce.cells import Cell
from tempering.methods.model import model_of_buffer
from tempering.registry import target_of
from tempering.runs.config import RunConfig
from tempering.settings import PTSDSettings, Sampling
from tempering.settings.defaults import LARGEST_EXACT
from tempering.targets import ExactTarget, Inner
from tempering.types import Event, OnEvent

__all__ = ["Sizes", "refitted", "sizes_of"]


@dataclass(frozen=True)
class Sizes:
    """Of a refit: the paper's training of one model, and how the likelihood is taken."""

    num_draws: int = 10_000
    num_steps: int = 10_000
    batch_size: int = 1_000
    num_judged: int = 1_000
    num_solver: int = 256
    width: int | None = None


def sizes_of(cell: Cell) -> Sizes:
    """The sizes of a cell."""
    return Sizes(1_000, 400, 256, 100, 64, 64) if cell.is_quick else Sizes()


def refitted(cell: Cell, config: RunConfig, arrays: dict[str, np.ndarray], on_event: OnEvent) -> dict[str, Any]:
    """The record of a refit: mean and median log likelihood of exact or reference samples, and the target's own."""
    target, sizes = target_of(config), sizes_of(cell)
    chart = target.chart if isinstance(target, Inner) else None
    inner = (lambda x: x) if chart is None else jax.vmap(chart.restrict)
    draws = np.asarray(inner(jnp.asarray(arrays["draws"][: sizes.num_draws], jnp.float32)))
    is_finite = np.isfinite(draws).all(axis=1)
    judged = np.asarray(inner(jnp.asarray(arrays["reference"][: sizes.num_judged], jnp.float32)))
    key_network, key_fit, key_judge = jax.random.split(jax.random.fold_in(jax.random.key(cell.seed), 10_000), 3)
    settings = _settings(target, sizes)
    buffer = _buffer(draws[is_finite])
    sigma_max = largest_sigma(settings.noise, buffer)
    data = dataset_of(settings.noise, (buffer,), jnp.ones(1), sigma_max, use_gradients=False)
    networks = stack(make_network(key_network, target.dim, settings.network))

    def on_check(step: int, loss: float) -> None:
        on_event(Event("refit", 0, 1, step, sizes.num_steps, 0, 0, loss=loss))

    fitted, _ = fit_networks(
        key_fit[None], networks, stack(data), settings.training, num_steps=sizes.num_steps, on_check=on_check
    )
    model = model_of_buffer(settings.noise, buffer, sigma_max, unstack(fitted, 1)[0], has_gradients=True)
    log_q = np.asarray(model.log_prob(key_judge, jnp.asarray(judged), settings.sampling), np.float64)
    is_known = np.isfinite(log_q)
    record: dict[str, Any] = {
        "num_draws": len(draws),
        "num_nonfinite": int(np.sum(~is_finite)) + int(np.sum(~is_known)),
        "log_likelihood_median": float(np.median(log_q[is_known])) if is_known.any() else None,
        "metrics": {"refitted_log_likelihood": {"value": None, "floor": _exact(target, judged)}},
    }
    if is_known.all():
        record["metrics"]["refitted_log_likelihood"]["value"] = float(np.mean(log_q))
        record["standard_error"] = float(np.std(log_q) / np.sqrt(len(log_q)))
    return record


def _settings(target: Any, sizes: Sizes) -> PTSDSettings:
    """The paper's network, noise and training, started from the draws' own moments."""
    num_particles = 0 if target.geometry is None else target.geometry.num_particles
    settings = PTSDSettings.paper(num_particles=num_particles) if num_particles else PTSDSettings.paper()
    network, is_exact = settings.network, target.dim <= LARGEST_EXACT
    if sizes.width is not None:
        network = dataclasses.replace(network, width=min(network.width, sizes.width))
    training = dataclasses.replace(
        settings.training,
        num_steps=sizes.num_steps,
        batch_size=sizes.batch_size,
        check_every=min(settings.training.check_every, sizes.num_steps),
    )
    sampling = Sampling(
        "heun",
        sizes.num_solver,
        divergence="exact" if is_exact else "hutchinson",
        num_probes=1,
        chunk_size=500,
        is_quasi_random=False,
    )
    noise = dataclasses.replace(settings.noise, prior="isotropic" if num_particles else "matched")
    return dataclasses.replace(settings, network=network, training=training, sampling=sampling, noise=noise)


def _buffer(draws: np.ndarray) -> Buffer:
    """Draws as a buffer without densities: a fit by positions alone reads none."""
    position = jnp.asarray(draws, jnp.float32)
    zeros = jnp.zeros(len(draws))
    origin = jnp.full(len(draws), ORIGINS.index("generated"), jnp.int32)
    return Buffer(position, zeros, jnp.zeros_like(position), origin, zeros)


def _exact(target: Any, judged: np.ndarray) -> float | None:
    """What the normalised target itself gives the samples; None where log Z is not known."""
    if not isinstance(target, ExactTarget):
        return None
    values = np.asarray(log_densities(target, jnp.asarray(judged)), np.float64)
    return float(np.mean(values) - target.log_z())
