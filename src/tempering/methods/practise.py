"""Training as long as it helps: where the density is drawn from its modes, weighted draws tell how good a model is.

Most densities are learned in a part of the steps; a few, with many narrow modes, need more than the usual number. The
effective share that the model's weights will have is foretold from draws that are paid for: no evaluation.
"""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np

from tempering.buffer import Levels
from tempering.devices.keys import generator, split
from tempering.diffusion import Dataset, FitInfo, fit_networks
from tempering.diffusion.calibrate import unstack
from tempering.methods.finish import judging
from tempering.methods.model import model_of
from tempering.methods.run import Run
from tempering.types import Keys
from tempering.weights.ess import NUM_JUDGED, foretold_share
from tempering.weights.resample import systematic_indices

__all__ = ["FIRST_PART", "practised"]

FIRST_PART = 8
"""Training begins with this part of its steps; every further turn has twice as many as the one before."""
_MOST_TURNS = 5
_ENOUGH, _GAIN = 0.95, 1.05
"""Effective share from which a model is good, and the gain that the last turn must have brought for another."""
_POOR = 0.3
"""Effective share below which training goes on all the same: a few heavy draws decide such a share, and it says nothing
of what the next turn brings. The eggbox has 0.003 after 3,000 steps and 0.93 after 31,000."""
_LEFT_OUT = 0.01
"""Of the draws, those that the model draws least: the mass that a verdict lets it lack. In the neck of a hierarchical
model one of 500 draws made the share 0 after every turn, where that of the others was 0.96 after the second."""


def practised(
    run: Run,
    levels: Levels,
    networks: Any,
    info: FitInfo,
    keys: Keys,
    data: Dataset,
    on_check: Callable[[int, float], None],
    seconds_left: Callable[[], float] = lambda: math.inf,
) -> tuple[Any, FitInfo]:
    """The stacked networks trained on, turn by turn, until the foretold effective share is large or stops growing."""
    training = run.settings.training
    num_steps = max(1, training.num_steps // FIRST_PART)
    share, total = _foretold(run, levels, networks), info.num_steps
    for _ in range(1, _MOST_TURNS):
        if share >= _ENOUGH or seconds_left() <= 0.0:
            break
        num_steps *= 2
        keys = jax.vmap(lambda key: jax.random.fold_in(key, 1))(keys)
        watch = {"on_check": on_check, "seconds_left": seconds_left}
        later, later_info = fit_networks(keys, networks, data, training, num_steps=num_steps, **watch)
        better = _foretold(run, levels, later)
        total = total + later_info.num_steps
        is_poor = max(share, better) < _POOR
        has_gained = better >= _GAIN * share
        if better > share or is_poor:
            networks, info, share = later, later_info, better
        if not (has_gained or is_poor):
            break
    return networks, eqx.tree_at(lambda info: info.num_steps, info, total)


def _foretold(run: Run, levels: Levels, networks: Any) -> float:
    """The effective share of the model's weights, from weighted draws of the last level."""
    key_pick, key_density = split(run.key_of(1, "finish"))
    buffer, sampling = levels.buffers[-1], judging(run.settings.sampling, run.target.dim)
    model = model_of(run, levels, unstack(networks, 1)[-1])
    run.ahead.wait(("densities", run.settings.network))
    rng = generator(key_pick)
    rows = systematic_indices(np.asarray(buffer.log_weight), NUM_JUDGED, rng.uniform())
    log_model = np.asarray(model.log_prob(key_density, jax.device_put(np.asarray(buffer.position)[rows]), sampling))
    return foretold_share(np.asarray(buffer.log_density)[rows] - log_model, _LEFT_OUT)
