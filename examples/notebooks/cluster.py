"""A Lennard-Jones cluster of six particles in three dimensions, with its two shapes."""

# %% [markdown]
# # A Lennard-Jones cluster in 3-D
#
# Six particles attract each other. At low temperature they form one of two shapes: an octahedron, which has the
# lowest energy, or a tetrahedron with two caps, which has more room to move. Their shares are a matter of a few per
# cent of the energy, and a chain rarely goes from one to the other.
#
# Particles are handed over as a potential of the distance. The network knows that turning, mirroring and renaming the
# particles changes nothing ([Particles](../particles.md)).

# %%
import time

import jax
import matplotlib.pyplot as plt
import numpy as np

import tempering as tp

depth = 7.0  # the depth of the well, in units of k_B T
cluster = tp.PairPotential(lambda r: depth * (r**-12 - 2 * r**-6), num_particles=6, spatial_dim=3, trap=1.0)

# %%
start = time.perf_counter()
sampler = tp.fit(cluster, budget=40_000, seed=0, settings={"training.num_steps": 1000}, progress=False)
print(f"{time.perf_counter() - start:.0f} s")
print(sampler.summary())

# %% [markdown]
# ## Which shape?
# We count pairs that touch (closer than 1.25): the octahedron has twelve contacts and the capped tetrahedron too, but
# in the octahedron every particle has four. Thermal motion blurs the count, so we look at the distances: only the
# octahedron has three pairs at √2, and the capped tetrahedron has pairs at 1.63.

# %%
draws, log_weights = sampler.sample_weighted(2_000, seed=1)
weights = np.exp(log_weights - log_weights.max())
weights /= weights.sum()
configurations = draws.reshape(-1, 6, 3)
first, second = np.triu_indices(6, 1)


def sorted_distances(points):
    return np.sort(np.linalg.norm(points[:, first] - points[:, second], axis=-1), axis=1)


distances = sorted_distances(configurations)
energy = np.sum(depth * (distances**-12 - 2 * distances**-6), axis=1)
farthest = distances[:, -1]
print(f"mean potential energy of the pairs {np.sum(weights * energy):.2f} k_B T")
print(f"effective share of the weights {1 / np.sum(weights**2) / len(weights):.2f}")
print(f"log Z {sampler.log_z:.2f} ± {sampler.log_z_error:.2f}")
for low, high in ((0.0, 1.55), (1.55, 1.85), (1.85, np.inf)):
    inside = (farthest > low) & (farthest <= high)
    print(f"largest distance from {low} to {high}: {np.sum(weights[inside]):.3f} of the mass")

# %% [markdown]
# ## Against plain Monte Carlo
# A long run of parallel tempering is the reference. It costs many times as many evaluations, and gives dependent
# samples.

# %%
from tempering.lab.reference import ReferenceSettings, make_reference

start = time.perf_counter()
reference = make_reference(cluster, jax.random.key(0), 5_000, ReferenceSettings(num_chains=64, num_steps=1_000))
trusted = sorted_distances(np.asarray(reference.positions).reshape(-1, 6, 3))
print(f"{time.perf_counter() - start:.0f} s, {reference.evaluations:,} evaluations")

figure = plt.figure(
    figsize=(11, 3.8), num="Distances between particles, the largest distance, and one draw of each shape"
)
axis = figure.add_subplot(131)
bins = np.linspace(0.8, 2.6, 91)
axis.hist(
    distances.ravel(), bins, weights=np.repeat(weights, distances.shape[1]), density=True, alpha=0.5, label="tempering"
)
axis.hist(trusted.ravel(), bins, density=True, histtype="step", color="black", label="reference")
axis.set(xlabel="distance of two particles", yticks=[])
axis.legend(frameon=False)
axis = figure.add_subplot(132)
axis.hist(farthest, bins, weights=weights, density=True, alpha=0.5)
axis.hist(trusted[:, -1], bins, density=True, histtype="step", color="black")
axis.set(xlabel="largest distance", yticks=[])
axis = figure.add_subplot(133, projection="3d")
picks = np.argmin(np.abs(farthest - 1.42)), np.argmin(np.abs(farthest - 1.66))
for pick, offset, colour in zip(picks, (-1.3, 1.3), ("tab:blue", "tab:orange"), strict=True):
    points = configurations[pick] + np.array([offset, 0, 0])
    axis.scatter(*points.T, s=220, color=colour, edgecolor="black", depthshade=False)
    for i, j in zip(first, second, strict=True):
        if np.linalg.norm(points[i] - points[j]) < 1.25:
            axis.plot(*points[[i, j]].T, color="grey", lw=1)
axis.set_axis_off()
axis.set_box_aspect((2, 1, 1))
figure.tight_layout()
