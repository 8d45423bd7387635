"""From buffers to trained networks and models: glue between `buffer` and `diffusion` that every method shares."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering.buffer import Buffer, reweighted
from tempering.diffusion import Dataset, DiffusionModel, fit_networks
from tempering.diffusion.calibrate import dataset_of, denoiser_of, noise_levels, prior_of, stack, unstack
from tempering.diffusion.networks import make_network
from tempering.diffusion.quasi import begin_loading
from tempering.diffusion.solve import is_exact
from tempering.methods.automatic import LARGEST_EXACT
from tempering.methods.preparation import Teller
from tempering.runs.checkpoint import Progress
from tempering.runs.records import LevelRecord, finite_or_none, level_warnings
from tempering.sampler import Sampler
from tempering.sampler.diagnosis import coverage
from tempering.settings import MethodSettings, Network, PTSDSettings, Sampling
from tempering.targets.cost import has_gradient
from tempering.types import Array, Float, Int, Key, Keys
from tempering.weights.log_z import pooled_log_z, recalibrated_log_z
from tempering.weights.weigh import Weighted, weigh

__all__ = [
    "Networks",
    "checked_log_z",
    "data_of_all_levels",
    "final_sampler",
    "learn",
    "new_networks",
    "num_places",
    "place_size",
]

_MEMORY = 0.5
"""With one network for all levels, how often a level's samples are seen for once of the next colder's."""
_LARGEST_CHECKED, _NUM_CHECKED = 128, 256
"""Dimensions up to which estimated determinants are checked against exact ones, and on how many draws. In the 162 of
LJ-55 a step of all draws would take 95 GB, and as long as 440 without determinants."""


class Networks(eqx.Module):
    """What a level's training leaves behind: one network for all levels, or those of the last two."""

    all: tuple


def new_networks(key: Key, dim: int, network: Network, num: int, *, is_blank: bool = False) -> Networks:
    """`num` untrained networks with the same initial weights: guidance takes the difference of what they learn.

    With `is_blank` their structure only, for reading them back.
    """

    def build() -> Networks:
        return Networks((make_network(key, dim, network),) * num)

    # One program, not one for each layer's numbers.
    return eqx.filter_eval_shape(build) if is_blank else eqx.filter_jit(build)()


def place_size(settings: PTSDSettings) -> int:
    """Samples of a place in a dataset: the usual buffer's."""
    return max(settings.buffer_size, settings.level_size or 0)


def num_places(settings: PTSDSettings, most_levels: int) -> int:
    """Places that the buffers of a run of up to `most_levels` levels take, whenever it ends."""
    size, between = place_size(settings), settings.level_size or settings.buffer_size
    planned, planned_last = settings.ladder.num_levels or most_levels, settings.last_buffer_size or settings.buffer_size
    planned_last *= settings.refinement_at(1.0).num_states

    def needed(num_levels: int) -> int:
        # A ladder that ends sooner than planned leaves the evaluations of its missing levels to the last one.
        last = planned_last + max(0, planned - num_levels) * between
        return num_levels - 1 + -(-last // size)

    return max(needed(num_levels) for num_levels in range(2, most_levels + 1))


def data_of_all_levels(
    buffers: tuple[Buffer, ...],
    betas: Float[Array, " level"],
    sigma_max: Float[Array, ""],
    settings: PTSDSettings,
    num_places: int,
    has_gradients: bool = True,
) -> Dataset:
    """The data of one network for all levels, hottest first: each is seen half as often as the next.

    Checks judge the levels with the largest share alone, those the fit is for: small buffers of levels long past are
    overfitted while these still improve.

    Args:
        betas: of the buffers, and perhaps of the next level, which is anticipated where `guidance` asks for it.
        num_places: buffers of the usual size to leave room for, so that neither a level more nor the large last one is
            a new program.
        has_gradients: whether the buffers hold gradients of the target.
    """
    num = len(buffers)
    shares = [_MEMORY ** (num - 1 - level) for level in range(num)]
    if settings.guidance.is_anticipating and betas.shape[0] > num:
        last, next_ = (jnp.asarray(beta) for beta in np.asarray(betas)[num - 1 : num + 1])
        buffers = (*buffers, reweighted(buffers[-1], last, next_))
        shares.append(1.0)
    return dataset_of(
        settings.noise,
        buffers,
        betas[: len(buffers)],
        sigma_max,
        use_gradients=settings.training.use_gradients,
        has_gradients=has_gradients,
        shares=tuple(shares),
        size=place_size(settings),
        num_places=num_places,
    )


def learn(
    key: Key,
    networks: tuple,
    data: tuple[Dataset, ...],
    levels: tuple[int, ...],
    num_steps: int,
    settings: MethodSettings,
    progress: Progress,
    tell: Teller,
) -> Networks:
    """Fit every network to its data, side by side; write how it went into the records of `levels`, one a network."""
    keys = _keys_of(key, jax.device_put(np.asarray(levels, np.int32)))
    temperature = progress.levels[levels[-1]].temperature

    def on_check(step: int, loss: float) -> None:
        if settings.sampling.is_quasi_random:
            begin_loading()  # the device trains by itself
        tell("training", levels[-1], step, num_steps, temperature=temperature, loss=loss)

    fitted, info = fit_networks(
        keys, stack(*networks), stack(*data), settings.training, num_steps=num_steps, on_check=on_check
    )
    for index, level in enumerate(levels):
        record = progress.levels[level]
        record.train_loss = finite_or_none(info.train_loss[index])
        record.validation_loss = finite_or_none(info.validation_loss[index])
        record.training_steps = int(info.num_steps[index])
        record.num_nonfinite += int(info.num_nonfinite[index])
    return Networks(unstack(fitted, len(levels)))


@jax.jit
def _keys_of(key: Key, levels: Int[Array, " model"]) -> Keys:
    """A key for each of the levels."""
    return jax.vmap(lambda level: jax.random.fold_in(key, level))(levels)


def final_sampler(
    key: Key,
    target,
    method: str,
    network: eqx.Module,
    buffer: Buffer,
    sigma_max: Float[Array, ""],
    settings: MethodSettings,
    progress: Progress,
    tell: Teller,
    warnings: tuple[str, ...],
    checks: dict[str, Any],
    evidence: tuple[tuple[Buffer, Float[Array, ""]], ...],
) -> Sampler:
    """The sampler of the last level, weighed on `settings.num_final_draws` draws where that is not 0.

    log Z is then that of the final draws, pooled with the last level's guided draws where determinants there were exact
    or checked (`checked_log_z`) and the weights have a finite variance (Pareto k at most 0.5), and so a trustworthy
    error. The final draws are new, so that given the model their estimate does not depend on the level's.

    Args:
        checks: what the start of the run has to say to a verdict.
        evidence: buffers that know the density without this model, with their betas; they show what it does not cover.
    """
    beta = jnp.ones(())
    prior = prior_of(settings.noise, buffer, sigma_max)
    denoiser, sampling = denoiser_of(network, settings.noise, buffer, beta), settings.sampling
    if sampling.divergence == "automatic" and buffer.position.shape[1] <= LARGEST_EXACT:
        sampling = dataclasses.replace(sampling, divergence="exact")
    noise = noise_levels(settings.noise, buffer, beta, sigma_max, has_gradients=has_gradient(target))
    model = DiffusionModel(denoiser, prior, noise)
    levels = progress.ordered()
    sampler = Sampler(
        model=model,
        target=target,
        method=method,
        network=settings.network,
        sampling=sampling,
        levels=levels,
        ledger=progress.ledger,
        log_z=levels[-1].log_z,
        log_z_error=levels[-1].log_z_error,
        warnings=warnings,
        checks={**checks, "num_starts": settings.initial.num_chains * _num_started(levels)},
        chart=getattr(target, "chart", None),
    )
    num = settings.num_final_draws
    if num == 0:
        return dataclasses.replace(sampler, warnings=(*warnings, *level_warnings(levels, None)))
    last = len(levels) - 1
    draws, log_q = model.draw(
        key, num, sampling, with_density=True, on_chunk=lambda done: tell("final weights", last, done, num)
    )
    weighted = weigh(target, draws, log_q, beta, ledger=progress.ledger, stage="final_weights")
    own = checked_log_z(key, model, sampling, weighted)
    estimates: list[tuple[float | None, float | None]] = [own]
    guided, k = levels[-1], levels[-1].pareto_k
    is_known = is_exact(settings.sampling, draws.shape[1]) or draws.shape[1] <= _LARGEST_CHECKED
    if k is not None and k <= 0.5 and is_known:
        estimates.append((guided.log_z, guided.log_z_error))
    log_z, error = (finite_or_none(value) for value in pooled_log_z(estimates))
    final: dict[str, Any] = {"num_final_draws": num}
    final["log_z_final"], final["log_z_final_error"] = (finite_or_none(value) for value in own)
    log_prob = lambda key, x: model.log_prob(key, x, sampling)  # noqa: E731
    final |= coverage(jax.random.fold_in(key, num), log_prob, evidence, weighted.log_weights, beta)
    k = finite_or_none(weighted.pareto_k)
    return dataclasses.replace(
        sampler,
        log_z=log_z,
        log_z_error=error,
        ess_fraction=weighted.ess_fraction,
        pareto_k=k,
        checks={**sampler.checks, **final},
        warnings=(*warnings, *level_warnings(levels, weighted.ess_fraction, k), *_unchecked(sampling, draws.shape[1])),
    )


def _num_started(levels: list[LevelRecord]) -> int:
    """Levels whose chains started from points of their own."""
    return sum(record.ess_fraction is None for record in levels)


def _unchecked(sampling: Sampling, dim: int) -> tuple[str, ...]:
    """What to say of a log Z whose determinants nobody checked."""
    if is_exact(sampling, dim) or dim <= _LARGEST_CHECKED:
        return ()
    return (
        f"in {dim} dimensions log Z rests on determinants estimated from random probes, unchecked: it may be off by "
        "more than its standard error; sampling.divergence=exact has none of that, and is slow",
    )


def checked_log_z(
    key: Key, model: DiffusionModel, sampling: Sampling, weighted: Weighted, *, is_quasi_random: bool = False
) -> tuple[float, float]:
    """log Z of weighted draws at T = 1; determinants that probes estimated are checked on some of the same draws.

    Args:
        key: the one that the draws were made with; `is_quasi_random` likewise.
    """
    num, dim = weighted.states.position.shape
    if is_exact(sampling, dim) or dim > _LARGEST_CHECKED:
        return weighted.log_z
    first = min(num, _NUM_CHECKED)
    exactly = dataclasses.replace(sampling, divergence="exact", chunk_size=min(sampling.chunk_size, first))
    _, log_q = model.draw(key, num, exactly, with_density=True, is_quasi_random=is_quasi_random, rows=jnp.arange(first))
    # beta is 1 here, so that log w = log density - log q.
    log_weights = weighted.log_weights[:first]
    exact = weighted.states.log_density[:first] - log_q
    exact = jnp.where(jnp.isneginf(log_weights), -jnp.inf, exact)
    return recalibrated_log_z(weighted.log_z, log_weights, exact)
