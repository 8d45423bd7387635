"""Truths of posteriors by quadrature in double precision, with priors taken from SciPy and not from the library.

A log likelihood is written once, `log_likelihood(x, xp)`, for coordinates x[0], x[1], … that are numbers or arrays of
one shape, and for `jax.numpy` or `numpy`. So what is handed over and what is integrated are the same.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats
from scipy.special import logsumexp

import tempering as tp
from tempering.adapters.prior import read_prior

from .record import Density, Tolerance

__all__ = ["Axis", "Independent", "Truth", "axis", "log_sum", "of_scipy", "on_grid", "posterior"]

_FARTHEST = 8.3
"""Standard deviations: beyond lies 1e-16 of a prior."""
_MOST_POINTS = 400_000
"""Of a grid, evaluated together."""


@dataclass(frozen=True)
class Independent:
    """A prior of distributions as a user of the library writes them, one for each coordinate."""

    each: tuple[Any, ...]

    def _chart(self):
        return read_prior(list(self.each), None, None, None)[0]

    def from_cube(self, u):
        return self.from_normal(jax.scipy.special.ndtri(u))

    def from_normal(self, z):
        return self._chart().embed(z)

    def to_normal(self, x):
        return self._chart().restrict(x)


@dataclass(frozen=True)
class Axis:
    """Nodes of one coordinate, and the logarithms of their prior masses."""

    nodes: np.ndarray
    log_masses: np.ndarray


def log_sum(values: Any, axis: int | None = None) -> Any:
    """log of a sum of exponentials: one number, or one for each of the other axes."""
    return logsumexp(np.asarray(values), axis=axis)


def of_scipy(given: Any) -> Any:
    """The same distribution in SciPy."""
    numbers = {name: float(value) for name, value in given.parameters.items()}
    match given:
        case tp.Uniform():
            return stats.uniform(numbers["low"], numbers["high"] - numbers["low"])
        case tp.Normal():
            return stats.norm(numbers["mean"], numbers["std"])
        case tp.LogNormal():
            return stats.lognorm(numbers["std"], scale=np.exp(numbers["mean"]))
        case tp.HalfNormal():
            return stats.halfnorm(scale=numbers["std"])
        case tp.Exponential():
            return stats.expon(scale=1.0 / numbers["rate"])
        case tp.Gamma():
            return stats.gamma(numbers["concentration"], scale=1.0 / numbers["rate"])
        case tp.Beta():
            return stats.beta(numbers["a"], numbers["b"])
        case tp.StudentT():
            return stats.t(numbers["nu"], numbers["mean"], numbers["scale"])
    raise ValueError(f"no distribution of SciPy is known for {given}")


def axis(given: Any, num: int, low: float | None = None, high: float | None = None, cuts: Sequence[float] = ()) -> Axis:
    """Midpoints that are even in normal coordinates of a prior, between two places where they are given.

    Args:
        cuts: places where regions end; cells end there too, so that masses of regions are as exact as log Z.
    """
    known = of_scipy(given)
    places = [
        -_FARTHEST if low is None else _normal(known, low),
        *(_normal(known, cut) for cut in cuts),
        _FARTHEST if high is None else _normal(known, high),
    ]
    edges = np.concatenate(
        [
            np.linspace(begin, end, max(2, round(num * (end - begin) / (places[-1] - places[0]))), endpoint=False)
            for begin, end in zip(places, places[1:], strict=False)
        ]
        + [places[-1:]]
    )
    z, steps = 0.5 * (edges[1:] + edges[:-1]), np.diff(edges)
    nodes = np.where(z < 0, known.ppf(stats.norm.cdf(z)), known.isf(stats.norm.sf(z)))
    return Axis(nodes, stats.norm.logpdf(z) + np.log(steps))


def _normal(known: Any, place: float) -> float:
    """Where a place is in normal coordinates, from the nearer tail."""
    below = known.cdf(place)
    z = stats.norm.ppf(below) if below < 0.5 else stats.norm.isf(known.sf(place))
    return float(np.clip(z, -_FARTHEST, _FARTHEST))


@dataclass(frozen=True)
class Truth:
    """What a grid knows."""

    log_z: float
    masses: np.ndarray
    spread: float


def on_grid(
    axes: Sequence[Axis],
    log_likelihood: Callable[..., Any],
    region: Callable[..., Any] | None = None,
    num_regions: int = 1,
) -> Truth:
    """The evidence, the masses of regions, and the standard deviation of the first coordinate.

    Args:
        region: a function of (x, xp), the number of the region of a point.
    """
    rest = np.meshgrid(*(each.nodes for each in axes[1:]), indexing="ij")
    shape = tuple(len(each.nodes) for each in axes[1:])
    log_rest = sum(np.meshgrid(*(each.log_masses for each in axes[1:]), indexing="ij"), np.zeros(shape))
    peak, total, moments, masses = -np.inf, 0.0, np.zeros(2), np.zeros(num_regions)
    size = max(1, _MOST_POINTS // max(1, log_rest.size))
    for begin in range(0, len(axes[0].nodes), size):
        first = axes[0].nodes[begin : begin + size].reshape(-1, *[1] * log_rest.ndim)
        x = [np.broadcast_to(each, (len(first), *log_rest.shape)) for each in (first, *rest)]
        logs = axes[0].log_masses[begin : begin + size].reshape(first.shape) + log_rest
        with np.errstate(all="ignore"):
            values = np.asarray(log_likelihood(x, np), np.float64)
        logs = logs + np.where(np.isfinite(values), values, -np.inf)
        top = max(peak, float(np.max(logs)))
        if not np.isfinite(top):
            continue
        shrink, weights = np.exp(peak - top), np.exp(logs - top)
        total, moments, masses, peak = total * shrink, moments * shrink, masses * shrink, top
        total += weights.sum()
        moments += [np.sum(weights * x[0]), np.sum(weights * x[0] ** 2)]
        if region is not None:
            numbers = np.broadcast_to(region(x, np), weights.shape)
            masses += np.bincount(numbers.ravel(), weights.ravel(), minlength=num_regions)
    mean, square = moments / total
    return Truth(float(peak + np.log(total)), masses / total, float(np.sqrt(square - mean**2)))


def posterior(
    name: str,
    prior: Sequence[Any],
    log_likelihood: Callable[..., Any],
    hardness: str,
    truth: str,
    *,
    region: Callable[..., Any] | None = None,
    num_regions: int = 1,
    found: Truth | None = None,
    axes: Sequence[Axis] | None = None,
    with_spread: bool = True,
    tolerance: Tolerance | None = None,
    **known: Any,
) -> Density:
    """A density of the proving ground from a likelihood and a prior; from a grid, or with a truth that is known.

    Args:
        found, axes: the truth, or the grid that finds it.
        with_spread: whether the spread of the first coordinate is asked for.
    """
    if found is None and axes is not None:
        found = on_grid(axes, log_likelihood, region, num_regions)
    if found is not None:
        known = {"log_z": found.log_z, "spread": found.spread if with_spread else None} | known
        known |= {} if region is None or "masses" in known else {"masses": found.masses}
    if region is not None:
        known.setdefault("shares", lambda x: jax.nn.one_hot(region(x, jnp), num_regions))
    return Density(
        name,
        len(prior),
        lambda x: log_likelihood(x, jnp),
        hardness,
        truth,
        prior=Independent(tuple(prior)),
        tolerance=tolerance or Tolerance(),
        **known,
    )
