"""Posteriors as people bring them who know nothing of the library: latent paths, truncated data, feasible sets."""

import math
from collections.abc import Callable

import jax
import numpy as np

import tempering as tp

from .grids import Truth, axis, on_grid, posterior
from .record import Density

__all__ = ["VISITORS"]

_LOG_2PI = math.log(2.0 * math.pi)


def _returns(num: int = 16) -> np.ndarray:
    generator = np.random.default_rng(41)
    h, values = 0.0, []
    for _ in range(num):
        h = 0.9 * h + 0.5 * generator.standard_normal()
        values.append(math.exp(0.5 * h) * generator.standard_normal())
    return np.array(values)


def _volatility_truth(values, persistence, scale, region, num_regions) -> Truth:
    """A filter on a grid of the latent path, for every persistence and scale."""
    standard = np.linspace(-6.0, 6.0, 241)

    def marginal(x, xp):
        out = np.empty(x[0].shape)
        for index in np.ndindex(*out.shape):
            phi, sigma = x[0][index], x[1][index]
            wide = sigma / math.sqrt((1.0 - phi) * (1.0 + phi))
            h = standard * min(wide, 1.5)
            # Columns add up to one, so that a step that the grid does not resolve stays where it is.
            move = np.exp(-0.5 * ((h[:, None] - phi * h[None]) / sigma) ** 2)
            move, p, total = move / move.sum(axis=0), np.exp(-0.5 * (h / wide) ** 2), 0.0
            p = p / p.sum()
            for k, y in enumerate(values):
                p = (p if k == 0 else move @ p) * np.exp(-0.5 * y**2 * np.exp(-h) - 0.5 * h - 0.5 * _LOG_2PI)
                total += math.log(p.sum())
                p = p / p.sum()
            out[index] = total
        return out

    return on_grid([persistence, scale], marginal, region, num_regions)


def volatility() -> Density:
    """Stochastic volatility of sixteen returns, not centred: persistence, scale, and a standard normal for each day."""
    values = _returns()
    prior = [tp.Beta(8.0, 2.0), tp.HalfNormal(1.0), *[tp.Normal(0.0, 1.0)] * len(values)]

    def log_likelihood(x, xp):
        h = x[1] / xp.sqrt(1.0 - x[0] ** 2) * x[2]
        total = 0.0
        for k, y in enumerate(values):
            h = h if k == 0 else x[0] * h + x[1] * x[2 + k]
            total = total - 0.5 * y**2 * xp.exp(-h) - 0.5 * h - 0.5 * _LOG_2PI
        return total

    cuts = (0.25, 0.5, 0.9)
    region = lambda x, xp: sum(xp.where(x[1] > cut, 1, 0) for cut in cuts)  # noqa: E731
    found = _volatility_truth(values, axis(prior[0], 40), axis(prior[1], 60, cuts=cuts), region, 4)
    return posterior(
        "volatility-18",
        prior,
        log_likelihood,
        "a latent path and its two parameters, not centred",
        "a filter on a grid, quadrature over the parameters",
        region=region,
        num_regions=4,
        found=found,
        masses=found.masses,
    )


def selected() -> Density:
    """Mean and spread of fluxes of which those below a limit were never seen: the mean may be far below it."""
    limit = 1.0
    values = limit + np.array([0.05, 0.1, 0.22, 0.3, 0.41, 0.6, 0.9, 1.4])

    def log_likelihood(x, xp):
        from scipy.special import log_ndtr

        log_cdf = log_ndtr if xp is np else jax.scipy.special.log_ndtr
        total = sum(-0.5 * ((y - x[0]) / x[1]) ** 2 - xp.log(x[1]) - 0.5 * _LOG_2PI for y in values)
        return total - len(values) * log_cdf((x[0] - limit) / x[1])

    prior = [tp.Normal(0.0, 10.0), tp.LogNormal(0.0, 1.0)]
    cuts = (-10.0, -3.0, 0.0)
    return posterior(
        "selected-2",
        prior,
        log_likelihood,
        "truncated data: a ridge that runs far below the limit, which only the prior ends",
        "quadrature",
        axes=[axis(prior[0], 1500, cuts=cuts), axis(prior[1], 3000)],
        region=lambda x, xp: sum(xp.where(x[0] > cut, 1, 0) for cut in cuts),
        num_regions=4,
    )


def ends() -> Density:
    """Both ends of a uniform distribution from four data, and of another from seven; -inf unless they hold all data."""
    first, second = np.array([0.31, 1.9, 1.2, 0.75]), np.array([-2.0, 3.0, 2.2, 1.0, -0.5, 0.1, 0.4])

    def log_likelihood(x, xp):
        total = 0.0
        for k, data in enumerate((first, second)):
            low, high = x[2 * k], x[2 * k + 1]
            is_within = (low < data.min()) & (high > data.max())
            width = xp.where(is_within, high - low, 1.0)
            total = total + xp.where(is_within, -len(data) * xp.log(width), -xp.inf)
        return total

    prior = tp.Normal(0.0, 10.0)
    log_z, highs = 0.0, []
    for data in (first, second):
        low = axis(prior, 6000, high=data.min())
        high = axis(prior, 6000, low=data.max(), cuts=[data.max() + 0.5])
        one = lambda x, xp, data=data: -len(data) * np.log(x[1] - x[0])  # noqa: E731
        at = data.max() + 0.5
        found = on_grid([low, high], one, lambda x, xp, at=at: xp.where(x[1] > at, 1, 0), 2)
        log_z += found.log_z
        highs.append(found.masses)
    return posterior(
        "ends-4",
        [prior] * 4,
        log_likelihood,
        "-inf on most of the prior, and largest at the wall",
        "quadrature",
        region=lambda x, xp: 2 * xp.where(x[1] > first.max() + 0.5, 1, 0) + xp.where(x[3] > second.max() + 0.5, 1, 0),
        num_regions=4,
        masses=np.outer(*highs).ravel(),
        log_z=log_z,
    )


def accepted() -> Density:
    """Rejection as a likelihood: 0 where a simulation is near enough to the data, else -inf; two balls in a box."""
    centres, radii = np.array([[-2.0, -2.0, -2.0], [3.0, 2.5, 2.0]]), np.array([1.2, 1.5])

    def log_likelihood(x, xp):
        near = [
            sum((x[k] - centre[k]) ** 2 for k in range(3)) < r * r for centre, r in zip(centres, radii, strict=True)
        ]
        return xp.where(near[0] | near[1], 0.0, -xp.inf)

    volumes = 4.0 / 3.0 * math.pi * radii**3
    return posterior(
        "accepted-3",
        [tp.Uniform(-5.0, 5.0)] * 3,
        log_likelihood,
        "a likelihood of 0 or -inf: two balls apart, without a slope anywhere",
        "closed form",
        region=lambda x, xp: xp.where(x[0] > 0.5, 1, 0),
        num_regions=2,
        masses=volumes / volumes.sum(),
        log_z=math.log(volumes.sum() / 1000.0),
    )


def rooms() -> Density:
    """Two feasible boxes, and in each a density that is largest where four walls meet."""
    low, high, width = np.array([0.05, 0.7]), np.array([0.5, 0.95]), np.array([0.05, 0.04])
    each = 4.0 * np.log(width * -np.expm1(-(high - low) / width))

    def log_likelihood(x, xp):
        first, second = (xp.stack([(x[k] > low[j]) & (x[k] < high[j]) for k in range(4)]).all(axis=0) for j in range(2))
        up = sum(x[k] - high[0] for k in range(4)) / width[0] + math.log(0.6) - each[0]
        down = sum(low[1] - x[k] for k in range(4)) / width[1] + math.log(0.4) - each[1]
        return xp.where(first, up, xp.where(second, down, -xp.inf))

    return posterior(
        "rooms-4",
        [tp.Uniform(0.0, 1.0)] * 4,
        log_likelihood,
        "two feasible boxes, with all mass where four walls meet",
        "closed form",
        region=lambda x, xp: xp.where(x[0] > 0.6, 1, 0),
        num_regions=2,
        masses=np.array([0.6, 0.4]),
        log_z=0.0,
    )


VISITORS: dict[str, Callable[[], Density]] = {
    "volatility-18": volatility,
    "selected-2": selected,
    "ends-4": ends,
    "rooms-4": rooms,
    "accepted-3": accepted,
}
