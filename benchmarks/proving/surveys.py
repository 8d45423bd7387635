"""Ordinary posteriors of counts and records: animals, patients, birds and floods.

Written before any of them was fitted, by somebody who had not seen a fit. Truths are in double precision, from NumPy
and SciPy. The comment above a density says how its truth was made and by which second method it was checked:
- SMC: tempered sequential Monte Carlo from the prior, or from a wide normal, of the very JAX function that is handed
  over. log Z agreed within 0.05 or so, masses within 0.03 or so;
- grid 2: the same quadrature with other numbers of nodes.
"""

import itertools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special, stats

import tempering as tp

from .classic import legendre
from .grids import axis, log_sum, on_grid, posterior
from .handed import bins, by_name, lgamma, log_expit
from .record import Density

__all__ = ["SURVEYS"]

_LOG_2PI = math.log(2.0 * math.pi)


# Truth: Beta integrals by hand, quadrature over the number. Second: SMC.
def capture() -> Density:
    """Closed population: how many animals, from four nights of captures; a wall at the number that was seen."""
    nights, seen = np.array([38.0, 42.0, 33.0, 45.0]), 98.0
    a, b = 1.5, 3.0

    def log_likelihood(x, xp):
        number = xp.maximum(x[0], seen)
        total = lgamma(number + 1.0, xp) - lgamma(number - seen + 1.0, xp)
        for k, n in enumerate(nights):
            total = total + n * xp.log(x[1 + k]) + (number - n) * xp.log1p(-x[1 + k])
        return xp.where(x[0] >= seen, total, -xp.inf)

    def marginal(x, xp):
        number = np.maximum(x[0], seen)
        total = special.gammaln(number + 1.0) - special.gammaln(number - seen + 1.0)
        for n in nights:
            total = total + special.betaln(a + n, b + number - n) - special.betaln(a, b)
        return np.where(x[0] >= seen, total, -np.inf)

    prior = [tp.LogNormal(5.0, 0.8), *[tp.Beta(a, b)] * 4]
    cuts = (125.0, 150.0)

    def region(x, xp):
        return bins(x[0], cuts, xp)

    found = on_grid([axis(prior[0], 40_000, low=seen, cuts=cuts)], marginal, region, 3)
    return posterior(
        "capture-5",
        prior,
        log_likelihood,
        "a continuous count with a wall at the animals seen, a curved ridge with four probabilities",
        "conjugacy, quadrature over the number",
        found=found,
        region=region,
        num_regions=3,
        **by_name("animals p1 p2 p3 p4", prior, log_likelihood),
    )


# Truth: quadrature in 3 dimensions. Second: SMC, and the same joint in NumPyro's own log_density.
def cure(nodes: int = 130) -> Density:
    """Survival with right censoring and a cured share: Weibull times, or a long scale that nobody can tell from it."""
    times = np.array([0.7, 1.1, 1.6, 2.2, 2.3, 3.1, 3.4, 4.0, 5.2, 6.1, 7.7])
    end, lost = 8.0, 13.0

    def log_likelihood(x, xp):
        cured, scale, shape = (each[..., None] for each in x)
        z = shape * xp.log(times / scale)
        seen = xp.log1p(-cured) + xp.log(shape / times) + z - xp.exp(z)
        left = xp.log(cured + (1.0 - cured) * xp.exp(-xp.exp(shape * xp.log(end / scale))))
        return xp.sum(seen, axis=-1) + lost * left[..., 0]

    def model(lost=lost):
        import numpyro
        import numpyro.distributions as dist

        c: Any = numpyro.sample("cured", dist.Beta(1.0, 1.5))
        scale: Any = numpyro.sample("scale", dist.LogNormal(1.6, 0.8))
        shape: Any = numpyro.sample("shape", dist.Gamma(4.0, 3.0))
        with numpyro.plate("seen", len(times)):
            numpyro.factor(
                "death", jnp.log1p(-c) + dist.Weibull(scale, shape).log_prob(jnp.asarray(times, jnp.float32))
            )
        survival = jnp.exp(-((end / scale) ** shape))
        numpyro.factor("censored", lost * jnp.log(c + (1.0 - c) * survival))

    prior = [tp.Beta(1.0, 1.5), tp.LogNormal(1.6, 0.8), tp.Gamma(4.0, 3.0)]
    cuts = (0.2, 0.45)
    return posterior(
        "cure-3",
        prior,
        log_likelihood,
        "a cured share against a long scale: a bent ridge that runs into a wall, through numpyro.factor",
        "quadrature",
        axes=[axis(prior[0], nodes, cuts=cuts), axis(prior[1], nodes), axis(prior[2], nodes)],
        region=lambda x, xp: bins(x[0], cuts, xp),
        num_regions=3,
        handed=lambda: tp.from_numpyro(model, lost),
        flat=lambda tree: np.stack([np.asarray(tree[k]) for k in ("cured", "scale", "shape")], axis=1),
    )


# Truth: every group by quadrature given the mean and the width, quadrature over these. Second: importance
# sampling in all 14 dimensions by conditional t proposals (log Z +0.002 +- 0.008); grid 2.
def counts(nodes: int = 130) -> Density:
    """Counts of twelve sites of unlike effort, centred: log rates about a mean with a width."""
    values = np.array([0.0, 3.0, 1.0, 12.0, 5.0, 2.0, 0.0, 8.0, 22.0, 4.0, 1.0, 6.0])
    effort = np.array([1.0, 1.5, 1.0, 2.0, 1.0, 0.5, 0.8, 3.0, 2.0, 1.0, 1.2, 1.0])
    num = len(values)
    constant = float(np.sum(values * np.log(effort) - special.gammaln(values + 1.0)))

    def model(data=values):
        import numpyro
        import numpyro.distributions as dist

        mu: Any = numpyro.sample("mu", dist.Normal(0.0, 2.0))
        width: Any = numpyro.sample("width", dist.HalfNormal(1.0))
        with numpyro.plate("site", num):
            theta: Any = numpyro.sample("theta", dist.Normal(mu, width))
            numpyro.sample("y", dist.Poisson(jnp.asarray(effort, jnp.float32) * jnp.exp(theta)), obs=data)

    def log_density(x):
        """The joint density of mu, width and the log rates; -inf where the width is negative."""
        theta, width = x[2:], jnp.where(x[1] > 0.0, x[1], 1.0)
        prior = (
            -0.5 * (x[0] / 2.0) ** 2 - math.log(2.0) - 0.5 * _LOG_2PI - 0.5 * width**2 + math.log(2.0) - 0.5 * _LOG_2PI
        )
        groups = -0.5 * ((theta - x[0]) / width) ** 2 - jnp.log(width) - 0.5 * _LOG_2PI
        fit = jnp.asarray(values, x.dtype) * theta - jnp.asarray(effort, x.dtype) * jnp.exp(theta)
        return jnp.where(x[1] > 0.0, prior + jnp.sum(groups + fit) + constant, -jnp.inf)

    z = np.linspace(-8.0, 8.0, 321)
    log_w = stats.norm.logpdf(z) + math.log(z[1] - z[0])

    def marginal(x, xp):
        total = constant + np.zeros(x[0].shape)
        theta = x[0][..., None] + x[1][..., None] * z
        rate = np.exp(theta)
        for y, t in zip(values, effort, strict=True):
            total += log_sum(log_w + y * theta - t * rate, axis=-1)
        return total

    prior = [tp.Normal(0.0, 2.0), tp.HalfNormal(1.0)]
    cuts = (0.75, 1.1)

    def region(x, xp):
        return bins(x[1], cuts, xp)

    found = on_grid(
        [axis(prior[0], nodes, -4.0, 4.0), axis(prior[1], nodes, 1e-3, 5.0, cuts=cuts)], marginal, region, 3
    )
    return Density(
        "counts-14",
        2 + num,
        log_density,
        "a centred Poisson hierarchy in NumPyro, two groups without a count",
        "quadrature of the groups, then of mean and width",
        log_z=found.log_z,
        shares=lambda x: jax.nn.one_hot(region(x, jnp), 3),
        masses=found.masses,
        spread=found.spread,
        handed=lambda: tp.from_numpyro(model, jnp.asarray(values, jnp.float32)),
        flat=lambda tree: np.concatenate([np.stack([tree["mu"], tree["width"]], axis=1), np.asarray(tree["theta"])], 1),
    )


# Truth: quadrature over the logit of the mean and the log of the size. Second: SMC in (log a, log b).
def tumours(nodes: int = 1500) -> Density:
    """Beta-binomial with Gelman's prior (a + b)^(-5/2): a tail without end, differences of log gammas."""
    values = np.array([0.0, 0.0, 1.0, 2.0, 3.0, 5.0, 6.0, 8.0, 9.0, 11.0, 13.0, 4.0, 2.0, 1.0, 16.0])
    size = 20.0

    def log_plane(a, b, xp):
        total = -2.5 * xp.log(a + b)
        for y in values:
            fit = lgamma(a + b, xp) - lgamma(a, xp) - lgamma(b, xp)
            total = total + fit + lgamma(a + y, xp) + lgamma(b + size - y, xp) - lgamma(a + b + size, xp)
        return total

    cuts = (2.0, 4.0)
    t, v = (np.concatenate(p) for p in zip(legendre(-7, 0, 300), legendre(0, 7, 300), strict=True))
    edges = [-10.0, math.log(cuts[0]), math.log(cuts[1]), 5.0, 9.0]
    parts = [legendre(low, high, nodes // 4) for low, high in itertools.pairwise(edges)]
    s, w = (np.concatenate([part[k] for part in parts]) for k in range(2))
    m, r = special.expit(t)[None], np.exp(s)[:, None]
    logs = log_plane(m * r, special.expit(-t)[None] * r, np) + 2.0 * s[:, None] + np.log(m) + np.log1p(-m)
    mass = np.exp(logs - logs.max()) * w[:, None] * v
    number = np.searchsorted(np.log(cuts), s)
    masses = np.bincount(number, mass.sum(axis=1), 3)
    return Density(
        "tumours-2",
        2,
        lambda x: log_plane(x[0], x[1], jnp),
        "an improper prior's endless tail, and log gammas whose differences cancel",
        "quadrature",
        log_z=float(logs.max() + math.log(mass.sum())),
        shares=lambda x: jax.nn.one_hot(bins(x[0] + x[1], cuts, jnp), 3),
        masses=masses / masses.sum(),
        how={"support": tp.positive},
    )


# Truth: quadrature in 4 dimensions. Second: SMC; grid 2.
def occupancy(nodes: int = 44) -> Density:
    """Site occupancy: where a bird lives, where it is heard, two logistic regressions; silent sites are ambiguous."""
    heard = np.array([0.0, 0.0, 0.0, 1.0, 0.0, 2.0, 3.0, 0.0, 4.0, 0.0, 2.0, 3.0, 1.0, 0.0])
    height = np.linspace(-1.6, 1.6, 14)
    wind = np.array([0.3, 1.2, -0.8, 0.1, 1.5, -0.4, -1.1, 1.9, -1.3, 0.9, -0.2, -0.9, 0.6, 1.4])
    visits = 4.0
    log_choose = np.log(special.binom(visits, heard))

    def log_likelihood(x, xp):
        total = 0.0
        for y, h, w, c in zip(heard, height, wind, log_choose, strict=True):
            lives, found = x[0] + x[1] * h, x[2] + x[3] * w
            there = log_expit(lives, xp) + y * log_expit(found, xp) + (visits - y) * log_expit(-found, xp) + c
            total = total + (xp.logaddexp(there, log_expit(-lives, xp)) if y == 0.0 else there)
        return total

    prior = [tp.Normal(0.0, 1.7)] * 4
    cuts = (0.0, 1.5)
    each = axis(prior[0], nodes, -9.3, 9.3)
    return posterior(
        "occupancy-4",
        prior,
        log_likelihood,
        "two logistic regressions that explain the same silence",
        "quadrature",
        axes=[axis(prior[0], nodes, -9.3, 9.3, cuts=cuts), each, each, each],
        region=lambda x, xp: bins(x[0], cuts, xp),
        num_regions=3,
    )


# Truth: quadrature. Second: SMC; grid 2.
def floods(nodes: int = 150) -> Density:
    """Annual floods of a river: generalised extreme values, whose support ends where the parameters say."""
    values = np.array(
        [22.0, 35.0, 18.0, 41.0, 29.0, 25.0, 60.0, 33.0, 21.0, 27.0, 48.0, 30.0, 24.0, 38.0, 150.0, 19.0, 26.0, 44.0]
    )

    def log_likelihood(x, xp):
        place, scale, shape = (each[..., None] for each in x)
        z = (values - place) / scale
        flat = xp.abs(shape) < 1e-4
        shape = xp.where(flat, 1e-4, shape)
        inside = 1.0 + shape * z
        logs = xp.log(xp.where(inside > 0.0, inside, 1.0)) / shape
        each = -xp.log(scale) - (1.0 + shape) * logs - xp.exp(-logs)
        return xp.sum(xp.where(inside > 0.0, each, -xp.inf), axis=-1)

    prior = [tp.Normal(30.0, 20.0), tp.LogNormal(2.3, 0.7), tp.Normal(0.1, 0.3)]
    cuts = (0.25, 0.5)
    return posterior(
        "floods-3",
        prior,
        log_likelihood,
        "extreme values with one outlier: -inf beyond a wall that the parameters move",
        "quadrature",
        axes=[
            axis(prior[0], nodes, 8.0, 50.0),
            axis(prior[1], nodes, 2.0, 60.0),
            axis(prior[2], nodes, -0.6, 1.8, cuts=cuts),
        ],
        region=lambda x, xp: bins(x[2], cuts, xp),
        num_regions=3,
        handed=lambda: lambda x: log_likelihood(x, jnp),
        handed_as="likelihood",
        how={"dim": 3, "prior": tuple(prior)},
    )


SURVEYS: dict[str, Callable[[], Density]] = {
    "capture-5": capture,
    "cure-3": cure,
    "counts-14": counts,
    "tumours-2": tumours,
    "occupancy-4": occupancy,
    "floods-3": floods,
}
