"""Ordinary posteriors of measurements: lines, units, matrices, an outbreak, and means in an order.

Written before any of them was fitted, by somebody who had not seen a fit. Truths are in double precision, from NumPy
and SciPy. The comment above a density says how its truth was made and by which second method it was checked:
- SMC: tempered sequential Monte Carlo from the prior, or from a wide normal, of the very JAX function that is handed
  over. log Z agreed within 0.05 or so, masses within 0.03 or so;
- grid 2: the same quadrature with other numbers of nodes.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats
from scipy.special import multigammaln  # pyright: ignore[reportAttributeAccessIssue]

import tempering as tp

from .conjugate import log_marginal
from .grids import axis, log_sum, posterior
from .handed import bins, by_name
from .record import Density, halves

__all__ = ["LABORATORY"]

_LOG_2PI = math.log(2.0 * math.pi)


# Truth: the normaliser of the inverse Wishart; a sign from a t distribution. Second: SciPy's draws (signs, spread) and
# SMC (log Z).
def covariance() -> Density:
    """The posterior of a covariance matrix of unlike units, as its Cholesky factor in a tree."""
    dim, nu = 4, 9.0
    units = np.array([0.02, 1.0, 40.0, 5.0])
    correlated = np.array([[1.0, 0.5, -0.3, 0.2], [0.5, 1.0, 0.1, 0.4], [-0.3, 0.1, 1.0, 0.6], [0.2, 0.4, 0.6, 1.0]])
    psi = 6.0 * units[:, None] * correlated * units
    rows, columns = np.tril_indices(dim, -1)
    root = np.linalg.cholesky(psi)

    def log_density(x):
        diag, below = x[:dim], x[dim:]
        lower = jnp.zeros((dim, dim), x.dtype).at[rows, columns].set(below) + jnp.diag(diag)
        white = jax.scipy.linalg.solve_triangular(lower, jnp.asarray(root, x.dtype), lower=True)
        powers = jnp.asarray([dim - k for k in range(dim)], x.dtype) - (nu + dim + 1.0)
        return jnp.sum(powers * jnp.log(diag)) - 0.5 * jnp.sum(white**2) + dim * math.log(2.0)

    log_z = 0.5 * nu * dim * math.log(2.0) + multigammaln(0.5 * nu, dim) - 0.5 * nu * np.linalg.slogdet(psi)[1]
    inner = np.linalg.cholesky(np.linalg.inv(psi[:2, :2]))
    df = nu - (dim - 2)
    # The inverse of the block is Wishart; by Bartlett its off-diagonal is positive where a t variable is large enough.
    positive = float(1.0 - stats.t.sf(-math.sqrt(df) * inner[1, 0] / inner[1, 1], df))
    shape, rate = 0.5 * (nu - dim + 1.0), 0.5 * psi[0, 0]
    mean = math.sqrt(rate) * math.exp(math.lgamma(shape - 0.5) - math.lgamma(shape))
    like = {"diag": jnp.ones(dim), "below": jnp.zeros(len(rows))}
    return Density(
        "covariance-10",
        dim + len(rows),
        log_density,
        "a covariance over four powers of ten of units, as a triangle in a tree",
        "closed form",
        log_z=float(log_z),
        shares=lambda x: halves(x[dim]),
        masses=np.array([positive, 1.0 - positive]),
        spread=math.sqrt(rate / (shape - 1.0) - mean**2),
        handed=lambda: lambda tree: log_density(jnp.concatenate([tree["diag"], tree["below"]])),
        handed_as="function of a tree",
        flat=lambda tree: np.concatenate([np.asarray(tree["diag"]), np.asarray(tree["below"])], axis=1),
        how={"like": like, "support": {"diag": tp.positive}},
    )


@dataclass(frozen=True)
class Correlated:
    """Coefficients of unlike units whose prior is correlated, as a map of the unit cube."""

    dim: int = 40
    rho: float = 0.8

    @property
    def root(self) -> np.ndarray:
        scales = 10.0 ** np.linspace(-3.0, 3.0, self.dim)
        lags = np.abs(np.subtract.outer(np.arange(self.dim), np.arange(self.dim)))
        return scales[:, None] * np.linalg.cholesky(self.rho**lags)

    def from_cube(self, u):
        return self.from_normal(jax.scipy.special.ndtri(u))

    def from_normal(self, z):
        return jnp.asarray(self.root, z.dtype) @ z

    def to_normal(self, x):
        return jnp.asarray(np.linalg.inv(self.root), x.dtype) @ x


# Truth: the marginal covariance. Second: the precision (equal to 1e-14); importance sampling (log Z 0.0001 +- 0.0014).
def regression() -> Density:
    """Forty coefficients and thirty data, a prior transform that correlates them, units from 0.001 to 1000."""
    prior, noise, num = Correlated(), 0.5, 30
    generator = np.random.default_rng(81)
    scales = 10.0 ** np.linspace(-3.0, 3.0, prior.dim)
    columns = generator.standard_normal((num, prior.dim)) / scales * 0.4
    values = columns @ (prior.root @ generator.standard_normal(prior.dim)) + noise * generator.standard_normal(num)

    def log_likelihood(x):
        off = (jnp.asarray(values, x.dtype) - jnp.asarray(columns, x.dtype) @ x) / noise
        return -0.5 * jnp.sum(off**2) - num * (math.log(noise) + 0.5 * _LOG_2PI)

    root = prior.root
    total: Any = columns @ root @ root.T @ columns.T + noise**2 * np.eye(num)
    log_z = float(stats.multivariate_normal(np.zeros(num), total).logpdf(values))
    design = columns @ root
    cov = np.linalg.inv(np.eye(prior.dim) + design.T @ design / noise**2)
    mean = root @ cov @ (design.T @ values) / noise**2
    cov = root @ cov @ root.T
    ups = stats.norm.cdf(mean / np.sqrt(np.diag(cov)))
    which = int(np.argmin(np.abs(ups - 0.3)))  # a coefficient whose sign is open
    return Density(
        "regression-40",
        prior.dim,
        log_likelihood,
        "fewer data than coefficients, a correlated prior, six powers of ten of units",
        "conjugacy",
        prior=prior,
        log_z=log_z,
        shares=lambda x: halves(x[which]),
        masses=np.array([ups[which], 1.0 - ups[which]]),
        spread=math.sqrt(cov[0, 0]),
    )


# Truth: quadrature. Second: SMC on a JAX version; grid 2.
def epidemic(nodes: int = 56) -> Density:
    """An outbreak at a school: SIR by Runge and Kutta in NumPy, no gradient, counts on a square-root scale."""
    size, step, per_day = 763.0, 0.25, 4
    days = np.array([1, 2, 3, 4, 5, 6, 8, 10, 12, 14])
    values = np.sqrt(np.array([6.0, 22.0, 70.0, 200.0, 290.0, 250.0, 180.0, 70.0, 25.0, 8.0]))
    noise = 1.6

    def slopes(s, i, beta, rate):
        infected = beta * s * i
        return -infected, infected - rate * i

    def paths(x, xp):
        """Square roots of the number ill on the days of the data."""
        rate, start = x[1], x[2]
        beta = x[0] * rate / size

        def onward(state):
            s, i = state
            a = slopes(s, i, beta, rate)
            b = slopes(s + 0.5 * step * a[0], i + 0.5 * step * a[1], beta, rate)
            c = slopes(s + 0.5 * step * b[0], i + 0.5 * step * b[1], beta, rate)
            d = slopes(s + step * c[0], i + step * c[1], beta, rate)
            s = s + step / 6.0 * (a[0] + 2.0 * b[0] + 2.0 * c[0] + d[0])
            i = i + step / 6.0 * (a[1] + 2.0 * b[1] + 2.0 * c[1] + d[1])
            return xp.clip(s, 0.0, size), xp.clip(i, 0.0, size)  # a step that is too long for a large rate stays finite

        state, found = (size - start, start + 0.0 * rate), []
        for k in range(days[-1] * per_day):
            state = onward(state)
            if (k + 1) % per_day == 0 and (k + 1) // per_day in days:
                found.append(xp.sqrt(state[1] + 1e-9))
        return found

    def log_likelihood(x, xp):
        off = [(path - value) / noise for path, value in zip(paths(x, xp), values, strict=True)]
        return -0.5 * sum(each**2 for each in off) - len(values) * (math.log(noise) + 0.5 * _LOG_2PI)

    prior = [tp.LogNormal(1.0, 0.5), tp.LogNormal(-0.7, 0.5), tp.Exponential(0.3)]
    cuts = (3.8,)
    return posterior(
        "epidemic-3",
        prior,
        log_likelihood,
        "a simulator of NumPy without a gradient: three parameters of one curved mode",
        "quadrature",
        axes=[
            axis(prior[0], nodes, 2.0, 8.0, cuts=cuts),
            axis(prior[1], nodes, 0.2, 0.9),
            axis(prior[2], nodes, 0.02, 9.0),
        ],
        region=lambda x, xp: bins(x[0], cuts, xp),
        num_regions=2,
        handed=lambda: tp.from_callable(lambda points: log_likelihood(list(points.T), np), dim=3, batched=True),
        handed_as="black box",
        how={"prior": prior},
    )


# Truth: a line by hand, quadrature over the noise. Second: SMC.
def arrhenius() -> Density:
    """A rate's logarithm against 1/T: a barrier of 80,000 J/mol and a prefactor, correlated at 0.999, and the noise."""
    celsius = np.array([20.0, 26.0, 33.0, 40.0, 47.0, 52.0, 60.0, 66.0])
    inverse = -1.0 / (8.314462 * (celsius + 273.15))
    values = 27.3 + 78_000.0 * inverse + 0.12 * np.random.default_rng(82).standard_normal(len(celsius))
    means, widths = np.array([25.0, 7e4]), np.array([6.0, 2e4])

    def log_likelihood(x, xp):
        noise = x[2][..., None]
        off = (values - x[0][..., None] - x[1][..., None] * inverse) / noise
        return xp.sum(-0.5 * off**2 - xp.log(noise) - 0.5 * _LOG_2PI, axis=-1)

    prior = [*(tp.Normal(float(m), float(w)) for m, w in zip(means, widths, strict=True)), tp.HalfNormal(0.5)]
    columns = np.stack([np.ones(len(values)), inverse], axis=1)
    cut = 75_000.0
    noises = axis(prior[2], 4000, 1e-3, 4.0)
    logs, rest = [], []
    for noise, log_mass in zip(noises.nodes, noises.log_masses, strict=True):
        part, mean, cov = log_marginal(columns * widths, values - columns @ means, noise, 1.0)
        logs.append(part + log_mass)
        m, c = means + widths * mean, widths[:, None] * cov * widths
        rest.append([m[0], c[0, 0] + m[0] ** 2, stats.norm.sf((cut - m[1]) / math.sqrt(c[1, 1]))])
    log_z = float(log_sum(np.array(logs)))
    one, two, above = np.exp(np.array(logs) - log_z) @ np.array(rest)
    return posterior(
        "arrhenius-3",
        prior,
        log_likelihood,
        "a correlation of 0.9999 between parameters that differ ten-thousandfold in size",
        "conjugacy, quadrature over the noise",
        log_z=log_z,
        region=lambda x, xp: bins(x[1], (cut,), xp),
        num_regions=2,
        masses=np.array([1.0 - above, above]),
        spread=math.sqrt(two - one**2),
        **by_name("log_prefactor barrier noise", prior, log_likelihood),
    )


# Truth of log Z: a sum over 59,049 labellings; masses and spread: a grid. Second: log Z of that grid; SMC.
def ordered_means(nodes: int = 130) -> Density:
    """Three components with ordered means, equal weights and unit width, ten data: which of two clusters is split."""
    values = np.array([-3.4, -2.3, -2.9, -0.5, 2.0, 3.0, 3.9, 1.6, 6.2, 4.9])
    num, width = len(values), 4.0
    labels = np.array(list(itertools.product(range(3), repeat=num)))
    logs = -num * math.log(3.0) - 0.5 * num * _LOG_2PI - 0.5 * np.sum(values**2) + np.zeros(len(labels))
    for k in range(3):
        count, total = np.sum(labels == k, axis=1), (labels == k) @ values
        precision = count + 1.0 / width**2
        logs += 0.5 * total**2 / precision - 0.5 * np.log(precision) - math.log(width)

    def log_value(x, xp):
        off = xp.stack([values - each[..., None] for each in x], axis=0)
        top = -0.5 * off**2 - math.log(3.0) - 0.5 * _LOG_2PI
        logs = xp.logaddexp(xp.logaddexp(top[0], top[1]), top[2])
        prior = sum(-0.5 * (each / width) ** 2 - math.log(width) - 0.5 * _LOG_2PI for each in x)
        return xp.sum(logs, axis=-1) + prior

    step = 26.0 / nodes
    at = -13.0 + step * (np.arange(nodes) + 0.5)
    cuts = (-1.0, 3.0)  # both are ends of cells for 130 and 260 nodes
    x = np.meshgrid(at, at, at, indexing="ij")
    mass = np.concatenate([np.exp(log_value([each[k : k + 10] for each in x], np)) for k in range(0, nodes, 10)])
    ordered = np.sort(np.stack(x), axis=0)
    weight = mass / mass.sum()
    masses = np.bincount(bins(ordered[1], cuts, np).ravel(), weight.ravel(), 3)
    mean = np.sum(weight * ordered[0])
    return Density(
        "ordered-means-3",
        3,
        lambda x: log_value(x, jnp),
        "labels removed by an order: a middle mean that belongs to one cluster or the other",
        "a sum over 59,049 labellings; a grid",
        log_z=float(log_sum(logs)) - math.log(6.0),
        shares=lambda x: jax.nn.one_hot(bins(x[1], cuts, jnp), 3),
        masses=masses,
        spread=float(np.sqrt(np.sum(weight * (ordered[0] - mean) ** 2))),
        how={"support": tp.ordered},
    )


LABORATORY: dict[str, Callable[[], Density]] = {
    "covariance-10": covariance,
    "regression-40": regression,
    "epidemic-3": epidemic,
    "arrhenius-3": arrhenius,
    "ordered-means-3": ordered_means,
}
