"""Posteriors whose hard part can be summed or integrated by hand: linear parameters, labels of data, change points."""

import itertools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats
from scipy.special import betaln

import tempering as tp

from .grids import Axis, axis, log_sum, of_scipy, on_grid, posterior
from .record import Density

__all__ = ["CONJUGATE_POSTERIORS"]

_LOG_2PI = math.log(2.0 * math.pi)


def log_marginal(columns: np.ndarray, values: np.ndarray, noise: float, width: float) -> tuple[np.ndarray, ...]:
    """The log of the integral of N(values; columns b, noise^2) N(b; 0, width^2) over b, and the mean and variance of b.

    Args:
        columns: (*batch, row, coefficient).
    """
    num = columns.shape[-1]
    precision = np.swapaxes(columns, -1, -2) @ columns / noise**2 + np.eye(num) / width**2
    covariance = np.linalg.inv(precision)
    mean = (covariance @ (np.swapaxes(columns, -1, -2) @ values[..., None] / noise**2))[..., 0]
    fit = 0.5 * np.einsum("...i,...ij,...j->...", mean, precision, mean)
    base = -0.5 * np.sum(values**2, axis=-1) / noise**2 - values.shape[-1] * (math.log(noise) + 0.5 * _LOG_2PI)
    log_det = np.linalg.slogdet(precision)[1]
    return base + fit - 0.5 * log_det - num * math.log(width), mean, covariance


def sinusoid(times: np.ndarray, values: np.ndarray, noise: float, width: float) -> tuple[Callable, Callable]:
    """The log likelihood of a frequency and two amplitudes, and that of the frequency alone."""

    def log_likelihood(x, xp):
        phase = 2.0 * math.pi * x[0] * times
        off = (values - x[1] * xp.sin(phase) - x[2] * xp.cos(phase)) / noise
        return -0.5 * xp.sum(off**2) - len(times) * (math.log(noise) + 0.5 * _LOG_2PI)

    def marginal(x, xp):
        phase = 2.0 * math.pi * x[0][..., None] * times
        return log_marginal(np.stack([np.sin(phase), np.cos(phase)], axis=-1), values, noise, width)[0]

    return log_likelihood, marginal


def aliases() -> Density:
    """A sinusoid through eleven data at gaps of whole nights: frequency, and two amplitudes."""
    nights = np.array([0.0, 1.0, 2.0, 5.0, 6.0, 9.0, 13.0, 14.0, 20.0, 21.0, 27.0])
    times = nights + np.array([0.02, -0.03, 0.05, 0.01, -0.04, 0.03, 0.0, 0.06, -0.02, 0.04, -0.05])
    noise, width, omega = 0.7, 1.5, 2.0 * math.pi * 0.31
    values = 1.5 * np.sin(omega * times + 0.6) + noise * np.random.default_rng(2).standard_normal(len(times))

    log_likelihood, marginal = sinusoid(times, values, noise, width)
    # A night's alias of 0.31 is 0.69, 1.31 and so on; between them lie those of the gaps.
    edges = (0.25, 0.37, 0.6, 0.75, 1.2, 1.4, 1.6, 1.8, 2.2, 2.4)
    region = lambda x, xp: sum(xp.where(x[0] > edge, 1, 0) for edge in edges)  # noqa: E731
    prior = [tp.Uniform(0.05, 3.0), tp.Normal(0.0, width), tp.Normal(0.0, width)]
    found = on_grid([axis(prior[0], 60_000)], marginal, region, len(edges) + 1)
    return posterior(
        "aliases-3",
        prior,
        log_likelihood,
        "a period with dozens of aliases, each a narrow mode at another phase",
        "conjugacy, and quadrature over the frequency",
        region=region,
        num_regions=len(edges) + 1,
        found=found,
        masses=found.masses,
    )


def two_planets() -> Density:
    """Two sinusoids in a radial velocity: frequencies, and two amplitudes each. Labels are free."""
    generator = np.random.default_rng(4)
    times = np.sort(generator.uniform(0.0, 12.0, 22))
    noise, width = 0.6, 2.0
    clean = 1.6 * np.sin(2.0 * math.pi * 0.42 * times) + 1.0 * np.cos(2.0 * math.pi * 0.77 * times)
    values = clean + noise * generator.standard_normal(len(times))

    def log_likelihood(x, xp):
        first, second = (2.0 * math.pi * x[k] * times for k in range(2))
        model = x[2] * xp.sin(first) + x[3] * xp.cos(first) + x[4] * xp.sin(second) + x[5] * xp.cos(second)
        return -0.5 * xp.sum(((values - model) / noise) ** 2) - len(times) * (math.log(noise) + 0.5 * _LOG_2PI)

    low, high, num = 0.1, 1.5, 500
    frequencies = low + (high - low) * (np.arange(num) + 0.5) / num
    waves = np.stack([f(2.0 * math.pi * frequencies[:, None] * times) for f in (np.sin, np.cos)], axis=-1)
    logs = np.empty((num, num))
    for k in range(num):
        pair = np.concatenate([np.broadcast_to(waves[k], waves.shape), waves], axis=-1)
        logs[k] = log_marginal(pair, values, noise, width)[0]
    weights = np.exp(logs - logs.max())
    log_z = logs.max() + math.log(weights.mean())
    first = weights.sum(axis=1) / weights.sum()
    mean = first @ frequencies
    edges = (0.35, 0.5, 0.7, 0.85)
    inside = np.digitize(frequencies, edges)
    return posterior(
        "two-planets-6",
        [*[tp.Uniform(low, high)] * 2, *[tp.Normal(0.0, width)] * 4],
        log_likelihood,
        "two periods with aliases, and labels that are free",
        "conjugacy, and quadrature over two frequencies",
        region=lambda x, xp: sum(xp.where(x[0] > edge, 1, 0) for edge in edges),
        num_regions=len(edges) + 1,
        masses=np.bincount(inside, first, minlength=len(edges) + 1),
        log_z=float(log_z),
        spread=float(np.sqrt(first @ (frequencies - mean) ** 2)),
    )


def two_lines() -> Density:
    """A mixture of two regression lines with a free weight: intercepts and slopes, labels free."""
    generator = np.random.default_rng(6)
    covariate = np.linspace(-1.5, 1.5, 14)
    kind = generator.random(14) < 0.65
    clean = np.where(kind, 1.0 + 1.2 * covariate, -0.5 - 0.8 * covariate)
    noise, width = 0.5, 3.0
    values = clean + noise * generator.standard_normal(14)

    def log_likelihood(x, xp):
        logs = [-0.5 * ((values - x[2 * k] - x[2 * k + 1] * covariate) / noise) ** 2 for k in range(2)]
        mixed = xp.logaddexp(xp.log(x[4]) + logs[0], xp.log1p(-x[4]) + logs[1])
        return xp.sum(mixed) - len(values) * (math.log(noise) + 0.5 * _LOG_2PI)

    columns = np.stack([np.ones(14), covariate], axis=1)
    labels = np.array(list(itertools.product([0, 1], repeat=14)))
    logs, means, variances = [], [], []
    for kind in (labels == 1, labels == 0):
        # Rows of other data are zero, and their constants are taken out again.
        part = log_marginal(columns[None] * kind[..., None], values[None] * kind, noise, width)
        absent = np.sum(~kind, axis=1) * (math.log(noise) + 0.5 * _LOG_2PI)
        logs.append(part[0] + absent)
        means.append(part[1][:, 0])
        variances.append(part[2][:, 0, 0])
    count = labels.sum(axis=1)
    log_terms = logs[0] + logs[1] + betaln(2.0 + count, 2.0 + 14 - count) - betaln(2.0, 2.0)
    log_z = float(log_sum(log_terms))
    weights = np.exp(log_terms - log_z)
    mean = weights @ means[0]
    square = weights @ (variances[0] + means[0] ** 2)
    above = weights @ (1.0 - stats.beta.cdf(0.5, 2.0 + count, 2.0 + 14 - count))
    return posterior(
        "two-lines-5",
        [*[tp.Normal(0.0, width)] * 4, tp.Beta(2.0, 2.0)],
        log_likelihood,
        "a mixture of regressions with free labels, and lesser modes for every way to share the data",
        "a sum over all 16,384 ways to label the data",
        region=lambda x, xp: xp.where(x[4] > 0.5, 1, 0),
        num_regions=2,
        masses=np.array([1.0 - above, above]),
        log_z=log_z,
        spread=float(math.sqrt(square - mean**2)),
    )


def change_point() -> Density:
    """The time of a change, the levels before and after it, and the noise: flat in the time between the data."""
    generator = np.random.default_rng(3)
    times = np.sort(generator.uniform(0.0, 10.0, 16))
    values = np.where(times < 6.1, 0.4, 1.5) + 0.6 * generator.standard_normal(16)
    width = 2.0

    def log_likelihood(x, xp):
        level = xp.where(times < x[0][..., None], x[1][..., None], x[2][..., None])
        off = (values - level) / x[3][..., None]
        return -0.5 * xp.sum(off**2, axis=-1) - 16.0 * (xp.log(x[3]) + 0.5 * _LOG_2PI)

    noises = axis(tp.Exponential(1.0), 3000, 1e-3, 20.0)
    edges, logs = np.concatenate([[0.0], times, [10.0]]), []
    for before in range(17):
        columns = np.stack([np.arange(16) < before, np.arange(16) >= before], axis=1).astype(float)
        each = np.array([log_marginal(columns, values, noise, width)[0] for noise in noises.nodes])
        logs.append(log_sum(each + noises.log_masses) + math.log(np.diff(edges)[before] / 10.0))
    log_z = float(log_sum(logs))
    weights = np.exp(np.array(logs) - log_z)
    middle, gap = 0.5 * (edges[1:] + edges[:-1]), np.diff(edges)
    mean = weights @ middle
    spread = math.sqrt(weights @ (middle**2 + gap**2 / 12.0) - mean**2)
    bounds = times[[3, 6, 9, 12]]
    return posterior(
        "change-point-4",
        [tp.Uniform(0.0, 10.0), tp.Normal(0.0, width), tp.Normal(0.0, width), tp.Exponential(1.0)],
        log_likelihood,
        "steps: the likelihood is flat in a parameter between the data, and jumps at each of them",
        "conjugacy, a sum over gaps, quadrature over the noise",
        region=lambda x, xp: sum(xp.where(x[0] > float(bound), 1, 0) for bound in bounds),
        num_regions=5,
        masses=np.bincount(np.digitize(middle, bounds), weights, minlength=5),
        log_z=log_z,
        spread=spread,
    )


def spike_and_slab() -> Density:
    """Six coefficients, each from a narrow or a wide normal, with two pairs of covariates that are nearly the same."""
    generator = np.random.default_rng(9)
    columns = generator.standard_normal((30, 6))
    columns[:, 1] = columns[:, 0] + 0.15 * generator.standard_normal(30)
    columns[:, 3] = -columns[:, 2] + 0.25 * generator.standard_normal(30)
    values = columns @ np.array([1.4, 0.0, 0.0, 1.0, 0.4, 0.0]) + 0.8 * generator.standard_normal(30)
    noise, widths = 0.8, np.array([0.05, 2.0])

    def log_density(x):
        scaled = jnp.stack([-0.5 * (x / width) ** 2 - math.log(width) for width in widths])
        prior = jnp.sum(jax.scipy.special.logsumexp(scaled, axis=0) - math.log(2.0) - 0.5 * _LOG_2PI)
        off = (jnp.asarray(values, x.dtype) - jnp.asarray(columns, x.dtype) @ x) / noise
        return prior - 0.5 * jnp.sum(off**2) - len(values) * (math.log(noise) + 0.5 * _LOG_2PI)

    logs, means, variances = [], [], []
    patterns = np.array(list(itertools.product([0, 1], repeat=6)))
    for pattern in patterns:
        root = columns * widths[pattern]
        log_z, mean, covariance = log_marginal(root, values, noise, 1.0)
        logs.append(log_z - 6.0 * math.log(2.0))
        means.append(mean[0] * widths[pattern[0]])
        variances.append(covariance[0, 0] * widths[pattern[0]] ** 2)
    log_z = float(log_sum(logs))
    weights = np.exp(np.array(logs) - log_z)
    mean = weights @ means
    kinds = 8 * patterns[:, 0] + 4 * patterns[:, 1] + 2 * patterns[:, 2] + patterns[:, 3]

    def shares(x):
        """Whether each of the first four is from the wide normal, given x: independent."""
        ratio = [-0.5 * (x[:4] / width) ** 2 - math.log(width) for width in widths]
        wide = jax.nn.sigmoid(ratio[1] - ratio[0])
        both = jnp.stack([1.0 - wide, wide], axis=1)
        return jnp.einsum("a,b,c,d->abcd", *both).ravel()

    return Density(
        "spike-and-slab-6",
        6,
        log_density,
        "which of two nearly equal covariates counts: modes of unlike width along ridges",
        "a sum over all 64 patterns",
        log_z=log_z,
        shares=shares,
        masses=np.bincount(kinds, weights, minlength=16),
        spread=float(math.sqrt(weights @ (np.array(variances) + np.array(means) ** 2) - mean**2)),
    )


def wide_prior() -> Density:
    """Two modes of unit width under priors a hundred thousand times as wide."""
    centres, weights, width = np.array([[31_000.0, -1200.0, 60.0], [31_012.0, -1195.0, 20.0]]), [0.65, 0.35], 1.0
    prior = [tp.Uniform(0.0, 1e5), tp.Normal(0.0, 5e4), tp.LogNormal(0.0, 6.0)]
    log_prior = [
        of_scipy(prior[0]).logpdf(centres[:, 0]),
        of_scipy(prior[1]).logpdf(centres[:, 1]),
    ]
    # The third coordinate is narrow against its prior, but not so narrow that its slope could be left out.
    grid = np.array([np.linspace(c - 9.0, c + 9.0, 20_001) for c in centres[:, 2]])
    density = of_scipy(prior[2]).pdf(grid) * stats.norm.pdf(grid - centres[:, 2:])
    terms = np.log(weights) + sum(log_prior) + np.log(np.trapezoid(density, grid, axis=1))
    # The second prior's curvature over a width is 1e-10: its value at the centre is its mean.

    def logs(x, xp):
        return [
            math.log(weight) - 0.5 * sum((x[k] - float(centre[k])) ** 2 for k in range(3)) / width**2 - 1.5 * _LOG_2PI
            for weight, centre in zip(weights, centres, strict=True)
        ]

    return posterior(
        "wide-prior-3",
        prior,
        lambda x, xp: xp.logaddexp(*logs(x, xp)),
        "two modes that fill 1e-13 of the prior",
        "closed form, and one quadrature",
        shares=lambda x: jax.nn.softmax(jnp.stack(logs(x, jnp))),
        masses=np.exp(terms - log_sum(terms)),
        log_z=float(log_sum(terms)),
    )


def outliers() -> Density:
    """A line through data of which some are bad (Hogg et al. 2010): intercept, slope, share and width of the bad."""
    generator = np.random.default_rng(12)
    covariate = np.linspace(-2.0, 2.0, 12)
    values = 0.7 + 0.9 * covariate + 0.3 * generator.standard_normal(12)
    values[[2, 7, 10]] = 4.0, 3.5, -3.0
    noise, width = 0.3, 3.0

    def log_likelihood(x, xp):
        off = values - x[0] - x[1] * covariate
        scale = xp.sqrt(noise**2 + x[3] ** 2)
        good = xp.log1p(-x[2]) - 0.5 * (off / noise) ** 2 - math.log(noise)
        bad = xp.log(x[2]) - 0.5 * (off / scale) ** 2 - xp.log(scale)
        return xp.sum(xp.logaddexp(good, bad)) - 0.5 * len(values) * _LOG_2PI

    prior = [tp.Normal(0.0, width), tp.Normal(0.0, width), tp.Beta(1.0, 2.0), tp.HalfNormal(4.0)]
    scales: Axis = axis(prior[3], 160)
    labels = np.array(list(itertools.product([0, 1], repeat=12)))
    count = labels.sum(axis=1)
    log_shares = betaln(1.0 + count, 2.0 + 12 - count) - betaln(1.0, 2.0)
    columns = np.stack([np.ones(12), covariate], axis=1)
    logs, means, squares = [], [], []
    for node, log_mass in zip(scales.nodes, scales.log_masses, strict=True):
        scale = np.where(labels == 1, math.sqrt(noise**2 + node**2), noise)
        part, mean, covariance = log_marginal(columns[None] / scale[..., None], values / scale, 1.0, width)
        logs.append(part - np.sum(np.log(scale), axis=1) + log_shares + log_mass)
        means.append(mean[:, 0])
        squares.append(covariance[:, 0, 0] + mean[:, 0] ** 2)
    log_z = float(log_sum(logs))
    weights = np.exp(np.array(logs) - log_z)
    mean = float(np.sum(weights * means))
    above = np.sum(weights * (1.0 - stats.beta.cdf(0.35, 1.0 + count, 2.0 + 12 - count)))
    return posterior(
        "outliers-4",
        prior,
        log_likelihood,
        "a posterior mode for every set of data that may be bad",
        "a sum over all 4,096 sets, quadrature over a width",
        region=lambda x, xp: xp.where(x[2] > 0.35, 1, 0),
        num_regions=2,
        masses=np.array([1.0 - above, above]),
        log_z=log_z,
        spread=float(math.sqrt(np.sum(weights * squares) - mean**2)),
    )


CONJUGATE_POSTERIORS = {
    "aliases-3": aliases,
    "two-planets-6": two_planets,
    "two-lines-5": two_lines,
    "change-point-4": change_point,
    "spike-and-slab-6": spike_and_slab,
    "wide-prior-3": wide_prior,
    "outliers-4": outliers,
}
