"""Ridges, rings and boxes: densities whose mass has a form that no normal distribution has. All truths are exact.

Written before any of them was fitted; `landscapes` has their companions of physics.
"""

import math
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from .classic import legendre
from .record import Density, halves
from .shapes import mixture

__all__ = ["RIDGES"]

_LOG_2PI = math.log(2.0 * math.pi)
_EXTRA = (0.05, 1.0, 20.0)
"""Widths of the normal coordinates that some planes are given beside their own two."""


def _on_grid(log_plane, low, high, shares, num: int = 1500) -> tuple[float, np.ndarray]:
    """log Z and the masses of a density in the plane by Gauss-Legendre quadrature, in double precision."""
    x, w = legendre(low[0], high[0], num)
    y, v = legendre(low[1], high[1], num)
    logs = log_plane(x[:, None], y[None, :], np)
    top = float(logs.max())
    mass = np.exp(logs - top) * w[:, None] * v[None]
    log_z = math.log(float(mass.sum())) + top
    regions = shares(x[:, None] + 0 * y[None], 0 * x[:, None] + y[None, :])
    return log_z, np.bincount(regions.ravel(), mass.ravel()) / mass.sum()


def _plane(name, log_plane, region, ends, hardness, extra: bool, num: int = 1500) -> Density:
    """A density of the plane, alone or with three normal coordinates of very unlike widths.

    Args:
        log_plane: of two coordinates and the module (NumPy or JAX) to compute with.
        region: of two coordinates and the module, a whole number.
    """
    log_z, masses = _on_grid(log_plane, ends[0], ends[1], lambda x, y: region(x, y, np), num)
    widths = _EXTRA if extra else ()

    def log_density(x):
        rest = sum(-0.5 * (x[2 + k] / width) ** 2 for k, width in enumerate(widths))
        return log_plane(x[0], x[1], jnp) + rest

    return Density(
        f"{name}-{2 + len(widths)}",
        2 + len(widths),
        log_density,
        hardness + (", beside three normal coordinates of widths 0.05, 1 and 20" if extra else ""),
        "quadrature",
        log_z=log_z + sum(0.5 * _LOG_2PI + math.log(width) for width in widths),
        shares=lambda x: jax.nn.one_hot(region(x[0], x[1], jnp), len(masses)),
        masses=masses,
    )


def spiral(extra: bool = False) -> Density:
    """A ridge r = 0.7 angle through two and a half turns, 0.15 wide; its ends are cut off."""
    pitch, width, turns = 0.7, 0.15, 2.5 * 2.0 * math.pi

    def log_plane(x, y, xp):
        radius, angle = xp.sqrt(x**2 + y**2 + 1e-12), xp.arctan2(y, x)
        best = xp.full_like(radius + angle, -xp.inf)
        for turn in range(4):
            along = angle + 2.0 * math.pi * turn
            own = xp.where(along < 1.0, -50.0, 0.0) + xp.where(along > turns, -50.0, 0.0)
            best = xp.logaddexp(best, own - 0.5 * ((radius - pitch * along) / width) ** 2)
        return best

    def region(x, y, xp):
        return xp.digitize(xp.sqrt(x**2 + y**2), xp.asarray([3.0, 6.0, 9.0]))

    ends = ((-13.0, -13.0), (13.0, 13.0))
    return _plane("spiral", log_plane, region, ends, "a wound ridge with ends", extra, 3000)


def rings(extra: bool = False) -> Density:
    """Three concentric rings, of unlike mass and width, heavier on one side."""

    def log_plane(x, y, xp):
        radius = xp.sqrt(x**2 + y**2 + 1e-12)
        best = xp.full_like(radius, -xp.inf)
        for at, width, weight in ((1.0, 0.08, 0.5), (3.5, 0.2, 0.2), (7.0, 0.05, 0.3)):
            best = xp.logaddexp(best, math.log(weight / (at * width)) - 0.5 * ((radius - at) / width) ** 2)
        return best + 0.8 * x / radius

    def region(x, y, xp):
        return 2 * xp.digitize(xp.sqrt(x**2 + y**2), xp.asarray([2.0, 5.0])) + xp.where(x > 0.0, 1, 0)

    ends = ((-9.0, -9.0), (9.0, 9.0))
    return _plane("rings", log_plane, region, ends, "three closed ridges within each other", extra, 3000)


def torus() -> Density:
    """The surface of a torus, radii 3 and 1, 0.05 thick, heavier on one side."""
    large, small, width, pull = 3.0, 1.0, 0.05, 1.0

    def log_density(x):
        rho = jnp.sqrt(x[0] ** 2 + x[1] ** 2 + 1e-12)
        tube = jnp.sqrt((rho - large) ** 2 + x[2] ** 2 + 1e-12)
        return -0.5 * ((tube - small) / width) ** 2 + pull * x[0] / rho

    # The tube's own circle takes the factor rho on average at its centre, so that the volume is a product.
    tube, w = legendre(0.5, 1.5, 800)
    section = 2.0 * math.pi * large * float(w @ (tube * np.exp(-0.5 * ((tube - small) / width) ** 2)))
    angle, v = legendre(-math.pi, math.pi, 800)
    turn = v * np.exp(pull * np.cos(angle))
    right = float(turn[np.abs(angle) < 0.5 * math.pi].sum() / turn.sum())
    # Outside of the tube's centre line: E[rho] there is large + 2 tube / pi, for a half of the circle.
    outer = 0.5 + float(w @ (tube**2 * np.exp(-0.5 * ((tube - small) / width) ** 2))) * 2.0 / (section)
    return Density(
        "torus-3",
        3,
        log_density,
        "a closed surface, a twentieth as thick as its tube",
        "quadrature",
        log_z=math.log(section * float(turn.sum())),
        shares=lambda x: (halves(x[0])[:, None] * halves(x[0] ** 2 + x[1] ** 2 - large**2)[None]).ravel(),
        masses=np.outer([right, 1.0 - right], [outer, 1.0 - outer]).ravel(),
    )


def two_bananas(dim: int = 4) -> Density:
    """Two bent ridges that open towards each other, 0.65 and 0.35, unlike in length; the rest are normal."""

    def one(x, at, sign, width, bend):
        straight = x[1] - at + sign * bend * (x[0] ** 2 - width**2)
        rest = -0.5 * jnp.sum((x[2:] - sign) ** 2) - 0.5 * (dim - 2) * _LOG_2PI
        return (
            -0.5 * (x[0] / width) ** 2 - math.log(width) - 0.5 * (straight / 0.5) ** 2 - math.log(0.5) - _LOG_2PI + rest
        )

    def logs(x):
        return jnp.stack([math.log(0.65) + one(x, 3.0, 1.0, 4.0, 0.3), math.log(0.35) + one(x, -3.0, -1.0, 2.0, 0.8)])

    return Density(
        f"two-bananas-{dim}",
        dim,
        lambda x: jax.scipy.special.logsumexp(logs(x)),
        "two bent ridges that cross each other's arms",
        "closed form",
        log_z=0.0,
        shares=lambda x: jax.nn.softmax(logs(x)),
        masses=np.array([0.65, 0.35]),
        spread=math.sqrt(0.65 * 16.0 + 0.35 * 4.0),
    )


def boxes(dim: int = 8) -> Density:
    """Two boxes with nearly flat tops and steep faces, exp(-sum (x / s)^8), with 0.75 and 0.25 of the mass."""
    sides = np.stack([np.geomspace(0.5, 4.0, dim), np.full(dim, 0.5)])
    places = np.stack([np.zeros(dim), np.full(dim, 5.0)])
    weights = np.array([0.75, 0.25])
    constants = np.log(weights) - dim * math.log(2.0 * math.gamma(1.125)) - np.sum(np.log(sides), axis=1)

    def logs(x):
        away = (x[None] - jnp.asarray(places, x.dtype)) / jnp.asarray(sides, x.dtype)
        return jnp.asarray(constants, x.dtype) - jnp.sum(away**8, axis=1)

    return Density(
        f"boxes-{dim}",
        dim,
        lambda x: jax.scipy.special.logsumexp(logs(x)),
        "flat tops without slope or curvature, and faces that fall like cliffs",
        "closed form",
        log_z=0.0,
        shares=lambda x: jax.nn.softmax(logs(x)),
        masses=weights,
    )


def hyperbolic(dim: int = 10) -> Density:
    """Product of 1 / cosh(x / s) along turned axes, s from 0.02 to 20: exponential tails in every direction."""
    rotation = np.linalg.qr(np.random.default_rng(21).standard_normal((dim, dim)))[0]
    scales = np.geomspace(0.02, 20.0, dim)
    whiten = (rotation / scales[None]).T

    def log_density(x):
        u = jnp.abs(jnp.asarray(whiten, x.dtype) @ x)
        return -jnp.sum(u + jnp.log1p(jnp.exp(-2.0 * u)) - math.log(2.0))

    return Density(
        f"hyperbolic-{dim}",
        dim,
        log_density,
        "exponential tails, axes from 0.02 to 20 in no coordinate's direction",
        "closed form",
        log_z=dim * math.log(math.pi) + float(np.sum(np.log(scales))),
        shares=lambda x: halves(x[0]),
        masses=np.array([0.5, 0.5]),
        spread=0.5 * math.pi * float(np.sqrt(np.sum((rotation[0] * scales) ** 2))),
    )


def stretched(dim: int = 6) -> Density:
    """exp(-2 |x - c|^0.5): a cusp at the optimum, and a radius that spreads over two powers of ten."""
    centre = np.linspace(-3.0, 4.0, dim)
    sphere = math.log(2.0) + 0.5 * dim * math.log(math.pi) - math.lgamma(0.5 * dim)
    # With r = u^2 the radius has the gamma distribution of u of shape 2 dim and rate 2.
    u, w = legendre(0.0, 40.0, 4000)
    mass = w * 2.0 * u ** (2 * dim - 1) * np.exp(-2.0 * u)
    near = float(mass[u < 6.0].sum() / mass.sum())

    def log_density(x):
        return -2.0 * jnp.sum((x - jnp.asarray(centre, x.dtype)) ** 2 + 1e-12) ** 0.25

    return Density(
        f"stretched-{dim}",
        dim,
        log_density,
        "a cusp, and stretched tails in every direction at once",
        "closed form",
        log_z=sphere + math.log(2.0) + math.lgamma(2 * dim) - 2 * dim * math.log(2.0),
        shares=lambda x: halves(jnp.sum((x - jnp.asarray(centre, x.dtype)) ** 2) - 36.0**2),
        masses=np.array([1.0 - near, near]),
    )


def many_modes(dim: int, num: int) -> Density:
    """Normals of random shape with weights from 0.005 up, in a box that leaves them partly overlapping."""
    generator = np.random.default_rng(1000 * dim + num)
    weights = np.maximum(generator.dirichlet(np.full(num, 0.7)), 0.0075)
    means = generator.uniform(-12.0, 12.0, (num, dim))
    roots = np.stack(
        [
            np.linalg.qr(generator.standard_normal((dim, dim)))[0] * generator.uniform(0.3, 1.5, dim)[None]
            for _ in range(num)
        ]
    )
    weights = weights / weights.sum()
    hardness = f"{num} modes of unlike shape, the least with {weights.min():.4f} of the mass"
    return mixture(f"modes{num}-{dim}", means, roots, weights, hardness)


def ill_and_second(dim: int) -> Density:
    """A turned normal whose axes run from 0.01 to 10, and a round one of width 0.5 with 0.3 of the mass."""
    rotation = np.linalg.qr(np.random.default_rng(dim).standard_normal((dim, dim)))[0]
    roots = np.stack([rotation * np.geomspace(0.01, 10.0, dim)[None], 0.5 * np.eye(dim)])
    means = np.stack([np.linspace(-3.0, 1.0, dim), np.full(dim, 6.0)])
    return mixture(f"ill-two-{dim}", means, roots, [0.7, 0.3], "axes from 0.01 to 10 beside a round second mode")


RIDGES: dict[str, Callable[[], Density]] = {
    "spiral-2": spiral,
    "rings-5": partial(rings, True),
    "torus-3": torus,
    "two-bananas-4": two_bananas,
    "boxes-8": boxes,
    "hyperbolic-10": hyperbolic,
    "stretched-6": stretched,
    "modes30-8": partial(many_modes, 8, 30),
    "ill-two-8": partial(ill_and_second, 8),
}
