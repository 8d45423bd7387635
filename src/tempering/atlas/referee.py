"""The referee: chains that owe nothing to a reference, and chains that start from its draws, judge whether it covers.

A reference may fit its optima well and miss what lies between or beyond: a funnel, a curved valley. Its own weights
cannot see that. Chains can: where they go and the reference has practically nothing, it does not cover; and where
chains that start from its weighted draws move to other ranks among these, the draws are not of the density.
"""

from dataclasses import dataclass

import jax
import numpy as np

from tempering.devices.keys import split
from tempering.kernels import Kernel
from tempering.parallel_tempering.ladder import betas_of
from tempering.parallel_tempering.run import Rules, run, start
from tempering.runs.ledger import Ledger
from tempering.targets import Scaled, Units
from tempering.targets.base import Target
from tempering.types import Key

__all__ = ["Walked", "planned_evaluations", "rank_p_value", "walk"]

_NUM_KEPT = 4
"""States of every chain that are looked at, evenly from the last half of its steps."""


@dataclass(frozen=True)
class Walked:
    """Where chains came to: the states of their last half, and the last one of each.

    Args:
        position, log_density: (state, chain, ...).
    """

    position: np.ndarray
    log_density: np.ndarray

    def replaced(self, chains: np.ndarray, later: "Walked") -> "Walked":
        """These states, but for those of some chains, which have come to others since."""
        position = np.where(chains[None, :, None], later.position, self.position)
        return Walked(position, np.where(chains[None], later.log_density, self.log_density))


def planned_evaluations(num_chains: int, num_steps: int, kernel: Kernel) -> int:
    """What `walk` costs."""
    return num_chains * (1 + _whole(num_steps) * kernel.evaluations_per_step)


def _whole(num_steps: int) -> int:
    return 2 * _NUM_KEPT * max(1, num_steps // (2 * _NUM_KEPT))


def walk(
    key: Key,
    target: Target,
    kernel: Kernel,
    positions: np.ndarray,
    units: Units,
    num_steps: int,
    ledger: Ledger,
) -> Walked:
    """Chains at T = 1 from these points; half of the steps adapt the step size."""
    key_start, key_run = split(key)
    scaled, betas, half = Scaled(target, units), betas_of((1.0,)), _whole(num_steps) // 2
    scale = np.asarray(units.scale)
    places = jax.device_put((np.asarray(positions, np.float32) / scale)[None])
    state, _ = start(key_start, scaled, kernel, places, betas, ledger, "reference")
    rules = Rules.of(kernel.optimal_acceptance, 1, half, "even_odd")
    _, draws = run(
        key_run,
        scaled,
        kernel,
        state,
        betas,
        rules,
        burn_in=half,
        num_draws=_NUM_KEPT,
        thin=half // _NUM_KEPT,
        ledger=ledger,
        stage="reference",
    )
    return Walked(np.asarray(draws.position)[0] * scale, np.asarray(draws.log_density)[0])


def rank_p_value(states: np.ndarray, draws: np.ndarray, weights: np.ndarray) -> float:
    """The chance of ranks so uneven, if `states` are independent draws of what the weighted `draws` are of.

    Args:
        states: (state, statistic).
        draws: (draw, statistic).

    Returns:
        The smallest Kolmogorov-Smirnov p-value over the statistics, times their number.
    """
    weights, smallest = weights / np.sum(weights), 1.0
    for column in range(states.shape[1]):
        order = np.argsort(draws[:, column])
        ends = np.cumsum(weights[order])
        at = np.searchsorted(draws[order, column], states[:, column])
        ranks = np.where(at > 0, ends[np.maximum(at - 1, 0)], 0.0)
        smallest = min(smallest, _uneven(np.sort(np.clip(ranks, 0.0, 1.0))))
    return min(1.0, smallest * states.shape[1])


def _uneven(ranks: np.ndarray) -> float:
    """The p-value of Kolmogorov and Smirnov's test that sorted ranks are uniform, with Stephens's correction."""
    from scipy.special import kolmogorov  # here: it would be a fifth of what importing the library takes

    num = len(ranks)
    above, below = np.arange(1, num + 1) / num - ranks, ranks - np.arange(num) / num
    root = np.sqrt(num)
    return float(kolmogorov((root + 0.12 + 0.11 / root) * max(np.max(above), np.max(below))))
