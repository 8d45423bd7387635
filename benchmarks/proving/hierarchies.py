"""Hierarchical models in NumPyro and in plain priors, and densities with supports: chains of conditionals."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

import tempering as tp

from .grids import Axis, Truth, axis, log_sum, on_grid, posterior
from .record import Density, Tolerance

__all__ = ["HIERARCHIES"]

_LOG_2PI = math.log(2.0 * math.pi)

_GROUPS = np.array([2.8, 0.8, -0.3, 0.7, -0.1, 0.1, 1.8, 1.2, 4.9, 0.5])
_ERRORS = np.array([1.5, 1.0, 1.6, 1.1, 0.9, 1.1, 1.0, 1.8, 0.8, 1.3])


def _levels(prior_scale, region, num_regions: int, errors: np.ndarray) -> Truth:
    """mu ~ N(0, 5^2) and tau under a prior; the groups are integrated by hand."""

    def marginal(x, xp):
        total = 0.0
        for value, error in zip(_GROUPS, errors, strict=True):
            variance = error**2 + x[1] ** 2
            total = total - 0.5 * (value - x[0]) ** 2 / variance - 0.5 * xp.log(variance) - 0.5 * _LOG_2PI
        return total

    return on_grid([axis(tp.Normal(0.0, 5.0), 600), prior_scale], marginal, region, num_regions)


def centred() -> Density:
    """Ten groups in NumPyro, centred, with a half-Cauchy scale: a funnel under a mean, twelve parameters."""

    def model(values=_GROUPS):
        import numpyro
        import numpyro.distributions as dist

        mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
        tau = numpyro.sample("tau", dist.HalfCauchy(1.0))
        with numpyro.plate("groups", len(_GROUPS)):
            theta = numpyro.sample("theta", dist.Normal(mu, tau))
            numpyro.sample("y", dist.Normal(theta, jnp.asarray(_ERRORS, jnp.float32)), obs=values)

    def log_density(x):
        mu, log_tau, theta = x[0], x[1], x[2:]
        tau = jnp.exp(log_tau)
        prior = -0.5 * (mu / 5.0) ** 2 - math.log(5.0) - 0.5 * _LOG_2PI
        prior += math.log(2.0 / math.pi) - jnp.log1p(tau**2) + log_tau
        prior += jnp.sum(-0.5 * ((theta - mu) / tau) ** 2 - log_tau - 0.5 * _LOG_2PI)
        off = (jnp.asarray(_GROUPS, x.dtype) - theta) / jnp.asarray(_ERRORS, x.dtype)
        return prior + jnp.sum(-0.5 * off**2) - float(np.sum(np.log(_ERRORS))) - 5.0 * _LOG_2PI

    cauchy = stats.halfcauchy()
    z = np.linspace(-7.5, 7.5, 1500)
    nodes = np.where(z < 0, cauchy.ppf(stats.norm.cdf(z)), cauchy.isf(stats.norm.sf(z)))
    taus = Axis(nodes, stats.norm.logpdf(z) + math.log(z[1] - z[0]))
    cuts = (0.3, 1.0, 2.0)
    found = _levels(taus, lambda x, xp: sum(xp.where(x[1] > cut, 1, 0) for cut in cuts), 4, _ERRORS)
    return Density(
        "groups-12",
        12,
        log_density,
        "a centred hierarchy in NumPyro: a neck, with a shoulder of the mass",
        "the groups by hand, quadrature over mean and scale",
        log_z=found.log_z,
        masses=found.masses,
        shares=lambda x: jax.nn.one_hot(sum(jnp.where(x[1] > math.log(cut), 1, 0) for cut in cuts), 4),
        spread=found.spread,
        handed=lambda: tp.from_numpyro(model, jnp.asarray(_GROUPS, jnp.float32)),
        flat=lambda tree: np.concatenate(
            [np.asarray(tree["mu"])[:, None], np.log(np.asarray(tree["tau"]))[:, None], np.asarray(tree["theta"])],
            axis=1,
        ),
    )


def not_centred() -> Density:
    """The same with data ten times as precise and standard normals for the groups: the product with tau is known."""
    errors = 0.1 * _ERRORS

    def log_likelihood(x, xp):
        total = 0.0
        for k, (value, error) in enumerate(zip(_GROUPS, errors, strict=True)):
            theta = x[0] + x[1] * x[2 + k]
            total = total - 0.5 * ((value - theta) / error) ** 2 - math.log(error) - 0.5 * _LOG_2PI
        return total

    prior = [tp.Normal(0.0, 5.0), tp.HalfNormal(3.0), *[tp.Normal(0.0, 1.0)] * 10]
    cuts = (1.2, 1.5, 2.0)
    region = lambda x, xp: sum(xp.where(x[1] > cut, 1, 0) for cut in cuts)  # noqa: E731
    found = _levels(axis(prior[1], 1500, cuts=cuts), region, 4, errors)
    return posterior(
        "not-centred-12",
        prior,
        log_likelihood,
        "a hierarchy that is not centred, with precise data: eleven parameters bend together",
        "the groups by hand, quadrature over mean and scale",
        region=region,
        num_regions=4,
        masses=found.masses,
        found=found,
    )


def horseshoe() -> Density:
    """Four means under a horseshoe in NumPyro, centred: nine parameters, scales from 0 to thousands."""
    values, noise = np.array([0.3, 3.1, -0.6, 5.5]), 1.0

    def model(data=values):
        import numpyro
        import numpyro.distributions as dist

        tau = numpyro.sample("tau", dist.HalfCauchy(0.5))
        with numpyro.plate("means", 4):
            scale = numpyro.sample("lambda", dist.HalfCauchy(1.0))
            theta = numpyro.sample("theta", dist.Normal(0.0, tau * scale))
            numpyro.sample("y", dist.Normal(theta, noise), obs=data)

    def log_density(x):
        log_tau, log_scale, theta = x[0], x[1:5], x[5:]
        prior = math.log(2.0 / math.pi) - math.log(0.5) - jnp.log1p(jnp.exp(2.0 * log_tau) / 0.25) + log_tau
        prior += jnp.sum(math.log(2.0 / math.pi) - jnp.log1p(jnp.exp(2.0 * log_scale)) + log_scale)
        log_width = log_tau + log_scale
        prior += jnp.sum(-0.5 * (theta * jnp.exp(-log_width)) ** 2 - log_width - 0.5 * _LOG_2PI)
        return prior + jnp.sum(-0.5 * ((jnp.asarray(values, x.dtype) - theta) / noise) ** 2 - 0.5 * _LOG_2PI)

    t = np.linspace(-30.0, 30.0, 3001)  # the logarithm of a scale
    log_cauchy = math.log(2.0 / math.pi) + t - np.logaddexp(0.0, 2.0 * t) + math.log(t[1] - t[0])
    log_tau = t[::4] + math.log(0.5)
    log_tau_mass = log_cauchy[::4] + math.log(4.0)
    joint, above, at = [], [], 1.5
    for k, value in enumerate(values):
        width = np.exp(2.0 * (log_tau[:, None] + t[None]))
        logs = log_cauchy - 0.5 * np.log(width + noise**2) - 0.5 * _LOG_2PI - 0.5 * value**2 / (width + noise**2)
        joint.append(log_sum(logs, axis=1))
        if k == 1:  # theta given its scale is normal
            shrink = width / (width + noise**2)
            chance = stats.norm.sf((at - shrink * value) / np.sqrt(shrink * noise**2 + 1e-300))
            above = np.sum(np.exp(logs - joint[-1][:, None]) * chance, axis=1)
    logs = log_tau_mass + sum(joint)
    log_z = float(log_sum(logs))
    share = float(np.sum(np.exp(logs - log_z) * above))
    return Density(
        "horseshoe-9",
        9,
        log_density,
        "a centred horseshoe in NumPyro: funnels of which each has a funnel for its scale",
        "quadrature over scales, means by hand",
        log_z=log_z,
        masses=np.array([share, 1.0 - share]),
        shares=lambda x: jnp.where(x[6] > at, jnp.array([1.0, 0.0]), jnp.array([0.0, 1.0])),
        handed=lambda: tp.from_numpyro(model, jnp.asarray(values, jnp.float32)),
        flat=lambda tree: np.concatenate(
            [
                np.log(np.asarray(tree["tau"]))[:, None],
                np.log(np.asarray(tree["lambda"])),
                np.asarray(tree["theta"]),
            ],
            axis=1,
        ),
        tolerance=Tolerance(log_z=0.1),
    )


def composition() -> Density:
    """Two Dirichlet distributions on the simplex of five parts; one of them is infinite at an edge."""
    shapes, weights = np.array([[12.0, 3.0, 2.0, 4.0, 1.5], [0.6, 1.0, 6.0, 0.8, 9.0]]), np.array([0.55, 0.45])
    constants = [math.lgamma(s.sum()) - sum(math.lgamma(a) for a in s) for s in shapes] + np.log(weights)

    def logs(x):
        powers = jnp.asarray(shapes - 1.0, x.dtype)
        return jnp.asarray(constants, x.dtype) + jnp.sum(powers * jnp.log(x)[None], axis=1)

    return Density(
        "composition-5",
        5,
        lambda x: jax.scipy.special.logsumexp(logs(x)),
        "two modes on a simplex, one of them at an edge where the density is infinite",
        "closed form",
        log_z=0.0,
        shares=lambda x: jax.nn.softmax(logs(x)),
        masses=weights,
        how={"support": tp.simplex},
    )


def mixed_support() -> Density:
    """A positive number that is most likely 0, a share, and a real number that follows the logarithm of the first."""
    gamma, beta = 0.7, (0.6, 3.0)
    log_beta = math.lgamma(beta[0]) + math.lgamma(beta[1]) - math.lgamma(sum(beta))

    def log_density(x):
        first = (gamma - 1.0) * jnp.log(x[0]) - x[0] - math.lgamma(gamma)
        second = (beta[0] - 1.0) * jnp.log(x[1]) + (beta[1] - 1.0) * jnp.log1p(-x[1]) - log_beta
        third = -0.5 * ((x[2] - jnp.log(x[0])) / 0.3) ** 2 - math.log(0.3) - 0.5 * _LOG_2PI
        return first + second + third

    cuts = stats.gamma(gamma).ppf([0.25, 0.5, 0.75])
    return Density(
        "mixed-support-3",
        3,
        log_density,
        "densities that are infinite at two ends, and a ridge along a logarithm",
        "closed form: a chain of conditionals",
        log_z=0.0,
        shares=lambda x: jax.nn.one_hot(sum(jnp.where(x[0] > float(cut), 1, 0) for cut in cuts), 4),
        masses=np.full(4, 0.25),
        spread=math.sqrt(gamma),
        how={"support": [tp.positive, tp.interval(0.0, 1.0), tp.real]},
    )


def cutpoints() -> Density:
    """Three ordered cutpoints of an ordinal model; one level was hardly ever seen."""
    counts = np.array([9, 1, 4, 16])

    def inner(x, xp):
        lower = [1.0 / (1.0 + xp.exp(-x[k])) for k in range(3)]
        parts = [lower[0], lower[1] - lower[0], lower[2] - lower[1], 1.0 - lower[2]]
        log_prior = sum(-0.5 * (x[k] / 3.0) ** 2 - math.log(3.0) - 0.5 * _LOG_2PI for k in range(3))
        total = log_prior
        for count, part in zip(counts, parts, strict=True):
            total = total + float(count) * xp.log(xp.maximum(part, 1e-30))
        return total

    first = Axis(np.arange(-6.0, 5.0, 0.02) + 0.01, np.full(550, math.log(0.02)))
    gaps = [Axis(np.arange(0.0, end, 0.01) + 0.005, np.full(round(100 * end), math.log(0.01))) for end in (4.0, 5.0)]

    def of_gaps(x, xp):
        return inner([x[0], x[0] + x[1], x[0] + x[1] + x[2]], xp)

    region = lambda x, xp: xp.where(x[1] - x[0] > 0.15, 1, 0) + xp.where(x[1] - x[0] > 0.4, 1, 0)  # noqa: E731
    # Over the first cutpoint and the gaps after it, whose Jacobian is 1.
    found = on_grid([first, *gaps], of_gaps, lambda x, xp: region([0.0, x[1]], xp), 3)
    return Density(
        "cutpoints-3",
        3,
        lambda x: inner(x, jnp),
        "ordered parameters of which two are nearly equal",
        "quadrature",
        log_z=found.log_z,
        masses=found.masses,
        shares=lambda x: jax.nn.one_hot(region(x, jnp), 3),
        spread=found.spread,
        how={"support": tp.ordered},
    )


HIERARCHIES = {
    "groups-12": centred,
    "not-centred-12": not_centred,
    "horseshoe-9": horseshoe,
    "composition-5": composition,
    "mixed-support-3": mixed_support,
    "cutpoints-3": cutpoints,
}
