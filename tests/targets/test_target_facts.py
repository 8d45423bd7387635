"""The facts of targets against quadrature, closed forms and the published figures."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import multivariate_normal, norm

from support.random_checks import assert_mean, assert_same_distribution_ks, must_fail
from tempering.targets import Gaussian, GaussianMixture, ManyWell, anisotropic_gaussian, mog40


@eqx.filter_jit
def _on_grid(target, points):
    return jax.vmap(target.log_density)(points), jax.vmap(target.region_indicators)(points)


def _quadrature(target, reach, num):
    """log Z, mean, E|x|^2 and region weights in 2-D by the trapezoid rule, which is spectral for what has died away."""
    axis = np.linspace(-reach, reach, num)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    log_densities, indicators = (np.asarray(v, np.float64) for v in _on_grid(target, jnp.asarray(grid)))
    mass = np.exp(log_densities) * (axis[1] - axis[0]) ** 2
    share = mass / mass.sum()
    return np.log(mass.sum()), share @ grid, share @ np.sum(grid**2, axis=1), share @ indicators


def test_facts_by_quadrature(target_in_2d):
    log_z, mean, second_moment, weights = _quadrature(target_in_2d, reach=10.0, num=700)
    np.testing.assert_allclose(log_z, target_in_2d.log_z(), atol=2e-5)
    np.testing.assert_allclose(mean, target_in_2d.mean(), atol=2e-5)
    np.testing.assert_allclose(second_moment, target_in_2d.second_moment(), rtol=2e-5)
    # Hard edges between the nodes of the grid cost up to one column of mass.
    np.testing.assert_allclose(
        weights, target_in_2d.region_weights(), atol=1e-5 if target_in_2d.regions_partition else 8e-3
    )


def test_mog40_by_quadrature():
    log_z, mean, second_moment, weights = _quadrature(mog40(), reach=48.0, num=300)
    np.testing.assert_allclose(log_z, 0.0, atol=2e-5)
    np.testing.assert_allclose(mean, mog40().mean(), atol=2e-4)
    np.testing.assert_allclose(second_moment, mog40().second_moment(), rtol=2e-5)
    np.testing.assert_allclose(weights, np.full(40, 1 / 40), atol=1e-5)


def test_quadrature_catches_a_wrong_constant():
    """The saboteur of the log Z checks: the normaliser of a Gaussian without its determinant."""
    honest = Gaussian([0.7, -1.1], [[1.5, 0.9], [0.9, 1.0]])
    log_z, *_ = _quadrature(honest, reach=10.0, num=300)
    determinant = np.linalg.det([[1.5, 0.9], [0.9, 1.0]])
    assert abs(log_z - (honest.log_z() + 0.5 * np.log(determinant))) > 1e-2


def test_mog40_is_the_papers():
    target = mog40()
    np.testing.assert_allclose(target.means[:2], [[-0.2995, 21.4577], [-32.9218, -29.4376]], atol=1e-4)
    np.testing.assert_allclose(target.choleskys, np.broadcast_to(1.3132616 * np.eye(2), (40, 2, 2)), atol=1e-6)
    assert target.dim == 2 and target.log_z() == 0.0 and np.all(np.abs(target.means) < 40)
    np.testing.assert_allclose(target.second_moment(), 1071.370, atol=1e-3)


def test_many_well_32_is_the_papers():
    target = ManyWell()
    assert target.dim == 32 and target.num_wells == 16
    np.testing.assert_allclose(target.log_z(), 164.696, atol=5e-4)
    np.testing.assert_allclose(target.second_moment(), 63.3569, atol=1e-4)
    np.testing.assert_allclose(target.region_weights(), 0.844307, atol=1e-6)


def test_many_well_by_another_quadrature():
    def integrate(f):
        parts = [quad(lambda u: f(u) * np.exp(0.5 * u + 6 * u**2 - u**4), a, b)[0] for a, b in ((-4, 0), (0, 4))]
        return np.array(parts)

    mass = integrate(lambda u: 1.0)
    first, second = integrate(lambda u: u).sum() / mass.sum(), integrate(lambda u: u * u).sum() / mass.sum()
    for dim in (2, 8):
        target = ManyWell(dim)
        np.testing.assert_allclose(target.log_z(), dim / 2 * (np.log(mass.sum()) + 0.5 * np.log(2 * np.pi)), rtol=1e-9)
        np.testing.assert_allclose(target.mean(), np.tile([first, 0.0], dim // 2), rtol=1e-6)
        np.testing.assert_allclose(target.second_moment(), dim / 2 * (second + 1), rtol=1e-9)
        np.testing.assert_allclose(target.region_weights(), mass[1] / mass.sum(), rtol=1e-6)


def test_many_well_is_a_product_of_wells():
    x = jax.random.normal(jax.random.key(0), (8,)) * 2
    pairs = [ManyWell(2).log_density(x[i : i + 2]) for i in (0, 2, 4, 6)]
    np.testing.assert_allclose(ManyWell(8).log_density(x), sum(pairs), rtol=1e-5)
    assert ManyWell(2).log_density(jnp.array([1.5, 0.5])) == pytest.approx(0.75 + 13.5 - 5.0625 - 0.125)


def test_many_well_coordinates_have_their_distribution():
    grid = np.linspace(-4, 4, 40_001)
    density = np.exp(0.5 * grid + 6 * grid**2 - grid**4)
    table = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])

    def cdf(u):
        return np.interp(u, grid, table / table[-1])

    points = np.asarray(ManyWell(4).sample(jax.random.key(5), 40_000), np.float64)
    for u, v in ((0, 1), (2, 3)):
        assert_same_distribution_ks(points[:, u], cdf, key=5)
        assert_same_distribution_ks(points[:, v], norm.cdf, key=5)
        assert_mean(points[:, u] * points[:, v], 0.0, name="correlation inside a well", key=5)
    assert_mean(points[:, 0] * points[:, 2], ManyWell(4).mean()[0] ** 2, name="correlation of wells", key=5)
    saboteurs = (-points[:, 0], points[:, 0] + 0.02, points[:, 1])
    for broken in saboteurs:
        must_fail(assert_same_distribution_ks, broken, cdf)


def test_densities_agree_with_scipy():
    gaussian = anisotropic_gaussian(4, seed=2)
    points = np.asarray(gaussian.sample(jax.random.key(0), 50), np.float64)
    expected = multivariate_normal.logpdf(points, gaussian.mean(), gaussian.covariance()) + gaussian.log_z()
    np.testing.assert_allclose(jax.vmap(gaussian.log_density)(jnp.asarray(points)), expected, rtol=1e-5, atol=2e-5)

    means, covariances = np.array([[0.0, 1.0], [4.0, -2.0]]), np.array([[[1, 0.5], [0.5, 2]], [[0.2, 0], [0, 3]]])
    mixture = GaussianMixture(means, weights=[1.0, 3.0], covariances=covariances)
    points = np.asarray(mixture.sample(jax.random.key(0), 50), np.float64) + 1.0
    parts = [
        w * multivariate_normal.pdf(points, m, c) for w, m, c in zip([0.25, 0.75], means, covariances, strict=True)
    ]
    computed = jax.vmap(mixture.log_density)(jnp.asarray(points))
    np.testing.assert_allclose(computed, np.log(np.sum(parts, axis=0)), rtol=1e-5, atol=2e-5)
    responsibilities = jax.vmap(mixture.region_indicators)(jnp.asarray(points))
    np.testing.assert_allclose(responsibilities, (parts / np.sum(parts, axis=0)).T, rtol=1e-4, atol=1e-6)


def test_stds_and_covariances_are_two_spellings():
    means, stds = np.array([[0.0, 1.0], [2.0, -1.0]]), np.array([0.5, 2.0])
    short = GaussianMixture(means, stds)
    full = GaussianMixture(means, covariances=stds[:, None, None] ** 2 * np.eye(2)[None])
    one = GaussianMixture(means, 0.5)
    x = jnp.array([0.3, 0.4])
    np.testing.assert_allclose(short.log_density(x), full.log_density(x), rtol=1e-6)
    assert one.choleskys.shape == (2, 2, 2)
    assert short.second_moment() == pytest.approx(0.5 * (1 + 0.5 + 5 + 8))


def test_one_component_is_a_gaussian():
    gaussian = Gaussian([1.0, -2.0], [[2.0, 0.7], [0.7, 1.0]], log_constant=0.4)
    mixture = GaussianMixture([[1.0, -2.0]], covariances=[[[2.0, 0.7], [0.7, 1.0]]], log_constant=0.4)
    x = jnp.array([0.3, 0.4])
    np.testing.assert_allclose(mixture.log_density(x), gaussian.log_density(x), rtol=1e-6)
    assert mixture.second_moment() == pytest.approx(gaussian.second_moment())
