"""Densities that were written to break the library: none was looked at while it was made.

Each is what a practitioner, or a reviewer who means harm, might hand over: concentric scales, rings, flat tops, kinks,
walls, units of 1e-3 and 1e4, modes two hundred widths apart. Every truth is a closed form or a quadrature.
"""

import math
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from .classic import legendre
from .record import Box, Density, halves
from .shapes import mixture
from .strange_shapes import kinks, plateau, schools, shell, turned_funnel

__all__ = ["STRANGERS"]

_LOG_2PI = math.log(2.0 * math.pi)


def _sides(x: jax.Array, at: float = 0.0) -> jax.Array:
    return halves(x - at)


def wide_and_narrow() -> Density:
    """Weight 0.9 of width 1.5 and weight 0.1 of width 0.15, six widths of the wide one apart."""
    means = [[-4.0, 0.0, 0.0], [4.0, 3.0, -2.0]]
    return mixture("wide-and-narrow", means, [1.5, 0.15], [0.9, 0.1], "a narrow mode beside one ten times as wide")


def concentric() -> Density:
    """Half of the mass with width 0.1 in the middle of the other half with width 3, four dimensions."""
    return mixture("concentric", np.zeros((2, 4)), [0.1, 3.0], [0.5, 0.5], "one optimum, which shows half of the mass")


def crossed() -> Density:
    """Two needles that cross at right angles in ten dimensions: each optimum is the same point."""
    roots = np.stack([np.diag([8.0] + [0.2] * 9), np.diag([0.2] * 9 + [8.0])])
    return mixture("crossed", np.zeros((2, 10)), roots, [0.7, 0.3], "two long needles cross in one optimum")


def ring_and_blob() -> Density:
    """A ring of radius 6 and width 0.2 with 0.7 of the mass about a normal of width 0.5."""
    r, w = legendre(0.0, 12.0, 2000)
    log_ring = math.log(2.0 * math.pi * float(w @ (r * np.exp(-0.5 * ((r - 6.0) / 0.2) ** 2))))

    def logs(x):
        distance = jnp.sqrt(jnp.sum(x**2) + 1e-12)
        ring = math.log(0.7) - log_ring - 0.5 * ((distance - 6.0) / 0.2) ** 2
        blob = math.log(0.3) - _LOG_2PI - 2.0 * math.log(0.5) - 0.5 * jnp.sum((x / 0.5) ** 2)
        return jnp.stack([ring, blob])

    return Density(
        "ring-and-blob",
        2,
        lambda x: jax.scipy.special.logsumexp(logs(x)),
        "a closed ridge without an optimum of its own, and a mode within",
        "closed form, one quadrature",
        log_z=0.0,
        shares=lambda x: jax.nn.softmax(logs(x)),
        masses=np.array([0.7, 0.3]),
    )


def student_mixture() -> Density:
    """Two multivariate Student distributions with two degrees of freedom: no variance."""
    means, scales, weights, nu, dim = (
        np.array([[-5.0, 0.0, 0.0], [5.0, 2.0, 1.0]]),
        np.array([1.0, 0.5]),
        [0.6, 0.4],
        2.0,
        3,
    )
    constant = math.lgamma(0.5 * (nu + dim)) - math.lgamma(0.5 * nu) - 0.5 * dim * math.log(nu * math.pi)

    def logs(x):
        white = (x[None] - jnp.asarray(means, x.dtype)) / jnp.asarray(scales, x.dtype)[:, None]
        tails = -0.5 * (nu + dim) * jnp.log1p(jnp.sum(white**2, axis=1) / nu)
        return jnp.asarray(np.log(weights) - dim * np.log(scales) + constant, x.dtype) + tails

    return Density(
        "student-2-mixture",
        dim,
        lambda x: jax.scipy.special.logsumexp(logs(x)),
        "two modes with tails that have no variance",
        "closed form",
        log_z=0.0,
        shares=lambda x: jax.nn.softmax(logs(x)),
        masses=np.array(weights),
    )


def correlated_student() -> Density:
    """A Student distribution with 2.5 degrees of freedom in eight dimensions, neighbours correlated by 0.9."""
    dim, nu = 8, 2.5
    covariance = 0.9 ** np.abs(np.subtract.outer(np.arange(dim), np.arange(dim)))
    root = np.linalg.cholesky(covariance)
    inverse, log_det = np.linalg.inv(root), float(np.sum(np.log(np.diag(root))))

    def log_density(x):
        return -0.5 * (nu + dim) * jnp.log1p(jnp.sum((jnp.asarray(inverse, x.dtype) @ x) ** 2) / nu)

    return Density(
        "correlated-student-8",
        dim,
        log_density,
        "heavy tails along a correlated direction",
        "closed form",
        log_z=math.lgamma(0.5 * nu) - math.lgamma(0.5 * (nu + dim)) + 0.5 * dim * math.log(nu * math.pi) + log_det,
        shares=lambda x: _sides(x[0]),
        masses=np.array([0.5, 0.5]),
    )


def cauchys() -> Density:
    """Independent Cauchy coordinates in five dimensions: tails along the axes, which no ellipse follows."""

    def shares(x):
        return halves(jnp.abs(x[0]) - 1.0)  # a half each: the quartiles of a Cauchy distribution are -1 and 1

    return Density(
        "cauchy-5",
        5,
        lambda x: -jnp.sum(jnp.log1p(x**2)),
        "tails without a mean, along the axes",
        "closed form",
        log_z=5.0 * math.log(math.pi),
        shares=shares,
        masses=np.array([0.5, 0.5]),
    )


def walled() -> Density:
    """Gamma coordinates of shapes 1, 2 and 4 with -inf below zero, as a user writes them with `where`."""
    shapes = np.array([1.0, 2.0, 4.0])

    def log_density(x):
        inside = jnp.all(x > 0.0)
        safe = jnp.where(x > 0.0, x, 1.0)
        return jnp.where(inside, jnp.sum(jnp.asarray(shapes - 1.0, x.dtype) * jnp.log(safe) - safe), -jnp.inf)

    return Density(
        "walled-3",
        3,
        log_density,
        "-inf outside of a corner, where the first coordinate has its largest density",
        "closed form",
        log_z=sum(math.lgamma(shape) for shape in shapes),
        shares=lambda x: _sides(x[0], math.log(2.0)),
        masses=np.array([0.5, 0.5]),
    )


def labels() -> Density:
    """The means of three equal normal components, given twelve data: the labels switch."""
    data = np.array([-3.1, -2.8, -3.4, -2.5, 0.2, -0.1, 0.5, 0.1, 2.2, 2.9, 3.3, 2.6])
    nodes, weights = legendre(-8.0, 8.0, 160)
    each = np.exp(-0.5 * (data[:, None] - nodes[None]) ** 2 / 0.49)  # datum, node
    prior = np.exp(-0.5 * nodes**2 / 9.0)
    total = np.ones((len(nodes),) * 3)
    for row in each:
        total *= row[:, None, None] + row[None, :, None] + row[None, None, :]
    mass = weights * prior
    log_z = math.log(float(np.einsum("ijk,i,j,k->", total, mass, mass, mass)))

    def log_density(x):
        logs = -0.5 * (jnp.asarray(data, x.dtype)[:, None] - x[None]) ** 2 / 0.49
        return jnp.sum(jax.scipy.special.logsumexp(logs, axis=1)) - 0.5 * jnp.sum(x**2) / 9.0

    def shares(x):
        order = jnp.argsort(x)
        return jax.nn.one_hot(3 * order[0] + order[1], 9)[jnp.asarray([1, 2, 3, 5, 6, 7])]

    return Density(
        "labels-3",
        3,
        log_density,
        "six orders of the same three means, and smaller modes where two share a cluster",
        "quadrature; the six by symmetry",
        log_z=log_z,
        shares=shares,
        masses=np.full(6, 1.0 / 6.0),
    )


def steps() -> Density:
    """A normal plane, three times as high where x0 > 0, and e times as high in a strip |x1| < 1/2."""
    strip = math.erf(0.5 * math.sqrt(0.5))
    factor = 1.0 + (math.e - 1.0) * strip

    def log_density(x):
        jump = math.log(3.0) * jnp.where(x[0] > 0.0, 1.0, 0.0) + jnp.where(jnp.abs(x[1]) < 0.5, 1.0, 0.0)
        return -0.5 * jnp.sum(x**2) + jump

    def shares(x):
        return (halves(x[0])[:, None] * halves(0.5 - jnp.abs(x[1]))[None]).ravel()

    inside = math.e * strip / factor
    return Density(
        "steps",
        2,
        log_density,
        "jumps that no gradient tells of",
        "closed form",
        log_z=_LOG_2PI + math.log(2.0 * factor),
        shares=shares,
        masses=np.array([0.75 * inside, 0.75 * (1 - inside), 0.25 * inside, 0.25 * (1 - inside)]),
    )


def in_units(unit: float, dim: int = 4) -> Density:
    """Two modes of width `unit`, ten widths apart, with 0.7 and 0.3 of the mass."""
    means = unit * np.stack([np.full(dim, 2.5), np.full(dim, -2.5)])
    hardness = f"everything in units of {unit:g}"
    return mixture(f"units-{unit:g}", means, np.full(2, unit), [0.7, 0.3], hardness)


def offset() -> Density:
    """Two modes of width 1, six apart, a thousand away from the origin in five dimensions."""
    means = np.full((2, 5), 1000.0)
    means[1, 0] += 6.0
    return mixture("offset-1000", means, [1.0, 1.0], [0.6, 0.4], "nothing near the origin points there")


def line() -> Density:
    """One dimension: widths 1, 0.1 and 0.02 with 0.6, 0.3 and 0.1 of the mass."""
    return mixture("line", [[-3.0], [2.0], [6.0]], [1.0, 0.1, 0.02], [0.6, 0.3, 0.1], "one dimension, three widths")


def far_apart() -> Density:
    """Two modes of width 1 in the plane, two hundred widths apart."""
    means = [[0.0, 0.0], [160.0, 120.0]]
    return mixture("far-apart-200", means, [1.0, 1.0], [0.6, 0.4], "two hundred widths of nothing between the modes")


def ill_conditioned() -> Density:
    """A Gaussian in ten dimensions with axes from 0.001 to 10, rotated."""
    generator = np.random.default_rng(11)
    rotation = np.linalg.qr(generator.standard_normal((10, 10)))[0]
    stds = np.geomspace(0.001, 10.0, 10)
    whiten = (rotation / stds[None]).T

    return Density(
        "ill-10",
        10,
        lambda x: -0.5 * jnp.sum((jnp.asarray(whiten, x.dtype) @ x) ** 2),
        "axes from 0.001 to 10, in no coordinate's direction",
        "closed form",
        log_z=5.0 * _LOG_2PI + float(np.sum(np.log(stds))),
        shares=lambda x: _sides(x[0]),
        masses=np.array([0.5, 0.5]),
        spread=float(np.sqrt(np.sum((rotation[0] * stds) ** 2))),
    )


def corners() -> Density:
    """A likelihood that is large in two opposite corners of a box alone, 0.02 wide, five dimensions."""
    width, dim = 0.02, 5
    one_sided = width * -math.expm1(-1.0 / width)

    def logs(x):
        return jnp.stack([math.log(0.7) - jnp.sum(x) / width, math.log(0.3) - jnp.sum(1.0 - x) / width])

    return Density(
        "corners-5",
        dim,
        lambda x: jax.scipy.special.logsumexp(logs(x)),
        "all mass in two corners of the prior",
        "closed form",
        prior=Box.cube(0.0, 1.0, dim),
        log_z=dim * math.log(one_sided),
        shares=lambda x: jax.nn.softmax(logs(x)),
        masses=np.array([0.7, 0.3]),
    )


def eggbox_3() -> Density:
    """The eggbox in three dimensions on [0, 4 pi]^3."""
    nodes, weights = legendre(0.0, 4.0 * math.pi, 200)
    wave = np.cos(nodes / 2.0)
    values = 5.0 * np.log(2.0 + wave[:, None, None] * wave[None, :, None] * wave[None, None, :])
    volume = (4.0 * math.pi) ** 3
    log_z = math.log(float(np.einsum("ijk,i,j,k->", np.exp(values), weights, weights, weights)) / volume)

    def shares(x):
        # Along every axis: a peak of one sign at 0 and 4 pi, of the other in the middle.
        middle = jnp.where(jnp.abs(x - 2.0 * math.pi) < math.pi, 1, 0)
        return jax.nn.one_hot(jnp.sum(middle * jnp.asarray([4, 2, 1])), 8)

    is_middle = np.abs(nodes - 2.0 * math.pi) < math.pi
    parts = np.stack([weights * ~is_middle, weights * is_middle])
    masses = np.einsum("ijk,ai,bj,ck->abc", np.exp(values), parts, parts, parts).ravel()
    return Density(
        "eggbox-3",
        3,
        lambda x: 5.0 * jnp.log(2.0 + jnp.prod(jnp.cos(x / 2.0))),
        "waves in a box, most peaks at its faces",
        "quadrature",
        prior=Box.cube(0.0, 4.0 * math.pi, 3),
        log_z=log_z,
        shares=shares,
        masses=masses / masses.sum(),
    )


STRANGERS: dict[str, Callable[[], Density]] = {
    "wide-and-narrow": wide_and_narrow,
    "concentric": concentric,
    "crossed": crossed,
    "ring-and-blob": ring_and_blob,
    "student-2-mixture": student_mixture,
    "correlated-student-8": correlated_student,
    "cauchy-5": cauchys,
    "walled-3": walled,
    "labels-3": labels,
    "steps": steps,
    "units-0.001": partial(in_units, 1e-3),
    "units-10000": partial(in_units, 1e4),
    "offset-1000": offset,
    "line": line,
    "far-apart-200": far_apart,
    "ill-10": ill_conditioned,
    "corners-5": corners,
    "eggbox-3": eggbox_3,
    "plateau-6": plateau,
    "kinks-4": kinks,
    "schools-10": schools,
    "turned-funnel-5": turned_funnel,
    "shell-10": shell,
}
