"""Algorithm 1, line 1, where modes are known: the first levels are exact draws of the reference, weighted."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering.adapters import reporting
from tempering.atlas.mixture import StudentMixture
from tempering.buffer import ORIGINS, Buffer, Levels
from tempering.compilation import quick
from tempering.diffusion.calibrate import largest_sigma
from tempering.kernels import ChainState
from tempering.methods.run import Run
from tempering.parallel_tempering import betas_of
from tempering.runs.records import LevelRecord, finite_or_none
from tempering.targets.base import Target, evaluate_many, evaluate_reference
from tempering.targets.cost import has_gradient, points_per_gradient, spend
from tempering.types import Array, Float, Key
from tempering.weights.truncate import truncated
from tempering.weights.weigh import Weighted

__all__ = ["MODES", "explore_modes"]

MODES = "modes"
"""The proposal of a level that is drawn from the modes, as its record names it."""


class _Draws(NamedTuple):
    """Points in random order with all values, and log p - log r; -inf where the density is of no use."""

    states: ChainState
    log_ratio: Float[Array, " point"]


def explore_modes(run: Run, temperatures: tuple[float, ...], keep: int) -> Levels:
    """Draw from the reference of `run.start.way`, weigh, and make a buffer of every level from the same draws."""
    way, found, settings, ledger = run.start.way, run.start.found, run.settings, run.journal.ledger
    assert way is not None and found is not None
    key_draw, key_order = jax.random.split(run.key_of(1, "explore"))
    run.tell("drawing from the modes", 0, 0, way.num_draws)
    spend(ledger, "importance_weights", run.target, way.num_draws)
    with reporting(run.target):
        new = _sample(key_draw, found.reference, way.num_draws)
        value, gradient = evaluate_many(run.target, new)
        draws = _together(key_order, run.target, way.reference, found.drawn, (new, value, gradient))
    run.tell("drawing from the modes", 0, way.num_draws, way.num_draws)
    num_nonfinite = int(np.sum(~np.isfinite(np.asarray(value)) & ~np.isneginf(np.asarray(value))))
    buffers = []
    for level, (temperature, beta) in enumerate(zip(temperatures, np.asarray(betas_of(temperatures)), strict=True)):
        weighted = Weighted(draws.states, beta * draws.log_ratio, num_nonfinite if level == 0 else 0)
        weighted.require_weight()
        record = LevelRecord(level, temperature, proposal=MODES, num_nonfinite=weighted.num_nonfinite)
        record.ess_fraction, record.pareto_k = weighted.ess_fraction, finite_or_none(weighted.pareto_k)
        record.log_z, record.log_z_error = (finite_or_none(number) for number in weighted.log_z)
        record.num_draws = len(draws.log_ratio)
        record.evaluations = (
            {"importance_weights": way.num_draws * points_per_gradient(run.target)} if level == 0 else {}
        )
        weighted = truncated(weighted, settings.resampling)
        record.truncated_ess_fraction = weighted.ess_fraction
        run.journal.levels[level] = record
        buffers.append(_buffer(weighted))
    kept = tuple(buffers[-keep:])
    sigma_max = largest_sigma(settings.noise, kept[0])
    return Levels(temperatures[-keep:], kept, jnp.ones((2,)), sigma_max, run.networks, has_gradient(run.target))


@quick
def _sample(key: Key, reference: StudentMixture, num: int) -> Float[Array, "num dim"]:
    return reference.sample(key, num)


@eqx.filter_jit
def _together(key: Key, target: Target, reference: StudentMixture, before: tuple, new: tuple) -> _Draws:
    """All draws in random order, so that held-out ones are of all kinds."""
    position, value, gradient = (jnp.concatenate(pair) for pair in zip(before, new, strict=True))
    order = jax.random.permutation(key, position.shape[0])
    position, value, gradient = position[order], value[order], gradient[order]
    log_q = jax.lax.map(reference.log_density, position, batch_size=4096)
    own = None
    if target.reference is not None:
        own = jax.lax.map(lambda point: evaluate_reference(target, point), position, batch_size=4096)
    is_usable = jnp.isfinite(value) & jnp.all(jnp.isfinite(gradient), axis=1) & jnp.isfinite(log_q)
    # What is of no use has no weight; its numbers must not poison sums that it takes part in with weight zero.
    value, gradient = jnp.where(is_usable, value, -1e30), jnp.where(is_usable[:, None], gradient, 0.0)
    log_ratio = jnp.where(is_usable, value - log_q, -jnp.inf)
    return _Draws(ChainState(position, value, gradient, own), log_ratio)


@quick
def _buffer(weighted: Weighted) -> Buffer:
    states = weighted.states
    origin = jnp.full(states.log_density.shape, ORIGINS.index("reference"), jnp.int32)
    own = (states.position, states.log_density, states.log_density_grad)
    return Buffer(*own, origin, weighted.log_weights, states.reference)
