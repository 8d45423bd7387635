"""The configurations of cells: presets, presets with a few settings changed, and the quick version of each.

Nothing here runs. What a quick version leaves of a preset is said by `quick_words`: it shows that the whole path works,
and its figures are not the paper's.
"""

import dataclasses
from typing import Any

from tempering.errors import SettingsError
from tempering.lab.catalogue import read
from tempering.lab.presets import preset
from tempering.lab.reproduce.budgets import scaled
from tempering.lab.reproduce.cells import Cell
from tempering.runs.config import RunConfig, with_changes
from tempering.settings import Initial, MethodSettings

__all__ = ["VARIANTS", "base_of", "config_of", "exists", "quick_words", "target_name"]

_ILLUSTRATIVE = ("ladder.hottest=null", "ladder.num_levels=null", "ladder.temperatures=[2, 1.5, 1]")
_NO_GUIDANCE, _NO_WEIGHTS = 'guidance.kind="none"', 'resampling.levels="none"'

VARIANTS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "mw32-paper-no-guidance": ("mw32-paper", (_NO_GUIDANCE,), "the coldest model as it is, no guidance"),
    "mw32-paper-no-weights": ("mw32-paper", (_NO_WEIGHTS,), "no importance resampling at any level"),
    "mw32-paper-tau-90": ("mw32-paper", ("resampling.quantile=0.9",), "weights truncated at the 0.9 quantile"),
    "mw32-paper-tau-80": ("mw32-paper", ("resampling.quantile=0.8",), "weights truncated at the 0.8 quantile"),
    "mw32-paper-noise-prior": ("mw32-paper", ("noise.prior=noise",), "draws start from N(0, 40²), as the paper says"),
    "mw32-paper-half-width": ("mw32-paper", ("network.width=128",), "half of the network's width"),
    "mw32-paper-third-rate": ("mw32-paper", ("training.learning_rate=3e-4",), "a third of the learning rate"),
    "mog40-paper-noise-prior": ("mog40-paper", ("noise.prior=noise",), "draws start from N(0, 40²), as the paper says"),
    "mog40-paper-no-guidance": ("mog40-paper", (_NO_GUIDANCE,), "the coldest model as it is, no guidance"),
    "mog40-paper-no-weights": ("mog40-paper", (_NO_WEIGHTS,), "no importance resampling at any level"),
    "mog40-paper-tau-80": ("mog40-paper", ("resampling.quantile=0.8",), "weights truncated at the 0.8 quantile"),
    # The paper's fourth column: as lj55-paper, but for the temperatures.
    "lj55-paper-illustrative": ("lj55-paper", _ILLUSTRATIVE, "the paper's temperatures of its illustration"),
    "lj55-paper-pt-dm-illustrative": ("lj55-paper-pt-dm", _ILLUSTRATIVE, "the same temperatures for PT+DM"),
    # At the evaluations of mog40-paper: 100 chains of ten levels for 1,080 steps.
    "mog40-paper-pt-dm-10-levels": (
        "mog40-paper-pt-dm",
        (
            "ladder.hottest=100",
            "ladder.num_levels=10",
            "initial.num_steps=1080",
            "initial.burn_in=108",
            "initial.thin=9",
        ),
        "PT+DM over PTSD's ten temperatures",
    ),
    "mog40-paper-pt-dm-our-network": ("mog40-paper-pt-dm", (), "PT+DM with the network and training of our default"),
    "mw32-paper-pt-dm-our-network": ("mw32-paper-pt-dm", (), "PT+DM with the network and training of our default"),
}
"""Variants by name: the preset, what is changed in it, and that in words."""

_OUR_NETWORK = "-our-network"
_LANGEVIN = {name: ("metrics.num_langevin=1000",) for name in ("lj55-paper", "lj55-paper-pt-dm")}
"""So that one fit serves both of the paper's tables of LJ-55."""
_PARTICLES_OF_QUICK = 13
_MOST = {"training": 1_000, "buffer": 1_000, "steps": 60, "chains": 50, "draws": 1_000}
_MOST_OF_PARTICLES = {"training": 150, "buffer": 300, "steps": 30, "chains": 20, "draws": 400}
_QUICK_BUDGET = 40_000
_QUICK_BUDGET_OF_BASELINES = 200_000


def base_of(name: str) -> str:
    """The preset behind a variant's name, or the name itself."""
    return VARIANTS[name][0] if name in VARIANTS else name


def exists(name: str) -> bool:
    """Whether there is such a preset or variant."""
    return base_of(name) in read()


def target_name(name: str) -> str:
    """The target of a variant, as presets name it: mog40, mw32, lj55, aldp."""
    return name.split("-")[0]


def config_of(cell: Cell) -> RunConfig:
    """What a cell of a fit runs.

    Raises:
        SettingsError: for a name that is neither a preset nor a variant.
    """
    base, changes, words = VARIANTS.get(cell.name, (cell.name, (), ""))
    config = with_changes(preset(base), [f"seed={cell.seed}", *changes, *_LANGEVIN.get(base, ())])
    if cell.name.endswith(_OUR_NETWORK):
        config = _with_our_network(config)
    config = dataclasses.replace(config, name=cell.name, description=words or config.description)
    config = quick(config) if cell.is_quick else config
    return config if cell.budget is None else scaled(config, cell.budget)


def _with_our_network(config: RunConfig) -> RunConfig:
    ours = preset(target_name(config.name)).settings
    parts = {name: getattr(ours, name) for name in ("network", "noise", "training", "sampling")}
    parts["network"] = dataclasses.replace(parts["network"], is_shared=False)
    return dataclasses.replace(config, settings=dataclasses.replace(config.settings, **parts))


def quick_words(name: str) -> str:
    """What the quick version of a variant is, for labels."""
    smaller = "quick: not the paper's settings (a fraction of the training, buffers, chains and draws"
    return smaller + (", LJ-13 in place of LJ-55)" if target_name(name) == "lj55" else ")")


def quick(config: RunConfig) -> RunConfig:
    """The same run for two CPU cores and a minute or two."""
    settings = config.settings
    if not isinstance(settings, MethodSettings):  # a baseline: its training is as long as a budget allows
        return with_changes(config, [f"budget={_QUICK_BUDGET_OF_BASELINES}", "settings.num_steps=null"])
    is_of_particles = settings.network.num_particles > 0
    most = _MOST_OF_PARTICLES if is_of_particles else _MOST
    training = dataclasses.replace(
        settings.training,
        num_steps=min(settings.training.num_steps, most["training"]),
        batch_size=min(settings.training.batch_size, 32 if is_of_particles else 256),
        check_every=min(settings.training.check_every, most["training"]),
        num_finetune_steps=_at_most(settings.training.num_finetune_steps, most["training"]),
    )
    sampling = dataclasses.replace(
        settings.sampling,
        num_steps=min(settings.sampling.num_steps, most["steps"]),
        raw_num_steps=_at_most(settings.sampling.raw_num_steps, most["steps"]),
        chunk_size=min(settings.sampling.chunk_size, most["draws"]),
    )
    network = dataclasses.replace(settings.network, width=min(settings.network.width, 32 if is_of_particles else 64))
    if network.num_particles == 55:
        network = dataclasses.replace(network, num_particles=_PARTICLES_OF_QUICK)
        arguments = {**config.target.arguments, "num_particles": _PARTICLES_OF_QUICK}
        config = dataclasses.replace(config, target=dataclasses.replace(config.target, arguments=arguments))
    settings = dataclasses.replace(settings, network=network, training=training, sampling=sampling)
    if settings.is_sized_by_budget:
        budget = min(config.budget or _QUICK_BUDGET, _QUICK_BUDGET)
        return dataclasses.replace(config, settings=settings, budget=budget, metrics=_quick_metrics(config, most))
    settings = dataclasses.replace(settings, **_quick_chains(settings, most))
    return dataclasses.replace(config, settings=settings, budget=None, metrics=_quick_metrics(config, most))


def _at_most(value: int | None, most: int) -> int | None:
    return None if value is None else min(value, most)


def _quick_chains(settings: Any, most: dict[str, int]) -> dict[str, Any]:
    """Fewer and shorter chains, and buffers that they fill."""
    size, num_chains = min(settings.buffer_size, most["buffer"]), most["chains"]
    num_draws = -(-size // num_chains)
    burn_in = max(50, min(settings.initial.burn_in, 200))
    thin = min(settings.initial.thin, 5)
    initial = Initial(
        num_chains=num_chains,
        num_steps=burn_in + num_draws * thin,
        burn_in=burn_in,
        thin=thin,
        scale=settings.initial.scale,
    )
    parts: dict[str, Any] = {
        "buffer_size": size,
        "initial": initial,
        "num_final_draws": min(settings.num_final_draws, 200),
    }
    for name in ("refinement", "last_refinement"):
        one = getattr(settings, name, None)
        if one is not None:
            steps = min(one.num_steps, 40)
            fewer = _at_most(one.num_chains, 20)
            parts[name] = dataclasses.replace(one, num_steps=steps, num_chains=fewer)
    return parts


def _quick_metrics(config: RunConfig, most: dict[str, int]) -> Any:
    metrics = config.metrics
    return dataclasses.replace(
        metrics,
        num_samples=min(metrics.num_samples, most["draws"]),
        num_transport=min(metrics.num_transport, most["draws"] if most is _MOST else 50),
        num_weighted=min(metrics.num_weighted, 100),
        num_likelihood=min(metrics.num_likelihood, 100),
        num_langevin=min(metrics.num_langevin, 50),
    )


def refused(cell: Cell) -> str | None:
    """Why a cell cannot be planned at all, or None."""
    if not exists(cell.name):
        return "no such preset in this version"
    try:
        config_of(cell)
    except SettingsError as refusal:
        return str(refusal)
    return None
