"""From buffers to trained denoisers and models: glue between `buffer` and `diffusion` that every method shares."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp

from tempering.buffer import Buffer
from tempering.checkpoint import Progress
from tempering.diffusion import Denoiser, DiffusionModel, fit_denoisers
from tempering.diffusion.calibrate import adjust, dataset_of, new_denoiser, noise_levels, prior_of, stack, unstack
from tempering.importance import weigh
from tempering.pareto import log_z_with_tail, pareto_k, pooled_log_z
from tempering.preparation import Teller
from tempering.records import finite_or_none, level_warnings
from tempering.sampler import Sampler
from tempering.settings import MethodSettings, Network, Noise, PTSDSettings
from tempering.types import Array, Float, Key

__all__ = ["denoiser_like", "final_sampler", "fresh", "learn", "warm"]


def denoiser_like(dim: int, network: Network) -> Denoiser:
    """A denoiser's structure, for reading one back."""
    points = jnp.zeros((2, dim))
    blank = Buffer(points, jnp.zeros((2,)), points, jnp.zeros((2,), jnp.int32))
    return eqx.filter_eval_shape(lambda: new_denoiser(jax.random.key(0), network, Noise(), blank))


def fresh(key: Key, buffers: tuple[Buffer, ...], settings: MethodSettings) -> tuple[Denoiser, ...]:
    """One untrained denoiser a buffer, all with the same initial weights: guidance takes their difference."""
    return tuple(new_denoiser(key, settings.network, settings.noise, buffer) for buffer in buffers)


def warm(denoiser: Denoiser, buffers: tuple[Buffer, ...], settings: PTSDSettings) -> tuple[Denoiser, ...]:
    """One denoiser a buffer, all with the weights of an earlier one."""
    return tuple(adjust(denoiser, settings.noise, buffer) for buffer in buffers)


def learn(
    key: Key,
    denoisers: tuple[Denoiser, ...],
    buffers: tuple[Buffer, ...],
    levels: tuple[int, ...],
    betas: Float[Array, " level"],
    sigma_max: Float[Array, ""],
    settings: MethodSettings,
    num_steps: int,
    progress: Progress,
    tell: Teller,
) -> tuple[Denoiser, ...]:
    """Fit one denoiser to each buffer, side by side; write losses into the level records."""
    use_gradients = settings.training.use_gradients
    data = [
        dataset_of(settings.noise, buffer, betas[level], sigma_max, use_gradients)
        for buffer, level in zip(buffers, levels, strict=True)
    ]
    keys = jax.vmap(lambda level: jax.random.fold_in(key, level))(jnp.asarray(levels))

    def on_check(step: int, loss: float) -> None:
        tell("training", levels[-1], step, num_steps, temperature=float(1 / betas[levels[-1]]), loss=loss)

    fitted, info = fit_denoisers(
        keys, stack(*denoisers), stack(*data), settings.training, num_steps=num_steps, on_check=on_check
    )
    for index, level in enumerate(levels):
        record = progress.levels[level]
        record.train_loss = finite_or_none(info.train_loss[index])
        record.validation_loss = finite_or_none(info.validation_loss[index])
        record.training_steps = int(info.num_steps[index])
        record.num_nonfinite += int(info.num_nonfinite[index])
    return unstack(fitted, len(levels))


def final_sampler(
    key: Key,
    target,
    method: str,
    denoiser: Denoiser,
    buffer: Buffer,
    sigma_max: Float[Array, ""],
    settings: MethodSettings,
    progress: Progress,
    tell: Teller,
    warnings: tuple[str, ...],
) -> Sampler:
    """The sampler of the last level, weighed on `settings.num_final_draws` draws where that is not 0.

    log Z is then that of the final draws, pooled with the last level's guided draws where the weights of those have a
    finite variance (Pareto k at most 0.5) and so a trustworthy error. The final draws are new, so that given the model
    their estimate does not depend on the level's.
    """
    beta = jnp.ones(())
    prior = prior_of(settings.noise, buffer, sigma_max)
    model = DiffusionModel(denoiser, prior, noise_levels(settings.noise, buffer, beta, sigma_max))
    levels = progress.ordered()
    sampler = Sampler(
        model=model,
        target=target,
        method=method,
        network=settings.network,
        sampling=settings.sampling,
        levels=levels,
        ledger=progress.ledger,
        log_z=levels[-1].log_z,
        log_z_error=levels[-1].log_z_error,
        warnings=warnings,
    )
    num = settings.num_final_draws
    if num == 0:
        return dataclasses.replace(sampler, warnings=(*warnings, *level_warnings(levels, None)))
    last = len(levels) - 1
    draws, log_q = model.draw(
        key, num, settings.sampling, with_density=True, on_chunk=lambda done: tell("final weights", last, done, num)
    )
    weighted = weigh(target, draws, log_q, beta, ledger=progress.ledger, stage="final_weights")
    estimates = [log_z_with_tail(weighted.log_weights)]
    if levels[-1].pareto_k is not None and levels[-1].pareto_k <= 0.5:
        estimates.append((levels[-1].log_z, levels[-1].log_z_error))
    log_z, error = (finite_or_none(value) for value in pooled_log_z(estimates))
    k = finite_or_none(pareto_k(weighted.log_weights))
    return dataclasses.replace(
        sampler,
        log_z=log_z,
        log_z_error=error,
        ess_fraction=weighted.ess_fraction,
        pareto_k=k,
        warnings=(*warnings, *level_warnings(levels, weighted.ess_fraction, k)),
    )
