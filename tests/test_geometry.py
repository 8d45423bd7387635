"""The coordinates of centred particles against a brute-force basis of the subspace, with a basis that is none."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.random_checks import assert_mean, must_fail
from tempering.errors import SettingsError
from tempering.transforms import centred as geometry
from tempering.transforms.centred import Centred

SHAPES = [(2, 1), (2, 3), (4, 2), (13, 3), (55, 3)]


def _projector(num_particles, spatial_dim):
    """Onto centred configurations, (nd, nd): (I - 11^T / n) kron I_d."""
    centring = np.eye(num_particles) - 1 / num_particles
    return np.kron(centring, np.eye(spatial_dim))


def _brute_force_basis(num_particles, spatial_dim):
    """The first (n-1)d columns of a QR factorisation of the projector, its columns in an order of full rank."""
    projector = _projector(num_particles, spatial_dim)
    q, _ = np.linalg.qr(projector[:, : (num_particles - 1) * spatial_dim])
    return q


def _matrix(centred):
    """embed as a matrix, (full_dim, dim), column by column."""
    return np.asarray(jax.vmap(centred.embed)(jnp.eye(centred.dim)), np.float64).T


def _check_spans_the_subspace(matrix, num_particles, spatial_dim):
    basis = _brute_force_basis(num_particles, spatial_dim)
    assert matrix.shape == basis.shape
    # The change of basis is orthogonal if and only if both are orthonormal bases of one subspace.
    change = basis.T @ matrix
    np.testing.assert_allclose(change @ change.T, np.eye(basis.shape[1]), atol=2e-6)
    np.testing.assert_allclose(matrix.T @ matrix, np.eye(basis.shape[1]), atol=2e-6)
    np.testing.assert_allclose(matrix @ matrix.T, _projector(num_particles, spatial_dim), atol=2e-6)


@pytest.mark.parametrize("shape", SHAPES)
def test_embedding_is_an_orthonormal_basis_of_centred_configurations(shape):
    centred = Centred(*shape)
    assert centred.full_dim == shape[0] * shape[1] and centred.dim == centred.full_dim - shape[1]
    _check_spans_the_subspace(_matrix(centred), *shape)


def _one_particle_dropped(num_particles, spatial_dim):
    """Relative coordinates to the last particle, centred but not orthonormal."""
    dim = (num_particles - 1) * spatial_dim
    return _projector(num_particles, spatial_dim)[:, :dim]


def _not_centred(num_particles, spatial_dim):
    """Orthonormal, but the last particle rests at the origin."""
    return np.eye(num_particles * spatial_dim)[:, : (num_particles - 1) * spatial_dim]


@pytest.mark.parametrize("make", [_one_particle_dropped, _not_centred])
@pytest.mark.parametrize("shape", SHAPES)
def test_other_coordinates_are_caught(make, shape):
    must_fail(_check_spans_the_subspace, make(*shape), *shape)


@pytest.mark.parametrize("shape", SHAPES)
def test_there_and_back(shape):
    centred = Centred(*shape)
    rng = np.random.default_rng(3)
    y = jnp.asarray(rng.normal(1.0, 2.0, centred.dim), jnp.float32)
    x = jnp.asarray(rng.normal(-3.0, 2.0, centred.full_dim), jnp.float32)
    np.testing.assert_allclose(centred.restrict(centred.embed(y)), y, atol=5e-6)
    np.testing.assert_allclose(np.linalg.norm(centred.embed(y)), np.linalg.norm(y), rtol=1e-6)
    particles = np.asarray(x).reshape(shape)
    projected = (particles - particles.mean(axis=0)).reshape(-1)
    np.testing.assert_allclose(centred.embed(centred.restrict(x)), projected, atol=1e-5)


def test_the_place_of_the_configuration_costs_no_accuracy():
    centred = Centred(5, 3)
    x = np.random.default_rng(4).normal(size=(5, 3)).astype(np.float32)
    moved = (x + np.float32(1024.0)).astype(np.float32)  # what rounding leaves of x is part of `moved`
    expected = _matrix(centred).T @ moved.astype(np.float64).reshape(-1)
    np.testing.assert_allclose(centred.restrict(jnp.asarray(moved.reshape(-1))), expected, atol=2e-4)
    y = centred.restrict(jnp.asarray(moved.reshape(-1)))
    np.testing.assert_allclose(np.linalg.norm(y), np.linalg.norm(moved - moved.mean(axis=0)), rtol=2e-6)


def test_isotropic_noise_is_centred_noise():
    """Noise in y has the projector as its covariance in x; noise in x that forgets the subspace has not."""
    centred = Centred(3, 2)
    projector = _projector(3, 2)
    noise = jax.random.normal(jax.random.key(5), (20_000, centred.dim))
    full = np.asarray(jax.random.normal(jax.random.key(6), (20_000, centred.full_dim)))
    products = [(i, j) for i in range(6) for j in range(i + 1)]
    expected = [projector[i, j] for i, j in products]

    def check(x):
        assert_mean(np.stack([x[:, i] * x[:, j] for i, j in products], axis=1), expected, name="covariance", key=5)

    check(np.asarray(jax.vmap(centred.embed)(noise), np.float64))
    must_fail(check, full)


def test_density_of_a_normal_counts_the_subspace():
    """The trace of the projector, the volume of embed: (n-1)d and 1, not nd."""
    centred = Centred(4, 2)
    jacobian = np.asarray(jax.jacfwd(centred.embed)(jnp.zeros(centred.dim)), np.float64)
    np.testing.assert_allclose(np.linalg.slogdet(jacobian.T @ jacobian)[1], 0.0, atol=1e-5)
    centring = jax.jacrev(lambda x: centred.embed(centred.restrict(x)))(jnp.zeros(centred.full_dim))
    np.testing.assert_allclose(np.trace(centring), centred.dim, atol=1e-5)


def test_the_basis_is_helmerts():
    np.testing.assert_allclose(geometry._helmert(2)[:, 0], [0.5**0.5, -(0.5**0.5)])
    np.testing.assert_allclose(geometry._helmert(4)[:, 2], np.array([1.0, 1.0, 1.0, -3.0]) / 12**0.5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Centred(1, 3), "single particle"),
        (lambda: Centred(0, 3), "at least 2"),
        (lambda: Centred(True, 3), "at least 2"),
        (lambda: Centred(4, 0), "spatial_dim = 0"),
        (lambda: Centred(4, -1), "at least 1"),
        (lambda: Centred(4, 2).embed(jnp.zeros(8)), r"\(6,\)"),
        (lambda: Centred(4, 2).restrict(jnp.zeros(6)), r"\(8,\)"),
        (lambda: jax.eval_shape(Centred(4, 2).restrict, jnp.zeros(9)), r"\(9,\); 4 particles in 2-D"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(SettingsError, match=message):
        make()
