"""Truths of those who visit the proving ground by other means: draws of something near, or of the prior."""

import dataclasses
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from proving import guests, newcomers, oddities, visitors, wanderers
from proving.catalogue import density_of
from proving.grids import of_scipy
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
    if density.spread is not None:
        mean = weights @ draws[:, 0] / np.sum(weights)
        spread = math.sqrt(weights @ (draws[:, 0] - mean) ** 2 / np.sum(weights))
        assert spread == pytest.approx(density.spread, rel=2.0 * most)


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


def adapted(density: Density, rng, scale: float = 1.0, num: int = 40_000, num_centres: int = 150):
    """Student distributions about places that weights find, in four turns from the prior, or from a normal round 0."""
    dim, prior, nu = density.dim, density.prior, 4.0

    place = (lambda z: z * scale) if prior is None else prior.from_normal
    move = jax.jit(jax.vmap(place))
    value = jax.jit(jax.vmap(lambda z: density.log_density(place(z))))

    def log_of(z):
        log_p = np.asarray(value(jnp.asarray(z, jnp.float32)), np.float64)
        return np.where(np.isfinite(log_p), log_p, -np.inf) + own(z)

    def own(z):
        return dim * math.log(scale) if prior is None else stats.norm.logpdf(z).sum(axis=1)

    z = rng.standard_normal((num, dim))
    log_q = stats.norm.logpdf(z).sum(axis=1)
    for power in (0.1, 0.35, 1.0, 1.0):
        logs = power * log_of(z) - log_q
        weights = np.exp(logs - logs.max())
        centres = z[rng.choice(len(z), num_centres, p=weights / weights.sum())]
        pool = z[rng.choice(len(z), 4000, p=weights / weights.sum())]
        away = np.sum((centres[:, None] - pool[None]) ** 2, axis=2)
        near = pool[np.argsort(away, axis=1)[:, :120]] - centres[:, None]
        roots = np.linalg.cholesky(0.8 * np.einsum("kni,knj->kij", near, near) / 120 + 1e-8 * np.eye(dim))
        which = rng.integers(num_centres, size=num)
        tails = np.sqrt(nu / rng.chisquare(nu, num))[:, None]
        z = centres[which] + tails * np.einsum("nij,nj->ni", roots[which], rng.standard_normal((num, dim)))
        wide = np.arange(num) % 10 == 0
        z = np.where(wide[:, None], rng.standard_normal((num, dim)), z)
        constant = math.lgamma(0.5 * (nu + dim)) - math.lgamma(0.5 * nu) - 0.5 * dim * math.log(nu * math.pi)
        each = np.full(num, -np.inf)
        for centre, root in zip(centres, roots, strict=True):
            white = np.einsum("ij,nj->ni", np.linalg.inv(root), z - centre)
            square = np.sum(white**2, axis=1)
            log_det = np.sum(np.log(np.diag(root)))
            each = np.logaddexp(each, constant - log_det - 0.5 * (nu + dim) * np.log1p(square / nu))
        log_q = np.logaddexp(math.log(0.9 / num_centres) + each, math.log(0.1) + stats.norm.logpdf(z).sum(axis=1))
    return np.asarray(move(jnp.asarray(z, jnp.float32))), log_q - own(z)


def in_wells(rng, dim: int):
    """Normals about +-1, in every coordinate."""
    draws = rng.choice([-1.0, 1.0], (NUM, dim)) + 0.2 * rng.standard_normal((NUM, dim))
    each = np.logaddexp(stats.norm.logpdf(draws, -1.0, 0.2), stats.norm.logpdf(draws, 1.0, 0.2)) - math.log(2.0)
    return draws, each.sum(axis=1)


def in_two_states(rng, dim: int):
    """Angles about pi or about 0, against a uniform prior."""
    base = np.where(rng.uniform(size=NUM) < 0.7, math.pi, 0.0)[:, None]
    draws = np.angle(np.exp(1j * (base + rng.vonmises(0.0, 1.5, (NUM, dim)))))
    logs = [stats.vonmises.logpdf(draws, 1.5, at).sum(axis=1) for at in (math.pi, 0.0)]
    return draws, np.logaddexp(math.log(0.7) + logs[0], math.log(0.3) + logs[1]) + dim * math.log(2.0 * math.pi)


def in_fork(rng):
    v, side = 2.2 * rng.standard_normal(NUM), rng.choice([-4.0, 4.0], NUM)
    white = 1.1 * rng.standard_normal((NUM, 5)) + side[:, None] * (np.arange(5) == 0)
    sides = np.logaddexp(stats.norm.logpdf(white[:, 0], -4.0, 1.1), stats.norm.logpdf(white[:, 0], 4.0, 1.1))
    log_q = (
        stats.norm.logpdf(v, 0.0, 2.2) + sides - math.log(2.0) + stats.norm.logpdf(white[:, 1:], 0.0, 1.1).sum(axis=1)
    )
    return np.concatenate([v[:, None], np.exp(0.5 * v)[:, None] * white], axis=1), log_q - 2.5 * v


def about_bond(rng):
    middle, length = 0.8 * rng.standard_normal((NUM, 3)), rng.uniform(0.3, 4.2, NUM)
    way = rng.standard_normal((NUM, 3))
    way *= (0.5 * length / np.linalg.norm(way, axis=1))[:, None]
    log_q = stats.norm.logpdf(middle, 0.0, 0.8).sum(axis=1) - np.log(3.9 * 4.0 * math.pi * length**2)
    return np.concatenate([middle + way, middle - way], axis=1), log_q


def about(rng, centre, width: float):
    draws = np.asarray(centre) + width * rng.standard_normal((NUM, len(centre)))
    return draws, stats.norm.logpdf(draws, centre, width).sum(axis=1)


def of_exponentials(rng, dim: int, mean: float):
    draws = rng.exponential(mean, (NUM, dim))
    return draws, -draws.sum(axis=1) / mean - dim * math.log(mean)


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
    "sky": (newcomers.sky, lambda density, rng: adapted(density, rng, num=100_000)),
    "predators": (lambda: newcomers.predators(200), adapted),
    "growth": (lambda: newcomers.growth(80), adapted),
    "student lines": (newcomers.student_lines, adapted),
    "hidden states": (newcomers.hidden_states, adapted),
    "network": (lambda: newcomers.network(300), lambda density, rng: adapted(density, rng, 1.0, 80_000, 300)),
    "supernovae": (newcomers.distances, adapted),
    "domain walls": (lambda: wanderers.domain_walls(4), lambda density, rng: in_wells(rng, 4)),
    "spins": (lambda: wanderers.xy_cylinder(2, 2), of_the_prior),
    "ring of spins": (lambda: wanderers.xy_cylinder(3, 2), lambda density, rng: in_two_states(rng, 6)),
    "polymer": (lambda: wanderers.polymer(2), lambda density, rng: in_a_square(rng, 180.0)),
    "microns": (wanderers.microns, lambda density, rng: in_a_square(rng, 6e-6)),
    "ackley": (wanderers.ackley, of_the_prior),
    "clusters": (lambda: wanderers.clusters(4), lambda density, rng: adapted(density, rng, 4.0)),
    "student clusters": (lambda: wanderers.student_clusters(3), lambda density, rng: adapted(density, rng, 6.0)),
    "turned ring": (lambda: wanderers.turned_ring(4), lambda density, rng: adapted(density, rng, 4.0)),
    "fork": (wanderers.forked_funnel, lambda density, rng: in_fork(rng)),
    "fringes": (oddities.fringes, lambda density, rng: about(rng, [3.0], 25.0)),
    "cold wells": (oddities.cold_wells, lambda density, rng: in_a_square(rng, 1.3)),
    "far below": (oddities.far_below, lambda density, rng: adapted(density, rng, 5.0)),
    "slabs": (oddities.slabs, lambda density, rng: about(rng, [1.3, -0.4, 0.8, 2.1], 1.1)),
    "lemniscate": (lambda: oddities.lemniscate(2), lambda density, rng: in_a_square(rng, 4.2)),
    "dimer": (oddities.dimer, lambda density, rng: about_bond(rng)),
    "copula with modes": (lambda: oddities.copula_modes(2), lambda density, rng: adapted(density, rng, 3.0)),
    "factors": (lambda: oddities.factors(2, 2), adapted),
    "levels": (lambda: oddities.levels(3), lambda density, rng: of_exponentials(rng, 3, 0.6)),
}


QUICK = (
    *(name for name in list(CASES)[:4] if name != "volatility"),
    *("spins", "polymer", "fringes", "dimer"),
)
"""The others are like them, and take seconds each."""


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in CASES]
)
def test_truths_are_those_of_other_draws(name):
    make, draw = CASES[name]
    density = make()
    drawn = draw(density, np.random.default_rng(3))
    is_true(density, *drawn)
    must_fail(is_true, dataclasses.replace(density, log_density=lambda x: 0.2 + 1.3 * density.log_density(x)), *drawn)


def at_rows(density: Density, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values and gradients of the function that describes a density."""
    found = jax.jit(jax.vmap(jax.value_and_grad(density.log_density)))(jnp.asarray(rows, jnp.float32))
    return np.asarray(found[0]), np.asarray(found[1])


@pytest.mark.parametrize(
    "name", ["cold-wells-2", *(pytest.param(name, marks=pytest.mark.slow) for name in ("growth-3", "predators-2"))]
)
def test_a_black_box_is_the_density_that_it_stands_for(name):
    density, rng = density_of(name), np.random.default_rng(4)
    rows = rng.uniform(0.6, 1.3, (20, density.dim)) * (np.array([1e5, 1.0, 1e3]) if name == "growth-3" else 1.0)
    target, (values, gradients) = density.handed(), at_rows(density, rows)
    np.testing.assert_allclose(target.box.values(rows), values, rtol=2e-3, atol=2e-3)
    if target.has_gradient:
        np.testing.assert_allclose(target.box.values_and_gradients(rows)[1], gradients, rtol=1e-2, atol=1e-2)
        must_fail(np.testing.assert_allclose, target.box.values_and_gradients(rows + 0.1)[1], gradients, rtol=0.01)


@pytest.mark.parametrize(
    "name",
    [
        "network-5",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("clusters-40", "hidden-states-4", "levels-12")),
    ],
)
def test_a_function_of_a_tree_is_the_density_that_it_stands_for(name):
    density = density_of(name)
    leaves, shape = jax.tree.flatten(density.how["like"])
    keys = jax.random.split(jax.random.key(2), len(leaves))
    draws = [
        jax.random.uniform(key, (20, *jnp.shape(leaf)), minval=0.1) for key, leaf in zip(keys, leaves, strict=True)
    ]
    tree = jax.tree.unflatten(shape, draws)
    rows = density.flat(tree)
    assert rows.shape == (20, density.dim)
    found = jax.jit(jax.vmap(density.handed()))(tree)
    np.testing.assert_allclose(found, at_rows(density, rows)[0], rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("name", ["student-lines-3", "factors-9"])
def test_a_model_of_numpyro_is_the_likelihood_and_prior_that_it_stands_for(name):
    density = density_of(name)
    target = density.handed()
    z = 0.5 * jax.random.normal(jax.random.key(3), (20, density.dim))
    x = np.asarray(jax.jit(jax.vmap(target.chart.embed))(z), np.float64)
    joint = np.asarray(jax.jit(jax.vmap(target.log_density))(z)) - np.asarray(
        jax.jit(jax.vmap(target.chart.log_volume))(z)
    )
    prior = sum(of_scipy(each).logpdf(x[:, k]) for k, each in enumerate(density.prior.each))
    np.testing.assert_allclose(joint, at_rows(density, x)[0] + prior, rtol=1e-4, atol=1e-3)


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


@pytest.mark.slow
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
