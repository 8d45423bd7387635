"""Fitting networks to buffers, several side by side: the leading axis `model` is a vmap.

Consumes stacked networks and, for each, the samples of one level or of many; produces the averaged weights with the
best held-out loss. One compilation serves every level: what differs between levels is an array.
"""

import math
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from tempering.compilation import quick, unbound
from tempering.devices import by_row, mean_and_grad, on_devices, resident
from tempering.diffusion.noise import NoiseLevels
from tempering.diffusion.objective import denoising_loss
from tempering.diffusion.precondition import Denoiser
from tempering.settings import Training
from tempering.types import Array, Bool, Float, Int, Key, Keys

__all__ = [
    "CLIP_NORM",
    "EMA_DECAY",
    "WARMUP_STEPS",
    "Dataset",
    "FitInfo",
    "LevelData",
    "compile_training",
    "fit_networks",
]

WARMUP_STEPS = 100
"""Steps in which the learning rate rises: Adam's moments know nothing at first."""
CLIP_NORM = 1.0
"""Limit on the global norm of a gradient: one bad batch must not throw the weights away."""
EMA_DECAY = 0.999
"""Of the averaged weights that are kept: an average over about a thousand steps."""

_VALIDATION_DRAWS = 4096
"""Held-out samples, with noise, of every check: the same ones, so that checks compare weights, not noise."""

_TOLERANCE = 1.05
"""How much the held-out loss of the last weights may exceed the best."""


class LevelData(eqx.Module):
    """Samples of one level with their tempered gradients and weights, its noise range, blend and preconditioning.

    A sample whose gradient is NaN has none to learn from, and is regressed on by itself.
    """

    position: Float[Array, "*place particle dim"]
    tempered_grad: Float[Array, "*place particle dim"]
    weight: Float[Array, "*place particle"]
    noise: NoiseLevels
    blend_variance: Float[Array, "*place dim"]
    location: Float[Array, "*place dim"]
    sigma_data: Float[Array, "*place dim"]
    c_temperature: Float[Array, "*place"]

    def loss(self, network: Any, key: Key, place: Int[Array, ""], index: Int[Array, ""]) -> Float[Array, ""]:
        """Of one sample. Both indices at once: a place taken first would be copied for every sample of a batch."""
        denoiser = Denoiser(network, self.location[place], self.sigma_data[place], self.c_temperature[place])
        x, gradient = self.position[place, index], self.tempered_grad[place, index]
        noise = jax.tree.map(lambda leaf: leaf[place], self.noise)
        has_gradient = jnp.all(jnp.isfinite(gradient))
        blend = jnp.where(has_gradient, self.blend_variance[place], 0.0)
        return denoising_loss(denoiser, key, x, jnp.where(has_gradient, gradient, 0.0), noise, blend)


class Dataset(eqx.Module):
    """What one network learns from: samples in places of equal size along an axis, a level in one or in several.

    `share` says how often each place is seen in training, `judged` how often in checks; 0 for an empty place.
    """

    levels: LevelData
    share: Float[Array, "*model place"]
    judged: Float[Array, "*model place"]


class _Picks(eqx.Module):
    """Cumulative shares and, place by place, cumulative weights: an index drawn by weight is a search in them."""

    share: Float[Array, "*model place"]
    weight: Float[Array, "*model place particle"]

    def draw(self, key: Key) -> tuple[Int[Array, ""], Int[Array, ""]]:
        """A place by its share and a sample of it by its weight."""
        first, second = jax.random.uniform(key, (2,))
        place = _search(lambda index: self.share[index], self.share.shape[0], first)
        return place, _search(lambda index: self.weight[place, index], self.weight.shape[1], second)


def _search(cumulative: Callable[[Array], Array], size: int, number: Float[Array, ""]) -> Int[Array, ""]:
    """The first index whose cumulative weight exceeds a share `number` < 1 of the total: it has weight of its own."""
    # A number times the total may round up to the total itself, which none exceeds.
    aim = jnp.minimum(number, 1.0 - 2.0**-20) * cumulative(jnp.asarray(size - 1))

    def halve(_, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = bounds
        middle = (low + high) // 2
        is_above = cumulative(middle) > aim
        return jnp.where(is_above, low, middle + 1), jnp.where(is_above, middle, high)

    bounds = (jnp.zeros((), jnp.int32), jnp.asarray(size - 1, jnp.int32))
    _, high = jax.lax.fori_loop(0, max(1, (size - 1).bit_length()), halve, bounds)
    return high


class FitInfo(eqx.Module):
    """How the fit went, by model."""

    train_loss: Float[Array, " model"]
    validation_loss: Float[Array, " model"]
    num_steps: Int[Array, " model"]
    num_nonfinite: Int[Array, " model"]


class _Fit(eqx.Module):
    """The optimiser's state. `best` is what a stopped model returns."""

    params: Any  # a network whose other leaves are None
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


class _Batch(eqx.Module):
    """Which samples, and the keys of their noise."""

    place: Int[Array, "*step sample"]
    index: Int[Array, "*step sample"]
    keys: Keys


def _batch(key: Key, picks: _Picks, size: int) -> _Batch:
    """`size` samples by share and weight."""
    pairs = jax.vmap(jax.random.split)(jax.random.split(key, size))
    return _Batch(*jax.vmap(picks.draw)(pairs[:, 0]), pairs[:, 1])


def _mean_loss(network: Any, data: Dataset, batch: _Batch) -> Array:
    loss = lambda key, place, index: data.levels.loss(network, key, place, index)  # noqa: E731
    return jnp.mean(by_row(loss)(batch.keys, batch.place, batch.index))


def _train_step(fit: _Fit, batch: _Batch, frozen: Any, data: Dataset, rule: _Rule) -> tuple[_Fit, Array]:
    """One step of Adam and of the average. A non-finite gradient is counted and skipped, not followed."""

    def loss_of(params: Any, key: Key, place: Array, index: Array) -> Array:
        return data.levels.loss(eqx.combine(params, frozen), key, place, index)

    loss, gradient = mean_and_grad(loss_of, fit.params, batch.keys, batch.place, batch.index)
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


def _check(key: Key, fit: _Fit, frozen: Any, data: Dataset, picks: _Picks, rule: _Rule) -> tuple[_Fit, Array]:
    """Held-out loss of the averaged weights with the same noise at every check; keep the best, stop after patience.

    A loss that is not finite is never the best, and is counted: a held-out sample is then at fault, or the weights.
    """
    loss = _mean_loss(eqx.combine(fit.average, frozen), data, _batch(key, picks, _VALIDATION_DRAWS))
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


@on_devices
def _train_block(keys: Keys, fit: _Fit, frozen: Any, data: Dataset, parts: tuple[_Picks, _Picks], rule: _Rule):
    """`check_every` steps and one check of every model."""

    def one_model(key, fit, frozen, data, parts):
        key_train, key_check = jax.random.split(key)
        train, held_out = parts
        # All the block's samples are picked at once: a search per step would be a score of tiny kernels each.
        keys = jax.vmap(lambda step: jax.random.fold_in(key_train, step))(fit.step + jnp.arange(rule.check_every))
        batches = jax.vmap(lambda key: _batch(key, train, rule.batch_size))(keys)
        body = lambda carry, batch: _train_step(carry, batch, frozen, data, rule)  # noqa: E731
        fit, losses = jax.lax.scan(body, fit, batches)
        fit, held_out_loss = _check(key_check, fit, frozen, data, held_out, rule)
        return fit, jnp.mean(losses), held_out_loss

    return jax.vmap(one_model)(keys, fit, frozen, data, parts)


@quick
def _parts(data: Dataset, period: int) -> tuple[_Picks, _Picks]:
    """The training and the held-out part: every `period`-th sample of a place is held out, at every fit the same.

    Buffers are in random order. A network that is fitted again after the next level has then never seen them.
    """
    index = jnp.arange(data.levels.weight.shape[-1])
    is_held_out = jnp.broadcast_to(index % period == 0, data.levels.weight.shape)

    def picks(kept: Array, share: Array) -> _Picks:
        own = jnp.where(kept, data.levels.weight, 0.0)
        # A parallel sum rounds every prefix on its own: a sample without weight must not own an ulp.
        weight = jax.lax.cummax(jnp.where(own > 0, jnp.cumsum(own, axis=-1), 0.0), axis=own.ndim - 1)
        return _Picks(jnp.cumsum(jnp.where(weight[..., -1] > 0, share, 0.0), axis=-1), weight)

    return picks(~is_held_out, data.share), picks(is_held_out, data.judged)


def _kept(fit: _Fit, last_loss: np.ndarray | Array) -> Any:
    """The last weights of a schedule that was run to its end, unless their held-out loss is clearly above the best.

    The loss hardly sees the lowest noise levels, where the schedule's end sharpens what samples look like: on MoG-40
    weights of the first check were the best by less than a hundredth, with an energy TVD of 0.13 in place of 0.07.
    """
    is_last = ~np.asarray(fit.is_stopped) & (
        np.asarray(last_loss) <= np.float32(_TOLERANCE) * np.asarray(fit.best_loss)
    )

    def choose(last: Any, best: Any) -> np.ndarray:
        return np.where(is_last.reshape((-1,) + (1,) * (last.ndim - 1)), last, best)

    return jax.tree.map(choose, fit.average, fit.best)


@quick
def _begin(params: Any, num_models: int) -> _Fit:
    zeros = jnp.zeros((num_models,), jnp.int32)
    worst = jnp.full((num_models,), jnp.inf, jnp.float32)
    is_stopped = jnp.zeros((num_models,), bool)
    return _Fit(params, params, jax.vmap(_ADAM.init)(params), params, worst, zeros, zeros, zeros, is_stopped)


def _is_trained(networks: Any) -> Any:
    """Which leaves training moves: all numbers but those of a mixture, which is known."""
    is_trained = jax.tree.map(eqx.is_inexact_array, networks)
    if not hasattr(networks, "mixture"):
        return is_trained
    return eqx.tree_at(lambda own: own.mixture, is_trained, jax.tree.map(lambda _: False, networks.mixture))


def _single(number: float | int) -> Array:
    return jax.device_put(np.float32(number))


def _prepared(
    keys: Keys, networks: Any, data: Dataset, training: Training, num_steps: int
) -> tuple[_Fit, Any, Dataset, tuple[_Picks, _Picks], _Rule]:
    """What a block of training starts from."""
    parts = _parts(data, max(2, round(1 / training.validation_fraction)))
    params, frozen = eqx.partition(networks, _is_trained(networks))
    rule = _Rule(
        _single(training.learning_rate),
        _single(WARMUP_STEPS),
        _single(num_steps),
        _single(EMA_DECAY),
        jax.device_put(np.int32(training.patience)),
        _single(CLIP_NORM),
        training.batch_size,
        training.check_every,
    )
    return *resident((_begin(params, keys.shape[0]), frozen, data, parts)), rule


def compile_training(keys: Keys, networks: Any, data: Dataset, training: Training) -> None:
    """Compile what `fit_networks` runs for arguments of these shapes."""
    fit, frozen, data, parts, rule = _prepared(keys, networks, data, training, 1)
    _train_block.lower(keys, fit, frozen, data, parts, rule).compile()


def fit_networks(
    keys: Keys,
    networks: Any,
    data: Dataset,
    training: Training,
    *,
    num_steps: int,
    on_check: Callable[[int, float], None] = lambda step, loss: None,
    seconds_left: Callable[[], float] = lambda: math.inf,
) -> tuple[Any, FitInfo]:
    """Fit stacked networks, each to its own samples.

    Args:
        keys: one per model.
        networks: stacked along the leading axis `model`; a warm start where they have been fitted before.
        data: stacked likewise.
        num_steps: optimiser steps at the most, rounded up to whole checks.
        on_check: called with the step and the mean held-out loss so far.
        seconds_left: for training; the schedule is shortened to end within them, after two blocks at the soonest.

    Returns:
        The networks with their averaged weights, the last or the best on the held-out part, and how it went.
    """
    fit, frozen, data, parts, rule = _prepared(keys, networks, data, training, num_steps)
    train_loss = last_loss = np.full((keys.shape[0],), np.nan, np.float32)
    done = 0
    while done < num_steps:
        began, is_running = time.monotonic(), ~np.asarray(fit.is_stopped)
        fit, block_loss, last_loss = _train_block(keys, fit, frozen, data, parts, rule)
        train_loss = np.where(is_running, np.asarray(block_loss), train_loss)
        done += training.check_every
        on_check(min(done, num_steps), float(np.mean(np.asarray(fit.best_loss))))
        if np.all(np.asarray(fit.is_stopped)):
            break
        if done > training.check_every:  # the first block may have been compiled on the way
            num_more = max(0.0, seconds_left()) // (time.monotonic() - began)
            num_steps = int(min(num_steps, done + training.check_every * num_more))
            rule = eqx.tree_at(lambda rule: rule.num_steps, rule, _single(num_steps))
    # By way of the host: arrays that are bound to a device would draw all that meets them there, small programs too.
    fit, last_loss = jax.device_get((fit, last_loss))
    info = FitInfo(*jax.device_put((train_loss, fit.best_loss, fit.step, fit.num_nonfinite)))  # pyright: ignore
    return unbound(eqx.combine(_kept(fit, last_loss), frozen)), info
