"""Algorithm 1, line 1, where modes are known: the first levels are exact draws of the reference, weighted."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering.adapters import reporting
from tempering.atlas.adapt import first_guess, log_weights_of
from tempering.atlas.mixture import StudentMixture, drawn_of, joined, log_densities
from tempering.atlas.optima import Optima
from tempering.atlas.patch import cost_of_patches, has_much_heavy, with_patches
from tempering.buffer import ORIGINS, Buffer, Levels
from tempering.compilation import quick
from tempering.devices.keys import folded, generator, split
from tempering.diffusion.calibrate import largest_sigma
from tempering.kernels import ChainState
from tempering.methods.run import Run
from tempering.parallel_tempering import betas_of
from tempering.runs.records import LevelRecord, finite_or_none
from tempering.targets.base import Target, evaluate_reference
from tempering.targets.cost import has_gradient, points_per_gradient, spend
from tempering.targets.path import ReferenceValues
from tempering.targets.rows import HARDLY_ANY, evaluate_rows, whole_parts
from tempering.types import Array, Float, Key
from tempering.weights.pareto import RELIABLE_K, pareto_k
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
    key_draw, key_order = split(run.key_of(1, "explore"))
    before = ledger.total
    run.tell("drawing from the modes", 0, 0, way.num_draws)
    with reporting(run.target):
        reference, states = _drawn(key_draw, run, is_mended=temperatures == (1.0,))
        draws = _together(key_order, run.target, reference, states)
    run.tell("drawing from the modes", 0, way.num_draws, way.num_draws)
    num_nonfinite = _num_nonfinite(*states[1:])
    buffers = []
    for level, (temperature, beta) in enumerate(zip(temperatures, np.asarray(betas_of(temperatures)), strict=True)):
        own = jax.device_put(beta * np.asarray(draws.log_ratio))
        weighted = Weighted(draws.states, own, num_nonfinite if level == 0 else 0)
        weighted.require_weight()
        record = LevelRecord(level, temperature, proposal=MODES, num_nonfinite=weighted.num_nonfinite)
        record.ess_fraction, record.pareto_k = weighted.ess_fraction, finite_or_none(weighted.pareto_k)
        record.log_z, record.log_z_error = (finite_or_none(number) for number in weighted.log_z)
        record.num_draws, record.unseen = len(draws.log_ratio), finite_or_none(weighted.unseen)
        record.lost_mass = _lost_mass(reference, *states) if level == 0 else None
        record.evaluations = {"importance_weights": ledger.total - before} if level == 0 else {}
        weighted = truncated(weighted, settings.resampling)
        record.truncated_ess_fraction = weighted.ess_fraction
        run.journal.levels[level] = record
        buffers.append(_buffer(weighted))
    kept = tuple(buffers[-keep:])
    sigma_max = largest_sigma(settings.noise, kept[0])
    no_steps = jax.device_put(np.ones((2,), np.float32))  # sizes of steps of chains: there are none
    return Levels(temperatures[-keep:], kept, no_steps, sigma_max, run.networks, has_gradient(run.target))


def _num_nonfinite(value: np.ndarray, gradient: np.ndarray) -> int:
    """Draws that are NaN or +inf, or have no finite gradient, and so no weight. Those of the atlas are among them."""
    is_usable = np.isfinite(value) & np.all(np.isfinite(gradient), axis=1)
    return int(np.sum(~is_usable & ~np.isneginf(value)))


_HEAVY = 0.99


def _lost_mass(reference: StudentMixture, position: np.ndarray, value: np.ndarray, gradient: np.ndarray) -> float:
    """The share of the mass at draws without a weight, at the most.

    Where the gradient alone is missing the value tells it. Where the value is, each draw counts as much as the heaviest
    hundredth of the others: a few of ten thousand, at the edge of what single precision can do, hold next to nothing.
    """
    log_q = log_densities(reference, position)
    log_weights = log_weights_of(value, gradient, log_q)
    is_lost = (log_weights == -np.inf) & ~np.isneginf(value) & np.isfinite(log_q)
    if not np.any(is_lost):
        return 0.0
    log_heavy = np.quantile(log_weights, _HEAVY, method="lower")
    own = np.where(np.isfinite(value), value.astype(np.float64) - log_q, log_heavy)
    together = np.where(is_lost, own, log_weights)
    top = np.max(together)
    if not np.isfinite(top):
        return 1.0
    mass = np.exp(together - top)
    return float(np.sum(mass[is_lost]) / np.sum(mass))


_PARTS = (0.5, 0.25, 0.25)
"""Of the draws: after each but the last it is seen whether some are heavy, and the next has more components there."""


def _drawn(key: Key, run: Run, *, is_mended: bool) -> tuple[StudentMixture, tuple[np.ndarray, ...]]:
    """Draws with values and gradients, those of the atlas first, and what all of them together are draws of.

    Args:
        is_mended: whether the reference may grow on the way; not where a path of levels begins at it.
    """
    way, found, ledger = run.start.way, run.start.found, run.journal.ledger
    assert way is not None and found is not None
    mixtures, nums, states = [found.before], [len(found.drawn[1])], tuple(jax.device_get(found.drawn))
    latest, left = found.reference, way.num_draws
    parts = _PARTS if is_mended else (1.0,)
    for part, share in enumerate(parts):
        is_last = part == len(parts) - 1
        num = whole_parts(left, HARDLY_ANY) if is_last else min(left, whole_parts(int(share * way.num_draws)))
        if num == 0:
            continue
        spend(ledger, "importance_weights", run.target, num)
        new = drawn_of(folded(key, part), latest, num)
        states = tuple(map(np.concatenate, zip(states, (new, *evaluate_rows(run.target, new)), strict=True)))
        mixtures, nums, left = [*mixtures, latest], [*nums, num], left - num
        if not is_last:
            before = ledger.total
            latest = _mended(run, joined(mixtures, nums), states, latest, left)
            left -= (ledger.total - before) // points_per_gradient(run.target)
    return joined(mixtures, nums), states


def _mended(run: Run, reference: StudentMixture, states: tuple, latest: StudentMixture, left: int) -> StudentMixture:
    """What to draw next: the latest mixture, and components where all draws so far are heavy."""
    position, value, gradient = states
    log_weights = log_weights_of(value, gradient, log_densities(reference, position))
    top = np.max(log_weights)
    if not np.isfinite(top) or left <= 2 * cost_of_patches(run.target):
        return latest
    log_z = float(np.log(np.mean(np.exp(log_weights - top))) + top)
    if pareto_k(log_weights) <= RELIABLE_K and not has_much_heavy(log_weights - log_z):
        return latest
    own = (position, log_weights - log_z, log_z, run.journal.ledger)
    patches = with_patches(run.target, Optima(run.target.dim), *own, stage="importance_weights")
    return joined([latest, first_guess(patches)], [2, 1]) if len(patches) else latest


def _together(key: Key, target: Target, reference: StudentMixture, states: tuple[np.ndarray, ...]) -> _Draws:
    """All draws in random order, so that held-out ones are of all kinds."""
    order = generator(key).permutation(len(states[0]))
    position, value, gradient = (array[order] for array in states)
    log_ratio = log_weights_of(value, gradient, log_densities(reference, position))
    is_usable = log_ratio > -np.inf
    # What is of no use has no weight; its numbers must not poison sums that it takes part in with weight zero.
    value = np.where(is_usable, value, -1e30).astype(np.float32)
    gradient = np.where(is_usable[:, None], gradient, 0.0).astype(np.float32)
    position, value, gradient, ratio = jax.device_put((position, value, gradient, log_ratio.astype(np.float32)))
    own = None if target.reference is None else _of_reference(target, position)
    return _Draws(ChainState(position, value, gradient, own), ratio)


@eqx.filter_jit
def _of_reference(target: Target, position: Float[Array, "point dim"]) -> ReferenceValues | None:
    return jax.lax.map(lambda point: evaluate_reference(target, point), position, batch_size=4096)


@quick
def _buffer(weighted: Weighted) -> Buffer:
    states = weighted.states
    origin = jnp.full(states.log_density.shape, ORIGINS.index("reference"), jnp.int32)
    own = (states.position, states.log_density, states.log_density_grad)
    return Buffer(*own, origin, weighted.log_weights, states.reference)
