"""Named runs of alanine dipeptide, Cartesian and internal: ours, the paper's appendix, and PT+DM beside each.

T = 1 is 300 K and T = 5 is 1500 K. Lengths are nm: a bond of 0.1 nm has a standard deviation of 0.003 nm at 300 K, so
EDM's sigma_min of 0.002 would blur it. The automatic one, 3 % of the within-mode scale of the forces, is about 1e-4.
"""

import dataclasses
from typing import NamedTuple

from tempering.runs.config import SETTINGS_OF, MetricsConfig, RunConfig, TargetConfig
from tempering.settings import (
    Exploration,
    Initial,
    Ladder,
    MethodSettings,
    Noise,
    Pilot,
    PTDMSettings,
    PTSDSettings,
    Refinement,
    ReweightedSettings,
    Sampling,
    resolved,
)

__all__ = ["MOLECULE_PRESETS", "Particles", "named_run", "pt_dm_like"]


class Particles(NamedTuple):
    """How many, in how many dimensions: all that presets need of `transforms.Centred`, without JAX."""

    num_particles: int
    spatial_dim: int

    @property
    def dim(self) -> int:
        """Of configurations whose centre of mass is at the origin."""
        return (self.num_particles - 1) * self.spatial_dim


def named_run(
    name: str,
    description: str,
    target: TargetConfig,
    settings: MethodSettings,
    metrics: MetricsConfig,
    budget: int | None = None,
) -> RunConfig:
    """A run of the method whose settings these are."""
    method = next(method for method, kind in SETTINGS_OF.items() if type(settings) is kind)
    return RunConfig(name, description, target, method, settings, budget=budget, metrics=metrics)


def pt_dm_like(settings: MethodSettings, ladder: Ladder, initial: Initial) -> PTDMSettings:
    """PT+DM with the buffer, final draws, moves, network, noise, training and sampling of another method's settings."""
    own = {field.name: getattr(settings, field.name) for field in dataclasses.fields(PTDMSettings)}
    return PTDMSettings(**{**own, "pilot": Pilot(), "ladder": ladder, "initial": initial})


_ATOMS = tuple(range(22))
_BONDS = (
    *((0, 1), (1, 2), (1, 3), (1, 4), (4, 5), (4, 6)),  # ACE, and its bond to ALA
    *((6, 7), (6, 8), (8, 9), (8, 10), (10, 11), (10, 12), (10, 13), (8, 14), (14, 15), (14, 16)),  # ALA
    *((16, 17), (16, 18), (18, 19), (18, 20), (18, 21)),  # NME
)
"""As `molecules.alanine_dipeptide().bonds`; written down, because presets load no data. A test compares them."""

_GEOMETRY = Particles(22, 3)
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
_DEFAULTS = resolved(PTSDSettings(), _GEOMETRY.dim, **_GEOMETRY._asdict(), atoms=_ATOMS, bonds=_BONDS)
_EXPLORATION = Exploration(kernel="hmc", num_leapfrog=16, swap_interval=2)
_NETWORK = dataclasses.replace(_DEFAULTS.network, is_shared=False)
_TRAINING = dataclasses.replace(_DEFAULTS.training, num_steps=24_000, batch_size=512)
# Probes of the determinants would alone spread log weights; exact ones take 16 MB a draw. Draws that nobody weighs are
# churned, as those of all particles: the flow leaves two atoms in one place now and then, and energies of 1e12.
_SAMPLING = Sampling(
    num_steps=32,
    divergence="exact",
    num_probes=1,
    chunk_size=_DEFAULTS.sampling.chunk_size,
    is_quasi_random=False,
    churn=_DEFAULTS.sampling.churn,
    raw_solver=_DEFAULTS.sampling.raw_solver,
    raw_num_steps=_DEFAULTS.sampling.raw_num_steps,
)
_LADDER = Ladder(hottest=5.0, num_levels=8, spacing="geometric")

_OURS = ReweightedSettings(
    buffer_size=10_000,
    num_final_draws=2_000,
    ladder=_LADDER,
    initial=Initial(num_chains=50, num_steps=3_900, burn_in=500, thin=17),
    exploration=_EXPLORATION,
    network=_NETWORK,
    noise=_DEFAULTS.noise,
    training=_TRAINING,
    sampling=_SAMPLING,
    last_refinement=Refinement(num_steps=26, num_states=8, adapt_fraction=0.1),
)
_OURS_PT_DM = dataclasses.replace(
    pt_dm_like(_OURS, _LADDER, Initial(num_chains=50, num_steps=3_774, burn_in=500, thin=2)), buffer_size=80_000
)

# The appendix: 1e7 MALA steps at the two hottest of five temperatures, truncation at the 0.8 quantile, PT from 1,000 of
# the weighted draws for 1,000 steps with every 10th state joined, t_max = 40, Euler, learning rate 2e-3. Other than
# there: 100 chains side by side in place of one as long (the same evaluations, in minutes), 100,000 samples at all
# levels where the paper's first buffer has 200,000, a tenth of the refinement's steps adapts, and 20,000 iterations of
# training in place of 100,000 epochs, to fit half an hour on one GPU. Width, sigma_min and solver steps are ours.
_PAPER = PTSDSettings.paper(num_particles=22)
_PAPER = dataclasses.replace(
    _PAPER,
    buffer_size=100_000,
    ladder=Ladder(hottest=5.0, num_levels=5, spacing="geometric"),
    initial=Initial(num_chains=100, num_steps=100_000, burn_in=10_000, thin=90),
    exploration=dataclasses.replace(_PAPER.exploration, mass="unit"),
    network=dataclasses.replace(_PAPER.network, atoms=_ATOMS, bonds=_BONDS),
    noise=Noise(sigma_min=2e-4, sigma_max=40.0, is_isotropic=True, prior="isotropic"),
    training=dataclasses.replace(_PAPER.training, num_steps=20_000, learning_rate=2e-3),
    sampling=dataclasses.replace(_PAPER.sampling, num_steps=250, chunk_size=10_000),
    resampling=dataclasses.replace(_PAPER.resampling, quantile=0.8),
    refinement=Refinement(num_steps=1_000, num_chains=1_000, thin=10, adapt_fraction=0.1),
)
# Five levels for 5.2e6 steps, trained twice as long at twice the learning rate.
_PAPER_PT_DM = dataclasses.replace(
    pt_dm_like(_PAPER, _PAPER.ladder, Initial(num_chains=100, num_steps=52_000, burn_in=5_200, thin=46)),
    training=dataclasses.replace(_PAPER.training, num_steps=40_000, learning_rate=4e-3),
)

# In internal coordinates nothing is stiff: the defaults of any density, from T = 5 on, with more training.
_INTERNAL_TARGET = TargetConfig("aldp_internal")
_INTERNAL_DIM = 67


def _internal(method: str) -> MethodSettings:
    settings = resolved(SETTINGS_OF[method](), _INTERNAL_DIM)
    is_ptsd = isinstance(settings, PTSDSettings)
    return dataclasses.replace(
        settings,
        pilot=dataclasses.replace(settings.pilot, ceiling=5.0, max_rounds=3),
        ladder=Ladder(hottest=5.0, spacing="adaptive") if is_ptsd else _LADDER,
        exploration=Exploration(kernel="hmc", num_leapfrog=6, swap_interval=2),
        network=dataclasses.replace(settings.network, width=384, depth=4),
        training=dataclasses.replace(settings.training, num_steps=20_000, num_finetune_steps=6_000),
    )


_PAPERS = "alanine dipeptide, the paper's appendix, trained for less long"
_INTERNALLY = "alanine dipeptide in bond lengths, angles and torsions"
_BESIDE_IT = "PT+DM on alanine dipeptide in internal coordinates, at equal evaluations"
MOLECULE_PRESETS: dict[str, RunConfig] = {
    name: named_run(name, description, target, settings, _PAPER_METRICS if budget is None else _METRICS, budget)
    for name, description, target, settings, budget in (
        ("aldp", "alanine dipeptide, Cartesian, within the paper's evaluations", _LEFT, _OURS, _BUDGET),
        ("aldp-pt-dm", "PT+DM on alanine dipeptide at the evaluations of aldp", _LEFT, _OURS_PT_DM, _BUDGET),
        ("aldp-internal", _INTERNALLY, _INTERNAL_TARGET, _internal("ptsd"), _INTERNAL_BUDGET),
        ("aldp-internal-pt-dm", _BESIDE_IT, _INTERNAL_TARGET, _internal("pt_dm"), _INTERNAL_BUDGET),
        ("aldp-paper", f"PTSD on {_PAPERS}", _BOTH, _PAPER, None),
        ("aldp-paper-pt-dm", f"PT+DM on {_PAPERS}", _BOTH, _PAPER_PT_DM, None),
    )
}
"""By name; `presets.PRESETS` has them too."""
