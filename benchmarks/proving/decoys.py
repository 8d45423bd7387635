"""Densities made so that weights look good while mass is missing: nothing near the obvious mass points to the rest."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from .classic import legendre
from .record import Box, Density, halves
from .shapes import mixture

__all__ = ["DECOYS", "core_in_shell", "far_and_narrow", "moat", "singular", "spur", "terrace", "two_corners"]

_LOG_2PI = math.log(2.0 * math.pi)


def terrace() -> Density:
    """A normal in six dimensions, e^7 times as high where x0 > 2 and x1 > 2: a step in a corner, with 0.36 of the mass.

    No slope leads up the step, and one draw of the normal in 1,900 is on it.
    """
    dim, edge, height = 6, 2.0, 7.0
    on = special.ndtr(-edge) ** 2 * math.exp(height)
    total = 1.0 - special.ndtr(-edge) ** 2 + on

    def log_density(x):
        return -0.5 * jnp.sum(x**2) + jnp.where((x[0] > edge) & (x[1] > edge), height, 0.0)

    return Density(
        "terrace-6",
        dim,
        log_density,
        "a step up in a corner, to which no gradient leads",
        "closed form",
        log_z=0.5 * dim * _LOG_2PI + math.log(total),
        shares=lambda x: halves(jnp.minimum(x[0], x[1]) - edge),
        masses=np.array([on, total - on]) / total,
    )


def spur() -> Density:
    """A tenth of the mass in a spur forty times as long as wide, which lies under the foot of the rest."""
    means, roots = np.zeros((2, 5)), np.stack([np.eye(5), np.diag([40.0, 0.5, 0.5, 0.5, 0.5])])
    means[1, :2] = 1.5, -1.0
    return mixture("spur-5", means, roots, [0.9, 0.1], "a long, low spur without an optimum of its own")


def core_in_shell() -> Density:
    """A core of width 0.5, with half of the mass, within a shell of radius 12 that has the other half."""
    dim, radius, width = 6, 12.0, 0.5
    r, w = legendre(8.0, 16.0, 2000)
    sphere = math.log(2.0) + 0.5 * dim * math.log(math.pi) - math.lgamma(0.5 * dim)
    log_shell = sphere + math.log(float(w @ (r ** (dim - 1) * np.exp(-0.5 * ((r - radius) / width) ** 2))))
    log_core = 0.5 * dim * (_LOG_2PI + 2.0 * math.log(width))

    def logs(x):
        distance = jnp.sqrt(jnp.sum(x**2) + 1e-12)
        shell = -0.5 * ((distance - radius) / width) ** 2 - log_shell
        core = -0.5 * jnp.sum(x**2) / width**2 - log_core
        return jnp.stack([shell, core]) + math.log(0.5)

    return Density(
        "core-in-shell-6",
        dim,
        lambda x: jax.scipy.special.logsumexp(logs(x)),
        "a shell keeps searches away from the core",
        "a radial integral",
        log_z=0.0,
        shares=lambda x: jax.nn.softmax(logs(x)),
        masses=np.array([0.5, 0.5]),
    )


def far_and_narrow() -> Density:
    """Three tenths of the mass a hundred and eight widths away, a tenth as wide."""
    means = np.array([[0.0, 0.0, 0.0], [80.0, -60.0, 40.0]])
    return mixture(
        "far-and-narrow-3", means, np.array([1.0, 0.1]), [0.7, 0.3], "a narrow mode far from where fits begin"
    )


def singular() -> Density:
    """|x0|^-0.7 times a normal in three dimensions: the density is infinite on a plane, and has a finite integral."""
    power = 0.7
    # E|x|^-s of a standard normal
    moment = 2.0 ** (-0.5 * power) * math.gamma(0.5 * (1.0 - power)) / math.sqrt(math.pi)
    near = float(special.gammainc(0.5 * (1.0 - power), 0.5 * 0.1**2))
    return Density(
        "singular-3",
        3,
        lambda x: -0.5 * jnp.sum(x**2) - power * jnp.log(jnp.abs(x[0])),
        "infinite on a plane: uphill has no end there",
        "closed form",
        log_z=1.5 * _LOG_2PI + math.log(moment),
        shares=lambda x: halves(0.1 - jnp.abs(x[0])),
        masses=np.array([near, 1.0 - near]),
    )


def two_corners() -> Density:
    """Opposite corners of a prior's box: 0.7 of the mass in one, 0.3 five times nearer to the other."""
    dim, wide, narrow = 6, 0.01, 0.002

    def logs(x):
        one = -jnp.sum(x) / wide - dim * math.log(wide)
        other = -jnp.sum(1.0 - x) / narrow - dim * math.log(narrow)
        return jnp.stack([one, other]) + jnp.log(jnp.asarray([0.7, 0.3]))

    return Density(
        "two-corners-6",
        dim,
        lambda x: jax.scipy.special.logsumexp(logs(x)),
        "all mass in two corners of the prior, one of them five times smaller",
        "closed form",
        prior=Box.cube(0.0, 1.0, dim),
        log_z=0.0,
        shares=lambda x: jax.nn.softmax(logs(x)),
        masses=np.array([0.7, 0.3]),
    )


def moat() -> Density:
    """A normal within a ball of radius 3, nothing at all up to 6, and 0.4 of the mass in a slope beyond."""
    dim, inner, outer = 3, 3.0, 6.0
    r, w = legendre(0.0, inner, 1000)
    log_core = math.log(4.0 * math.pi * float(w @ (r**2 * np.exp(-0.5 * r**2))))
    # integral of r^2 exp(-(r - R)) beyond R
    log_rest = math.log(4.0 * math.pi * (outer**2 + 2.0 * outer + 2.0))

    def log_density(x):
        distance = jnp.sqrt(jnp.sum(x**2) + 1e-12)
        core = math.log(0.6) - log_core - 0.5 * distance**2
        rest = math.log(0.4) - log_rest - (distance - outer)
        return jnp.where(distance < inner, core, jnp.where(distance > outer, rest, -jnp.inf))

    return Density(
        "moat-3",
        dim,
        log_density,
        "a core and a slope, with a moat of -inf between them",
        "a radial integral",
        log_z=0.0,
        shares=lambda x: halves(jnp.sum(x**2) - 20.0),
        masses=np.array([0.4, 0.6]),
    )


DECOYS = {
    "terrace-6": terrace,
    "spur-5": spur,
    "core-in-shell-6": core_in_shell,
    "far-and-narrow-3": far_and_narrow,
    "singular-3": singular,
    "two-corners-6": two_corners,
    "moat-3": moat,
}
