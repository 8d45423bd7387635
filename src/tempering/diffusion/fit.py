"""Fitting denoisers to buffers, several side by side: the leading axis `model` is a vmap.

Consumes stacked denoisers and buffers; produces the averaged weights with the best held-out loss. One compilation
serves every level: what differs between levels is an array.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from tempering.diffusion.noise import NoiseLevels
from tempering.diffusion.objective import denoising_loss
from tempering.diffusion.precondition import Denoiser
from tempering.settings import Training
from tempering.types import Array, Bool, Float, Int, Key, Keys

__all__ = ["Dataset", "FitInfo", "fit_denoisers"]

_VALIDATION_DRAWS = 8
"""Noise levels tried on every held-out sample: enough that checks compare weights, not noise."""


class Dataset(eqx.Module):
    """What one model learns from: samples, tempered gradients, noise range and blend."""

    position: Float[Array, "*model particle dim"]
    tempered_grad: Float[Array, "*model particle dim"]
    levels: NoiseLevels
    blend_variance: Float[Array, "*model dim"]


class FitInfo(eqx.Module):
    """How the fit went, by model."""

    train_loss: Float[Array, " model"]
    validation_loss: Float[Array, " model"]
    num_steps: Int[Array, " model"]
    num_nonfinite: Int[Array, " model"]


class _Fit(eqx.Module):
    """The optimiser's state. `best` is what a stopped model returns."""

    params: Any  # a Denoiser whose frozen leaves are None
    average: Any
    optimiser: optax.OptState
    best: Any
    best_loss: Float[Array, "*model"]
    num_worse: Int[Array, "*model"]
    step: Int[Array, "*model"]
    num_nonfinite: Int[Array, "*model"]
    is_stopped: Bool[Array, "*model"]


class _Rule(eqx.Module):
    """Numbers of the fit; traced, so that levels with other lengths share the compilation."""

    learning_rate: Float[Array, ""]
    warmup_steps: Float[Array, ""]
    num_steps: Float[Array, ""]
    ema_decay: Float[Array, ""]
    patience: Int[Array, ""]
    clip_norm: Float[Array, ""]
    batch_size: int = eqx.field(static=True)
    check_every: int = eqx.field(static=True)


_ADAM = optax.scale_by_adam()


def _learning_rate(rule: _Rule, step: Array) -> Array:
    """Linear warm-up times a cosine down to 1 %."""
    warm = jnp.minimum(1.0, (step.astype(jnp.float32) + 1.0) / jnp.maximum(rule.warmup_steps, 1.0))
    cosine = optax.cosine_decay_schedule(1.0, decay_steps=1, alpha=0.01)
    return rule.learning_rate * warm * cosine(step.astype(jnp.float32) / rule.num_steps)


def _mean_loss(denoiser: Denoiser, keys: Keys, data: Dataset, indices: Int[Array, " batch"]) -> Array:
    loss = lambda key, x, grad: denoising_loss(denoiser, key, x, grad, data.levels, data.blend_variance)  # noqa: E731
    return jnp.mean(jax.vmap(loss)(keys, data.position[indices], data.tempered_grad[indices]))


def _train_step(key: Key, fit: _Fit, frozen: Denoiser, data: Dataset, rule: _Rule) -> tuple[_Fit, Array]:
    """One step of Adam and of the average. A non-finite gradient is counted and skipped, not followed."""
    key_index, key_loss = jax.random.split(jax.random.fold_in(key, fit.step))
    indices = jax.random.randint(key_index, (rule.batch_size,), 0, data.position.shape[0])
    keys = jax.random.split(key_loss, rule.batch_size)

    def loss_of(params):
        return _mean_loss(eqx.combine(params, frozen), keys, data, indices)

    loss, gradient = jax.value_and_grad(loss_of)(fit.params)
    norm = optax.tree.norm(gradient)  # once, for the check and for clipping: it reads every gradient
    is_finite = jnp.isfinite(norm)
    shrink = jnp.minimum(1.0, rule.clip_norm / norm)
    gradient = jax.tree.map(lambda leaf: jnp.where(is_finite, shrink * leaf, 0.0), gradient)
    with jax.numpy_dtype_promotion("standard"):  # Adam's bias correction raises a float to an integer power
        updates, optimiser = _ADAM.update(gradient, fit.optimiser, fit.params)
    rate = jnp.where(is_finite & ~fit.is_stopped, _learning_rate(rule, fit.step), 0.0)
    params = jax.tree.map(lambda leaf, update: leaf - rate * update, fit.params, updates)
    # The average forgets the first, bad weights quickly: the usual (1 + t) / (10 + t) ramp.
    step = fit.step.astype(jnp.float32)
    decay = jnp.minimum(rule.ema_decay, (1.0 + step) / (10.0 + step))
    average = optax.incremental_update(params, fit.average, 1.0 - decay)
    one = jnp.where(fit.is_stopped, 0, 1).astype(jnp.int32)
    fit = eqx.tree_at(
        lambda fit: (fit.params, fit.average, fit.optimiser, fit.step, fit.num_nonfinite),
        fit,
        (params, average, optimiser, fit.step + one, fit.num_nonfinite + one * (~is_finite).astype(jnp.int32)),
    )
    return fit, loss


def _check(key: Key, fit: _Fit, frozen: Denoiser, held_out: Dataset, rule: _Rule) -> tuple[_Fit, Array]:
    """Held-out loss of the averaged weights with the same noise at every check; keep the best, stop after patience.

    A loss that is not finite is never the best, and is counted: a held-out sample is then at fault, or the weights.
    """
    indices = jnp.repeat(jnp.arange(held_out.position.shape[0]), _VALIDATION_DRAWS)
    keys = jax.random.split(key, indices.shape[0])
    loss = _mean_loss(eqx.combine(fit.average, frozen), keys, held_out, indices)
    keeps_last = rule.patience == 0
    is_better = (loss < fit.best_loss) | keeps_last
    takes = is_better & ~fit.is_stopped
    best = jax.tree.map(lambda new, old: jnp.where(takes, new, old), fit.average, fit.best)
    num_worse = jnp.where(is_better, 0, fit.num_worse + 1)
    is_stopped = fit.is_stopped | (~keeps_last & (num_worse >= rule.patience))
    num_nonfinite = fit.num_nonfinite + (~jnp.isfinite(loss) & ~fit.is_stopped).astype(jnp.int32)
    fit = eqx.tree_at(
        lambda fit: (fit.best, fit.best_loss, fit.num_worse, fit.is_stopped, fit.num_nonfinite),
        fit,
        (best, jnp.where(takes, loss, fit.best_loss), num_worse, is_stopped, num_nonfinite),
    )
    return fit, loss


@eqx.filter_jit
def _train_block(keys: Keys, fit: _Fit, frozen: Denoiser, data: Dataset, held_out: Dataset, rule: _Rule):
    """`check_every` steps and one check of every model."""

    def one_model(key, fit, frozen, data, held_out):
        key_train, key_check = jax.random.split(key)
        body = lambda carry, _: _train_step(key_train, carry, frozen, data, rule)  # noqa: E731
        fit, losses = jax.lax.scan(body, fit, length=rule.check_every)
        fit, _ = _check(key_check, fit, frozen, held_out, rule)
        return fit, jnp.mean(losses)

    return jax.vmap(one_model)(keys, fit, frozen, data, held_out)


@eqx.filter_jit
def _split(keys: Keys, data: Dataset, num_held_out: int) -> tuple[Dataset, Dataset]:
    """A random held-out part of every model's samples."""

    def one_model(key: Key, data: Dataset) -> tuple[Dataset, Dataset]:
        order = jax.random.permutation(key, data.position.shape[0])

        def part(indices: Array) -> Dataset:
            return Dataset(data.position[indices], data.tempered_grad[indices], data.levels, data.blend_variance)

        return part(order[num_held_out:]), part(order[:num_held_out])

    return jax.vmap(one_model)(keys, data)


def _trainable(denoiser: Denoiser) -> Denoiser:
    """A mask that is true on the network's arrays: location and sigma_data belong to the buffer."""
    nothing = jax.tree.map(lambda _: False, denoiser)
    return eqx.tree_at(lambda mask: mask.network, nothing, jax.tree.map(eqx.is_inexact_array, denoiser.network))


def fit_denoisers(
    keys: Keys,
    denoisers: Denoiser,
    data: Dataset,
    training: Training,
    *,
    num_steps: int,
    on_check: Callable[[int, float], None] = lambda step, loss: None,
) -> tuple[Denoiser, FitInfo]:
    """Fit stacked denoisers, each to its own samples.

    Args:
        keys: one a model.
        denoisers: stacked along the leading axis `model`; a warm start where they have been fitted before.
        data: stacked likewise.
        num_steps: optimiser steps at the most, rounded up to whole checks.
        on_check: told the step and the mean held-out loss so far.

    Returns:
        The denoisers with their averaged weights, best on the held-out part, and how it went.
    """
    num_held_out = max(1, int(data.position.shape[1] * training.validation_fraction))
    pairs = jax.vmap(jax.random.split)(keys)
    train, held_out = _split(pairs[:, 0], data, num_held_out)
    params, frozen = eqx.partition(denoisers, _trainable(denoisers))
    num_models = keys.shape[0]
    zeros = jnp.zeros((num_models,), jnp.int32)
    fit = _Fit(
        params,
        params,
        jax.vmap(_ADAM.init)(params),
        params,
        jnp.full((num_models,), jnp.inf, jnp.float32),
        zeros,
        zeros,
        zeros,
        jnp.zeros((num_models,), bool),
    )
    rule = _Rule(
        jnp.asarray(training.learning_rate),
        jnp.asarray(float(training.warmup_steps)),
        jnp.asarray(float(num_steps)),
        jnp.asarray(training.ema_decay),
        jnp.asarray(training.patience, jnp.int32),
        jnp.asarray(training.clip_norm),
        training.batch_size,
        training.check_every,
    )
    train_loss = jnp.full((num_models,), jnp.nan, jnp.float32)
    for done in range(0, num_steps, training.check_every):
        is_running = ~fit.is_stopped
        fit, block_loss = _train_block(pairs[:, 1], fit, frozen, train, held_out, rule)
        train_loss = jnp.where(is_running, block_loss, train_loss)
        on_check(min(done + training.check_every, num_steps), float(jnp.mean(fit.best_loss)))
        if bool(jnp.all(fit.is_stopped)):
            break
    return eqx.combine(fit.best, frozen), FitInfo(train_loss, fit.best_loss, fit.step, fit.num_nonfinite)
