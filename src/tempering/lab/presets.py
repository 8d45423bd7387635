"""The named runs: ours, sized for two CPU cores and minutes, and the paper's tables to the letter.

What the paper's tables leave open (network width, optimiser, start, noise distribution) is chosen here and said so in
docs/decisions/0003-paper-presets.md.
"""

import dataclasses
from typing import Literal

from tempering.errors import SettingsError
from tempering.lab.ablations import ablations
from tempering.lab.baseline_presets import BASELINE_PRESETS
from tempering.lab.catalogue import unknown_preset
from tempering.lab.diffusion_baselines import DIFFUSION_BASELINES
from tempering.lab.molecule_presets import MOLECULE_PRESETS, Particles, named_run, pt_dm_like
from tempering.runs.config import SETTINGS_OF, MetricsConfig, RunConfig, TargetConfig
from tempering.settings import (
    Exploration,
    Guidance,
    Initial,
    Ladder,
    MethodSettings,
    Network,
    Noise,
    Pilot,
    PTSDSettings,
    Refinement,
    Resampling,
    Sampling,
    Training,
    resolved,
)

__all__ = ["ABLATIONS", "PRESETS", "preset"]

_MOG40 = TargetConfig("mog40")
_MW32 = TargetConfig("many_well", {"dim": 32})
_DW4, _LJ13, _LJ55 = TargetConfig("dw4"), *(TargetConfig("lj", {"num_particles": n}) for n in (13, 55))
_LJ55_SMOOTHED = TargetConfig("lj", {"num_particles": 55, "smoothing": "spline"})
"""The paper's: below 0.65, where no sample is, a cubic in place of r^-12."""

_LARGEST_WEIGHED = 64
"""Dimensions of a liquid up to which its weights are worth their evaluations."""

# The paper's appendix; sampling starts from the noised buffer's Gaussian in place of N(0, t_max^2), which is far from
# MoG-40's (docs/decisions/0003-paper-presets.md).
_PAPER = PTSDSettings.paper()
_PAPER = dataclasses.replace(_PAPER, noise=dataclasses.replace(_PAPER.noise, prior="matched"))
_PAPER_METRICS = MetricsConfig(num_transport=10_000, is_paper_compatible=True)
_LJ55_PAPER_METRICS = MetricsConfig(num_transport=1_000, is_paper_compatible=True)

_MW32_PAPER = dataclasses.replace(
    _PAPER,
    buffer_size=12_000,
    ladder=Ladder(hottest=10.0, num_levels=10, spacing="geometric"),
    initial=Initial(num_chains=20, num_steps=20_000, burn_in=10_000, thin=10),
    resampling=dataclasses.replace(_PAPER.resampling, levels="but_last"),
    refinement=Refinement(num_steps=25),
)

# One chain, 120,000 iterations, and local PT from ten of the samples, whose 25,000 states all join
# them: step sizes are those of the level above, rescaled, and do not adapt here. Width and solver steps are ours.
_LJ55_PAPER = PTSDSettings.paper(num_particles=55)
_LJ55_PAPER = dataclasses.replace(
    _LJ55_PAPER,
    buffer_size=20_000,
    ladder=Ladder(hottest=3.0, num_levels=3, spacing="geometric"),
    initial=Initial(num_chains=1, num_steps=40_000, burn_in=5_000, thin=1),
    noise=dataclasses.replace(_LJ55_PAPER.noise, prior="isotropic"),
    training=dataclasses.replace(_LJ55_PAPER.training, num_steps=120_000),
    refinement=Refinement(num_steps=2_500, num_chains=10, thin=1, adapt_fraction=0.0),
)


# The paper's illustration: models of T = 2 and 1.5, learned from long chains, drawn at T = 1 without correction.
_LJ55_EXTRAPOLATION = PTSDSettings(
    buffer_size=10_000,
    num_final_draws=0,
    is_sized_by_budget=False,
    pilot=Pilot(num_chains=64, num_steps=100, growth=2.0, max_rounds=6, max_rhat=1.3, ceiling=2.0),
    ladder=Ladder(temperatures=(2.0, 1.5, 1.0)),
    initial=Initial(num_chains=100, num_steps=3000, burn_in=1000, thin=20),
    exploration=Exploration(kernel="hmc", num_leapfrog=8, swap_interval=2),
    network=Network("particle_transformer", width=128, depth=4, coordinate_width=0, is_shared=False, num_particles=55),
    noise=Noise(prior="isotropic", is_isotropic=True),
    training=Training(num_steps=8000, num_finetune_steps=None, batch_size=128, learning_rate=1e-3, patience=0),
    sampling=Sampling(
        "churn",
        200,
        divergence="hutchinson",
        num_probes=1,
        chunk_size=500,
        is_quasi_random=False,
        churn=80.0,
        churn_max=5.0,
    ),
    guidance=Guidance("finite_difference", "T", is_anticipating=False),
    resampling=Resampling(levels="none"),
)


def _paper_pt_dm(title: str, base: RunConfig, ladder: Ladder, initial: Initial) -> RunConfig:
    """PT+DM beside a run of the paper's, with its ladder and chains in place of that run's."""
    description = f"PT+DM on {title}, the paper's ladder, at the evaluations of {base.name}"
    settings = pt_dm_like(base.settings, ladder, initial)
    return named_run(f"{base.name}-pt-dm", description, base.target, settings, base.metrics)


def _ours(
    name: str,
    description: str,
    target: TargetConfig,
    size: int | Particles,
    budget: int,
    method: Literal["ptsd", "pt_dm"] = "ptsd",
) -> RunConfig:
    """What `tp.fit` does with this density and budget: the same settings for every target but liquids.

    Args:
        size: the dimension, or the particles.
    """
    geometry = size if isinstance(size, Particles) else None
    dim, particles = (size, (0, 3)) if isinstance(size, int) else (size.dim, (size.num_particles, size.spatial_dim))
    settings = resolved(SETTINGS_OF[method](), dim, *particles)
    # A thousand of each need a million optimal permutations; weights of a churned sampler cost more than its training.
    metrics = MetricsConfig() if geometry is None else MetricsConfig(num_transport=300)
    if geometry is not None and target.name == "lj":
        settings = _of_liquid(settings, geometry)
        if geometry.dim > _LARGEST_WEIGHED:
            metrics = MetricsConfig(num_transport=100, num_weighted=0, num_langevin=1_000)
    return RunConfig(name, description, target, method, settings, budget=budget, metrics=metrics)


def _small_lj13() -> RunConfig:
    """LJ-13 for two CPU cores and minutes: learned from the chains alone, with a network that is quick there."""
    config = _ours("lj13-small", "LJ-13 on two CPU cores within minutes", _LJ13, Particles(13, 3), 100_000)
    settings = dataclasses.replace(
        config.settings,
        num_final_draws=0,
        ladder=Ladder(temperatures=(1.3, 1.0)),
        network=dataclasses.replace(config.settings.network, width=32, depth=3),
        training=dataclasses.replace(config.settings.training, num_steps=3000, batch_size=128, learning_rate=2e-3),
        sampling=Sampling(num_steps=24, divergence="hutchinson", num_probes=1, chunk_size=500, is_quasi_random=False),
    )
    metrics = MetricsConfig(num_samples=4_000, num_transport=200, num_weighted=0)
    return dataclasses.replace(config, settings=settings, metrics=metrics)


def _of_liquid(settings: MethodSettings, geometry: Particles) -> MethodSettings:
    """Lennard-Jones clusters are liquid at T = 1, without barriers: a hotter level lends chains speed and no more.

    Few long chains of long trajectories (docs/log.md), started by a short pilot. LJ-13 then has a last level just below
    the second, whose independent, weighted draws are worth ten times what the chains give for the same evaluations. In
    162 dimensions weights are worth nothing: LJ-55 learns from the chains alone. Both are drawn from with churn; what
    LJ-13 weighs comes from the flow.
    """
    is_large = geometry.dim > _LARGEST_WEIGHED
    settings = dataclasses.replace(
        settings,
        buffer_size=500,
        pilot=dataclasses.replace(settings.pilot, ceiling=1.1 if is_large else 1.3, max_rounds=4),
        ladder=Ladder(temperatures=(1.1 if is_large else 1.3, 1.0)),
        initial=Initial(num_chains=25),
        exploration=Exploration(kernel="hmc", num_leapfrog=8, swap_interval=2),
        training=dataclasses.replace(settings.training, num_steps=20_000, batch_size=512),
        sampling=dataclasses.replace(settings.sampling, churn=160.0, churn_max=5.0, raw_num_steps=400),
    )
    if is_large:
        churned = Sampling("churn", num_steps=400, churn=160.0, churn_max=5.0, chunk_size=1000, is_quasi_random=False)
        return dataclasses.replace(
            settings,
            num_final_draws=0,
            network=dataclasses.replace(settings.network, is_half=True),
            training=dataclasses.replace(settings.training, num_steps=40_000, batch_size=128),
            sampling=churned,
        )
    if isinstance(settings, PTSDSettings):
        settings = dataclasses.replace(settings, ladder=Ladder(temperatures=(1.3, 1.02, 1.0)), initial_share=0.7)
    return settings


_TABLE = "the paper's table"
_MOG40_PAPER_RUN = named_run("mog40-paper", f"PTSD on MoG-40, {_TABLE}", _MOG40, _PAPER, _PAPER_METRICS)
_MW32_PAPER_RUN = named_run("mw32-paper", f"PTSD on Many-Well-32, {_TABLE}", _MW32, _MW32_PAPER, _PAPER_METRICS)
_LJ55_PAPER_RUN = named_run("lj55-paper", f"PTSD on LJ-55, {_TABLE}", _LJ55_SMOOTHED, _LJ55_PAPER, _LJ55_PAPER_METRICS)

PRESETS: dict[str, RunConfig] = {
    run.name: run
    for run in (
        _ours("mog40", "MoG-40, our defaults", _MOG40, 2, 20_000),
        _ours("mw32", "Many-Well-32, our defaults", _MW32, 32, 300_000),
        _ours("mw64", "Many-Well-64, our defaults", TargetConfig("many_well", {"dim": 64}), 64, 600_000),
        _ours("mw128", "Many-Well-128, our defaults", TargetConfig("many_well", {"dim": 128}), 128, 1_200_000),
        _ours("dw4", "DW-4, four particles in the plane, our defaults", _DW4, Particles(4, 2), 20_000),
        _ours("lj13", "Lennard-Jones, 13 particles, our defaults", _LJ13, Particles(13, 3), 100_000),
        _small_lj13(),
        _ours("lj55", "Lennard-Jones, 55 particles, our defaults", _LJ55, Particles(55, 3), 150_000),
        _ours("mog40-pt-dm", "PT+DM on MoG-40 at the evaluations of mog40", _MOG40, 2, 20_000, "pt_dm"),
        _ours("mw32-pt-dm", "PT+DM on Many-Well-32 at the evaluations of mw32", _MW32, 32, 300_000, "pt_dm"),
        _ours("dw4-pt-dm", "PT+DM on DW-4, at equal evaluations", _DW4, Particles(4, 2), 20_000, "pt_dm"),
        _ours("lj13-pt-dm", "PT+DM on LJ-13, at equal evaluations", _LJ13, Particles(13, 3), 100_000, "pt_dm"),
        _ours("lj55-pt-dm", "PT+DM on LJ-55, at equal evaluations", _LJ55, Particles(55, 3), 150_000, "pt_dm"),
        _MOG40_PAPER_RUN,
        _MW32_PAPER_RUN,
        _paper_pt_dm(
            "MoG-40",
            _MOG40_PAPER_RUN,
            Ladder(hottest=200.0, num_levels=4, spacing="geometric"),
            Initial(num_chains=100, num_steps=2700, burn_in=270, thin=9),
        ),
        _paper_pt_dm(
            "Many-Well-32",
            _MW32_PAPER_RUN,
            _MW32_PAPER.ladder,
            Initial(num_chains=20, num_steps=28_480, burn_in=14_240, thin=10),
        ),
        named_run(
            "lj55-extrapolation",
            "LJ-55 at T = 1 from models of T = 2 and 1.5: `tempering reproduce figure-lj55-extrapolation`",
            _LJ55,
            _LJ55_EXTRAPOLATION,
            MetricsConfig(num_transport=200, num_weighted=0),
        ),
        _LJ55_PAPER_RUN,
        _paper_pt_dm(
            "LJ-55",
            _LJ55_PAPER_RUN,
            _LJ55_PAPER.ladder,
            Initial(num_chains=1, num_steps=50_000, burn_in=5_000, thin=2),
        ),
    )
}
"""Every preset by name."""
PRESETS |= MOLECULE_PRESETS
PRESETS |= BASELINE_PRESETS | DIFFUSION_BASELINES

ABLATIONS = {run.name: run for base in (PRESETS["mog40"], PRESETS["mw32"]) for run in ablations(base)}
"""Presets with one piece taken away or replaced; they are among `PRESETS` too."""
PRESETS |= ABLATIONS


def preset(name: str) -> RunConfig:
    """The preset of that name.

    Raises:
        SettingsError: for an unknown name; the message lists the known ones.
    """
    if name not in PRESETS:
        raise SettingsError(unknown_preset(name))
    return PRESETS[name]
