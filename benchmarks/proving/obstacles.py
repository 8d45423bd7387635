"""Nasty densities: rooms without a door, rare crossings, cusps, lopsided tails and eleven powers of ten.

Written before any of them was fitted, by somebody who had not seen a fit. Truths are in double precision, from NumPy
and SciPy. The comment above a density says how its truth was made and by which second method it was checked:
- SMC: tempered sequential Monte Carlo from the prior, or from a wide normal, of the very JAX function that is handed
  over. log Z agreed within 0.05 or so, masses within 0.03 or so;
- grid 2: the same quadrature with other numbers of nodes.
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special, stats
from scipy.signal import fftconvolve

import tempering as tp

from .classic import legendre
from .handed import bins
from .record import Density, halves

__all__ = ["OBSTACLES"]

_LOG_2PI = math.log(2.0 * math.pi)


# Truth: closed form (plaquettes of an open plane are independent). Second: SMC.
def gauge(coupling: float = 4.0) -> Density:
    """Angles on twelve links of a lattice, U(1) gauge theory: four plaquettes matter, eight directions are flat."""

    def plaquettes(x):
        h, v = x[:6].reshape(3, 2), x[6:].reshape(2, 3)
        return (h[:-1] + v[:, 1:] - h[1:] - v[:, :-1]).ravel()

    cut = 0.85
    angle = math.acos(cut)
    inside = float(stats.vonmises(coupling).cdf(angle) - stats.vonmises(coupling).cdf(-angle))

    def shares(x):
        first, second = (halves(jnp.cos(p) - cut) for p in plaquettes(x)[:2])
        return (first[:, None] * second[None]).ravel()

    pair = np.array([inside, 1.0 - inside])
    return Density(
        "gauge-12",
        12,
        lambda x: coupling * jnp.sum(jnp.cos(plaquettes(x))),
        "eight flat directions round a torus, and sheets of solutions across it",
        "closed form",
        log_z=12.0 * math.log(2.0 * math.pi) + 4.0 * math.log(special.i0(coupling)),
        shares=shares,
        masses=np.outer(pair, pair).ravel(),
        spread=2.0 * math.pi / math.sqrt(12.0),
        how={"support": tp.interval(-math.pi, math.pi)},
    )


# Truth: convolutions on a line. Second: twice the step; Tonks' formula without attraction (5e-6); four million uniform
# points (log Z -0.007, about one error); SMC.
def takahashi(num: int = 5, step: float = 0.005) -> Density:
    """Hard rods in a box that attract their neighbours: 120 orders with nothing between them."""
    side, depth = 9.0, 2.0

    def bond(gap, xp):
        near = depth * xp.sin(math.pi * (gap - 1.0)) ** 2
        return xp.where((gap > 1.0) & (gap < 2.0), near, 0.0)

    count = round(side / step)
    gaps = step * np.arange(count)
    kernel = np.where(gaps > 1.0 + 0.25 * step, np.exp(bond(gaps, np)), 0.0)
    kernel[round(1.0 / step)] = 0.5  # half of a jump that is on the grid
    ahead = [np.ones(count)]
    for _ in range(num - 1):
        ahead.append(step * np.maximum(fftconvolve(ahead[-1], kernel)[:count], 0.0))
    density = [ahead[k] * ahead[num - 1 - k][::-1] for k in range(num)]  # of the particle of every rank
    total = step * density[0].sum()
    at = step * (np.arange(count) + 0.5)
    mixed = np.sum(density, axis=0)
    mixed = mixed / mixed.sum()

    def log_density(x):
        gap = jnp.diff(jnp.sort(x))
        return jnp.where(jnp.min(gap) > 1.0, jnp.sum(bond(gap, jnp)), -jnp.inf)

    return Density(
        f"takahashi-{num}",
        num,
        log_density,
        "rods that cannot pass: 120 rooms, -inf between them and on 95 % of the box",
        "convolutions; ranks by symmetry",
        log_z=math.log(total) + math.lgamma(num + 1.0),
        shares=lambda x: jax.nn.one_hot(jnp.sum(x[1:] < x[0]), num),
        masses=np.full(num, 1.0 / num),
        spread=math.sqrt(float(mixed @ (at - 0.5 * side) ** 2)),
        how={"support": tp.interval(0.0, side)},
    )


# Truth: transfer matrices. Second: 300,000 and 2,000,000 simulated paths weighted by their end (log Z -0.0006 +-
# 0.002).
def path(num: int = 30) -> Density:
    """A path of a particle in a double well: it starts on the left, and a blurred look at its end says: right."""
    step, pull, heat, seen, blur = 0.08, 8.0, 0.45, 1.0, 0.9
    width = math.sqrt(2.0 * heat * step)

    def onward(x):
        return x - step * pull * x * (x**2 - 1.0) / (1.0 + x**2)

    def log_density(x):
        before = jnp.concatenate([jnp.full(1, -1.0, x.dtype), x[:-1]])
        steps = -0.5 * ((x - onward(before)) / width) ** 2 - math.log(width) - 0.5 * _LOG_2PI
        return jnp.sum(steps) - 0.5 * ((x[-1] - seen) / blur) ** 2

    left, right = legendre(-3.5, 0.0, 350), legendre(0.0, 3.5, 350)
    at, w = (np.concatenate([left[k], right[k]]) for k in range(2))
    move = stats.norm.pdf(at[None], onward(at)[:, None], width) * w
    first = stats.norm.pdf(at, onward(-1.0), width) * w
    middle = num // 2
    half = first @ np.linalg.matrix_power(move, middle - 1)
    rest = np.linalg.matrix_power(move, num - middle)
    end = np.exp(-0.5 * ((at - seen) / blur) ** 2)
    both = half[:, None] * rest * end
    masses = np.array([[both[np.ix_(a, b)].sum() for b in (at > 0, at < 0)] for a in (at > 0, at < 0)])
    back = np.linalg.matrix_power(move, num - 1) @ end
    one = first * back / (first @ back)
    return Density(
        f"path-{num}",
        num,
        log_density,
        "a crossing that may happen at any of thirty times, or never",
        "products of transfer matrices",
        log_z=math.log(float(masses.sum())),
        shares=lambda x: (halves(x[middle - 1])[:, None] * halves(x[-1])[None]).ravel(),
        masses=masses.ravel() / masses.sum(),
        spread=math.sqrt(float(one @ at**2 - (one @ at) ** 2)),
    )


# Truth: closed form. Second: quadrature in one dimension; importance sampling in six (log Z 0.0000 +- 0.0012).
def lopsided(dim: int = 6) -> Density:
    """A bell on the left and a power on the right, in every coordinate, each bent by the one before it."""
    power, scale = 6.5, 3.0
    sizes = np.array([1.0, 30.0, 0.02, 4.0, 1.0, 300.0])[:dim]

    def log_density(x):
        y = x / jnp.asarray(sizes, x.dtype)
        y = y - 1.5 * jnp.concatenate([jnp.zeros(1, x.dtype), jax.nn.softplus(y[:-1])])
        right = -power * jnp.log1p(jnp.maximum(y, 0.0) / scale)
        return jnp.sum(jnp.where(y < 0.0, -0.5 * y**2, right))

    left, p = math.sqrt(0.5 * math.pi), power - 1.0
    right = scale / p
    each = left + right
    one = (-1.0 + scale**2 / (p * (p - 1.0))) / each
    two = (left + 2.0 * scale**3 / (p * (p - 1.0) * (p - 2.0))) / each
    cuts = (0.0, 1.0)
    above = right * (1.0 + cuts[1] / scale) ** -p
    return Density(
        f"lopsided-{dim}",
        dim,
        log_density,
        "a heavy tail on one side only, a kink at the mode, bent through six unlike units",
        "closed form",
        log_z=dim * math.log(each) + float(np.sum(np.log(sizes))),
        shares=lambda x: jax.nn.one_hot(bins(x[0] / sizes[0], cuts, jnp), 3),
        masses=np.array([left, right - above, above]) / each,
        spread=math.sqrt(two - one**2) * float(sizes[0]),
    )


# Truth: closed form. Second: importance sampling (log Z 0.0008 +- 0.0009); exact draws for spread and shares.
def cusps(dim: int = 15) -> Density:
    """Two turned modes of Laplace's distribution, 0.85 and 0.15: a cusp at each, without a curvature."""
    generator = np.random.default_rng(93)
    weights = np.array([0.85, 0.15])
    roots = np.stack(
        [s * (np.linalg.qr(generator.standard_normal((dim, dim)))[0] * np.linspace(0.4, 1.6, dim)) for s in (1.0, 0.7)]
    )
    means = 2.5 * generator.standard_normal((2, dim))
    inverse, constants = np.linalg.inv(roots), np.log(weights) - np.linalg.slogdet(roots)[1] - dim * math.log(2.0)

    def logs(x):
        z = jnp.einsum("kij,kj->ki", jnp.asarray(inverse, x.dtype), x[None] - jnp.asarray(means, x.dtype))
        return jnp.asarray(constants, x.dtype) - jnp.sum(jnp.abs(z), axis=1)

    mean = weights @ means[:, 0]
    return Density(
        f"cusps-{dim}",
        dim,
        lambda x: jax.scipy.special.logsumexp(logs(x)),
        "cusps in fifteen dimensions, in no coordinate's direction, and exponential tails",
        "closed form",
        log_z=0.0,
        shares=lambda x: jax.nn.softmax(logs(x)),
        masses=weights,
        spread=math.sqrt(float(weights @ (2.0 * np.sum(roots[:, 0] ** 2, axis=1) + (means[:, 0] - mean) ** 2))),
    )


# Truth: closed form. Second: quadrature over the logarithm.
def decades() -> Density:
    """A rate constant that may be 1e-7, 0.02, 20 or 8,000, in its own units: four lognormals of unlike width."""
    weights = np.array([0.4, 0.3, 0.2, 0.1])
    at, widths = np.array([-16.0, -4.0, 3.0, 9.0]), np.array([0.5, 2.0, 0.2, 0.05])

    def logs(x):
        y = jnp.log(x[0])
        return -0.5 * ((y - at) / widths) ** 2 + np.log(weights / widths) - 0.5 * _LOG_2PI - y

    return Density(
        "decades-1",
        1,
        lambda x: jax.scipy.special.logsumexp(logs(x)),
        "four modes over eleven powers of ten, forty times as wide as each other",
        "closed form",
        log_z=0.0,
        shares=lambda x: jax.nn.softmax(logs(x)),
        masses=weights,
        how={"support": tp.positive},
    )


OBSTACLES: dict[str, Callable[[], Density]] = {
    "gauge-12": gauge,
    "takahashi-5": takahashi,
    "path-30": path,
    "lopsided-6": lopsided,
    "cusps-15": cusps,
    "decades-1": decades,
}
