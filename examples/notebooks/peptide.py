"""Alanine dipeptide in internal coordinates, small enough for two cores."""

# %% [markdown]
# # A peptide
#
# Alanine dipeptide, 22 atoms in implicit solvent at 300 K. Two angles of its backbone, φ and ψ, tell its shapes
# apart. The force field comes with the package; [Your own peptide](../tutorial-peptide.md) starts from a PDB file.
#
# This notebook is sized for two CPU cores and a few minutes. So it takes the simplest method: parallel tempering at
# four temperatures, and one diffusion model of the samples at 300 K (`method="pt_dm"`). It spends about a ninth of the
# evaluations of the preset `aldp-internal`, whose results are on the
# [page of results](../results.md#particles-and-molecules). What it reaches is shown as it is.

# %%
import time

import numpy as np

import tempering as tp
from tempering.lab.report.molecule_figures import ramachandran_figure
from tempering.molecules import backbone_angles, internal_coordinates
from tempering.registry import make_target

target = make_target("aldp", temperature=300.0, chirality="L")
inner = internal_coordinates(target)
print(f"{target.num_atoms} atoms, {inner.dim} internal coordinates")

# %% [markdown]
# Bond lengths, angles and torsions keep stiff directions apart from soft ones. Draws are Cartesian all the same.
# Temperatures are in units of 300 K.

# %%
start = time.perf_counter()
sampler = tp.fit(
    inner,
    method="pt_dm",
    ladder=[4.0, 2.5, 1.6, 1.0],
    budget=300_000,
    settings={"training.num_steps": 3000},
    seed=0,
    progress=False,
)
print(f"{time.perf_counter() - start:.0f} s")
print(sampler.summary())

# %% [markdown]
# ## Populations
# φ below 0 holds nearly all of the mass. Weighted draws give the populations, with errors from the spread of the
# weights.

# %%
start = time.perf_counter()
conformations, log_weights = sampler.sample_weighted(1_000, seed=1)
weights = np.exp(log_weights - log_weights.max())
weights /= weights.sum()
phi, psi = np.degrees(np.moveaxis(backbone_angles(target, conformations)[:, 0], 1, 0))
regions = {
    "β and PPII (φ < 0, ψ above 50 or below −120)": (phi < 0) & ((psi > 50) | (psi < -120)),
    "α (φ < 0, the rest)": (phi < 0) & (psi <= 50) & (psi >= -120),
    "left-handed (φ > 0)": phi >= 0,
}
for name, inside in regions.items():
    share = np.sum(weights[inside])
    error = np.sqrt(np.sum(weights**2 * (inside - share) ** 2))
    print(f"{name:48} {share:.3f} ± {error:.3f}")
print(f"effective share {1 / np.sum(weights**2) / len(weights):.3f}")
print(f"{time.perf_counter() - start:.0f} s for 1,000 weighted draws")

# %%
ramachandran_figure(target, conformations, log_weights=log_weights)

# %% [markdown]
# ## Can it be trusted?

# %%
print(sampler.diagnose())

# %% [markdown]
# The verdict names what this small run lacks. Neighbouring temperatures swap in 5 % of the attempts only, so that no
# chain went from hot to cold and back, and nothing was seen of the left-handed shape, which has about 0.2 % of the mass
# ([reference samples](../reference-samples.md#alanine-dipeptide)). More temperatures and a larger budget are the
# answer; the presets on the [page of results](../results.md#particles-and-molecules) have both.
