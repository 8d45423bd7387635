"""Odd shapes and odd values: fringes, slabs, crossings, bonds, an offset of a million, mirrored factors.

Written before any of them was fitted; the truths are closed forms and quadrature.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr, ndtri
from scipy import stats

import tempering as tp

from .classic import legendre
from .grids import axis, on_grid, posterior
from .record import Density, halves
from .shapes import mixture
from .wanderers import in_plane

__all__ = ["ODDITIES", "copula_modes", "factors", "lemniscate", "levels"]

_LOG_2PI = math.log(2.0 * math.pi)


def fringes() -> Density:
    """Two combs of unlike period under a wide bell, in one dimension: a hundred spikes, a few of which coincide."""

    def log_line(x, xp):
        near = 30.0 * (xp.cos(2.0 * math.pi * x) - 1.0) + 12.0 * (xp.cos(2.0 * math.pi * x / 1.37) - 1.0)
        return near - 0.5 * ((x - 3.3) / 20.0) ** 2

    cuts = (-30.5, -12.5, 2.5, 17.5, 33.5)
    edges = np.arange(-160.5, 167.5)  # between spikes
    parts = [legendre(low, low + 1.0, 120) for low in edges]
    x, w = (np.concatenate([part[k] for part in parts]) for k in range(2))
    mass = np.exp(log_line(x, np)) * w
    masses = np.bincount(np.searchsorted(cuts, x), mass, len(cuts) + 1) / mass.sum()
    mean = float(mass @ x / mass.sum())
    return Density(
        "fringes-1",
        1,
        lambda x: log_line(x[0], jnp),
        "a hundred spikes in one dimension, of unlike height",
        "quadrature",
        log_z=math.log(float(mass.sum())),
        shares=lambda x: jax.nn.one_hot(jnp.sum(x[0] > jnp.asarray(cuts, x.dtype)), len(cuts) + 1),
        masses=masses,
        spread=math.sqrt(float(mass @ (x - mean) ** 2 / mass.sum())),
    )


def cold_wells() -> Density:
    """Four wells at a low temperature, two of them twice as wide, as a black box that returns its gradient."""

    def log_plane(x, y, xp):
        return -40.0 * ((x**2 - 1.0) ** 2 + xp.exp(0.9 * x) * (y**2 - 1.0) ** 2) - 0.4 * y + 1.2 * x

    def region(x, y, xp):
        return 2 * xp.where(x > 0.0, 1, 0) + xp.where(y > 0.0, 1, 0)

    def value_and_gradient(points):
        x, y = points[:, 0], points[:, 1]
        stiff, off = np.exp(0.9 * x), y**2 - 1.0
        slope_x = -40.0 * (4.0 * x * (x**2 - 1.0) + 0.9 * stiff * off**2) + 1.2
        slope_y = -160.0 * stiff * y * off - 0.4
        return log_plane(x, y, np), np.stack([slope_x, slope_y], axis=1)

    log_z, masses, spread = in_plane(log_plane, region, (-2.0, -3.0), (2.0, 3.0), 1200)
    return Density(
        "cold-wells-2",
        2,
        lambda x: log_plane(x[0], x[1], jnp),
        "four cold wells of unlike width, as a function of NumPy with its gradient",
        "quadrature",
        log_z=log_z,
        shares=lambda x: jax.nn.one_hot(region(x[0], x[1], jnp), 4),
        masses=masses,
        spread=spread,
        handed=lambda: tp.from_callable(value_and_gradient, dim=2, gradient="returned", batched=True),
        handed_as="black box",
    )


def far_below() -> Density:
    """Three normals and a million less: single precision has steps of 1/16 there."""
    generator = np.random.default_rng(61)
    roots = np.stack([np.linalg.cholesky(np.cov(generator.standard_normal((4, 40)))) for _ in range(3)])
    roots = roots * np.array([1.0, 0.6, 1.5])[:, None, None]
    means = 4.0 * generator.standard_normal((3, 4))
    hardness = "values near -1,000,000, where single precision has steps of 1/16"
    alone = mixture("far-below-4", means, roots, [0.5, 0.35, 0.15], hardness)
    return dataclasses.replace(alone, log_density=lambda x: alone.log_density(x) - 1e6, log_z=-1e6)


def slabs(dim: int = 4) -> Density:
    """A normal that is cut into slabs: there is nothing between them, and within each the slope is the normal's."""
    period, share = 0.6, 0.4
    along = np.random.default_rng(62).standard_normal(dim)
    along /= np.linalg.norm(along)
    centre = np.array([1.3, -0.4, 0.8, 2.1])
    middle = float(centre @ along)
    cuts = np.round(middle / period + np.array([-1.0, 0.5, 1.5])) * period - 0.5 * (1.0 - share) * period
    lows = period * np.arange(-60, 61)
    each = stats.norm.cdf(lows + share * period - middle) - stats.norm.cdf(lows - middle)
    masses = np.bincount(np.searchsorted(cuts, lows), each, 4)

    def log_density(x):
        place = jnp.asarray(along, x.dtype) @ x / period
        is_open = place - jnp.floor(place) < share
        return jnp.where(is_open, -0.5 * jnp.sum((x - jnp.asarray(centre, x.dtype)) ** 2), -jnp.inf)

    def shares(x):
        return jax.nn.one_hot(jnp.sum(jnp.asarray(along, x.dtype) @ x > jnp.asarray(cuts, x.dtype)), 4)

    return Density(
        f"slabs-{dim}",
        dim,
        log_density,
        "some ten slabs with nothing between them, in no coordinate's direction",
        "closed form",
        log_z=0.5 * dim * _LOG_2PI + math.log(float(each.sum())),
        shares=shares,
        masses=masses / masses.sum(),
    )


def lemniscate(dim: int = 6) -> Density:
    """A ridge in the form of an eight: thin at its ends and wide where it crosses itself; turned among four normals."""
    large, width, pull = 3.0, 2.0, 0.35
    turn = np.linalg.qr(np.random.default_rng(63).standard_normal((dim, dim)))[0]
    widths = np.array([0.1, 0.5, 1.0, 3.0])[: dim - 2]

    def log_plane(x, y, xp):
        square = x**2 + y**2
        return -0.5 * ((square**2 - large**2 * (x**2 - y**2)) / width) ** 2 + pull * x

    def region(x, y, xp):
        return 2 * xp.where(x > 0.0, 1, 0) + xp.where(abs(x) > 1.5, 1, 0)

    log_z, masses, _ = in_plane(log_plane, region, (-4.5, -2.5), (4.5, 2.5), 3000)

    def log_density(x):
        z = jnp.asarray(turn.T, x.dtype) @ x
        return log_plane(z[0], z[1], jnp) - 0.5 * jnp.sum((z[2:] / jnp.asarray(widths, x.dtype)) ** 2)

    def shares(x):
        z = jnp.asarray(turn.T, x.dtype)[:2] @ x
        return jax.nn.one_hot(region(z[0], z[1], jnp), 4)

    return Density(
        f"lemniscate-{dim}",
        dim,
        log_density,
        "a ridge that crosses itself, in no coordinate's plane; a thirtieth as wide at its ends as where it crosses",
        "quadrature",
        log_z=log_z + 0.5 * (dim - 2) * _LOG_2PI + float(np.sum(np.log(widths))),
        shares=shares,
        masses=masses,
    )


def dimer() -> Density:
    """Two particles in a trap whose bond is short or long: two shells about each other, with a barrier of 10 kT."""
    height, inner, half, trap = 10.0, 1.0, 1.0, 1.0
    r, w = legendre(0.0, 6.0, 1200)
    bond = lambda r: -height * (1.0 - ((r - inner - half) / half) ** 2) ** 2  # noqa: E731
    mass = 4.0 * math.pi * r**2 * np.exp(bond(r) - 0.25 * trap * r**2) * w
    long = float(mass[r > inner + half].sum() / mass.sum())

    def log_density(x):
        first, second = x[:3], x[3:]
        length = jnp.sqrt(jnp.sum((first - second) ** 2) + 1e-12)
        return bond(length) - 0.5 * trap * jnp.sum(x**2)

    def shares(x):
        apart = x[:3] - x[3:]
        return (halves(jnp.sum(apart**2) - (inner + half) ** 2)[:, None] * halves(apart[2])[None]).ravel()

    return Density(
        "dimer-6",
        6,
        log_density,
        "two shells about each other, of a bond that is short or long",
        "a radial integral",
        log_z=math.log(float(mass.sum())) + 1.5 * math.log(math.pi / trap),
        shares=shares,
        masses=0.5 * np.array([long, long, 1.0 - long, 1.0 - long]),
    )


def copula_modes(dim: int = 5) -> Density:
    """Normal dependence between coordinates of which each is a mixture of a wide and a narrow normal: 32 modes."""
    rho, low, wide, narrow = 0.7, np.linspace(0.35, 0.7, dim), 1.0, 0.25
    valley = 1.8
    covariance = rho ** np.abs(np.subtract.outer(np.arange(dim), np.arange(dim)))
    inverse = np.linalg.inv(np.linalg.cholesky(covariance))
    log_det = float(np.sum(np.log(np.diag(inverse))))

    def log_density(x):
        share = jnp.asarray(low, x.dtype)
        left, right = (x + 2.0) / wide, (x - 3.0) / narrow
        below = share * ndtr(left) + (1.0 - share) * ndtr(right)
        above = share * ndtr(-left) + (1.0 - share) * ndtr(-right)
        tail = ndtri(jnp.maximum(jnp.minimum(below, above), 1e-37))
        z = jnp.where(below < above, tail, -tail)
        each = jnp.logaddexp(
            jnp.log(share / wide) - 0.5 * left**2, jnp.log((1.0 - share) / narrow) - 0.5 * right**2
        )  # fmt: skip
        white = jnp.asarray(inverse, x.dtype) @ z
        return jnp.sum(each) - 0.5 * dim * _LOG_2PI + log_det - 0.5 * jnp.sum(white**2) + 0.5 * jnp.sum(z**2)

    # Signs of two neighbours at their valleys: a normal orthant, by quadrature over the first.
    at = stats.norm.ppf(
        low * stats.norm.cdf((valley + 2.0) / wide) + (1.0 - low) * stats.norm.cdf((valley - 3.0) / narrow)
    )
    z, w = legendre(-9.0, float(at[0]), 400)
    both = float(w @ (stats.norm.pdf(z) * stats.norm.cdf((at[1] - rho * z) / math.sqrt(1.0 - rho**2))))
    first, second = (float(stats.norm.cdf(at[k])) for k in range(2))
    return Density(
        f"copula-modes-{dim}",
        dim,
        log_density,
        "32 modes of unlike width and weight that lean on each other",
        "closed form, one quadrature",
        log_z=0.0,
        shares=lambda x: (halves(valley - x[0])[:, None] * halves(valley - x[1])[None]).ravel(),
        masses=np.array([both, first - both, second - both, 1.0 - first - second + both]),
    )


def factors(num_loadings: int = 3, num_scores: int = 6) -> Density:
    """A matrix of rank one and noise, in NumPyro: loadings times scores, signs free, and a neck at 0."""
    noise = 0.4
    generator = np.random.default_rng(64)
    loadings, scores = np.array([0.9, -0.5, 0.2, 1.1])[:num_loadings], generator.standard_normal(num_scores)
    table = np.outer(scores, loadings) + noise * generator.standard_normal((num_scores, num_loadings))
    count = table.size

    def model(data=table):
        import numpyro
        import numpyro.distributions as dist

        with numpyro.plate("columns", num_loadings):
            w: Any = numpyro.sample("loadings", dist.Normal(0.0, 1.0))
        with numpyro.plate("rows", num_scores):
            f: Any = numpyro.sample("scores", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Normal(f[:, None] * w[None], noise).to_event(2), obs=data)

    def log_likelihood(x, xp):
        square = 0.0
        for row, column in np.ndindex(table.shape):
            square = square + (table[row, column] - x[num_loadings + row] * x[column]) ** 2
        return -0.5 * square / noise**2 - count * (math.log(noise) + 0.5 * _LOG_2PI)

    def marginal(w, xp):
        """Every row is normal given the loadings: the lemmas of Sylvester and of Sherman and Morrison."""
        size = sum(each**2 for each in w)
        total = -0.5 * float(np.sum(table**2)) / noise**2 - count * (math.log(noise) + 0.5 * _LOG_2PI)
        for row in table:
            along = sum(value * each for value, each in zip(row, w, strict=True))
            total = total + 0.5 * along**2 / (noise**2 * (noise**2 + size)) - 0.5 * np.log1p(size / noise**2)
        return total

    prior = tp.Normal(0.0, 1.0)
    region = lambda x, xp: 2 * xp.where(x[0] > 0.0, 1, 0) + xp.where(x[0] > 0.7, 1, 0) + xp.where(x[0] < -0.7, 1, 0)  # noqa: E731
    each = axis(prior, 100, cuts=[-0.7, 0.0, 0.7])
    found = on_grid([each] * num_loadings, marginal, region, 4)
    return posterior(
        f"factors-{num_loadings + num_scores}",
        [prior] * (num_loadings + num_scores),
        log_likelihood,
        "a table of rank one in NumPyro: two mirrored, bent modes that meet in a neck",
        "scores by hand, quadrature over loadings",
        region=region,
        num_regions=4,
        found=found,
        masses=found.masses,
        handed=lambda: tp.from_numpyro(model, jnp.asarray(table, jnp.float32)),
        flat=lambda tree: np.concatenate([np.asarray(tree["loadings"]), np.asarray(tree["scores"])], axis=1),
    )


def levels(num: int = 12) -> Density:
    """Positive levels of a chain of normals whose means are below zero: the mode is in a corner of all twelve walls."""
    mean, start, keep, shift, width = -0.6, 0.8, 0.9, -0.1, 0.4
    nodes, weights = legendre(0.0, 7.0, 500)
    cut = 0.3

    def first(x):
        return -0.5 * ((x - mean) / start) ** 2

    def step(x, after):
        return -0.5 * ((after - keep * x - shift) / width) ** 2

    move = np.exp(step(nodes[:, None], nodes[None])) * weights[:, None]
    low, w_low = legendre(0.0, cut, 200)
    high, w_high = legendre(cut, 7.0, 400)
    masses = np.zeros(4)
    for number, (x, w) in enumerate(((low, w_low), (high, w_high))):
        # From the first level, in one of the parts, to the last but one; then to the last, in either part.
        vector = np.exp(first(x)) * w @ np.exp(step(x[:, None], nodes[None]))
        for _ in range(num - 3):
            vector = vector @ move
        for other, (y, v) in enumerate(((low, w_low), (high, w_high))):
            masses[2 * number + other] = (vector * weights) @ np.exp(step(nodes[:, None], y[None])) @ v
    like = {"level": jnp.ones(num)}

    def log_density(x):
        return first(x[0]) + jnp.sum(step(x[:-1], x[1:]))

    def shares(x):
        return (jnp.flip(halves(x[0] - cut))[:, None] * jnp.flip(halves(x[num - 1] - cut))[None]).ravel()

    return Density(
        f"levels-{num}",
        num,
        log_density,
        "a normal that twelve walls cut, its mode in their corner",
        "products of transfer matrices",
        log_z=math.log(float(masses.sum())),
        shares=shares,
        masses=masses / masses.sum(),
        handed=lambda: lambda tree: log_density(tree["level"]),
        handed_as="function of a tree",
        flat=lambda tree: np.asarray(tree["level"]),
        how={"like": like, "support": {"level": tp.positive}},
    )


ODDITIES: dict[str, Callable[[], Density]] = {
    "fringes-1": fringes,
    "cold-wells-2": cold_wells,
    "far-below-4": far_below,
    "slabs-4": slabs,
    "lemniscate-6": lemniscate,
    "dimer-6": dimer,
    "copula-modes-5": copula_modes,
    "factors-9": factors,
    "levels-12": levels,
}
