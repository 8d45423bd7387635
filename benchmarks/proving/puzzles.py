"""Hard but fair: states, labels and signs of which there are many, mirrored and turned solutions.

Written before any of them was fitted, by somebody who had not seen a fit. Truths are in double precision, from NumPy
and SciPy. The comment above a density says how its truth was made and by which second method it was checked:
- SMC: tempered sequential Monte Carlo from the prior, or from a wide normal, of the very JAX function that is handed
  over. log Z agreed within 0.05 or so, masses within 0.03 or so;
- grid 2: the same quadrature with other numbers of nodes.
"""

import itertools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special, stats

import tempering as tp

from .classic import legendre
from .conjugate import log_marginal
from .grids import axis, log_sum, posterior
from .handed import log_expit
from .record import Density, halves

__all__ = ["PUZZLES"]

_LOG_2PI = math.log(2.0 * math.pi)


# Truth: all 4,096 sign patterns, each a normal by hand. Second: importance sampling (log Z +0.0004 +- 0.0016); SMC.
def phases() -> Density:
    """Phase retrieval: a real signal of eight numbers from twelve magnitudes; the sign, and lesser solutions."""
    dim, num, noise = 8, 12, 0.35
    generator = np.random.default_rng(83)
    rows = generator.standard_normal((num, dim)) / math.sqrt(2.0)
    values = np.abs(rows @ generator.standard_normal(dim) + noise * generator.standard_normal(num))

    def log_likelihood(x, xp):
        place = xp.asarray(rows) @ xp.asarray(x)
        each = xp.logaddexp(-0.5 * ((values - place) / noise) ** 2, -0.5 * ((values + place) / noise) ** 2)
        return xp.sum(each) - num * (math.log(noise) + 0.5 * _LOG_2PI)

    signs = np.array(list(itertools.product([-1.0, 1.0], repeat=num)))
    logs, means, cov = log_marginal(rows[None], signs * values, noise, 1.0)
    log_z = float(log_sum(logs))
    weights = np.exp(logs - log_z)
    tested = (0, 3, 7)
    number = sum((signs[:, k] > 0) * 2**j for j, k in enumerate(tested))
    mean = weights @ means[:, 0]

    def shares(x):
        place = jnp.asarray(rows, x.dtype) @ x
        up = jax.nn.sigmoid(2.0 * jnp.asarray(values, x.dtype) * place / noise**2)
        both = [jnp.stack([1.0 - up[k], up[k]]) for k in tested]
        return jnp.einsum("a,b,c->cba", *both).ravel()

    prior = [tp.Normal(0.0, 1.0)] * dim
    return posterior(
        f"phases-{dim}",
        prior,
        log_likelihood,
        "magnitudes without signs: two mirrored solutions, and dozens of lesser pairs",
        "a sum over all 4,096 patterns of signs",
        log_z=log_z,
        shares=shares,
        masses=np.bincount(number, weights, 8),
        spread=math.sqrt(float(weights @ (means[:, 0] ** 2 + cov[..., 0, 0]) - mean**2)),
        handed=lambda: lambda x: log_likelihood(x, jnp),
        handed_as="likelihood",
        how={"dim": dim, "prior": tp.Normal(0.0, 1.0)},
    )


# Truth: all 1,024 labellings; lines by hand, the gate by quadrature. Second: SMC.
def experts(nodes: int = 130) -> Density:
    """A mixture of two experts: a logistic gate, a line behind each side of it; swapped labels turn the gate."""
    covariate = np.array([-2.0, -1.5, -1.2, -0.7, -0.2, 0.3, 0.6, 1.1, 1.6, 2.1])
    values = np.array([1.9, 1.35, 1.0, 0.9, 0.1, 0.6, -0.2, 1.1, 0.95, 1.3])
    num, noise, width, gate_width = len(values), 0.35, 1.5, 2.0

    def log_likelihood(x, xp):
        gate = x[0] + x[1] * covariate
        off = [(values - x[2 + 2 * k] - x[3 + 2 * k] * covariate) / noise for k in range(2)]
        mixed = xp.logaddexp(log_expit(gate, xp) - 0.5 * off[0] ** 2, log_expit(-gate, xp) - 0.5 * off[1] ** 2)
        return xp.sum(mixed) - num * (math.log(noise) + 0.5 * _LOG_2PI)

    prior = [*[tp.Normal(0.0, gate_width)] * 2, *[tp.Normal(0.0, width)] * 4]
    labels = np.array(list(itertools.product([0, 1], repeat=num)))  # 1: of the first expert
    each = axis(prior[0], nodes)
    one, two = (g.ravel() for g in np.meshgrid(each.nodes, each.nodes, indexing="ij"))
    log_mass = np.add.outer(each.log_masses, each.log_masses).ravel()
    gate = one[:, None] + two[:, None] * covariate
    on, off = log_expit(gate, np), log_expit(-gate, np)
    terms = on @ labels.T + off @ (1 - labels).T + log_mass[:, None]
    logs = log_sum(terms, axis=0)
    within = np.exp(terms - logs)  # of the gate, given labels
    columns = np.stack([np.ones(num), covariate], axis=1)
    for chosen in (labels == 1, labels == 0):
        part = log_marginal(columns[None] * chosen[..., None], values[None] * chosen, noise, width)[0]
        logs = logs + part + np.sum(~chosen, axis=1) * (math.log(noise) + 0.5 * _LOG_2PI)
    log_z = float(log_sum(logs))
    weights = np.exp(logs - log_z)
    first, square = weights @ (within.T @ one), weights @ (within.T @ one**2)
    tested = (0, 5, 9)
    number = sum(labels[:, k] * 2**j for j, k in enumerate(tested))

    def shares(x):
        gate = x[0] + x[1] * jnp.asarray(covariate, x.dtype)
        off = [(values - x[2 + 2 * k] - x[3 + 2 * k] * covariate) / noise for k in range(2)]
        up = jax.nn.sigmoid(gate - 0.5 * off[0] ** 2 + 0.5 * off[1] ** 2)
        both = [jnp.stack([1.0 - up[k], up[k]]) for k in tested]
        return jnp.einsum("a,b,c->cba", *both).ravel()

    return posterior(
        "experts-6",
        prior,
        log_likelihood,
        "a gate and two lines: swapped labels, and other ways to share ten data",
        "a sum over 1,024 labellings, quadrature over the gate",
        log_z=log_z,
        shares=shares,
        masses=np.bincount(number, weights, 8),
        spread=math.sqrt(float(square - first**2)),
    )


# Truth: scores by hand; loadings by rotation have five numbers left: Bartlett's, by quadrature. Masses by symmetry.
# Second: SMC.
def rotations(nodes: int = 20, wide: int = 46) -> Density:
    """A factor model with two factors, in NumPyro: loadings and scores turn together, a ring in eighteen dimensions."""
    num_rows, num_columns, noise = 6, 3, 0.5
    generator = np.random.default_rng(85)
    table = generator.standard_normal((num_rows, 2)) @ generator.standard_normal((2, num_columns))
    table = table + noise * generator.standard_normal(table.shape)

    def model(data=table):
        import numpyro
        import numpyro.distributions as dist

        w: Any = numpyro.sample("loadings", dist.Normal(0.0, 1.0).expand([num_columns, 2]).to_event(2))
        with numpyro.plate("rows", num_rows):
            f: Any = numpyro.sample("scores", dist.Normal(0.0, 1.0).expand([2]).to_event(1))
            numpyro.sample("y", dist.Normal(f @ w.T, noise).to_event(1), obs=data)

    dim = 2 * (num_rows + num_columns)

    def log_density(x):
        w, f = x[: 2 * num_columns].reshape(num_columns, 2), x[2 * num_columns :].reshape(num_rows, 2)
        off = (jnp.asarray(table, x.dtype) - f @ w.T) / noise
        likelihood = -0.5 * jnp.sum(off**2) - table.size * (math.log(noise) + 0.5 * _LOG_2PI)
        return likelihood - 0.5 * jnp.sum(x**2) - 0.5 * dim * _LOG_2PI

    def chi(df):
        z, w = legendre(1e-12, 6.0, nodes)
        return z, w * stats.chi.pdf(z, df)

    bell = legendre(-5.0, 5.0, wide)
    bell = bell[0], bell[1] * stats.norm.pdf(bell[0])
    parts = [chi(2), chi(1), bell, bell, bell]  # l11, l22, l21, l31, l32
    scatter = table.T @ table
    grid = np.meshgrid(*(part[0] for part in parts[1:]), indexing="ij")
    weight = np.einsum("a,b,c,d->abcd", *(part[1] for part in parts[1:]))
    l22, l21, l31, l32 = grid
    total = square = 0.0
    for l11, w in zip(*parts[0], strict=True):
        a, b, c = l11**2 + noise**2, l11 * l21, l11 * l31
        d, e, f = l21**2 + l22**2 + noise**2, l21 * l31 + l22 * l32, l31**2 + l32**2 + noise**2
        cof = [d * f - e**2, c * e - b * f, b * e - c * d, a * f - c**2, b * c - a * e, a * d - b**2]
        det = a * cof[0] + b * cof[1] + c * cof[2]
        inner = scatter[0, 0] * cof[0] + scatter[1, 1] * cof[3] + scatter[2, 2] * cof[5]
        inner = inner + 2.0 * (scatter[0, 1] * cof[1] + scatter[0, 2] * cof[2] + scatter[1, 2] * cof[4])
        part = w * np.sum(weight * np.exp(-0.5 * inner / det - 0.5 * num_rows * np.log(det)))
        total, square = total + part, square + part * l11**2
    return Density(
        f"rotations-{dim}",
        dim,
        log_density,
        "two factors that may be turned and mirrored: a closed valley through eighteen dimensions",
        "conjugacy, rotation, quadrature over five",
        log_z=math.log(total) - 0.5 * table.size * _LOG_2PI,
        shares=lambda x: (halves(x[0])[:, None] * halves(x[1])[None]).ravel(),
        masses=np.full(4, 0.25),
        spread=math.sqrt(0.5 * square / total),
        handed=lambda: tp.from_numpyro(model, jnp.asarray(table, jnp.float32)),
        flat=lambda tree: np.concatenate(
            [np.asarray(tree[name]).reshape(len(tree[name]), -1) for name in ("loadings", "scores")], axis=1
        ),
    )


# Truth: transfer matrices on a polar grid cut at the sectors. Second: grid 2; SMC on the JAX twin; gradient by
# differences.
def clock(num: int = 5, sizes: tuple[int, int] = (30, 72)) -> Density:
    """A chain of spins with three states each (a soft Potts model), in NumPy with a function for the gradient."""
    bond, field, cubic, stiff = 0.45, (0.12, 0.05), 3.0, 6.0

    def site(x, y):
        return -stiff * (x**2 + y**2 - 1.0) ** 2 + cubic * (x**3 - 3.0 * x * y**2) + field[0] * x + field[1] * y

    def values(points):
        p = points.reshape(-1, num, 2)
        steps = np.sum((p[:, 1:] - p[:, :-1]) ** 2, axis=(1, 2))
        return np.sum(site(p[..., 0], p[..., 1]), axis=1) - 0.5 * bond * steps

    def gradients(points):
        p = points.reshape(-1, num, 2)
        x, y = p[..., 0], p[..., 1]
        ring = -4.0 * stiff * (x**2 + y**2 - 1.0)
        slope = np.stack(
            [ring * x + 3.0 * cubic * (x**2 - y**2) + field[0], ring * y - 6.0 * cubic * x * y + field[1]], -1
        )
        step = bond * (p[:, 1:] - p[:, :-1])
        slope[:, :-1] += step
        slope[:, 1:] -= step
        return slope.reshape(len(points), -1)

    def log_density(x):
        p = x.reshape(num, 2)
        return jnp.sum(site(p[:, 0], p[:, 1])) - 0.5 * bond * jnp.sum((p[1:] - p[:-1]) ** 2)

    def sector(x, y, xp):
        return xp.mod(xp.floor((xp.arctan2(y, x) + math.pi / 3.0) / (2.0 * math.pi / 3.0)), 3.0).astype(int)

    r, w = legendre(0.0, 2.4, sizes[0])
    angle = -math.pi / 3.0 + 2.0 * math.pi * (np.arange(sizes[1]) + 0.5) / sizes[1]
    x, y = (np.outer(r, f(angle)).ravel() for f in (np.cos, np.sin))
    weight = np.repeat(r * w, sizes[1]) * 2.0 * math.pi / sizes[1]
    mass = weight * np.exp(site(x, y))
    move = np.exp(-0.5 * bond * ((x[:, None] - x) ** 2 + (y[:, None] - y) ** 2)) * mass
    state = np.eye(3)[sector(x, y, np)]  # axes (point, sector)
    vector = state.T * mass
    for _ in range(num - 1):
        vector = vector @ move
    masses = (vector @ state).ravel()
    back = np.ones(len(x))
    for _ in range(num - 1):
        back = move @ back
    first = mass * back
    first /= first.sum()
    return Density(
        f"clock-{2 * num}",
        2 * num,
        log_density,
        "243 states of a soft Potts chain, as a black box with a function for its gradient",
        "products of transfer matrices",
        log_z=math.log(float(masses.sum())),
        shares=lambda x: jax.nn.one_hot(3 * sector(x[0], x[1], jnp) + sector(x[-2], x[-1], jnp), 9),
        masses=masses / masses.sum(),
        spread=math.sqrt(float(first @ x**2 - (first @ x) ** 2)),
        handed=lambda: tp.from_callable(values, dim=2 * num, gradient=gradients, batched=True),
        handed_as="black box",
    )


# Truth: all 128 hidden states, each a normal by hand. Second: importance sampling (log Z +0.0015 +- 0.0009); SMC.
def machine(dim: int = 20, hidden: int = 7) -> Density:
    """A restricted Boltzmann machine whose visible units are normal, as a black box that returns its gradient."""
    generator = np.random.default_rng(86)
    weights = np.linalg.qr(generator.standard_normal((dim, hidden)))[0]
    weights = weights + 0.035 * generator.standard_normal((dim, hidden))
    weights *= np.array([4.0, 4.5, 5.0, 3.5, 4.0, 6.0, 3.0]) / np.linalg.norm(weights, axis=0)
    centre = 0.5 * generator.standard_normal(dim)
    bias = -0.5 * np.sum(weights**2, axis=0) - weights.T @ centre + np.array([0.5, -1.0, 0.3, -0.5, 1.0, -0.8, 0.0])
    states = np.array(list(itertools.product([0.0, 1.0], repeat=hidden)))
    wanted = np.array([0.7, 0.3, 0.55, 0.85, 0.4, 0.25, 0.6])  # how often every hidden unit is on
    for _ in range(1000):
        logs = states @ bias + states @ (weights.T @ centre) + 0.5 * np.sum((states @ weights.T) ** 2, axis=1)
        on = np.clip(np.exp(logs - log_sum(logs)) @ states, 1e-6, 1.0 - 1e-6)
        bias = bias + 0.2 * (special.logit(wanted) - special.logit(on))
    bias = np.round(bias, 2)
    logs = states @ bias + states @ (weights.T @ centre) + 0.5 * np.sum((states @ weights.T) ** 2, axis=1)
    share = np.exp(logs - log_sum(logs))

    def value_and_gradient(points):
        inner = bias + points @ weights
        value = -0.5 * np.sum((points - centre) ** 2, axis=1) + np.sum(np.logaddexp(0.0, inner), axis=1)
        return value, centre - points + special.expit(inner) @ weights.T

    def inner(v):
        return jnp.asarray(bias, v.dtype) + v @ jnp.asarray(weights, v.dtype)

    def shares(v):
        up = jax.nn.sigmoid(inner(v))
        both = [jnp.stack([1.0 - up[k], up[k]]) for k in range(3)]
        return jnp.einsum("a,b,c->abc", *both).ravel()

    means = centre[0] + states @ weights[0]
    mean = share @ means
    number = (4 * states[:, 0] + 2 * states[:, 1] + states[:, 2]).astype(int)
    return Density(
        f"machine-{dim}",
        dim,
        lambda v: -0.5 * jnp.sum((v - centre) ** 2) + jnp.sum(jnp.logaddexp(0.0, inner(v))),
        "128 modes of unlike weight, some joined, as a black box that returns its gradient",
        "a sum over 128 hidden states",
        log_z=float(log_sum(logs)) + 0.5 * dim * _LOG_2PI,
        shares=shares,
        masses=np.bincount(number, share, 8),
        spread=math.sqrt(float(share @ (means - mean) ** 2) + 1.0),
        handed=lambda: tp.from_callable(value_and_gradient, dim=dim, gradient="returned", batched=True),
        handed_as="black box",
    )


# Truth: closed form. Second: importance sampling (log Z 0.0017 +- 0.0015); exact draws for the spread. SMC fails here.
def skewed(dim: int = 20) -> Density:
    """Three turned skew normals of unlike size, 0.6, 0.28 and 0.12: each mode is half cut off on one side."""
    generator = np.random.default_rng(89)
    weights, slant = np.array([0.6, 0.28, 0.12]), np.array([8.0, 4.0, 6.0])
    sizes = np.array([1.0, 0.5, 1.6])
    roots = np.stack(
        [
            s * np.linalg.qr(generator.standard_normal((dim, dim)))[0] * np.exp(0.4 * generator.standard_normal(dim))
            for s in sizes
        ]
    )
    alphas = generator.standard_normal((3, dim))
    alphas *= (slant / np.linalg.norm(alphas, axis=1))[:, None]
    means = 2.0 * generator.standard_normal((3, dim))
    inverse, constants = (
        np.linalg.inv(roots),
        np.log(2.0 * weights) - np.linalg.slogdet(roots)[1] - 0.5 * dim * _LOG_2PI,
    )

    def logs(x):
        z = jnp.einsum("kij,kj->ki", jnp.asarray(inverse, x.dtype), x[None] - jnp.asarray(means, x.dtype))
        side = jax.scipy.special.log_ndtr(jnp.sum(jnp.asarray(alphas, x.dtype) * z, axis=1))
        return jnp.asarray(constants, x.dtype) - 0.5 * jnp.sum(z**2, axis=1) + side

    deltas = alphas / np.sqrt(1.0 + slant**2)[:, None]
    at = means[:, 0] + math.sqrt(2.0 / math.pi) * np.einsum("kj,kj->k", roots[:, 0], deltas)
    own = np.sum(roots[:, 0] ** 2, axis=1) - (2.0 / math.pi) * np.einsum("kj,kj->k", roots[:, 0], deltas) ** 2
    mean = weights @ at
    return Density(
        f"skewed-{dim}",
        dim,
        lambda x: jax.scipy.special.logsumexp(logs(x)),
        "three turned modes that fall off suddenly on one side",
        "closed form",
        log_z=0.0,
        shares=lambda x: jax.nn.softmax(logs(x)),
        masses=weights,
        spread=math.sqrt(float(weights @ (own + (at - mean) ** 2))),
    )


PUZZLES: dict[str, Callable[[], Density]] = {
    "phases-8": phases,
    "experts-6": experts,
    "rotations-18": rotations,
    "clock-10": clock,
    "machine-20": machine,
    "skewed-20": skewed,
}
