"""Landscapes of statistical physics, molecular simulation and optimisation, handed over as their owners would.

Written before any of them was fitted; `newcomers` has their companions of data. Transfer operators, closed forms and
quadrature are the truth.
"""

import dataclasses
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

import tempering as tp

from .classic import legendre
from .record import Box, Density, Tolerance, halves
from .shapes import mixture

__all__ = ["WANDERERS", "clusters", "domain_walls", "in_plane", "polymer", "student_clusters", "xy_cylinder"]

_LOG_2PI = math.log(2.0 * math.pi)


def in_plane(log_plane, region, low, high, num: int) -> tuple[float, np.ndarray, float]:
    """log Z, masses and the spread of the first coordinate of a density in the plane, by Gauss-Legendre quadrature."""
    x, w = legendre(low[0], high[0], num)
    y, v = legendre(low[1], high[1], num)
    logs = log_plane(x[:, None], y[None], np)
    top = float(np.max(logs))
    mass = np.exp(logs - top) * w[:, None] * v[None]
    numbers = np.broadcast_to(region(x[:, None], y[None], np), mass.shape)
    total, along = float(mass.sum()), mass.sum(axis=1)
    mean = float(along @ x) / total
    spread = math.sqrt(float(along @ (x - mean) ** 2) / total)
    return top + math.log(total), np.bincount(numbers.ravel(), mass.ravel()) / total, spread


def domain_walls(num: int = 16) -> Density:
    """Coupled particles in double wells; a wall between unlike neighbours costs 1 kT, so that no state stands out.

    The ends are free. A tilt makes one side of a well likelier.
    """
    height, tilt, join = 6.0, 0.15, 0.5
    nodes, weights = legendre(-2.4, 2.4, 500)
    site = np.exp(-height * (nodes**2 - 1.0) ** 2 + tilt * nodes) * weights
    bond = np.exp(-0.5 * join * (nodes[:, None] - nodes[None]) ** 2)
    marked = (0, num // 2 - 1, num // 2)
    totals = np.zeros(8)
    for number in range(8):
        vector, log_scale = np.ones(len(nodes)), 0.0
        for at in range(num):
            vector = (bond @ vector if at else vector) * site
            if at in marked:
                is_up = bool(number >> marked.index(at) & 1)
                vector = vector * ((nodes > 0.0) == is_up)
            log_scale += math.log(vector.max())
            vector = vector / vector.max()
        totals[number] = math.log(vector.sum()) + log_scale
    log_z = float(np.logaddexp.reduce(totals))

    def log_density(x):
        return jnp.sum(tilt * x - height * (x**2 - 1.0) ** 2) - 0.5 * join * jnp.sum(jnp.diff(x) ** 2)

    def shares(x):
        return jax.nn.one_hot(sum(2**k * jnp.where(x[at] > 0.0, 1, 0) for k, at in enumerate(marked)), 8)

    return Density(
        f"domain-walls-{num}",
        num,
        log_density,
        "65,536 states of a weakly coupled chain, with walls at any place",
        "products of transfer matrices",
        log_z=log_z,
        shares=shares,
        masses=np.exp(totals - log_z),
    )


def xy_cylinder(around: int = 3, along: int = 4, nodes: int = 40) -> Density:
    """The XY model on a cylinder, in a field of two unlike directions; angles are uniform between -pi and pi.

    One of the two states is at the ends of every interval.
    """
    join, clock, pull = 0.9, 0.5, -0.15
    dim = around * along
    angle = 2.0 * math.pi * np.arange(nodes) / nodes
    kernel = np.exp(join * np.cos(angle[:, None] - angle[None]))
    row, rings = np.zeros((nodes,) * around), max(1, around if around > 2 else around - 1)
    at = [angle.reshape([-1 if axis == k else 1 for axis in range(around)]) for k in range(around)]
    for k in range(around):
        row = row + clock * np.cos(2.0 * at[k]) + pull * np.cos(at[k])
    for k in range(rings):
        row = row + join * np.cos(at[k] - at[(k + 1) % around])
    row, forward = np.exp(row), 0.5 * (1.0 + np.cos(at[0]))  # a share in the state at angle 0
    totals = np.zeros(4)
    for number in range(4):
        state = row
        for place in range(along):
            if place:
                for k in range(around):
                    state = np.moveaxis(np.tensordot(kernel, state, axes=(1, k)), 0, k)
                state = state * row
            if place in (0, along - 1):
                is_forward = bool(number >> (0 if place == 0 else 1) & 1)
                state = state * (forward if is_forward else 1.0 - forward)
        totals[number] = state.sum()
    mean = float(totals.sum()) / float(nodes) ** dim  # over angles: that is the evidence

    def log_likelihood(x):
        angles = x.reshape(along, around)
        alone = jnp.sum(clock * jnp.cos(2.0 * angles) + pull * jnp.cos(angles))
        beside = jnp.sum(jnp.cos(angles - jnp.roll(angles, -1, axis=1))[:, :rings])
        return alone + join * (beside + jnp.sum(jnp.cos(jnp.diff(angles, axis=0))))

    def shares(x):
        first, last = (0.5 * (1.0 + jnp.cos(x[k])) for k in (0, dim - around))
        pair = lambda share: jnp.stack([1.0 - share, share])  # noqa: E731
        return (pair(last)[:, None] * pair(first)[None]).ravel()

    return Density(
        f"xy-cylinder-{dim}",
        dim,
        log_likelihood,
        "spins whose better state is cut by the ends of all twelve intervals",
        "products of transfer matrices over three angles",
        prior=Box.cube(-math.pi, math.pi, dim),
        log_z=math.log(mean),
        shares=shares,
        masses=totals / totals.sum(),
    )


def polymer(num: int = 5) -> Density:
    """Torsions of a chain in degrees, each trans or one of two gauche; neighbours prefer gauche of one sign."""
    barrier, gauche, chiral, join = 3.0, 0.7, 0.25, 1.0
    degrees = -180.0 + (np.arange(720) + 0.5) * 0.5
    turn = np.radians(degrees)

    def alone(turn, xp):
        return -barrier * (1.0 + xp.cos(3.0 * turn)) - gauche * (1.0 + xp.cos(turn)) + chiral * xp.sin(turn)

    site = np.exp(alone(turn, np)) * 0.5
    bond = np.exp(join * np.sin(turn[:, None]) * np.sin(turn[None]))
    state = np.where(np.abs(degrees) > 120.0, 0, np.where(degrees > 0.0, 1, 2))
    marked = (0, min(2, num - 1))
    masses = np.zeros(9)
    for number in range(9):
        vector = np.ones(len(turn))
        for at in range(num):
            vector = (bond @ vector if at else vector) * site
            if at in marked:
                vector = vector * (state == (number // 3 if at == 0 else number % 3))
        masses[number] = vector.sum()

    def log_density(x):
        turn = x * (math.pi / 180.0)
        sin = jnp.sin(turn)
        return jnp.sum(alone(turn, jnp)) + join * jnp.sum(sin[1:] * sin[:-1])

    def shares(x):
        number = jnp.where(jnp.abs(x) > 120.0, 0, jnp.where(x > 0.0, 1, 2))
        return jax.nn.one_hot(3 * number[marked[0]] + number[marked[1]], 9)

    return Density(
        f"polymer-{num}",
        num,
        log_density,
        "torsions in degrees: 243 states, the best of which is cut at ±180 in all five",
        "products of transfer matrices",
        log_z=math.log(float(masses.sum())),
        shares=shares,
        masses=masses / masses.sum(),
        how={"support": tp.interval(-180.0, 180.0)},
    )


def microns() -> Density:
    """Himmelblau's function in metres, where a unit is a micron: four valleys of unlike weight."""

    def log_plane(x, y, xp):
        x, y = x * 1e6, y * 1e6
        return -((x**2 + y - 11.0) ** 2 + (x + y**2 - 7.0) ** 2) / 5.0 - 0.15 * x + 0.1 * y

    def region(x, y, xp):
        return 2 * xp.where(x > 0.0, 1, 0) + xp.where(y > 0.0, 1, 0)

    log_z, masses, spread = in_plane(log_plane, region, (-7e-6, -7e-6), (7e-6, 7e-6), 1000)
    return Density(
        "microns-2",
        2,
        lambda x: log_plane(x[0], x[1], jnp),
        "four valleys in units of 1e-6",
        "quadrature",
        log_z=log_z,
        shares=lambda x: jax.nn.one_hot(region(x[0], x[1], jnp), 4),
        masses=masses,
        spread=spread,
    )


def ackley(nodes: int = 24) -> Density:
    """Ackley's function as an energy on its usual box: four thousand wells, most of their mass not in the best."""
    half, heat = 32.768, 2.6
    edges = np.array([0.0, *np.arange(0.5, half), half])  # between wells
    panels = [legendre(low, high, nodes) for low, high in zip(edges, edges[1:], strict=False)]
    x, w = (np.concatenate([panel[k] for panel in panels]) for k in range(2))

    def energy(x, y, xp):
        bowl = 20.0 * xp.exp(-0.2 * xp.sqrt(0.5 * (x**2 + y**2) + 1e-12))
        return (bowl + xp.exp(0.5 * (xp.cos(2.0 * math.pi * x) + xp.cos(2.0 * math.pi * y)))) / heat

    def region(x, y, xp):
        far = xp.maximum(abs(x), abs(y))
        return xp.where(far > 0.5, 1, 0) + xp.where(far > 11.5, 1, 0)

    mass = np.exp(energy(x[:, None], x[None], np)) * w[:, None] * w[None]
    masses = np.bincount(region(x[:, None], x[None], np).ravel(), mass.ravel(), 3)
    return Density(
        "ackley-2",
        2,
        lambda x: energy(x[0], x[1], jnp),
        "four thousand shallow wells in a flat box, and a cusp in the middle of one",
        "quadrature",
        prior=Box.cube(-half, half, 2),
        log_z=math.log(4.0 * float(mass.sum())) - 2.0 * math.log(2.0 * half),
        shares=lambda x: jax.nn.one_hot(region(x[0], x[1], jnp), 3),
        masses=masses / masses.sum(),
    )


def clusters(dim: int = 40) -> Density:
    """Three turned normals of unlike size with 0.72, 0.2 and 0.08 of the mass, handed over as a nested tree."""
    generator = np.random.default_rng(51)
    roots = np.stack(
        [
            size * np.linalg.qr(generator.standard_normal((dim, dim)))[0] * np.geomspace(0.25, 1.6, dim)[None]
            for size in (1.0, 0.8, 1.15)
        ]
    )
    means = 2.5 * generator.standard_normal((3, dim))
    hardness = "three turned clusters of unlike size, the least with 0.08 of the mass, in a tree of parameters"
    alone = mixture(f"clusters-{dim}", means, roots, [0.72, 0.2, 0.08], hardness)
    head = dim // 4
    like = {"bias": jnp.zeros(head), "layers": [jnp.zeros((head, 2)), jnp.zeros(dim - 3 * head)]}

    def of_tree(tree):
        parts = [tree["bias"], tree["layers"][0].ravel(), tree["layers"][1]]
        return alone.log_density(jnp.concatenate(parts))

    def flat(tree):
        leaves = [tree["bias"], *tree["layers"]]
        return np.concatenate([np.asarray(leaf).reshape(len(leaf), -1) for leaf in leaves], axis=1)

    return dataclasses.replace(
        alone, handed=lambda: of_tree, handed_as="function of a tree", flat=flat, how={"like": like}
    )


def student_clusters(dim: int = 20) -> Density:
    """Three Student distributions with three degrees of freedom, 0.7, 0.2 and 0.1, in twenty dimensions."""
    nu, weights = 3.0, np.array([0.7, 0.2, 0.1])
    generator = np.random.default_rng(52)
    means = 3.0 * generator.standard_normal((3, dim))
    rotations = np.stack([np.linalg.qr(generator.standard_normal((dim, dim)))[0] for _ in range(3)])
    axes = np.stack([size * np.geomspace(0.4, 1.6, dim) for size in (1.0, 0.85, 1.2)])
    whiteners = np.swapaxes(rotations, 1, 2) / axes[:, :, None]
    constants = np.log(weights) - np.log(axes).sum(axis=1) - 0.5 * dim * math.log(nu * math.pi)
    constants += math.lgamma(0.5 * (nu + dim)) - math.lgamma(0.5 * nu)

    def logs(x):
        white = jnp.einsum("kij,kj->ki", jnp.asarray(whiteners, x.dtype), x[None] - jnp.asarray(means, x.dtype))
        tails = -0.5 * (nu + dim) * jnp.log1p(jnp.sum(white**2, axis=1) / nu)
        return jnp.asarray(constants, x.dtype) + tails

    return Density(
        f"student-clusters-{dim}",
        dim,
        lambda x: logsumexp(logs(x)),
        "three turned modes of unlike weight with heavy tails",
        "closed form",
        log_z=0.0,
        shares=lambda x: jax.nn.softmax(logs(x)),
        masses=weights,
    )


def turned_ring(dim: int = 15) -> Density:
    """A ring of radius 5 and width 0.1, heavier at two ends, in a turned plane; the other widths run from 0.05 to 5."""
    radius, width, two, one = 5.0, 0.1, 0.8, 0.4
    turn = np.linalg.qr(np.random.default_rng(53).standard_normal((dim, dim)))[0]
    widths = np.geomspace(0.05, 5.0, dim - 2)
    r, w = legendre(radius - 12.0 * width, radius + 12.0 * width, 300)
    radial = float(w @ (r * np.exp(-0.5 * ((r - radius) / width) ** 2)))
    angle = 2.0 * math.pi * (np.arange(4096) + 0.5) / 4096
    around = np.exp(two * np.cos(2.0 * angle) + one * np.cos(angle)) * 2.0 * math.pi / 4096
    quarter = np.floor((angle + 0.25 * math.pi) / (0.5 * math.pi)).astype(int) % 4
    masses = np.bincount(quarter, around, 4)

    def log_density(x):
        y = jnp.asarray(turn.T, x.dtype) @ x
        length = jnp.sqrt(y[0] ** 2 + y[1] ** 2 + 1e-12)
        cos = y[0] / length
        rest = -0.5 * jnp.sum((y[2:] / jnp.asarray(widths, x.dtype)) ** 2)
        return rest - 0.5 * ((length - radius) / width) ** 2 + two * (2.0 * cos**2 - 1.0) + one * cos

    def shares(x):
        y = jnp.asarray(turn.T, x.dtype)[:2] @ x
        at = jnp.arctan2(y[1], y[0])
        return jax.nn.one_hot(jnp.mod(jnp.floor((at + 0.25 * math.pi) / (0.5 * math.pi)), 4).astype(int), 4)

    return Density(
        f"turned-ring-{dim}",
        dim,
        log_density,
        "a closed ridge in no coordinate's plane, among widths from 0.05 to 5",
        "closed form, two quadratures",
        log_z=math.log(radial * float(masses.sum())) + 0.5 * (dim - 2) * _LOG_2PI + float(np.sum(np.log(widths))),
        shares=shares,
        masses=masses / masses.sum(),
    )


def forked_funnel(dim: int = 6) -> Density:
    """A funnel whose mouth forks: the second coordinate has two modes, eight of its widths apart at any scale."""

    def logs(x):
        scale = jnp.exp(-0.5 * x[0])
        head = -0.5 * (x[0] / 2.0) ** 2 - math.log(2.0) - 0.5 * dim * _LOG_2PI - 0.5 * (dim - 1) * x[0]
        rest = head - 0.5 * jnp.sum((x[2:] * scale) ** 2)
        sides = jnp.stack([-0.5 * (x[1] * scale - 4.0) ** 2, -0.5 * (x[1] * scale + 4.0) ** 2])
        return rest + sides + jnp.log(jnp.asarray([0.7, 0.3], x.dtype))

    return Density(
        f"forked-funnel-{dim}",
        dim,
        lambda x: logsumexp(logs(x)),
        "a neck in which two modes meet, and in the mouth they are far apart",
        "closed form",
        log_z=0.0,
        shares=lambda x: (jax.nn.softmax(logs(x))[:, None] * halves(x[0])[None]).ravel(),
        masses=np.array([0.35, 0.35, 0.15, 0.15]),
        spread=2.0,
        tolerance=Tolerance(log_z=0.1),
    )


WANDERERS: dict[str, Callable[[], Density]] = {
    "domain-walls-16": domain_walls,
    "xy-cylinder-12": xy_cylinder,
    "polymer-5": polymer,
    "microns-2": microns,
    "ackley-2": ackley,
    "clusters-40": clusters,
    "student-clusters-20": student_clusters,
    "turned-ring-15": turned_ring,
    "forked-funnel-6": forked_funnel,
}
