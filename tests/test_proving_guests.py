"""Truths of the guests and visitors of the proving ground by other means: draws of something near, or of the prior."""

import dataclasses
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from proving import guests, visitors
from proving.record import Density
from scipy import stats
from scipy.special import logsumexp

from support.random_checks import must_fail

NUM = 200_000


def is_true(density: Density, draws: np.ndarray, log_q: np.ndarray, log_extra: np.ndarray | float = 0.0) -> None:
    """log Z and masses by importance weights of draws of q, within four standard errors."""
    points = jnp.asarray(draws, jnp.float32)
    log_p = np.asarray(jax.jit(jax.vmap(density.log_density))(points), np.float64) + log_extra
    logs = np.where(np.isfinite(log_p), log_p, -np.inf) - log_q
    weights = np.exp(logs - np.max(logs))
    most = 4.0 * np.std(weights) / np.mean(weights) / math.sqrt(len(weights)) + 3e-3
    assert most < 0.1, "the draws do not cover the density"
    assert abs(np.max(logs) + math.log(np.mean(weights)) - density.log_z) < most
    shares = np.asarray(jax.jit(jax.vmap(density.shares))(points), np.float64)
    np.testing.assert_allclose(weights @ shares / np.sum(weights), density.masses, atol=most)


def in_a_square(rng, half: float):
    return rng.uniform(-half, half, (NUM, 2)), np.full(NUM, -2.0 * math.log(2.0 * half))


def in_corners(rng):
    """Exponentials a fifth wider than those of either room, from the corners; the prior's density is 1."""
    away = rng.exponential(1.0, (NUM, 4)) * np.where(np.arange(NUM)[:, None] % 2 == 0, 0.06, 0.048)
    draws = np.where(np.arange(NUM)[:, None] % 2 == 0, 0.5 - away, 0.7 + away)
    far = np.stack([(0.5 - draws) / 0.06, (draws - 0.7) / 0.048])
    logs = np.where(np.all(far > 0.0, axis=2), -far.sum(axis=2), -np.inf) - 4.0 * np.log([[0.06], [0.048]])
    return draws, np.logaddexp(*logs) - math.log(2.0)


def about_ends(rng):
    """Half a Student distribution from each of the outermost data, over the prior."""
    far, log_q = np.abs(rng.standard_t(3, (NUM, 4))), math.log(2.0)
    draws = np.array([0.31, 1.9, -2.0, 3.0]) + far * np.array([-1.0, 1.0, -1.0, 1.0])
    return draws, np.sum(stats.t(3).logpdf(far) + log_q - stats.norm(0.0, 10.0).logpdf(draws), axis=1)


def of_the_prior(density: Density, rng):
    z = jnp.asarray(rng.standard_normal((NUM, density.dim)), jnp.float32)
    return np.asarray(jax.vmap(density.prior.from_normal)(z)), np.zeros(NUM)


CASES = {
    "checkerboard": (guests.checkerboard, lambda density, rng: in_a_square(rng, 2.2)),
    "pinwheel": (guests.pinwheel, lambda density, rng: in_a_square(rng, 7.0)),
    "nearest": (guests.GUESTS["table-nearest-2"], of_the_prior),
    "linear": (guests.GUESTS["table-linear-2"], of_the_prior),
    "volatility": (visitors.volatility, of_the_prior),
    "selected": (visitors.selected, of_the_prior),
    "ends": (visitors.ends, lambda density, rng: about_ends(rng)),
    "accepted": (visitors.accepted, of_the_prior),
    "rooms": (visitors.rooms, lambda density, rng: in_corners(rng)),
}


@pytest.mark.parametrize("name", CASES)
def test_truths_are_those_of_other_draws(name):
    make, draw = CASES[name]
    density = make()
    drawn = draw(density, np.random.default_rng(3))
    is_true(density, *drawn)
    must_fail(is_true, dataclasses.replace(density, log_density=lambda x: 0.2 + 1.3 * density.log_density(x)), *drawn)


def test_the_copula_is_normal_with_other_marginals():
    """Against SciPy, at draws of it far into the tails. The saboteur forgets a marginal."""
    density, rng = guests.copula(), np.random.default_rng(5)
    covariance = 0.8 ** np.abs(np.subtract.outer(np.arange(6), np.arange(6)))
    z = rng.multivariate_normal(np.zeros(6), covariance, 20_000)
    marginals = [stats.cauchy()] * 2 + [stats.t(2)] * 2 + [stats.logistic()] * 2
    tail = stats.norm.sf(np.abs(z))
    x = np.sign(z) * np.stack([known.isf(tail[:, k]) for k, known in enumerate(marginals)], axis=1)
    exact = stats.multivariate_normal(np.zeros(6), covariance).logpdf(z) - stats.norm.logpdf(z).sum(axis=1)
    each = np.stack([known.logpdf(x[:, k]) for k, known in enumerate(marginals)], axis=1)

    def agrees(expected):
        found = np.asarray(jax.jit(jax.vmap(density.log_density))(jnp.asarray(x, jnp.float32)), np.float64)
        np.testing.assert_allclose(found, expected, atol=1e-3)

    agrees(exact + each.sum(axis=1))
    must_fail(agrees, exact + each[:, 1:].sum(axis=1))
    sides = np.asarray(jax.vmap(density.shares)(jnp.asarray(x, jnp.float32))).mean(axis=0)
    np.testing.assert_allclose(sides, density.masses, atol=0.015)


def test_topics_are_a_dirichlet_distribution():
    density, alpha = guests.topics(), 0.1 + np.array([6.0, 3.0, 1.0] + [0.0] * 9)
    x = np.random.default_rng(6).dirichlet(alpha, 4000)
    x = x[np.min(x, axis=1) > 1e-30]
    found = np.asarray(jax.vmap(density.log_density)(jnp.asarray(x, jnp.float32)), np.float64) - density.log_z
    exact = (np.log(x) @ (alpha - 1.0)) + math.lgamma(alpha.sum()) - sum(map(math.lgamma, alpha))
    np.testing.assert_allclose(found, exact, atol=2e-3)
    shares = np.asarray(jax.vmap(density.shares)(jnp.asarray(x, jnp.float32))).mean(axis=0)
    np.testing.assert_allclose(shares[:2], density.masses[:2], atol=0.02)


def test_spins_made_continuous_are_a_mixture_of_normals_with_one_for_each_state():
    """Couplings and fields are read off the derivatives at 0; the mixture is normalised by itself."""
    density = guests.spin_glass()
    field = np.arctanh(np.asarray(jax.grad(density.log_density)(jnp.zeros(12)), np.float64))
    bent = np.asarray(jax.hessian(density.log_density)(jnp.zeros(12)), np.float64)
    matrix = np.linalg.inv(np.diag(1.0 - np.tanh(field) ** 2) - bent)
    spins = np.array(list(itertools.product([-1.0, 1.0], repeat=12)))
    logs = 0.5 * np.einsum("si,ij,sj->s", spins, matrix, spins) + spins @ field
    logs -= logsumexp(logs)
    rng = np.random.default_rng(8)
    x = spins[rng.choice(len(spins), 200, p=np.exp(logs))] @ matrix + rng.multivariate_normal(np.zeros(12), matrix, 200)
    normal = stats.multivariate_normal(np.zeros(12), matrix)
    exact = [logsumexp(logs + normal.logpdf(row - spins @ matrix)) for row in x]
    found = np.asarray(jax.vmap(density.log_density)(jnp.asarray(x, jnp.float32)), np.float64)
    np.testing.assert_allclose(found - density.log_z, exact, atol=0.02)
    up = np.exp(logs) @ (spins[:, :3] > 0)
    sides = density.masses.reshape(2, 2, 2)
    np.testing.assert_allclose([sides[1].sum(), sides[:, 1].sum(), sides[:, :, 1].sum()], up, atol=5e-3)
