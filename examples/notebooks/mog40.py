"""Forty Gaussians in the plane: a standard test of samplers, step by step."""

# %% [markdown]
# # Forty Gaussians
#
# Forty normal distributions of equal weight lie in a square of side 80. It is a standard test: a sampler must find
# all forty, and give each its share. The density is known exactly, so that every figure can be compared.

# %%
import time

import jax
import matplotlib.pyplot as plt
import numpy as np

import tempering as tp
from tempering.registry import make_target

target = make_target("mog40")
means = np.asarray(target.means)
exact = np.asarray(target.sample(jax.random.key(0), 10_000))
print(means.shape, exact.shape, float(target.log_density(means[0])))

# %% [markdown]
# ## Fit
# A budget of 20,000 evaluations. `scale=20` says that chains and searches start within some 20 units of the origin:
# without it they start within one unit, and must find out how large the square is.

# %%
start = time.perf_counter()
sampler = tp.fit(target, budget=20_000, scale=20.0, seed=0, progress=False)
print(f"{time.perf_counter() - start:.0f} s, {sampler.evaluations:,} evaluations")
print(sampler.summary())

# %% [markdown]
# ## Draw, weigh and compare
# Every draw is counted at its nearest centre. Each centre should get about 1/40.

# %%
draws = sampler.sample(10_000, seed=1)
weighted, log_weights = sampler.sample_weighted(10_000, seed=2)
weights = np.exp(log_weights - log_weights.max())


def shares(points, weights=None):
    nearest = np.argmin(np.sum((points[:, None] - means) ** 2, axis=-1), axis=1)
    counts = np.bincount(nearest, weights=weights, minlength=40)
    return counts / counts.sum()


found = {
    "exact samples": shares(exact),
    "plain draws": shares(draws),
    "weighted draws": shares(weighted, weights),
}
for name, share in found.items():
    distance = 0.5 * np.abs(share - 1 / 40).sum()
    print(f"{name:15} smallest {share.min():.4f}, largest {share.max():.4f}, total variation {distance:.4f}")
print(f"log Z {sampler.log_z:.4f} ± {sampler.log_z_error:.4f}, exact 0")

# %%
figure, axes = plt.subplots(
    1, 3, figsize=(12, 3.9), num="10,000 draws beside 10,000 exact samples, and the share of every Gaussian"
)
for axis, points, title in zip(axes[:2], (draws, exact), ("draws of the sampler", "exact samples"), strict=True):
    axis.scatter(*points.T, s=1, alpha=0.3, color="tab:blue", rasterized=True)
    axis.plot(*means.T, "+", color="tab:red", ms=4)
    axis.set(title=title, aspect="equal", xlim=(-50, 50), ylim=(-50, 50))
axes[2].plot(np.sort(shares(exact)), label="exact samples", color="black")
axes[2].plot(np.sort(shares(weighted, weights)), label="weighted draws", color="tab:blue")
axes[2].plot(np.sort(shares(draws)), label="plain draws", color="tab:blue", ls=":")
axes[2].axhline(1 / 40, color="grey", lw=0.7)
axes[2].set(title="share of each Gaussian, sorted", ylim=(0, 0.05))
axes[2].legend(frameon=False)
figure.tight_layout()

# %% [markdown]
# ## How it went
# `sampler.plot()` draws figures of any fit, also in more dimensions ([Looking at a
# sampler](../looking-at-a-sampler.md)).

# %%
sampler.plot()["marginals"]
