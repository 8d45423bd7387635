"""Named runs of alanine dipeptide, Cartesian and internal: ours, the paper's appendix, and PT+DM beside each.

T = 1 is 300 K and T = 5 is 1500 K. Lengths are nm: a bond of 0.1 nm has a standard deviation of 0.003 nm at 300 K, so
EDM's sigma_min of 0.002 would blur it. The automatic one, 3 % of the within-mode scale of the forces, is about 1e-4.
"""

import dataclasses

from tempering.methods.automatic import default_settings
from tempering.runs.config import MetricsConfig, RunConfig, TargetConfig
from tempering.settings import (
    Exploration,
    Guidance,
    Initial,
    Ladder,
    MethodSettings,
    Network,
    Noise,
    PTDMSettings,
    PTSDSettings,
    Refinement,
    Resampling,
    Sampling,
    Training,
)
from tempering.transforms.centred import Centred

__all__ = ["MOLECULE_PRESETS"]

_ATOMS = tuple(range(22))
_BONDS = (
    *((0, 1), (1, 2), (1, 3), (1, 4), (4, 5), (4, 6)),  # ACE, and its bond to ALA
    *((6, 7), (6, 8), (8, 9), (8, 10), (10, 11), (10, 12), (10, 13), (8, 14), (14, 15), (14, 16)),  # ALA
    *((16, 17), (16, 18), (18, 19), (18, 20), (18, 21)),  # NME
)
"""As `molecules.alanine_dipeptide().bonds`; written down, because presets load no data. A test compares them."""

_GEOMETRY = Centred(22, 3)
_LEFT = TargetConfig("aldp", {"chirality": "L"})
# The paper's network cannot tell mirror images apart: D-forms stay in its buffers and are reflected at the end.
_BOTH = TargetConfig("aldp")

_BUDGET = 26_000_000  # the paper's
_INTERNAL_BUDGET = 2_600_000
_METRICS = MetricsConfig(num_transport=500, num_langevin=0)
_PAPER_METRICS = MetricsConfig(num_transport=500, num_weighted=2_000, is_paper_compatible=True)


# Ours. A model is worth little on the way down: in 63 stiff dimensions guided draws have weights worth 0.1 to 1.5 % of
# their number where those of the last buffer itself, over steps of 1.26 in T, are worth 24 %. So levels are taken over,
# weighted and moved by HMC in pairs with the hotter level, and one model is fitted at the end (docs/log.md). What is
# rare must be right at the top: ten times shorter initial chains had half of 0 < phi < 120 degrees at T = 5, and below.
# The last level is moved on for longer and keeps eight states of every chain: 80,000 samples for the model.
_DEFAULTS = default_settings("ptsd", _GEOMETRY.dim, _GEOMETRY, _ATOMS, _BONDS)
_EXPLORATION = Exploration(kernel="hmc", num_leapfrog=16, swap_interval=2)
_NETWORK = dataclasses.replace(_DEFAULTS.network, is_shared=False)
_TRAINING = dataclasses.replace(_DEFAULTS.training, num_steps=24_000, batch_size=512)
# Probes of the determinants would alone spread log weights; exact ones take 16 MB a draw.
_SAMPLING = Sampling(num_steps=32, divergence="exact", chunk_size=_DEFAULTS.sampling.chunk_size)
_LADDER = Ladder(hottest=5.0, num_levels=8)

_OURS = PTSDSettings(
    buffer_size=10_000,
    num_final_draws=2_000,
    ladder=_LADDER,
    initial=Initial(num_chains=50, num_steps=3_900, burn_in=500, thin=17),
    exploration=_EXPLORATION,
    network=_NETWORK,
    noise=_DEFAULTS.noise,
    training=_TRAINING,
    sampling=_SAMPLING,
    guidance=Guidance("reweighted"),
    resampling=Resampling(quantile=None, scheme="systematic"),
    refinement=Refinement(num_steps=6),
    last_refinement=Refinement(num_steps=26, num_states=8, adapt_fraction=0.1),
)
_OURS_PT_DM = PTDMSettings(
    buffer_size=80_000,
    num_final_draws=2_000,
    ladder=_LADDER,
    initial=Initial(num_chains=50, num_steps=3_774, burn_in=500, thin=2),
    exploration=_EXPLORATION,
    network=_NETWORK,
    noise=_DEFAULTS.noise,
    training=_TRAINING,
    sampling=_SAMPLING,
)

# The appendix: 1e7 MALA steps at the two hottest of five temperatures, truncation at the 0.8 quantile, PT from 1,000 of
# the weighted draws for 1,000 steps with every 10th state joined, t_max = 40, Euler, learning rate 2e-3. Other than
# there: 100 chains side by side in place of one as long (the same evaluations, in minutes), 100,000 samples at all
# levels where the paper's first buffer has 200,000, a tenth of the refinement's steps adapts, and 20,000 iterations of
# training in place of 100,000 epochs, to fit half an hour on one GPU. Width, sigma_min and solver steps are ours.
_PAPER = PTSDSettings(
    buffer_size=100_000,
    num_final_draws=0,
    ladder=Ladder(hottest=5.0, num_levels=5),
    initial=Initial(num_chains=100, num_steps=100_000, burn_in=10_000, thin=90),
    exploration=Exploration(kernel="mala", swap_interval=5, swap_scheme="sweep", mass="unit"),
    network=Network("egnn", width=64, depth=3, num_particles=22, atoms=_ATOMS, bonds=_BONDS),
    noise=Noise(sigma_min=2e-4, sigma_max=40.0, is_isotropic=True, prior="isotropic"),
    training=Training(
        num_steps=20_000, batch_size=1000, learning_rate=2e-3, patience=0, validation_fraction=0.02, use_gradients=False
    ),
    sampling=Sampling(solver="euler", num_steps=250, divergence="hutchinson", num_probes=1, chunk_size=10_000),
    resampling=Resampling(quantile=0.8, scheme="multinomial"),
    refinement=Refinement(num_steps=1_000, num_chains=1_000, thin=10, adapt_fraction=0.1),
)
# Five levels for 5.2e6 steps, trained twice as long at twice the learning rate.
_PAPER_PT_DM = PTDMSettings(
    buffer_size=_PAPER.buffer_size,
    num_final_draws=0,
    ladder=_PAPER.ladder,
    initial=Initial(num_chains=100, num_steps=52_000, burn_in=5_200, thin=46),
    exploration=_PAPER.exploration,
    network=_PAPER.network,
    noise=_PAPER.noise,
    training=dataclasses.replace(_PAPER.training, num_steps=40_000, learning_rate=4e-3),
    sampling=_PAPER.sampling,
)

# In internal coordinates nothing is stiff: the defaults of any density, from T = 5 on, with more training.
_INTERNAL_TARGET = TargetConfig("aldp_internal")
_INTERNAL_DIM = 67


def _internal(method: str) -> MethodSettings:
    settings = default_settings(method, _INTERNAL_DIM)
    is_ptsd = isinstance(settings, PTSDSettings)
    return dataclasses.replace(
        settings,
        pilot=dataclasses.replace(settings.pilot, ceiling=5.0, max_rounds=3),
        ladder=Ladder(hottest=5.0, spacing="adaptive") if is_ptsd else Ladder(hottest=5.0, num_levels=8),
        exploration=Exploration(kernel="hmc", num_leapfrog=6, swap_interval=2),
        network=dataclasses.replace(settings.network, width=384, depth=4),
        training=dataclasses.replace(settings.training, num_steps=20_000, num_finetune_steps=6_000),
    )


MOLECULE_PRESETS: dict[str, RunConfig] = {
    run.name: run
    for run in (
        RunConfig(
            "aldp",
            "alanine dipeptide, Cartesian, within the paper's evaluations",
            _LEFT,
            "ptsd",
            _OURS,
            budget=_BUDGET,
            metrics=_METRICS,
        ),
        RunConfig(
            "aldp-pt-dm",
            "PT+DM on alanine dipeptide at the evaluations of aldp",
            _LEFT,
            "pt_dm",
            _OURS_PT_DM,
            budget=_BUDGET,
            metrics=_METRICS,
        ),
        RunConfig(
            "aldp-internal",
            "alanine dipeptide in bond lengths, angles and torsions",
            _INTERNAL_TARGET,
            "ptsd",
            _internal("ptsd"),
            budget=_INTERNAL_BUDGET,
            metrics=_METRICS,
        ),
        RunConfig(
            "aldp-internal-pt-dm",
            "PT+DM on alanine dipeptide in internal coordinates, at equal evaluations",
            _INTERNAL_TARGET,
            "pt_dm",
            _internal("pt_dm"),
            budget=_INTERNAL_BUDGET,
            metrics=_METRICS,
        ),
        RunConfig(
            "aldp-paper",
            "PTSD on alanine dipeptide, the paper's appendix, trained for less long",
            _BOTH,
            "ptsd",
            _PAPER,
            metrics=_PAPER_METRICS,
        ),
        RunConfig(
            "aldp-paper-pt-dm",
            "PT+DM on alanine dipeptide, the paper's appendix, trained for less long",
            _BOTH,
            "pt_dm",
            _PAPER_PT_DM,
            metrics=_PAPER_METRICS,
        ),
    )
}
"""By name; `presets.PRESETS` has them too."""
