"""The same steps with learned denoisers, in sizes for a CPU.

Buffers are exact samples of each temperature, so that what is compared is learning and guidance alone.
"""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tempering.buffer import Buffer, Levels, from_states
from tempering.diffusion import DiffusionModel, fit_networks
from tempering.diffusion.calibrate import dataset_of, denoiser_of, largest_sigma, noise_levels, prior_of, stack, unstack
from tempering.guidance.choose import candidates
from tempering.kernels import ChainState
from tempering.lab.extrapolation import WAYS
from tempering.methods.budget import Plan
from tempering.methods.learn import _data_of_all_levels, new_networks
from tempering.settings import Guidance, Noise, PTSDSettings, Sampling, Training, resolved
from tempering.targets import ManyWell
from tempering.targets.base import evaluate_many
from tempering.weights.ess import ess_fraction

__all__ = ["continuum_rows", "learned_rows", "tempered_many_well"]

DIM = 8
RATIOS = (1.5, 2.0, 3.0)
SIZES = (500, 4000)
NUM_STEPS, NUM_DRAWS = 1000, 500
_SAMPLING = Sampling("heun", 32, divergence="exact", chunk_size=1000)
_GUIDANCE = {
    "none": Guidance("none", is_anticipating=False),
    "T": Guidance("finite_difference", "T", is_anticipating=False),
    "log_T": Guidance("finite_difference", "log_T", is_anticipating=False),
}
_ASKED = ("conditioned", "autodiff", "finite_difference")
"""Ways of one network that is told the temperature."""


def tempered_many_well(seed: int, num: int, dim: int, temperature: float) -> np.ndarray:
    """Exact samples of Many-Well at a temperature, by the inverse distribution function of one well."""
    random = np.random.default_rng([seed, round(1e6 * temperature)])
    u = np.linspace(-8.0, 8.0, 160_001)
    value = (0.5 * u + u * u * (6.0 - u * u)) / temperature
    cumulative = np.cumsum(np.exp(value - value.max()))
    wells = np.interp(random.random((num, dim // 2)), cumulative / cumulative[-1], u)
    rest = np.sqrt(temperature) * random.standard_normal((num, dim // 2))
    return np.stack([wells, rest], axis=-1).reshape(num, dim).astype(np.float32)


def _buffer(target: ManyWell, seed: int, size: int, temperature: float) -> Buffer:
    x = jnp.asarray(tempered_many_well(seed, size, target.dim, temperature))
    return from_states(ChainState(x, *evaluate_many(target, x)), "refined")


def _settings(is_shared: bool, guidance: Guidance, dim: int = DIM) -> PTSDSettings:
    settings = resolved(PTSDSettings(), dim)
    assert settings.network is not None
    training = Training(num_steps=NUM_STEPS, batch_size=256, check_every=NUM_STEPS // 6)
    return replace(
        settings,
        network=replace(settings.network, width=64, is_shared=is_shared),
        training=training,
        noise=Noise(),
        sampling=_SAMPLING,
        guidance=guidance,
    )


def _share(model: DiffusionModel, target: ManyWell, temperature: float, seed: int) -> dict[str, float]:
    """The effective share of draws by their weights, and the largest error of a well's weight without weights."""
    x, log_q = model.draw(jax.random.key(seed), NUM_DRAWS, _SAMPLING, with_density=True)
    log_weight = evaluate_many(target, x)[0] / temperature - log_q
    return {"share": float(ess_fraction(log_weight)), "right": float(jnp.mean(x[:, 0::2] > 0))}


def learned_rows(seeds: tuple[int, ...]) -> Iterator[dict[str, Any]]:
    """Shares at T = 1 on Many-Well in eight dimensions, by way, ratio, number of samples and seed.

    A network for each temperature, all from the same initial weights; `own` was trained on samples of T = 1 itself.
    """
    target = ManyWell(DIM)
    temperatures = sorted({1.0, *(ratio**power for ratio in RATIOS for power in (1, 2))})
    settings = _settings(False, _GUIDANCE["none"])
    for seed in seeds:
        for size in SIZES:
            buffers = {t: _buffer(target, seed, size, t) for t in temperatures}
            betas = {t: jnp.asarray(1.0 / t) for t in temperatures}
            sigma_max = largest_sigma(settings.noise, buffers[temperatures[-1]])
            data = stack(
                *(
                    dataset_of(settings.noise, (buffers[t],), betas[t][None], sigma_max, use_gradients=True)
                    for t in temperatures
                )
            )
            key = jax.random.key(100 + seed)
            networks = stack(*new_networks(key, DIM, settings.network, len(temperatures)))
            keys = jax.random.split(key, len(temperatures))
            fitted, info = fit_networks(keys, networks, data, settings.training, num_steps=NUM_STEPS)
            by = dict(zip(temperatures, unstack(fitted, len(temperatures)), strict=True))
            about = {"density": f"many-well {DIM}", "temperature": 1.0, "num": size, "seed": seed}
            own = DiffusionModel(
                denoiser_of(by[1.0], settings.noise, buffers[1.0], betas[1.0]),
                prior_of(settings.noise, buffers[1.0], sigma_max),
                noise_levels(settings.noise, buffers[1.0], betas[1.0], sigma_max),
            )
            loss = float(info.validation_loss[temperatures.index(1.0)])
            yield {**about, "ratio": 1.0, "way": "own", "loss": loss, **_share(own, target, 1.0, seed)}
            for ratio in RATIOS:
                hot, cold = ratio**2, ratio
                levels = Levels((hot, cold, 1.0), (buffers[hot], buffers[cold]), jnp.ones(2), sigma_max)
                levels = replace(levels, networks=(by[hot], by[cold]))
                for way, guidance in _GUIDANCE.items():
                    chosen = replace(settings, guidance=guidance)
                    (model,) = candidates(levels, chosen, WAYS).values()
                    yield {**about, "ratio": ratio, "way": way, **_share(model, target, 1.0, seed)}


def continuum_rows(seeds: tuple[int, ...], numbers: tuple[int, ...] = (0, 3)) -> Iterator[dict[str, Any]]:
    """One network for the levels r^2 and r, with and without temperatures between, asked for T = 1.

    Every network sees as many batches. `is_anticipating` has the network see the level of r reweighted to T = 1 too.
    """
    target, ratio = ManyWell(2), 2.0
    for seed in seeds:
        buffers = tuple(_buffer(target, seed, 2000, t) for t in (ratio**2, ratio))
        for number, is_anticipating in itertools.product(numbers, (False, True)):
            guidance = Guidance("conditioned", is_anticipating=is_anticipating, num_between=number)
            settings = replace(_settings(True, guidance, target.dim), buffer_size=2000, level_size=None)
            levels = Levels((ratio**2, ratio, 1.0), buffers, jnp.ones(2), largest_sigma(settings.noise, buffers[0]))
            run: Any = SimpleNamespace(settings=settings, plan=Plan(most_levels=3))
            data = stack(_data_of_all_levels(run, levels))
            key = jax.random.key(200 + seed)
            networks = stack(*new_networks(key, target.dim, settings.network, 1))
            fitted, _ = fit_networks(jax.random.split(key, 1), networks, data, settings.training, num_steps=NUM_STEPS)
            levels = replace(levels, networks=unstack(fitted, 1))
            about = {"ratio": ratio, "num_between": number, "is_anticipating": is_anticipating, "seed": seed}
            for kind in _ASKED:
                chosen = replace(settings, guidance=replace(guidance, kind=kind))
                (model,) = candidates(levels, chosen, WAYS).values()
                yield {**about, "way": kind, **_share(model, target, 1.0, seed)}
