"""A posterior with several modes: NumPyro's NUTS beside tempering, against the exact answer."""

# %% [markdown]
# # A posterior that NUTS misses
#
# A star wobbles with an unknown period. We have nine measurements of its speed, at uneven times, with known noise.
# Several frequencies explain them. How probable is each?
#
# This is a small, common kind of problem. A chain that starts near one frequency stays there: the others are far
# away, and there is nothing between them. Here the exact answer is known, because the two amplitudes can be
# integrated out by hand.

# %%
import time

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import numpyro
import numpyro.distributions as dist

import tempering as tp

times = jnp.array([0.60, 2.74, 3.11, 3.12, 4.20, 5.39, 7.18, 7.81, 9.26])
speeds = jnp.array([0.22, -0.40, 1.26, 1.17, -0.20, 0.20, 1.02, -0.88, -0.87])
noise = 0.5


def model(times, speeds=None):
    frequency = numpyro.sample("frequency", dist.Uniform(0.1, 1.6))
    cosine = numpyro.sample("cosine", dist.Normal(0.0, 1.0))
    sine = numpyro.sample("sine", dist.Normal(0.0, 1.0))
    angle = 2 * jnp.pi * frequency * times
    numpyro.sample("speeds", dist.Normal(cosine * jnp.cos(angle) + sine * jnp.sin(angle), noise), obs=speeds)


# %% [markdown]
# ## The exact answer
# For a given frequency the model is linear and Gaussian, so that its likelihood has a closed form. A fine grid over
# the one parameter that is left gives the density of the frequency and the evidence.

# %%
grid = np.linspace(0.1, 1.6, 6001)
angles = 2 * np.pi * grid[:, None] * np.asarray(times)
covariance = np.cos(angles)[:, :, None] * np.cos(angles)[:, None] + np.sin(angles)[:, :, None] * np.sin(angles)[:, None]
covariance += noise**2 * np.eye(len(times))
fit_of_data = np.einsum("i,gij,j->g", speeds, np.linalg.inv(covariance), speeds)
log_likelihood = -0.5 * (fit_of_data + np.linalg.slogdet(2 * np.pi * covariance)[1])
likelihood = np.exp(log_likelihood)
exact_log_z = np.log(np.trapezoid(likelihood, grid) / 1.5)
exact = likelihood / np.trapezoid(likelihood, grid)

low, high = 0.85, 1.20  # three groups of frequencies: below, between and above


def shares(frequencies, weights=None):
    groups = np.digitize(frequencies, [low, high])
    return np.bincount(groups, weights=weights, minlength=3) / (len(groups) if weights is None else np.sum(weights))


exact_shares = shares(grid, exact)
print("exact shares of the three groups", exact_shares.round(3), " log Z", round(exact_log_z, 3))

# %% [markdown]
# ## NUTS
# Four chains, 1,000 steps of warm-up and 2,500 draws each, started from the prior. This is what most people would
# run.

# %%
from numpyro.infer import MCMC, NUTS, init_to_sample

start = time.perf_counter()
mcmc = MCMC(
    NUTS(model, init_strategy=init_to_sample),
    num_warmup=1000,
    num_samples=2500,
    num_chains=4,
    chain_method="vectorized",
    progress_bar=False,
)
mcmc.run(jax.random.key(0), times, speeds=speeds, extra_fields=("num_steps",))
nuts = np.asarray(mcmc.get_samples(group_by_chain=True)["frequency"])
nuts_gradients = int(mcmc.get_extra_fields()["num_steps"].sum())
for chain in nuts:
    print("shares of a chain", shares(chain).round(3))
print("all chains       ", shares(nuts.ravel()).round(3))
print(f"{time.perf_counter() - start:.0f} s, {nuts_gradients:,} gradients after warm-up")

# %% [markdown]
# ## Tempering

# %%
start = time.perf_counter()
sampler = tp.fit(tp.from_numpyro(model, times, speeds=speeds), seed=0, progress=False)
draws, log_weights = sampler.sample_weighted(10_000, seed=1)
weights = np.exp(log_weights - log_weights.max())
print("shares, weighted ", shares(draws["frequency"], weights).round(3))
print("shares, plain    ", shares(sampler.sample(10_000, seed=2)["frequency"]).round(3))
print(f"log Z {sampler.log_z:.3f} ± {sampler.log_z_error:.3f}, exact {exact_log_z:.3f}")
print(f"{time.perf_counter() - start:.0f} s, {sampler.evaluations:,} evaluations for the fit, 10,000 for the weights")
print(sampler.diagnose())

# %% [markdown]
# ## The picture

# %%
figure, (left, right) = plt.subplots(
    1, 2, figsize=(11, 3.8), num="Data with posterior curves, and the density of the frequency by three methods"
)
fine = np.linspace(0, 10, 500)
for i in np.random.default_rng(0).choice(len(weights), 30, p=weights / weights.sum()):
    angle = 2 * np.pi * draws["frequency"][i] * fine
    left.plot(
        fine, draws["cosine"][i] * np.cos(angle) + draws["sine"][i] * np.sin(angle), color="tab:blue", alpha=0.15, lw=1
    )
left.errorbar(times, speeds, noise, fmt="o", color="black", ms=4, lw=1)
left.set(xlabel="time", ylabel="speed", title="nine measurements, and 30 curves of the posterior")
bins = np.linspace(0.1, 1.6, 151)
right.hist(draws["frequency"], bins, weights=weights, density=True, color="tab:blue", alpha=0.45, label="tempering")
right.plot(grid, exact, color="black", lw=1, label="exact")
right.hist(nuts.ravel(), bins, density=True, histtype="step", color="tab:red", lw=1.2, label="NUTS, 4 chains")
right.set(xlabel="frequency", yticks=[], xlim=(0.1, 1.6), title="which frequency?")
right.legend(frameon=False)
figure.tight_layout()

# %% [markdown]
# NUTS is the right tool for one mode: it is fast and needs no training. It cannot say how much a mode weighs that its
# chains never leave. The verdict above says what was looked at, and what no check can know ([Can the answer be
# trusted?](../trust.md)).
