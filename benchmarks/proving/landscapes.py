"""Energy landscapes: wells with a bath, necks and rotors, with exact masses and log Z.

Written before any of them was fitted; `ridges` has their companions of geometry.
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from .classic import legendre
from .record import Density, Tolerance

__all__ = ["LANDSCAPES"]

_LOG_2PI = math.log(2.0 * math.pi)


def mueller_brown(bath: int = 8) -> Density:
    """The Müller-Brown surface at kT = 12, whose wells hold unlike masses, each coupled to a bath of oscillators.

    The bath's centre follows the surface's first coordinate, and its stiffness runs over two powers of ten.
    """
    heights = np.array([-200.0, -100.0, -170.0, 15.0])
    a, b, c = np.array([-1.0, -1.0, -6.5, 0.7]), np.array([0.0, 0.0, 11.0, 0.6]), np.array([-10.0, -10.0, -6.5, 0.7])
    x0, y0 = np.array([1.0, 0.0, -0.5, -1.0]), np.array([0.0, 0.5, 1.5, 1.0])
    warmth = 12.0
    widths = np.geomspace(0.05, 5.0, bath)

    def surface(x, y, xp):
        parts = [
            heights[k] * xp.exp(a[k] * (x - x0[k]) ** 2 + b[k] * (x - x0[k]) * (y - y0[k]) + c[k] * (y - y0[k]) ** 2)
            for k in range(4)
        ]
        return -sum(parts) / warmth

    def region(x, y, xp):
        # Two lines across the passes: reactant, intermediate, product.
        return xp.where(y - x > 1.1, 0, xp.where(y - 0.7 * x > 0.33, 1, 2))

    nodes_x, w = legendre(-3.0, 2.5, 1500)
    nodes_y, v = legendre(-2.0, 4.0, 1500)
    grid = np.meshgrid(nodes_x, nodes_y, indexing="ij")
    mass = np.exp(surface(*grid, np)) * w[:, None] * v[None]
    masses = np.bincount(region(*grid, np).ravel(), mass.ravel(), 3) / mass.sum()

    def log_density(x):
        off = (x[2:] - x[0]) / jnp.asarray(widths, x.dtype)
        return surface(x[0], x[1], jnp) - 0.5 * jnp.sum(off**2)

    return Density(
        f"mueller-brown-{2 + bath}",
        2 + bath,
        log_density,
        "three wells in bent valleys, coupled to a bath whose stiffness spans four powers of ten",
        "quadrature in the plane",
        log_z=math.log(float(mass.sum())) + 0.5 * bath * _LOG_2PI + float(np.sum(np.log(widths))),
        shares=lambda x: jax.nn.one_hot(region(x[0], x[1], jnp), 3),
        masses=masses,
    )


def rotors(num: int = 5) -> Density:
    """A ring of rotors in the plane, aligned by their neighbours and by a field of four unlike directions.

    Each is a vector of length about one; the energy couples directions alone, so that angles are a chain.
    """
    stiff, join, clock, pull = 200.0, 4.0, 1.0, 0.12
    angle = 2.0 * math.pi * np.arange(720) / 720
    field = np.exp(clock * np.cos(4.0 * angle) + pull * np.cos(angle) + 0.5 * pull * np.sin(angle))
    step = np.sqrt(field[:, None] * field[None]) * np.exp(join * np.cos(angle[:, None] - angle[None]))
    step *= 2.0 * math.pi / 720
    power = np.linalg.matrix_power(step / step.max(), num)
    quarter = np.floor((angle + 0.25 * math.pi) / (0.5 * math.pi)).astype(int) % 4
    masses = np.bincount(quarter, np.diagonal(power), 4)
    radius, w = legendre(0.3, 1.7, 400)
    radial = float(w @ (radius * np.exp(-0.5 * stiff * (radius - 1.0) ** 2)))

    def log_density(x):
        vectors = x.reshape(num, 2)
        length = jnp.sqrt(jnp.sum(vectors**2, axis=1) + 1e-12)
        turn = vectors / length[:, None]
        cos, sin = turn[:, 0], turn[:, 1]
        bonds = join * jnp.sum(turn * jnp.roll(turn, 1, axis=0))
        alone = clock * (8.0 * cos**4 - 8.0 * cos**2 + 1.0) + pull * cos + 0.5 * pull * sin
        return bonds + jnp.sum(alone) - 0.5 * stiff * jnp.sum((length - 1.0) ** 2)

    def shares(x):
        at = jnp.arctan2(x[1], x[0])
        return jax.nn.one_hot(jnp.mod(jnp.floor((at + 0.25 * math.pi) / (0.5 * math.pi)), 4).astype(int), 4)

    return Density(
        f"rotors-{2 * num}",
        2 * num,
        log_density,
        "circles for every rotor; four aligned states of unlike weight, and walls between them",
        "a trace of transfer matrices over the angle",
        log_z=math.log(float(np.trace(power))) + num * math.log(float(step.max())) + num * math.log(radial),
        shares=shares,
        masses=masses / masses.sum(),
    )


def two_funnels(dim: int = 5) -> Density:
    """Two funnels, mouth to mouth, with 0.65 and 0.35 of the mass; normalised."""

    def one(x, at, sign, width):
        v = sign * (x[0] - at)
        head = -0.5 * (v / width) ** 2 - math.log(width) - 0.5 * _LOG_2PI
        rest = -0.5 * jnp.sum(x[1:] ** 2) * jnp.exp(-v) - 0.5 * (dim - 1) * (v + _LOG_2PI)
        return head + rest

    def logs(x):
        return jnp.stack([math.log(0.65) + one(x, -7.0, 1.0, 2.0), math.log(0.35) + one(x, 7.0, -1.0, 1.5)])

    return Density(
        f"two-funnels-{dim}",
        dim,
        lambda x: jax.scipy.special.logsumexp(logs(x)),
        "two necks at opposite ends",
        "closed form",
        log_z=0.0,
        shares=lambda x: jax.nn.softmax(logs(x)),
        masses=np.array([0.65, 0.35]),
        tolerance=Tolerance(log_z=0.1),
    )


LANDSCAPES: dict[str, Callable[[], Density]] = {
    "mueller-brown-10": mueller_brown,
    "rotors-10": rotors,
    "two-funnels-5": two_funnels,
}
