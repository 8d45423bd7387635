"""Densities as people bring them who know nothing of the library: pictures, tables, copulas, spins."""

import itertools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from scipy import stats
from scipy.special import gammaln

import tempering as tp

from .record import Box, Density, halves

__all__ = ["GUESTS"]

_LOG_2PI = math.log(2.0 * math.pi)


def checkerboard() -> Density:
    """Uniform on eight squares of a board of sixteen, and nothing elsewhere: no gradient tells of anything."""

    def log_density(x):
        cell = jnp.floor(x)
        is_black = jnp.mod(cell[0] + cell[1], 2.0) == 0.0
        return jnp.where(is_black & jnp.all(jnp.abs(x) < 2.0), 0.0, -jnp.inf)

    def shares(x):
        cell = jnp.clip(jnp.floor(x) + 2.0, 0.0, 3.0).astype(jnp.int32)
        return jax.nn.one_hot(2 * cell[0] + cell[1] // 2, 8)

    return Density(
        "checkerboard-2",
        2,
        log_density,
        "flat squares that touch at their corners, -inf elsewhere",
        "closed form",
        log_z=math.log(8.0),
        shares=shares,
        masses=np.full(8, 0.125),
    )


def pinwheel() -> Density:
    """Five blades, wound about the middle; a turn that depends on the radius leaves areas as they are."""
    angles = 2.0 * math.pi * np.arange(5) / 5
    weights = np.array([0.35, 0.25, 0.2, 0.15, 0.05])

    def logs(x):
        turn = 0.9 * jnp.sqrt(jnp.sum(x**2) + 1e-12)
        y = jnp.stack([jnp.cos(turn) * x[0] + jnp.sin(turn) * x[1], jnp.cos(turn) * x[1] - jnp.sin(turn) * x[0]])
        cos, sin = jnp.asarray(np.cos(angles), x.dtype), jnp.asarray(np.sin(angles), x.dtype)
        along, across = cos * y[0] + sin * y[1], cos * y[1] - sin * y[0]
        fit = -0.5 * ((along - 3.0) / 0.8) ** 2 - 0.5 * (across / 0.15) ** 2
        return fit + jnp.asarray(np.log(weights) - math.log(0.8 * 0.15) - _LOG_2PI, x.dtype)

    return Density(
        "pinwheel-2",
        2,
        lambda x: logsumexp(logs(x)),
        "five wound blades of unlike weight",
        "closed form",
        log_z=0.0,
        shares=lambda x: jax.nn.softmax(logs(x)),
        masses=weights,
    )


def copula() -> Density:
    """Normal dependence between Cauchy, Student and logistic coordinates."""
    dim, rho = 6, 0.8
    covariance = rho ** np.abs(np.subtract.outer(np.arange(dim), np.arange(dim)))
    inverse = np.linalg.inv(np.linalg.cholesky(covariance))
    log_det = float(np.sum(np.log(np.diag(inverse))))

    def log_density(x):
        far = jnp.abs(x) + 1e-12
        tail = jnp.concatenate(
            [
                jnp.arctan2(1.0, far[:2]) / math.pi,
                1.0 / (jnp.sqrt(2.0 + far[2:4] ** 2) * (jnp.sqrt(2.0 + far[2:4] ** 2) + far[2:4])),
                jax.nn.sigmoid(-far[4:]),
            ]
        )
        z = -jnp.sign(x) * jax.scipy.special.ndtri(tail)
        each = jnp.concatenate(
            [
                -jnp.log(math.pi * (1.0 + x[:2] ** 2)),
                -1.5 * jnp.log(2.0 + x[2:4] ** 2),
                -far[4:] - 2.0 * jnp.log1p(jnp.exp(-far[4:])),
            ]
        )
        white = jnp.asarray(inverse, x.dtype) @ z
        return jnp.sum(each) + log_det - 0.5 * jnp.sum(white**2) + 0.5 * jnp.sum(z**2)

    same = 0.25 + math.asin(rho) / (2.0 * math.pi)
    return Density(
        "copula-6",
        dim,
        log_density,
        "unlike heavy tails that lean on each other",
        "closed form",
        log_z=0.0,
        shares=lambda x: (halves(x[0])[:, None] * halves(x[1])[None]).ravel(),
        masses=np.array([same, 0.5 - same, 0.5 - same, same]),
    )


def topics() -> Density:
    """A sparse Dirichlet posterior on twelve topics of which three were seen: infinite at nine edges."""
    alpha = 0.1 + np.array([6.0, 3.0, 1.0] + [0.0] * 9)
    log_z = float(np.sum(gammaln(alpha)) - gammaln(alpha.sum()))
    median = float(stats.beta.median(alpha[0], alpha.sum() - alpha[0]))
    rare = float(stats.beta.cdf(1e-4, alpha[3], alpha.sum() - alpha[3]))

    def log_density(x):
        return jnp.sum(jnp.asarray(alpha - 1.0, x.dtype) * jnp.log(x))

    return Density(
        "topics-12",
        12,
        log_density,
        "a sparse Dirichlet distribution: coordinates over tens of powers of ten",
        "closed form",
        log_z=log_z,
        shares=lambda x: 0.5 * jnp.concatenate([halves(x[0] - median), halves(x[3] - 1e-4)]),
        masses=0.5 * np.array([0.5, 0.5, 1.0 - rare, rare]),
        how={"support": tp.simplex},
    )


def spin_glass() -> Density:
    """Twelve Ising spins on a graph of three neighbours each, made continuous: a normal times cosh for each spin."""
    dim = 12
    generator = np.random.default_rng(9)
    couplings = np.zeros((dim, dim))
    for i in range(dim):
        for k in ((i + 1) % dim, (i + 6) % dim):
            if couplings[i, k] == 0.0:
                couplings[i, k] = couplings[k, i] = 0.9 * generator.choice([-1.0, 1.0])
    field = 0.15 * generator.standard_normal(dim)
    matrix = couplings + (0.3 - np.linalg.eigvalsh(couplings)[0]) * np.eye(dim)
    inverse, log_det = np.linalg.inv(matrix), float(np.linalg.slogdet(matrix)[1])
    spins = np.array(list(itertools.product([-1.0, 1.0], repeat=dim)))
    logs = 0.5 * np.einsum("si,ij,sj->s", spins, matrix, spins) + spins @ field
    top = logs.max()
    weights = np.exp(logs - top)
    log_z = top + math.log(weights.sum()) + 0.5 * dim * _LOG_2PI + 0.5 * log_det
    which = ((spins[:, [0, 1, 2]] > 0) @ np.array([4, 2, 1])).astype(int)

    def log_density(x):
        far = jnp.abs(x + jnp.asarray(field, x.dtype))
        return -0.5 * x @ jnp.asarray(inverse, x.dtype) @ x + jnp.sum(far + jnp.log1p(jnp.exp(-2.0 * far)))

    def shares(x):
        up = jax.nn.sigmoid(2.0 * (x + jnp.asarray(field, x.dtype)))[:3]
        up = jnp.stack([1.0 - up, up], axis=1)
        return jnp.einsum("a,b,c->abc", up[0], up[1], up[2]).ravel()

    return Density(
        "spin-glass-12",
        dim,
        log_density,
        "frustrated spins: dozens of modes of unlike weight, close to each other",
        "a sum over all 4,096 states",
        log_z=log_z,
        shares=shares,
        masses=np.bincount(which, weights, 8) / weights.sum(),
    )


def _table(order: int) -> Density:
    """A rough table of 24 by 24 log likelihoods over a square: nearest entry, or linear between entries."""
    size = 24
    generator = np.random.default_rng(33)
    rough = generator.standard_normal((size, size))
    for _ in range(2):
        rough = 0.5 * rough + 0.125 * sum(np.roll(rough, shift, axis) for shift in (-1, 1) for axis in (0, 1))
    table = 12.0 * rough
    fine = 40
    if order == 0:
        logs = table
        place = np.arange(size)
        number = np.full(size, 1.0)
        number[[0, -1]] = 0.5
    else:
        place = (np.arange((size - 1) * fine) + 0.5) / fine
        low = np.floor(place).astype(int)
        up = place - low
        rows = (1.0 - up)[:, None] * table[low] + up[:, None] * table[low + 1]
        logs = (1.0 - up)[None] * rows[:, low] + up[None] * rows[:, low + 1]
        number = np.full(len(place), 1.0 / fine)
    mass = np.exp(logs) * np.outer(number, number)
    side = (place > 0.5 * (size - 1)).astype(int)
    masses = np.bincount((2 * side[:, None] + side[None]).ravel(), mass.ravel(), 4)

    def log_likelihood(x):
        at = (x + 1.0) * 0.5 * (size - 1)
        return jax.scipy.ndimage.map_coordinates(jnp.asarray(table, x.dtype), list(at), order, mode="nearest")

    return Density(
        f"table-{'nearest' if order == 0 else 'linear'}-2",
        2,
        log_likelihood,
        "a table of log likelihoods: " + ("no slope anywhere" if order == 0 else "kinks everywhere, many modes"),
        "a sum over cells",
        prior=Box.cube(-1.0, 1.0, 2),
        log_z=math.log(mass.sum() / (size - 1) ** 2),
        shares=lambda x: (jnp.flip(halves(x[0]))[:, None] * jnp.flip(halves(x[1]))[None]).ravel(),
        masses=masses / masses.sum(),
    )


GUESTS: dict[str, Callable[[], Density]] = {
    "checkerboard-2": checkerboard,
    "pinwheel-2": pinwheel,
    "copula-6": copula,
    "topics-12": topics,
    "spin-glass-12": spin_glass,
    "table-nearest-2": lambda: _table(0),
    "table-linear-2": lambda: _table(1),
}
