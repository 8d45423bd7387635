"""Hard but fair: posteriors of signals, where other parameters say almost the same.

Written before any of them was fitted, by somebody who had not seen a fit. Truths are in double precision, from NumPy
and SciPy. The comment above a density says how its truth was made and by which second method it was checked:
- SMC: tempered sequential Monte Carlo from the prior, or from a wide normal, of the very JAX function that is handed
  over. log Z agreed within 0.05 or so, masses within 0.03 or so;
- grid 2: the same quadrature with other numbers of nodes.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

import tempering as tp

from .conjugate import log_marginal
from .grids import Axis, axis, on_grid, posterior
from .handed import bins, by_name
from .record import Density

__all__ = ["SIGNALS"]

_LOG_2PI = math.log(2.0 * math.pi)


# Truth: amplitudes by hand, quadrature over period, eccentricity and phase. Second: SMC; grid 2.
def kepler(sizes: tuple[int, int, int] = (700, 20, 40)) -> Density:
    """An eccentric orbit in ten radial velocities: period, eccentricity, phase, two amplitudes and an offset."""
    times = np.array([0.0, 1.3, 4.2, 9.8, 11.1, 17.9, 19.2, 26.4, 31.7, 33.0])
    noise, width = 0.8, 3.0

    def waves(period, e, phase, xp):
        """cos v + e and sin v of the true anomaly, by eight steps of Newton."""
        mean = 2.0 * math.pi * times / period + phase
        mean = mean - 2.0 * math.pi * xp.round(mean / (2.0 * math.pi))
        big = mean + 0.85 * e * xp.sign(xp.sin(mean))
        for _ in range(8):
            big = big - (big - e * xp.sin(big) - mean) / (1.0 - e * xp.cos(big))
        below = 1.0 - e * xp.cos(big)
        return (xp.cos(big) - e) / below + e, xp.sqrt(1.0 - e**2) * xp.sin(big) / below

    clean = waves(np.array(7.3), np.array(0.35), np.array(1.0), np)
    values = 0.6 + 1.9 * clean[0] - 1.1 * clean[1] + noise * np.random.default_rng(84).standard_normal(len(times))

    def log_likelihood(x, xp):
        first, second = waves(x[0], x[1], x[2], xp)
        off = (values - x[5] - x[3] * first - x[4] * second) / noise
        return -0.5 * xp.sum(off**2) - len(times) * (math.log(noise) + 0.5 * _LOG_2PI)

    def marginal(x, xp):
        period, e, phase = (each[..., None] for each in x)
        with np.errstate(all="ignore"):
            first, second = waves(period, e, phase, np)
        return log_marginal(np.stack([first, second, np.ones_like(first)], axis=-1), values, noise, width)[0]

    prior = [tp.LogNormal(2.0, 0.4), tp.Beta(1.0, 3.0), tp.Uniform(-math.pi, math.pi), *[tp.Normal(0.0, width)] * 3]
    cuts = (4.0, 6.0, 8.5, 13.0)

    def region(x, xp):
        return bins(x[0], cuts, xp)

    # Even steps in the angle, which is periodic; even steps in normal coordinates for the others.
    angle = -math.pi + 2.0 * math.pi * (np.arange(sizes[2]) + 0.5) / sizes[2]
    axes = [
        axis(prior[0], sizes[0], 1.9, 33.0, cuts=cuts),
        axis(prior[1], sizes[1], 1e-4, 0.93),
        Axis(angle, np.full(sizes[2], -math.log(sizes[2]))),
    ]
    found = on_grid(axes, marginal, region, len(cuts) + 1)
    return posterior(
        "kepler-6",
        prior,
        log_likelihood,
        "an eccentric orbit of ten data: aliases of the period, an angle that is cut at its ends",
        "conjugacy, quadrature over three",
        found=found,
        region=region,
        num_regions=len(cuts) + 1,
        **by_name("period eccentricity phase a b offset", prior, log_likelihood),
    )


# Truth: quadrature. Second: SMC; grid 2.
def flip_flop(nodes: int = 150) -> Density:
    """A drug taken by mouth: absorption and elimination swap their rates, and only priors know which is which."""
    times = np.array([0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 12.0])
    noise = 0.2
    dose = 100.0

    def log_curve(ka, ke, volume, xp):
        gap = ka - ke
        near = xp.abs(gap) < 1e-3
        safe = xp.where(near, 1e-3, gap)
        slow = xp.minimum(ka, ke)
        part = -xp.expm1(-xp.abs(safe) * times) / xp.abs(safe)
        return xp.log(dose * ka / volume) - slow * times + xp.log(part)

    values = log_curve(np.array([0.75]), np.array([0.3]), np.array([20.0]), np)
    values = values + noise * np.random.default_rng(87).standard_normal(len(times))

    def log_likelihood(x, xp):
        ka, ke, volume = (each[..., None] for each in x)
        off = (values - log_curve(ka, ke, volume, xp)) / noise
        return -0.5 * xp.sum(off**2, axis=-1) - len(times) * (math.log(noise) + 0.5 * _LOG_2PI)

    prior = [tp.LogNormal(-0.4, 0.6), tp.LogNormal(-1.0, 0.5), tp.LogNormal(2.9, 0.6)]

    axes = [axis(each, nodes, *ends) for each, ends in zip(prior, ((0.05, 6.0), (0.05, 3.0), (2.0, 80.0)), strict=True)]

    def region(x, xp):
        return bins(x[0] - x[1], (0.0,), xp)

    return posterior(
        "flip-flop-3",
        prior,
        log_likelihood,
        "two rates that swap: two modes that touch where the rates are equal",
        "quadrature",
        axes=axes,
        region=region,
        num_regions=2,
        **by_name("absorption elimination volume", prior, log_likelihood),
    )


@dataclass(frozen=True)
class Ground:
    """Where a body lies and how heavy it is, as a map of the unit cube to a dict, or to a vector."""

    def tree(self, u):
        z = jax.scipy.special.ndtri(u[1:])
        return {
            "along": 8.0 * u[0] - 4.0,
            "aside": 0.5 + 1.3 * z[0],
            "depth": jnp.exp(0.2 + 0.5 * z[1]),
            "mass": 6.0 + 3.0 * z[2],
        }

    def from_cube(self, u):
        tree = self.tree(u)
        return jnp.stack([tree[key] for key in ("along", "aside", "depth", "mass")])

    def from_normal(self, z):
        return self.from_cube(jax.scipy.special.ndtr(z))

    def to_normal(self, x):
        return jnp.stack(
            [
                jax.scipy.special.ndtri((x[0] + 4.0) / 8.0),
                (x[1] - 0.5) / 1.3,
                (jnp.log(x[2]) - 0.2) / 0.5,
                (x[3] - 6.0) / 3.0,
            ]
        )


# Truth: the mass by hand, quadrature over the three others. Second: SMC; grid 2.
def buried(nodes: int = 130) -> Density:
    """Gravity along a line: where a body lies, on which side, how deep and how heavy; a transform to a dict."""
    places = np.linspace(-4.0, 4.0, 13)
    noise = 0.3

    def pull(along, aside, depth):
        return depth / ((places - along) ** 2 + aside**2 + depth**2) ** 1.5

    values = 5.0 * pull(0.8, 0.9, 1.2) + noise * np.random.default_rng(88).standard_normal(len(places))

    def log_likelihood(x, xp):
        off = (values - x[3] * pull(x[0], x[1], x[2])) / noise
        return -0.5 * xp.sum(off**2) - len(places) * (math.log(noise) + 0.5 * _LOG_2PI)

    def marginal(x, xp):
        shape = pull(*(each[..., None] for each in x))
        precision = np.sum(shape**2, -1) / noise**2 + 1.0 / 9.0
        along = np.sum(shape * values, -1) / noise**2 + 6.0 / 9.0
        base = -0.5 * np.sum(values**2) / noise**2 - 2.0 - len(places) * (math.log(noise) + 0.5 * _LOG_2PI)
        return base + 0.5 * along**2 / precision - 0.5 * np.log(precision) - math.log(3.0)

    prior = [tp.Uniform(-4.0, 4.0), tp.Normal(0.5, 1.3), tp.LogNormal(0.2, 0.5)]

    def region(x, xp):
        return 2 * xp.where(x[1] > 0.0, 1, 0) + xp.where(x[2] > 1.0, 1, 0)

    axes = [axis(prior[0], nodes, -0.4, 1.9), axis(prior[1], nodes, cuts=[0.0]), axis(prior[2], nodes, cuts=[1.0])]
    found = on_grid(axes, marginal, region, 4)
    ground = Ground()
    keys = ("along", "aside", "depth", "mass")
    return Density(
        "buried-4",
        4,
        lambda x: log_likelihood(x, jnp),
        "two mirrored, bent modes of depth, side and mass, joined on the line; a prior transform to a dict",
        "conjugacy, quadrature over three",
        prior=ground,
        log_z=found.log_z,
        shares=lambda x: jax.nn.one_hot(region(x, jnp), 4),
        masses=found.masses,
        spread=found.spread,
        handed=lambda: lambda p: log_likelihood([p[key] for key in keys], jnp),
        handed_as="likelihood of a dict",
        how={"dim": 4, "prior_transform": ground.tree},
        flat=lambda tree: np.stack([np.asarray(tree[key]) for key in keys], axis=1),
    )


# Truth: Kalman's filter, quadrature over the two widths. Second: importance sampling in all 22 dimensions, levels from
# their exact conditional by the precision matrix (log Z -0.001 +- 0.006); grid 2. SMC fails here.
def local_level(nodes: int = 160) -> Density:
    """A level that drifts, seen with noise on twenty days: two widths and twenty levels, centred, in a tree."""
    generator = np.random.default_rng(90)
    num, start = 20, 3.0
    values = np.cumsum(0.45 * generator.standard_normal(num)) + 1.0 + 0.6 * generator.standard_normal(num)

    def joint(drift, noise, level):

        def bell(off, width):
            return -0.5 * (off / width) ** 2 - jnp.log(width) - 0.5 * _LOG_2PI

        prior = 2.0 * (math.log(2.0) - 0.5 * _LOG_2PI) - 0.5 * (drift**2 + noise**2)
        chain = bell(level[0], jnp.asarray(start)) + jnp.sum(bell(level[1:] - level[:-1], drift))
        return prior + chain + jnp.sum(bell(jnp.asarray(values, jnp.float32) - level, noise))

    def log_density(x):
        ok = (x[0] > 0.0) & (x[1] > 0.0)
        return jnp.where(ok, joint(jnp.where(ok, x[0], 1.0), jnp.where(ok, x[1], 1.0), x[2:]), -jnp.inf)

    def marginal(x, xp):
        drift, noise = x[0] ** 2, x[1] ** 2
        mean, var, total = np.zeros(drift.shape), np.full(drift.shape, start**2), np.zeros(drift.shape)
        for k, y in enumerate(values):
            var = var if k == 0 else var + drift
            seen = var + noise
            total += -0.5 * (y - mean) ** 2 / seen - 0.5 * np.log(seen) - 0.5 * _LOG_2PI
            mean, var = mean + var / seen * (y - mean), var * noise / seen
        return total

    prior = [tp.HalfNormal(1.0)] * 2
    cuts = (0.3, 0.6)

    def region(x, xp):
        return bins(x[0], cuts, xp)

    found = on_grid([axis(prior[0], 2 * nodes, cuts=cuts), axis(prior[1], 2 * nodes)], marginal, region, 3)
    like = {"drift": jnp.asarray(1.0), "noise": jnp.asarray(1.0), "level": jnp.zeros(num)}
    return Density(
        "local-level-22",
        2 + num,
        log_density,
        "twenty levels that tie together as the drift goes to zero, centred",
        "a Kalman filter, quadrature over two widths",
        log_z=found.log_z,
        shares=lambda x: jax.nn.one_hot(region(x, jnp), 3),
        masses=found.masses,
        spread=found.spread,
        handed=lambda: lambda tree: joint(tree["drift"], tree["noise"], tree["level"]),
        handed_as="function of a tree",
        flat=lambda tree: np.concatenate(
            [np.stack([tree["drift"], tree["noise"]], axis=1), np.asarray(tree["level"])], axis=1
        ),
        how={"like": like, "support": {"drift": tp.positive, "noise": tp.positive}},
    )


# Truth: quadrature. Second: SMC on the JAX twin; grid 2.
def n_mixture(nodes: int = 260) -> Density:
    """Counts of unmarked animals at eight ponds: how many there are and how many are seen, a ridge of their product."""
    seen = np.array([[3, 5, 4], [2, 1, 4], [6, 4, 7], [0, 2, 1], [5, 3, 3], [4, 6, 8], [2, 2, 3], [7, 4, 5]])
    most, visits = 400, seen.shape[1]
    numbers = np.arange(most + 1.0)
    with np.errstate(all="ignore"):
        choose = sum(np.log(special.binom(numbers, seen[:, k, None])) for k in range(visits))
    coefficients = np.where(numbers >= seen.max(axis=1)[:, None], choose - special.gammaln(numbers + 1.0), -np.inf)

    def log_likelihood(x, xp):
        rate, chance = x
        each = xp.log(rate) + visits * xp.log1p(-chance)
        grow = each[..., None] * numbers
        total = float(seen.sum()) * (xp.log(chance) - xp.log1p(-chance)) - len(seen) * rate
        for row in coefficients:
            low = int(np.argmax(np.isfinite(row)))
            inner = grow[..., low:] + row[low:]
            top = xp.max(inner, axis=-1, keepdims=True)
            total = total + xp.log(xp.sum(xp.exp(inner - top), axis=-1)) + top[..., 0]
        return total

    prior = [tp.LogNormal(2.7, 0.8), tp.Beta(1.0, 1.0)]
    cuts = (10.0, 25.0)
    return posterior(
        "n-mixture-2",
        prior,
        log_likelihood,
        "a black box without gradient: a thin bent ridge of number times chance, with a long end",
        "quadrature",
        axes=[axis(prior[0], nodes, 2.0, 370.0, cuts=cuts), axis(prior[1], nodes)],
        region=lambda x, xp: bins(x[0], cuts, xp),
        num_regions=3,
        with_spread=True,
        handed=lambda: tp.from_callable(lambda points: log_likelihood(list(points.T), np), dim=2, batched=True),
        handed_as="black box",
        how={"prior": prior},
    )


SIGNALS: dict[str, Callable[[], Density]] = {
    "kepler-6": kepler,
    "flip-flop-3": flip_flop,
    "buried-4": buried,
    "local-level-22": local_level,
    "n-mixture-2": n_mixture,
}
