"""Walls, wrapped angles, combs, unlike scales and large offsets: densities with exact truths, written to break fits.

Written before any of them was fitted.
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

import tempering as tp

from .classic import legendre
from .grids import axis, on_grid, posterior
from .record import Density, halves
from .shapes import mixture

__all__ = ["EDGES"]

_LOG_2PI = math.log(2.0 * math.pi)


def corner_of_a_box() -> Density:
    """Normals in a box, with their means outside of it, by `where`; the last coordinate has two modes within."""
    means, widths = np.array([-0.5, 1.4, 0.5]), np.array([0.3, 0.25, 0.2])
    inside = stats.norm.cdf((1.0 - means) / widths) - stats.norm.cdf(-means / widths)
    log_z = float(np.sum(np.log(inside * widths))) + 1.5 * _LOG_2PI
    x, w = legendre(0.0, 1.0, 4000)
    two = lambda x, xp: xp.logaddexp(-0.5 * ((x - 0.2) / 0.05) ** 2, -0.5 * ((x - 0.9) / 0.1) ** 2 - 1.0)  # noqa: E731
    mass = np.exp(two(x, np)) * w
    low = float(mass[x < 0.5].sum() / mass.sum())

    def log_density(x):
        is_inside = jnp.all((x > 0.0) & (x < 1.0))
        first = jnp.sum(-0.5 * ((x[:3] - jnp.asarray(means, x.dtype)) / jnp.asarray(widths, x.dtype)) ** 2)
        return jnp.where(is_inside, first + two(x[3], jnp), -jnp.inf)

    return Density(
        "box-corner-4",
        4,
        log_density,
        "-inf outside of a box, where the modes would be: two walls meet",
        "closed form and quadrature",
        log_z=log_z + math.log(float(mass.sum())),
        shares=lambda x: halves(x[3] - 0.5),
        masses=np.array([1.0 - low, low]),
    )


def tail_and_narrow() -> Density:
    """A Student distribution of 2.5 degrees of freedom, and a narrow turned normal in its tail, in six dimensions."""
    dim, nu, scale = 6, 2.5, 2.0
    rotation = np.linalg.qr(np.random.default_rng(11).standard_normal((dim, dim)))[0]
    root = rotation * np.geomspace(0.05, 0.5, dim)[None]
    centre = np.array([7.0, -5.0, 3.0, 0.0, 6.0, -2.0])
    whitener, log_det = np.linalg.inv(root), float(np.linalg.slogdet(root)[1])
    constant = math.lgamma(0.5 * (nu + dim)) - math.lgamma(0.5 * nu) - 0.5 * dim * math.log(nu * math.pi)

    def logs(x):
        white = jnp.asarray(whitener, x.dtype) @ (x - jnp.asarray(centre, x.dtype))
        tail = constant - dim * math.log(scale) - 0.5 * (nu + dim) * jnp.log1p(jnp.sum(x**2) / (nu * scale**2))
        narrow = -0.5 * jnp.sum(white**2) - log_det - 0.5 * dim * _LOG_2PI
        return jnp.stack([tail + math.log(0.35), narrow + math.log(0.65)])

    return Density(
        "tail-and-narrow-6",
        dim,
        lambda x: jax.scipy.special.logsumexp(logs(x)),
        "a heavy tail, and a narrow turned mode within it",
        "closed form",
        log_z=0.0,
        shares=lambda x: jax.nn.softmax(logs(x)),
        masses=np.array([0.35, 0.65]),
        limit="the way up leads to the narrow mode from one start in a million (docs/trust.md, what it cannot know)",
    )


def many_scales() -> Density:
    """Eight modes of unlike weight whose coordinates have scales from 0.001 to 1000, and nine normals in between."""
    scales, low = np.array([1e-3, 1.0, 1e3]), np.array([0.3, 0.55, 0.8])
    widths = np.geomspace(1e-3, 1e3, 9)

    def sides(x):
        u = x[:3] / jnp.asarray(scales, x.dtype)
        share = jnp.asarray(low, x.dtype)
        left = jnp.log(share) - 0.5 * (u + 4.0) ** 2
        right = jnp.log1p(-share) - 0.5 * ((u - 5.0) / 0.5) ** 2 - math.log(0.5)
        return left, right

    def log_density(x):
        rest = -0.5 * jnp.sum((x[3:] / jnp.asarray(widths, x.dtype)) ** 2)
        return jnp.sum(jnp.logaddexp(*sides(x))) + rest

    bits = (np.arange(8)[:, None] >> np.arange(3)) & 1  # 1: the right-hand side
    masses = np.prod(np.where(bits == 1, 1.0 - low, low), axis=1)
    return Density(
        "scales-12",
        12,
        log_density,
        "eight modes, and coordinates whose widths run from 0.001 to 1000",
        "closed form",
        log_z=6.0 * _LOG_2PI + float(np.sum(np.log(scales)) + np.sum(np.log(widths))),
        shares=lambda x: jax.nn.one_hot(jnp.sum(jnp.where(x[:3] > 0, 1, 0) * jnp.asarray([1, 2, 4])), 8),
        masses=masses,
    )


def comb() -> Density:
    """Ridges at whole numbers: the first coordinate is nearly an integer, and the others lean on it."""

    def first(x, xp):
        return -0.5 * (x / 2.5) ** 2 + 60.0 * (xp.cos(2.0 * math.pi * x) - 1.0) + 0.4 * x

    x, w = legendre(-25.0, 25.0, 20_000)
    mass = np.exp(first(x, np)) * w

    def log_density(x):
        lean = x[1] - 0.7 * x[0]
        return first(x[0], jnp) - 0.5 * (lean / 0.1) ** 2 - 0.5 * ((x[2] - 0.3 * x[1] ** 2) / 2.0) ** 2

    edges = (-1.5, 0.5, 2.5)
    masses = np.bincount(np.searchsorted(edges, x, side="right"), mass, 4)
    mean = float(mass @ x / mass.sum())
    return Density(
        "comb-3",
        3,
        log_density,
        "some fifteen ridges at whole numbers, of unlike weight",
        "quadrature along the comb",
        log_z=math.log(float(mass.sum())) + _LOG_2PI + math.log(0.1 * 2.0),
        shares=lambda x: jax.nn.one_hot(jnp.sum(x[0] >= jnp.asarray(edges, x.dtype)), 4),
        masses=masses / masses.sum(),
        spread=math.sqrt(float(mass @ (x - mean) ** 2 / mass.sum())),
    )


def far_offset() -> Density:
    """Three modes at 20,000 in every coordinate, 0.2 wide: single precision has steps of 0.002 there."""
    generator = np.random.default_rng(8)
    means = 20_000.0 + generator.normal(size=(3, 5)) * 4.0
    hardness = "three modes at 20,000, a hundred of its steps in single precision wide"
    weights = [0.15, 0.25, 0.6]
    return mixture("far-offset-5", means, np.full(3, 0.2), weights, hardness, how={"init": means[:1] - 3.0})


def plates() -> Density:
    """Two normals in twenty dimensions, correlated at 0.97, side by side along the least of their directions."""
    dim, rho = 20, 0.97
    covariance = np.full((dim, dim), rho) + (1.0 - rho) * np.eye(dim)
    root = np.linalg.cholesky(covariance)
    across = np.concatenate([[1.0, -1.0], np.zeros(dim - 2)]) / math.sqrt(2.0)
    means = np.stack([np.zeros(dim), 8.0 * math.sqrt(1.0 - rho) * across])
    return mixture("plates-20", means, np.stack([root, root]), [0.8, 0.2], "two thin plates side by side")


def separable() -> Density:
    """A logistic regression whose data are separated, with wide priors: the likelihood grows without end."""
    x, y = np.array([-2.0, -1.2, -0.4, 0.7, 1.1, 2.5]), np.array([-1.0, -1.0, -1.0, 1.0, 1.0, 1.0])

    def log_likelihood(b, xp):
        return sum(-xp.logaddexp(0.0, -sign * (b[0] + b[1] * at)) for at, sign in zip(x, y, strict=True))

    prior = [tp.Normal(0.0, 50.0), tp.Normal(0.0, 50.0)]
    return posterior(
        "separable-2",
        prior,
        log_likelihood,
        "separated classes: a wedge on which the likelihood is 1, cut by the prior alone",
        "quadrature",
        axes=[axis(prior[0], 2500), axis(prior[1], 2500)],
        region=lambda b, xp: xp.where(b[1] > 30.0, 1, 0),
        num_regions=2,
    )


def scattered_data() -> Density:
    """Place and scale of Cauchy data in two clusters and one outlier: modes of unlike scale."""
    values = np.array([-6.1, -5.9, -6.02, 3.0, 3.4, 2.7, 3.2, 40.0])

    def log_likelihood(x, xp):
        return sum(-xp.log(math.pi * x[1]) - xp.log1p(((value - x[0]) / x[1]) ** 2) for value in values)

    prior = [tp.Normal(0.0, 20.0), tp.LogNormal(0.0, 2.0)]
    return posterior(
        "scattered-2",
        prior,
        log_likelihood,
        "a Cauchy's place and scale from two clusters: modes of unlike scale and shape",
        "quadrature",
        axes=[axis(prior[0], 6000, cuts=[-1.5]), axis(prior[1], 1500)],
        region=lambda x, xp: xp.where(x[0] > -1.5, 1, 0),
        num_regions=2,
    )


def product() -> Density:
    """Three factors of which the product alone is known: four curved sheets in a box."""
    prior = [tp.Uniform(-4.0, 4.0)] * 3

    def log_likelihood(x, xp):
        return -0.5 * ((x[0] * x[1] * x[2] - 5.0) / 0.25) ** 2

    each = axis(prior[0], 800)
    return posterior(
        "product-3",
        prior,
        log_likelihood,
        "a product of three is known: four curved sheets",
        "quadrature, and the masses by symmetry",
        found=on_grid([each] * 3, log_likelihood),
        region=lambda x, xp: 2 * xp.where(x[0] > 0, 1, 0) + xp.where(x[1] > 0, 1, 0),
        num_regions=4,
        masses=np.full(4, 0.25),
    )


def wrapped() -> Density:
    """Three angles between -pi and pi, whose mean directions are at the ends: each mode is cut in two."""
    prior, mean = [tp.Uniform(-math.pi, math.pi)] * 3, np.array([3.1, -3.0, 2.6])

    def log_likelihood(x, xp):
        return sum(8.0 * xp.cos(x[k] - mean[k]) for k in range(3)) + 3.0 * xp.cos(x[0] - x[1])

    each = axis(prior[0], 320, cuts=[0.0])
    return posterior(
        "wrapped-3",
        prior,
        log_likelihood,
        "angles: one mode, cut into eight by the ends of the box",
        "quadrature",
        axes=[each] * 3,
        region=lambda x, xp: sum(2**k * xp.where(x[k] > 0, 1, 0) for k in range(3)),
        num_regions=8,
    )


def decay() -> Density:
    """The sum of two exponential decays: rates switch their labels, and amplitudes lean on them."""
    times = np.linspace(0.1, 4.0, 12)
    noise, width = 0.1, 3.0
    values = 1.5 * np.exp(-0.5 * times) + 1.0 * np.exp(-3.0 * times)
    values = values + noise * np.random.default_rng(4).standard_normal(12)

    def log_likelihood(x, xp):
        fit = [x[2] * xp.exp(-x[0] * t) + x[3] * xp.exp(-x[1] * t) for t in times]
        square = sum(((value - at) / noise) ** 2 for value, at in zip(values, fit, strict=True))
        return -0.5 * square - 12 * (math.log(noise) + 0.5 * _LOG_2PI)

    def marginal(x, xp):
        """Amplitudes are normal given the rates: the lemmas of Sylvester and Woodbury in two dimensions."""
        first, second = (np.stack([np.exp(-x[k] * t) for t in times]) for k in range(2))
        a, b, c = (np.sum(p * q, axis=0) / noise**2 for p, q in ((first, first), (first, second), (second, second)))
        u, v = (np.tensordot(values, basis, 1) / noise**2 for basis in (first, second))
        a, c = a + 1.0 / width**2, c + 1.0 / width**2
        det = a * c - b**2
        fit = (c * u**2 - 2.0 * b * u * v + a * v**2) / det
        constant = -12 * (math.log(noise) + 0.5 * _LOG_2PI) - 0.5 * float(values @ values) / noise**2
        return constant + 0.5 * fit - 0.5 * np.log(det) - 2.0 * math.log(width)

    rates = tp.LogNormal(0.0, 1.5)
    each = axis(rates, 700, cuts=[1.0])
    region = lambda x, xp: 2 * xp.where(x[0] > 1.0, 1, 0) + xp.where(x[1] > 1.0, 1, 0)  # noqa: E731
    found = on_grid([each, each], marginal, region, 4)
    return posterior(
        "decay-4",
        [rates, rates, tp.Normal(0.0, width), tp.Normal(0.0, width)],
        log_likelihood,
        "two decays: labels switch, and the slower rate leans on both amplitudes",
        "conjugacy, and quadrature over both rates",
        region=region,
        num_regions=4,
        found=found,
        masses=found.masses,
        with_spread=False,  # a rate of no amplitude has its prior's tail: 8,000 exact draws miss the spread by a fifth
    )


EDGES: dict[str, Callable[[], Density]] = {
    "box-corner-4": corner_of_a_box,
    "tail-and-narrow-6": tail_and_narrow,
    "scales-12": many_scales,
    "comb-3": comb,
    "far-offset-5": far_offset,
    "plates-20": plates,
    "separable-2": separable,
    "scattered-2": scattered_data,
    "product-3": product,
    "wrapped-3": wrapped,
    "decay-4": decay,
}
