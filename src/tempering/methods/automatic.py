"""Settings for a density nobody has tuned for: one set for all, and sizes from the budget and the ladder.

The shares below are rules of thumb; docs/decisions/0004-automatic.md says where they come from and when they would be
wrong.
"""

import dataclasses
from typing import Any, TypeVar

from tempering.errors import BudgetError
from tempering.settings import (
    Exploration,
    Guidance,
    Initial,
    Ladder,
    MethodSettings,
    Network,
    Noise,
    Pilot,
    PTDMSettings,
    PTSDSettings,
    Refinement,
    Resampling,
    Sampling,
    Training,
)
from tempering.settings.checks import require_count
from tempering.transforms.centred import Centred

__all__ = ["LARGEST_EXACT", "default_budget", "default_settings", "pilot_settings", "sized", "split_budget"]

Settings = TypeVar("Settings", bound=MethodSettings)

_PILOT_SHARE, _USUAL_ROUNDS = 0.15, 6
_LEAST_CHAINS, _MOST_CHAINS, _LEAST_STEPS = 6, 16, 24
_FINAL_SHARE, _MOST_FINAL = 0.05, 2000
_LAST_SHARE = 3.0 / 7.0
_WEIGHING_SHARE, _MOST_WEIGHED, _LEAST_TO_WEIGH = 0.25, 20_000, 0.25
_LEAST_SAMPLES = 500
_LEAST_EFFECTIVE = 700
"""Samples of a level that count, where weights can be cut to leave so many (decision 0006)."""
LARGEST_EXACT = 64
"""Dimensions up to which the finished sampler's densities are exact: probes' noise would bias log Z."""
_DRAW_BYTES = 2e9
_FLOATS_A_TANGENT, _FLOATS_PROBED = 133, 2000
"""For a pair of particles in the default transformer: of each column of an exact Jacobian, or of four probes of it."""
_BOND = 0.1
"""nm, about a bond's length: radial features resolve 0.3 to 10 of them."""


def default_budget(dim: int) -> int:
    """Evaluations a fit may spend when the user names none."""
    return 50_000 + 10_000 * dim


def split_budget(budget: int, dim: int) -> tuple[int, int]:
    """Evaluations for fitting and for weighted draws afterwards, where one budget has to pay for both.

    A quarter goes into weights, at most 20,000. Below a quarter of the default budget a fit needs everything, and its
    plain draws are the answer: weights of a poor model are worth little.

        fitting, weighing = tp.split_budget(50_000, dim=2)
        sampler = tp.fit(log_density, dim=2, budget=fitting)
        if weighing:
            draws, log_weights = sampler.sample_weighted(weighing, is_quasi_random=True)

    Raises:
        SettingsError: for a budget or a dimension below 1.
    """
    require_count("budget", budget)
    require_count("dim", dim)
    if budget < _LEAST_TO_WEIGH * default_budget(dim):
        return budget, 0
    weighing = min(_MOST_WEIGHED, int(_WEIGHING_SHARE * budget))
    return budget - weighing, weighing


def default_settings(
    method: str,
    dim: int,
    geometry: Centred | None = None,
    atoms: tuple[int, ...] = (),
    bonds: tuple[tuple[int, int], ...] = (),
) -> MethodSettings:
    """What `tp.fit` and our own presets use: the same for every density but for the width of the network.

    Particles have a network that knows them, and one scale for all their coordinates.

    Args:
        atoms, bonds: of a molecule in nm, which has a network that knows who its atoms are (`settings.Network`).
    """
    network = Network(width=128 if dim <= 16 else 256, depth=3, coordinate_width=24, is_shared=True)
    noise, training = Noise(), Training(num_steps=8000, num_finetune_steps=2000, batch_size=512, patience=40)
    sampling = Sampling(num_steps=32, divergence="automatic", num_probes=4, is_quasi_random=True)
    if geometry is not None:
        particles: dict[str, Any] = {"num_particles": geometry.num_particles, "spatial_dim": geometry.spatial_dim}
        if atoms:
            molecule: dict[str, Any] = {"atoms": atoms, "bonds": bonds, "unit": _BOND, "is_chiral": len(bonds) > 0}
            network = Network("particle_transformer", width=128, depth=4, is_shared=True, **particles, **molecule)
        elif dim <= 16:
            network = Network("egnn", width=32, depth=3, is_shared=True, **particles)
        else:
            network = Network("particle_transformer", width=128, depth=4, is_shared=True, **particles)
        noise = Noise(prior="isotropic", is_isotropic=True)
        rates: dict[str, Any] = {"learning_rate": 1e-3}
        if network.kind == "egnn":
            rates = {"learning_rate": 5e-3, "num_steps": 6000, "num_finetune_steps": 1500}
        training = dataclasses.replace(training, **rates)
        # A pair too close, which the flow leaves now and then, is mended by kicks (docs/log.md).
        churned: dict[str, Any] = {"raw_solver": "churn", "raw_num_steps": 200, "churn": 80.0}
        if network.kind == "particle_transformer":
            churned["chunk_size"] = _chunk_size(geometry.num_particles, dim)
        else:
            churned["num_steps"] = 24  # a quarter less of sampling, and DW-4's weights are worth the same (docs/log.md)
        sampling = dataclasses.replace(sampling, **churned)
    common = {
        "is_sized_by_budget": True,
        "exploration": Exploration(kernel="automatic"),
        "pilot": Pilot(growth=4.0, max_rounds=8, max_rhat=1.4),
        "network": network,
        "noise": noise,
        "training": training,
        "sampling": sampling,
    }
    if method == "pt_dm":
        return PTDMSettings(**common)
    return PTSDSettings(
        ladder=Ladder(spacing="adaptive"),
        guidance=Guidance("automatic", "log_T", is_anticipating=True),
        resampling=Resampling(quantile=None, min_effective=_LEAST_EFFECTIVE, is_resampled=False),
        refinement=Refinement(num_steps=0),
        **common,
    )


def _chunk_size(num_particles: int, dim: int) -> int:
    """Draws at a time whose densities take no more than `_DRAW_BYTES`."""
    floats = _FLOATS_A_TANGENT * dim if dim <= LARGEST_EXACT else _FLOATS_PROBED
    return int(min(2000, max(10, _DRAW_BYTES // (4 * floats * num_particles**2))))


def pilot_settings(pilot: Pilot, budget: int, kernel) -> Pilot:
    """A pilot that spends a fixed share of the budget if it ends after the usual number of rounds.

    More budget buys more chains up to a limit, and from there longer rounds: in many dimensions chains need them.
    """
    cost = kernel.evaluations_per_step
    share = _PILOT_SHARE * budget / _USUAL_ROUNDS / cost
    num_chains = max(_LEAST_CHAINS, min(_MOST_CHAINS, budget // 2000, int(share / _LEAST_STEPS)))
    num_steps = 4 * int(share / num_chains / 4)
    if num_steps < _LEAST_STEPS:
        least = int(_LEAST_STEPS * cost * _LEAST_CHAINS * _USUAL_ROUNDS / _PILOT_SHARE)
        raise BudgetError(
            f"a budget of {budget:,} evaluations is too small to find the hottest temperature: give at least "
            f"{least:,}, or a `ladder=` of your own"
        )
    return dataclasses.replace(pilot, num_chains=num_chains, num_steps=num_steps)


def _initial(affordable: int, num_levels: int, buffer_size: int, given: Initial) -> tuple[Initial, int]:
    """The given chains, as long as `affordable` evaluations last over `num_levels` levels, and the samples of each.

    A chain pays one evaluation to start; a third of its steps burns in.
    """
    num_chains = given.num_chains
    num_steps = max(3, affordable // (num_levels * num_chains) - 1)
    burn_in = max(1, num_steps // 3)
    size = min(buffer_size, num_chains * (num_steps - burn_in))
    thin = max(1, (num_steps - burn_in) // -(-size // num_chains))
    num_draws = (num_steps - burn_in) // thin
    initial = dataclasses.replace(given, num_steps=burn_in + thin * num_draws, burn_in=burn_in, thin=thin)
    return initial, min(size, num_chains * num_draws)


def sized(settings: Settings, dim: int, num_levels: int, budget: int, kernel) -> Settings:
    """The settings with sizes that spend the budget on a ladder of that length.

    PTSD gives `initial_share` to the initial PT, four sevenths of the rest to the levels on the way, and what is left
    to the last level, whose weights the final model learns. PT+DM has the initial PT only, and so has a ladder of two.

    Args:
        budget: what is left of it after the pilot.
        kernel: the Markov kernel, for what a step costs.

    Raises:
        BudgetError: if the budget is too small for a ladder of this length.
    """
    # None asked for is a wish: weights of some samplers cost more than their training.
    num_final = max(100, min(_MOST_FINAL, int(_FINAL_SHARE * budget))) if settings.num_final_draws > 0 else 0
    left, cost = budget - num_final, kernel.evaluations_per_step
    if not isinstance(settings, PTSDSettings):
        initial, size = _initial(left // cost, num_levels, 1500 + 200 * dim, settings.initial)
        _check(size, budget, num_levels)
        return dataclasses.replace(settings, initial=initial, buffer_size=size, num_final_draws=num_final)
    num_between = max(0, num_levels - 3)
    rest = 1.0 - settings.initial_share if num_levels > 2 else 0.0
    share = rest * (1.0 - _LAST_SHARE) / num_between if num_between else 0.0
    initial, size = _initial(int((1.0 - rest) * left) // cost, 2, 1500 + 200 * dim, settings.initial)
    between = int(share * left) if num_between else size
    spent = 2 * initial.num_chains * (1 + initial.num_steps * cost) + num_between * between
    _check(min(size, between, left - spent) if num_levels > 2 else size, budget, num_levels)
    ladder = settings.ladder
    return dataclasses.replace(
        settings,
        ladder=ladder if ladder.temperatures else dataclasses.replace(ladder, num_levels=num_levels),
        initial=initial,
        buffer_size=size,
        level_size=between,
        last_buffer_size=left - spent if num_levels > 2 else None,
        num_final_draws=num_final,
    )


def _check(buffer_size: int, budget: int, num_levels: int) -> None:
    # Denoisers trained on fewer are of no use.
    if buffer_size < _LEAST_SAMPLES:
        raise BudgetError(
            f"a budget of {budget:,} evaluations leaves {buffer_size} samples for each of {num_levels} levels, fewer "
            f"than the {_LEAST_SAMPLES} a denoiser needs; raise the budget or give a shorter `ladder=`"
        )
