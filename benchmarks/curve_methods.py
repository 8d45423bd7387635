"""The methods of `curves.py`: how each spends a budget on a target. The only place where their settings stand.

The settings of PT alone and SMC are the best found for each target over a small search (docs/log.md), by energy TVD
and region error together, at one or two budgets of the middle and mostly with seeds that no curve uses.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

# Budgets of evaluations, by target.
BUDGETS = {
    "mog40": (5_000, 10_000, 20_000, 50_000, 100_000, 300_000, 1_000_000),
    "mw32": (50_000, 100_000, 200_000, 300_000, 1_000_000, 3_000_000),
}
METHODS = {
    "ours": "PTSD, ours: the budget split by `tp.split_budget`",
    "ptsd": "PTSD, ours: unweighted draws at every budget",
    "ptsd-weighted": "PTSD, ours: weighted independent draws at every budget",
    "ptsd-paper": "PTSD, paper's settings",
    "pt-dm": "PT+DM",
    "pt": "PT alone",
    "smc": "SMC (BlackJAX)",
}
PRESETS = {"ours": "{}", "ptsd": "{}", "ptsd-weighted": "{}", "ptsd-paper": "{}-paper", "pt-dm": "{}-pt-dm"}
MOST_WEIGHTED = 20_000
"""Of `ptsd-weighted`: a quarter of the budget, and at most so much of it, goes into weighted draws after the fit."""


def _mog40():
    from tempering.registry import make_target

    return make_target("mog40")


def _mw32():
    from tempering.registry import make_target

    return make_target("many_well", dim=32)


@dataclass(frozen=True)
class CurveTarget:
    """A target, and what the baselines are told about it."""

    make: Callable[[], Any]
    scale: float
    pt: dict = field(default_factory=dict)
    smc: dict = field(default_factory=dict)


TARGETS = {
    "mog40": CurveTarget(
        _mog40,
        20.0,
        pt={
            "temperatures": {"hottest": 60.0, "num_levels": 3},
            "num_chains": {0: 20},
            "exploration": {"kernel": "mala", "swap_interval": 1},
        },
        smc={"target_ess": 0.5, "num_rounds": 3, "num_leapfrog": 1},
    ),
    "mw32": CurveTarget(
        _mw32,
        1.0,
        pt={
            "temperatures": {"hottest": 5.0, "num_levels": 7},
            "num_chains": {0: 5, 1_000_000: 20},
            "exploration": {"kernel": "hmc", "num_leapfrog": 4, "swap_interval": 1},
        },
        smc={"target_ess": 0.95, "num_rounds": 60, "num_leapfrog": 3},
    ),
}


def weighted_draws(method: str, budget: int) -> int:
    """Evaluations that a method of one rule spends on weights after the fit."""
    return min(budget // 4, MOST_WEIGHTED) if method == "ptsd-weighted" else 0


def geometric(hottest: float, num_levels: int) -> tuple[float, ...]:
    return (*(hottest ** (1 - level / (num_levels - 1)) for level in range(num_levels - 1)), 1.0)


def chains_at(told: dict, budget: int) -> int:
    """The chains of PT: by the largest budget from which a number holds. Few long ones, while burn-in is dear."""
    return told["num_chains"][max(least for least in told["num_chains"] if least <= budget)]


def fit_points(name: str, method: str, budget: int, seed: int, num: int):
    """Points at T = 1 with weights, log Z and evaluations, and the settings as plain data."""
    import jax
    from baselines import Drawn

    target, key = TARGETS[name].make(), jax.random.key(seed)
    if method in PRESETS:
        from tempering import split_budget
        from tempering.compilation import keep_programs
        from tempering.lab.presets import preset
        from tempering.lab.reproduce.budgets import scaled
        from tempering.methods.registry import METHODS as FITS
        from tempering.runs.ledger import Ledger

        keep_programs()
        config = preset(PRESETS[method].format(name))
        num_weighted = split_budget(budget, target.dim)[1] if method == "ours" else weighted_draws(method, budget)
        fitting = budget - num_weighted
        config = longest(config, name, fitting) if method == "pt-dm" else scaled(config, fitting)
        sampler = FITS[config.method].fit(target, key, config.settings, ledger=Ledger(fitting))
        log_z = None if sampler.log_z is None else float(sampler.log_z)
        if num_weighted:
            points, log_weights = sampler.sample_weighted(num_weighted, seed=seed, is_quasi_random=method == "ours")
            drawn = Drawn(points, jax.nn.softmax(log_weights), log_z, sampler.evaluations + num_weighted)
        else:
            drawn = Drawn(sampler.sample(num, seed=seed), None, log_z, sampler.evaluations)
        return drawn, dataclasses.asdict(config.settings)
    if method == "pt":
        from baselines import pt_alone

        from tempering.settings import Exploration

        settings: dict[str, Any] = dict(TARGETS[name].pt, num_chains=chains_at(TARGETS[name].pt, budget))
        arguments = dict(settings, temperatures=geometric(**settings["temperatures"]))
        arguments["exploration"] = Exploration(**settings["exploration"])
        drawn = pt_alone.samples(target, key, budget, scale=TARGETS[name].scale, **arguments)
    else:
        from baselines import smc

        settings = TARGETS[name].smc
        drawn = smc.samples(target, key, budget, scale=TARGETS[name].scale, **settings)
    return drawn, settings


def longest(config, name: str, budget: int):
    """PT+DM at a budget: the ladder, moves and chains that serve PT alone best, run for as long as the budget pays for.

    More chains instead of longer ones, as `scaled` would have it, leave PT short of equilibrium at every budget. No
    evaluation goes into final weights: they only report.
    """
    from baselines.pt_alone import schedule

    from tempering.kernels import kernel_of
    from tempering.settings import Exploration, Ladder

    told = TARGETS[name].pt
    exploration = Exploration(**told["exploration"])
    kernel = kernel_of(exploration, TARGETS[name].make().dim)
    num_levels, num_chains = told["temperatures"]["num_levels"], chains_at(told, budget)
    initial = schedule(budget, num_levels, kernel, scale=TARGETS[name].scale, num_chains=num_chains)
    settings = dataclasses.replace(
        config.settings,
        ladder=Ladder(**told["temperatures"], spacing="geometric"),
        initial=initial,
        exploration=exploration,
        buffer_size=initial.num_chains * initial.num_draws,
        num_final_draws=0,
        is_sized_by_budget=False,
    )
    return dataclasses.replace(config, settings=settings, budget=budget)
