"""Truths of the decoys of the proving ground by other means: one-dimensional quadrature, or draws of something near."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from proving import decoys
from proving.classic import legendre
from scipy import stats

from support.random_checks import assert_mean, must_fail


def along(density, points: np.ndarray) -> np.ndarray:
    """The density at points that have one coordinate, the others being 0."""
    rows = jnp.zeros((len(points), density.dim)).at[:, 0].set(jnp.asarray(points, jnp.float32))
    return np.exp(np.asarray(jax.jit(jax.vmap(density.log_density))(rows), np.float64))


def by_radius(density, parts) -> np.ndarray:
    """The mass between radii, of a density that depends on nothing else."""
    sphere = 2.0 * math.pi ** (0.5 * density.dim) / math.gamma(0.5 * density.dim)
    found = []
    for low, high in parts:
        r, w = legendre(low, high, 3000)
        found.append(sphere * float(w @ (r ** (density.dim - 1) * along(density, r))))
    return np.array(found)


@pytest.mark.parametrize(
    ("density", "parts"),
    [(decoys.moat(), [(6.00001, 70.0), (0.0, 2.99999)]), (decoys.core_in_shell(), [(6.0, 18.0), (0.0, 6.0)])],
    ids=["moat", "core in shell"],
)
def test_masses_within_radii(density, parts):
    found = by_radius(density, parts)
    assert math.log(found.sum()) == pytest.approx(density.log_z, abs=2e-4)
    np.testing.assert_allclose(found / found.sum(), density.masses, atol=2e-4)


def test_the_singular_plane():
    density = decoys.singular()
    root, w = legendre(0.0, 12.0**0.3, 4000)  # u = |x|^0.3 takes the singularity away
    x = root ** (1.0 / 0.3)
    mass = 2.0 / 0.3 * w * along(density, x) * x**0.7
    assert math.log(mass.sum()) + math.log(2.0 * math.pi) == pytest.approx(density.log_z, abs=2e-4)
    assert mass[x < 0.1].sum() / mass.sum() == pytest.approx(density.masses[0], abs=1e-3)


def test_the_terrace():
    density = decoys.terrace()
    rng, num = np.random.default_rng(0), 200_000
    draws = rng.normal(size=(num, 6))
    draws[::2, :2] = 2.0 + rng.exponential(0.4, (num // 2, 2))
    plain = stats.norm.logpdf(draws)
    on = np.where(draws[:, :2] > 2.0, stats.expon.logpdf(draws[:, :2], 2.0, 0.4), -np.inf).sum(axis=1)
    log_q = np.logaddexp(plain.sum(axis=1), on + plain[:, 2:].sum(axis=1)) - math.log(2.0)
    log_p = np.asarray(jax.jit(jax.vmap(density.log_density))(jnp.asarray(draws, jnp.float32)), np.float64)

    def is_true(truth) -> None:
        weights = np.exp(log_p - log_q - truth.log_z)
        is_up = np.all(draws[:, :2] > 2.0, axis=1)
        assert_mean(np.stack([weights * is_up, weights * ~is_up], axis=1), truth.masses)

    is_true(density)
    must_fail(is_true, dataclasses.replace(density, log_z=density.log_z + 0.02))


def test_two_corners_are_a_normalised_mixture():
    density = decoys.two_corners()
    # The product of one coordinate's integrals, component by component.
    one = lambda width: -math.expm1(-1.0 / width)  # noqa: E731
    masses = np.array([0.7 * one(0.01) ** 6, 0.3 * one(0.002) ** 6])
    np.testing.assert_allclose(masses, density.masses, atol=1e-9)
    at = np.asarray(density.shares(jnp.full(6, 0.01))), np.asarray(density.shares(jnp.full(6, 0.998)))
    assert at[0][0] > 0.999 and at[1][1] > 0.999
    found = float(density.log_density(jnp.full(6, 0.01)))
    assert found == pytest.approx(math.log(0.7) - 6.0 - 6.0 * math.log(0.01), rel=1e-5)
