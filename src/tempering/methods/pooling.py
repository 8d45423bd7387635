"""Weighted samples of several origins made into one set: draws of a model, draws at new modes, and a level's samples.

Draws of known densities are weighed by the mixture that all of them together are draws of (the balance heuristic), so
that log Z and all weights are right whatever the model lacks. The samples of the last level come without a density:
they stand for the part of the target that the model has, and share it by effective sizes.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tempering.atlas.mixture import StudentMixture, log_densities
from tempering.buffer import Buffer, concatenate
from tempering.types import Key

__all__ = ["Pool", "balanced", "joined_buffer", "together"]


class Pool(NamedTuple):
    """Draws with their weights as draws of all together.

    Args:
        buffer: the draws, raw log weights log p - log (mixture of all).
        of_modes: how much of each belongs to the new modes, and not to the model: from 0 to 1.
    """

    buffer: Buffer
    of_modes: np.ndarray


def balanced(draws: Buffer, log_model: np.ndarray, num_of_modes: int, modes: StudentMixture | None) -> Pool:
    """All draws, of which `num_of_modes` were made at the modes and the rest by the model.

    Args:
        draws: of both; -inf where one is of no use. Their own weights are replaced.
        log_model: log density of the model at each.
    """
    log_all, of_modes = _log_mixture(draws, log_model, num_of_modes, draws.size, modes)
    is_used = (np.asarray(draws.log_weight) > -np.inf) & np.isfinite(log_all)
    log_weight = np.where(is_used, np.asarray(draws.log_density, np.float64) - log_all, -np.inf)
    return Pool(_with_weights(draws, log_weight), np.where(is_used, of_modes, 0.0))


def _log_mixture(
    draws: Buffer, log_model: np.ndarray, num_of_modes: int, num: int, modes: StudentMixture | None
) -> tuple[np.ndarray, np.ndarray]:
    """Log density of what all draws together are of, and the share of the modes in it, at every draw."""
    log_model = np.where(np.isfinite(log_model), log_model, -np.inf).astype(np.float64)
    if modes is None:
        return log_model, np.zeros(len(log_model))
    log_modes = np.asarray(log_densities(modes, np.asarray(draws.position)), np.float64) + np.log(num_of_modes / num)
    log_all = np.logaddexp(log_model + np.log(max(num - num_of_modes, 1e-9) / num), log_modes)
    return log_all, np.exp(log_modes - log_all)


def share_of_modes(
    draws: Buffer, log_model: np.ndarray, num_of_modes: int, num: int, modes: StudentMixture | None
) -> np.ndarray:
    """How much of other samples belongs to the modes, as in `Pool`."""
    return _log_mixture(draws, log_model, num_of_modes, num, modes)[1]


def together(key: Key, pool: Pool, level: Buffer | None, of_modes: np.ndarray) -> Buffer:
    """One buffer of both in random order, with weights.

    Args:
        pool: its weights may be truncated.
        level: samples of the last level, or None.
        of_modes: how much of each of these belongs to the new modes, which only the pool knows the mass of.
    """
    weight = np.asarray(pool.buffer.weight, np.float64)
    if level is not None:
        of_model, theirs = weight * (1.0 - pool.of_modes), np.asarray(level.weight, np.float64) * (1.0 - of_modes)
        mass, size, their_size = np.sum(of_model), _size(of_model), _size(theirs)
        if their_size > 0.0 and mass > 0.0:
            own = size / (size + their_size)
            weight = weight * pool.of_modes + own * of_model
            weight = np.concatenate([weight, (1.0 - own) * mass * theirs / np.sum(theirs)])
            both = concatenate(pool.buffer, level)
            return _shuffled(key, _with_weights(both, _log(weight)))
    return _shuffled(key, _with_weights(pool.buffer, _log(weight)))


def _size(weight: np.ndarray) -> float:
    square = np.sum(weight**2)
    return float(np.sum(weight) ** 2 / square) if square > 0 else 0.0


def _log(weight: np.ndarray) -> np.ndarray:
    return np.log(weight, out=np.full(weight.shape, -np.inf), where=weight > 0)


def _with_weights(buffer: Buffer, log_weight: np.ndarray) -> Buffer:
    own = (buffer.position, buffer.log_density, buffer.log_density_grad, buffer.origin)
    return Buffer(*own, jnp.asarray(log_weight, jnp.float32))


def _shuffled(key: Key, buffer: Buffer) -> Buffer:
    """In random order, so that held-out samples are of all kinds; a sample without weight is a copy of one with it."""
    log_weight = np.asarray(buffer.log_weight)
    rows = np.where(log_weight > -np.inf, np.arange(len(log_weight)), np.argmax(log_weight))
    order = jax.random.permutation(key, buffer.size)
    clean = _with_weights(buffer.take(jnp.asarray(rows)), log_weight)
    return clean.take(order)


def joined_buffer(buffers: list[Buffer]) -> Buffer:
    """All samples of all."""
    whole = buffers[0]
    for buffer in buffers[1:]:
        whole = concatenate(whole, buffer)
    return whole
