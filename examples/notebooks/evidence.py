"""The evidence of two models, by tempering, by dynesty and by quadrature."""

# %% [markdown]
# # Evidence of two models
#
# Does a signal decay exponentially or as a power law? Both models have two parameters. The evidence of each, Z = ∫
# L(x) π(x) dx, says how well it explains the data, averaged over its prior. The ratio of the two is the Bayes factor.
# With two parameters a fine grid gives the exact answer, so that we can compare: this library,
# [dynesty](https://dynesty.readthedocs.io) (nested sampling) and the grid.

# %%
import math
import time

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import tempering as tp

t = np.array([0.2, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0, 9.0])
signal = np.array([4.39, 3.72, 2.42, 2.26, 1.52, 1.07, 0.62, 0.55, 0.37, 0.23])
noise = 0.15


def exponential(amplitude, rate, xp):
    return amplitude * xp.exp(-rate * t)


def power_law(amplitude, rate, xp):
    return amplitude * (1 + t) ** -rate


def log_likelihood(mean, xp):
    return xp.sum(-0.5 * ((signal - mean) / noise) ** 2 - math.log(noise * math.sqrt(2 * math.pi)), axis=-1)


models = {"exponential": exponential, "power law": power_law}

# %% [markdown]
# ## By a grid
# Priors: the amplitude uniform from 0 to 10, the rate uniform from 0 to 4.

# %%
amplitudes, rates = np.linspace(0, 10, 2001), np.linspace(0, 4, 2001)
exact = {}
for name, model in models.items():
    values = np.stack([log_likelihood(model(amplitudes[:, None], rate, np), np) for rate in rates], axis=1)
    inside = np.trapezoid(np.trapezoid(np.exp(values - values.max()), rates), amplitudes)
    exact[name] = values.max() + math.log(inside / (10 * 4))
    print(f"{name:12} log Z {exact[name]:.3f}")

# %% [markdown]
# ## By tempering
# You hand over the log likelihood and the prior, by name.

# %%
prior = {"amplitude": tp.Uniform(0.0, 10.0), "rate": tp.Uniform(0.0, 4.0)}
ours = {}
for name, model in models.items():
    start = time.perf_counter()
    ours[name] = tp.fit(
        lambda p, model=model: log_likelihood(model(p["amplitude"], p["rate"], jnp), jnp),
        prior=prior,
        budget=20_000,
        seed=0,
        progress=False,
    )
    sampler = ours[name]
    print(
        f"{name:12} log Z {sampler.log_z:.3f} ± {sampler.log_z_error:.3f}, {sampler.evaluations:,} evaluations, ",
        end="",
    )
    print(f"{time.perf_counter() - start:.0f} s, verdict: {sampler.diagnose().status}")

# %% [markdown]
# ## By dynesty
# The same likelihood, and the prior as a transform of the unit square. 500 live points, its defaults otherwise.

# %%
from dynesty import NestedSampler

theirs = {}
for name, model in models.items():
    start = time.perf_counter()
    nested = NestedSampler(
        lambda x, model=model: log_likelihood(model(x[0], x[1], np), np),
        lambda u: u * np.array([10.0, 4.0]),
        ndim=2,
        nlive=500,
        rstate=np.random.default_rng(0),
    )
    nested.run_nested(print_progress=False)
    theirs[name] = nested.results
    print(f"{name:12} log Z {nested.results.logz[-1]:.3f} ± {nested.results.logzerr[-1]:.3f}, ", end="")
    print(f"{int(np.sum(nested.results.ncall)):,} evaluations, {time.perf_counter() - start:.0f} s")

# %% [markdown]
# ## The Bayes factor

# %%
first, second = models
error = math.hypot(ours[first].log_z_error, ours[second].log_z_error)
print(f"grid       {exact[first] - exact[second]:.3f}")
print(f"tempering  {ours[first].log_z - ours[second].log_z:.3f} ± {error:.3f}")
error = math.hypot(theirs[first].logzerr[-1], theirs[second].logzerr[-1])
print(f"dynesty    {theirs[first].logz[-1] - theirs[second].logz[-1]:.3f} ± {error:.3f}")

# %% [markdown]
# ## The posterior of the better model

# %%
better = ours[max(exact, key=exact.get)]
draws, log_weights = better.sample_weighted(5_000, seed=1)
weights = np.exp(log_weights - log_weights.max())
figure, (left, right) = plt.subplots(
    1,
    2,
    figsize=(10, 3.6),
    num="The data with both models at their posterior means, and the posterior of the better model",
)
left.errorbar(t, signal, noise, fmt="o", color="black", ms=4, lw=1)
fine = np.linspace(0, 9.5, 200)
for (name, sampler), colour in zip(ours.items(), ("tab:blue", "tab:orange"), strict=True):
    own, own_weights = sampler.sample_weighted(2_000, seed=2)
    own_weights = np.exp(own_weights - own_weights.max())
    a, r = (np.average(own[key], weights=own_weights) for key in ("amplitude", "rate"))
    left.plot(fine, a * (np.exp(-r * fine) if name == "exponential" else (1 + fine) ** -r), color=colour, label=name)
left.set(xlabel="t", ylabel="signal")
left.legend(frameon=False)
right.hist2d(draws["amplitude"], draws["rate"], bins=60, weights=weights, cmap="Blues")
right.set(xlabel="amplitude", ylabel="rate")
figure.tight_layout()

# %% [markdown]
# For a likelihood that costs a microsecond, dynesty is quicker. What this library saves is evaluations for a given
# error of log Z: that pays where one evaluation takes a millisecond or more ([How to choose a budget](../budget.md)).
# The guide to [priors and evidence](../evidence.md) has harder examples.
