"""Posteriors that hide their mass: periods among thousands, supports hardly met, spikes at single data."""

import itertools
import math

import jax.numpy as jnp
import numpy as np
from scipy import stats
from scipy.special import betaln

import tempering as tp

from .conjugate import sinusoid
from .grids import axis, log_sum, on_grid, posterior
from .record import Density

__all__ = ["STUBBORN"]

_LOG_2PI = math.log(2.0 * math.pi)


def period_search() -> Density:
    """A sinusoid in sixty uneven data over a long time: of some 1,600 periods a few explain them."""
    generator = np.random.default_rng(17)
    times = np.sort(generator.uniform(0.0, 40.0, 60))
    noise, width = 1.0, 1.0
    values = 0.9 * np.sin(2.0 * math.pi * 13.37 * times + 1.0) + noise * generator.standard_normal(60)
    log_likelihood, marginal = sinusoid(times, values, noise, width)
    prior = [tp.Uniform(0.01, 20.0), tp.Normal(0.0, width), tp.Normal(0.0, width)]
    region = lambda x, xp: xp.where(abs(x[0] - 13.37) < 0.03, 1, 0)  # noqa: E731
    found = on_grid([axis(prior[0], 60_000, cuts=[13.34, 13.4])], marginal, region, 2)
    return posterior(
        "period-search-3",
        prior,
        log_likelihood,
        "some 1,600 periods to choose from: each is an optimum, and a few count",
        "conjugacy, and quadrature over the frequency",
        region=region,
        num_regions=2,
        found=found,
        masses=found.masses,
    )


def hard_ring() -> Density:
    """A uniform ring, and nothing else: flat within, -inf on 99 parts in a hundred of the prior."""

    def log_likelihood(x, xp):
        radius = xp.sqrt((x[0] - 0.5) ** 2 + x[1] ** 2 + 1e-12)
        return xp.where(abs(radius - 1.5) < 0.02, 0.0, -xp.inf)

    return posterior(
        "hard-ring-2",
        [tp.Uniform(-3.0, 3.0)] * 2,
        log_likelihood,
        "a likelihood of 0 or -inf, without a slope anywhere, on a hundredth of the prior",
        "closed form",
        region=lambda x, xp: 2 * xp.where(x[0] > 0.5, 1, 0) + xp.where(x[1] > 0.0, 1, 0),
        num_regions=4,
        masses=np.full(4, 0.25),
        log_z=math.log(2.0 * math.pi * 1.5 * 0.04 / 36.0),
    )


def two_normals() -> Density:
    """A mixture of two normals for ten data, all free: a component may shrink onto any single datum, a spike."""
    values = np.array([-2.1, -1.4, -1.2, -0.9, -0.2, 1.1, 1.3, 1.9, 2.4, 5.2])
    width, num = 3.0, len(values)

    def log_likelihood(x, xp):
        logs = [-0.5 * ((values - x[k]) / x[2 + k]) ** 2 - xp.log(x[2 + k]) for k in range(2)]
        return xp.sum(xp.logaddexp(xp.log(x[4]) + logs[0], xp.log1p(-x[4]) + logs[1])) - 0.5 * num * _LOG_2PI

    scales = axis(tp.LogNormal(-0.5, 1.2), 1200)
    labels = np.array(list(itertools.product([0, 1], repeat=num)))
    count, total, square = labels.sum(axis=1), labels @ values, labels @ values**2
    one = np.empty(len(labels))
    variance = scales.nodes**2
    for k in range(len(labels)):
        n = count[k]
        # N(y; 0, s^2 I + w^2 1 1'), by the lemma of Sherman and Morrison.
        whole = variance + n * width**2
        fit = square[k] / variance - width**2 * total[k] ** 2 / (variance * whole)
        logs = -0.5 * fit - 0.5 * n * _LOG_2PI - 0.5 * (n - 1) * np.log(variance) - 0.5 * np.log(whole)
        one[k] = log_sum(logs + scales.log_masses)
    terms = one + one[::-1] + betaln(1.0 + count, 1.0 + num - count) - betaln(1.0, 1.0)  # reversed: the other labels
    log_z = float(log_sum(terms))
    weights = np.exp(terms - log_z)
    edges = (0.15, 0.5, 0.85)
    below = np.stack([weights @ stats.beta.cdf(edge, 1.0 + count, 1.0 + num - count) for edge in edges])
    return posterior(
        "two-normals-5",
        [tp.Normal(0.0, width)] * 2 + [tp.LogNormal(-0.5, 1.2)] * 2 + [tp.Uniform(0.0, 1.0)],
        log_likelihood,
        "labels are free, and a component may shrink onto any datum",
        "a sum over all 1,024 ways to label the data, quadrature over scales",
        region=lambda x, xp: sum(xp.where(x[4] > edge, 1, 0) for edge in edges),
        num_regions=4,
        masses=np.diff(np.concatenate([[0.0], below, [1.0]])),
        log_z=log_z,
    )


def many_data() -> Density:
    """Mean and scale of 30,000 data: the log likelihood is of the size of 1e5, where single precision has steps."""
    values = 250.0 + 4.0 * np.random.default_rng(23).standard_normal(30_000)
    num, mean, var = len(values), float(np.mean(values)), float(np.var(values))
    single = jnp.asarray(values, jnp.float32)

    def log_likelihood(x, xp):
        if xp is np:  # the same by sufficient statistics
            fit = (var + (mean - x[0]) ** 2) / x[1] ** 2
            return -0.5 * num * (fit + 2.0 * np.log(x[1]) + _LOG_2PI)
        return jnp.sum(-0.5 * ((single - x[0]) / x[1]) ** 2 - jnp.log(x[1]) - 0.5 * _LOG_2PI)

    prior = [tp.Normal(0.0, 500.0), tp.HalfNormal(20.0)]
    axes = [axis(prior[0], 800, mean - 0.3, mean + 0.3), axis(prior[1], 800, 3.8, 4.2)]
    return posterior(
        "many-data-2",
        prior,
        log_likelihood,
        "a likelihood of 30,000 data: its values have rounding errors of a hundredth",
        "sufficient statistics, and quadrature",
        axes=axes,
        region=lambda x, xp: xp.where(x[0] > mean, 1, 0),
        num_regions=2,
    )


STUBBORN = {
    "period-search-3": period_search,
    "hard-ring-2": hard_ring,
    "two-normals-5": two_normals,
    "many-data-2": many_data,
}
