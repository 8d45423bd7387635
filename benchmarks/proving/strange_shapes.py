"""Densities that were written to break the library, second part: flat tops, cusps, necks and a thin sphere."""

import math

import jax
import jax.numpy as jnp
import numpy as np

from .classic import legendre
from .record import Density, halves

__all__ = ["kinks", "plateau", "schools", "shell", "turned_funnel"]

_LOG_2PI = math.log(2.0 * math.pi)


def _sides(x: jax.Array, at: float = 0.0) -> jax.Array:
    return halves(x - at)


def plateau() -> Density:
    """exp(-(|x| / 5)^20) in six dimensions: a ball with a flat top, where second derivatives are zero."""
    dim, power, radius = 6, 20.0, 5.0
    sphere = math.log(2.0) + 0.5 * dim * math.log(math.pi) - math.lgamma(0.5 * dim)

    def log_density(x):
        return -((jnp.sum(x**2) / radius**2) ** (0.5 * power))

    r, w = legendre(0.0, 8.0, 4000)
    mass = w * r ** (dim - 1) * np.exp(-((r / radius) ** power))
    near = float(mass[r < 4.0].sum() / mass.sum())
    return Density(
        "plateau-6",
        dim,
        log_density,
        "a flat top: every point of a ball is an optimum",
        "closed form",
        log_z=sphere + dim * math.log(radius) + math.lgamma(dim / power) - math.log(power),
        shares=lambda x: _sides(jnp.sum(x**2), 16.0),
        masses=np.array([1.0 - near, near]),
    )


def kinks() -> Density:
    """exp(-sum sqrt |x|) in four dimensions: a cusp at the optimum, and long tails along the axes."""

    def log_density(x):
        return -jnp.sum(jnp.sqrt(jnp.abs(x) + 1e-12))

    r, w = legendre(0.0, 40.0, 4000)  # u = sqrt x: the integral of exp(-u) 2 u
    mass = w * 2.0 * r * np.exp(-r)
    near = float(mass[r < 1.0].sum() / mass.sum())
    return Density(
        "kinks-4",
        4,
        log_density,
        "a cusp where the density is largest, and stretched tails",
        "closed form",
        log_z=4.0 * math.log(4.0),
        shares=lambda x: _sides(jnp.abs(x[0]), 1.0),
        masses=np.array([1.0 - near, near]),
    )


def schools() -> Density:
    """Rubin's eight schools, centred: mu ~ N(0, 5), tau ~ half-Cauchy(5), as (mu, log tau, theta)."""
    y = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
    sigma = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])

    def log_density(x):
        mu, log_tau, theta = x[0], x[1], x[2:]
        tau = jnp.exp(log_tau)
        prior = -0.5 * (mu / 5.0) ** 2 - 0.5 * _LOG_2PI - math.log(5.0)
        prior += math.log(2.0 / (5.0 * math.pi)) - jnp.log1p((tau / 5.0) ** 2) + log_tau
        schools = -0.5 * jnp.sum(((theta - mu) / tau) ** 2) - 8.0 * (log_tau + 0.5 * _LOG_2PI)
        data = -0.5 * jnp.sum(((jnp.asarray(y, x.dtype) - theta) / jnp.asarray(sigma, x.dtype)) ** 2)
        return prior + schools + data - float(np.sum(np.log(sigma))) - 4.0 * _LOG_2PI

    mu, w_mu = legendre(-30.0, 40.0, 400)
    log_tau, w_tau = legendre(-12.0, 8.0, 800)
    tau = np.exp(log_tau)
    spread = np.sqrt(tau[:, None] ** 2 + sigma[None] ** 2)  # tau, school
    away = (y[None, None] - mu[None, :, None]) / spread[:, None, :]
    logs = -0.5 * np.sum(away**2, axis=2) - np.sum(np.log(spread), axis=1)[:, None] - 4.0 * _LOG_2PI
    logs += (-0.5 * (mu / 5.0) ** 2 - 0.5 * _LOG_2PI - math.log(5.0))[None]
    logs += (math.log(2.0 / (5.0 * math.pi)) - np.log1p((tau / 5.0) ** 2) + log_tau)[:, None]
    mass = np.exp(logs) * w_tau[:, None] * w_mu[None]
    edges = (0.0, 1.5)
    masses = np.zeros(3)
    np.add.at(masses, np.searchsorted(edges, log_tau, side="right"), mass.sum(axis=1))
    return Density(
        "schools-10",
        10,
        log_density,
        "a hierarchical model, centred: a neck where all schools are alike",
        "quadrature over mu and tau",
        log_z=math.log(float(mass.sum())),
        shares=lambda x: jax.nn.one_hot(jnp.sum(x[1] >= jnp.asarray(edges, x.dtype)), 3),
        masses=masses / masses.sum(),
    )


def turned_funnel() -> Density:
    """Neal's funnel in five dimensions, turned so that the neck is no coordinate."""
    rotation = np.linalg.qr(np.random.default_rng(5).standard_normal((5, 5)))[0]
    below = 0.5 * math.erfc(math.sqrt(0.5))

    def inner(x):
        return jnp.asarray(rotation, x.dtype) @ x

    def log_density(x):
        v, rest = inner(x)[0], inner(x)[1:]
        return -0.5 * (v / 2.0) ** 2 - math.log(2.0) - 2.5 * _LOG_2PI - 0.5 * jnp.sum(rest**2) * jnp.exp(-v) - 2.0 * v

    return Density(
        "turned-funnel-5",
        5,
        log_density,
        "a neck along no coordinate",
        "closed form",
        log_z=0.0,
        shares=lambda x: jax.nn.one_hot(jnp.sum(inner(x)[0] > jnp.asarray([-2.0, 2.0], x.dtype)), 3),
        masses=np.array([below, 1.0 - 2.0 * below, below]),
    )


def shell() -> Density:
    """A sphere of radius 5 and width 0.1 in ten dimensions, without a prior; three quarters of it above a plane."""
    dim, radius, width = 10, 5.0, 0.1
    r, w = legendre(3.5, 6.5, 2000)
    sphere = math.log(2.0) + 0.5 * dim * math.log(math.pi) - math.lgamma(0.5 * dim)
    log_radial = math.log(float(w @ (r ** (dim - 1) * np.exp(-0.5 * ((r - radius) / width) ** 2))))

    def log_density(x):
        distance = jnp.sqrt(jnp.sum(x**2) + 1e-12)
        return -0.5 * ((distance - radius) / width) ** 2 + math.log(3.0) * jax.nn.sigmoid(20.0 * x[0])

    # By symmetry the sides' masses are those of E[3^sigmoid(20 t)] over the first coordinate of a sphere's point.
    t, v = legendre(-radius, radius, 4000)
    band = v * np.maximum(1.0 - (t / radius) ** 2, 0.0) ** (0.5 * (dim - 3)) * 3.0 ** (1.0 / (1.0 + np.exp(-20.0 * t)))
    plain = v * np.maximum(1.0 - (t / radius) ** 2, 0.0) ** (0.5 * (dim - 3))
    above = float(band[t > 0].sum() / band.sum())
    return Density(
        "shell-10",
        dim,
        log_density,
        "a thin sphere: every point of it is an optimum",
        "quadrature",
        log_z=sphere + log_radial + math.log(float(band.sum() / plain.sum())),
        shares=lambda x: _sides(x[0]),
        masses=np.array([above, 1.0 - above]),
    )
