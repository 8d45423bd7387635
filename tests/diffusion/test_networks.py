"""Networks: what they depend on, what they are before training, and the layer they are made of."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.random_checks import must_fail
from support.tiny import quick_compilation
from tempering.diffusion.networks import Embedding, make_network
from tempering.diffusion.networks.linear import Linear
from tempering.diffusion.networks.mlp import CoordinateBranch
from tempering.settings import Network

X, C_NOISE, C_TEMPERATURE = jnp.array([0.1, -0.4, 1.0]), jnp.asarray(-0.3), jnp.asarray(0.6)


@pytest.fixture(scope="module", autouse=True)
def compiled_quickly():
    with quick_compilation():
        yield


def awake(tree):
    """All weights moved at random, those that start at zero included."""
    rng = np.random.default_rng(9)
    arrays, rest = eqx.partition(tree, eqx.is_inexact_array)
    moved = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf) + 0.3 * rng.normal(size=leaf.shape)), arrays)
    return eqx.combine(moved, rest)


@eqx.filter_jit
def call(function, *args):
    """Compiled, because a network run operation by operation takes seconds."""
    return function(*args)


def network_of(**kwargs):
    return eqx.filter_jit(make_network)(jax.random.key(0), 3, Network(width=8, depth=2, **kwargs))


@pytest.mark.parametrize("kind", ["mlp", "residual"])
def test_only_a_shared_network_sees_the_temperature(kind):
    def by_temperature(network):
        return eqx.filter_jit(jax.jacfwd(network.__call__, 2))(X, C_NOISE, C_TEMPERATURE)

    assert np.all(np.abs(by_temperature(awake(network_of(kind=kind, is_shared=True)))) > 1e-6)
    np.testing.assert_array_equal(by_temperature(awake(network_of(kind=kind, is_shared=False))), np.zeros(3))


def check_coordinatewise(function):
    """The Jacobian is diagonal, and no coordinate is left out."""
    jacobian = np.asarray(eqx.filter_jit(jax.jacfwd(function))(X))
    np.testing.assert_array_equal(jacobian - np.diag(np.diag(jacobian)), np.zeros((3, 3)))
    assert np.all(np.abs(np.diag(jacobian)) > 1e-6)


def test_the_branch_sees_every_coordinate_alone():
    branch = eqx.filter_jit(CoordinateBranch)(jax.random.key(1), 3, 5, 4)
    features = jnp.array([0.3, -1.0, 0.5, 2.0])
    np.testing.assert_array_equal(call(branch, X, features), np.zeros(3))  # nothing before training
    trained = awake(branch)
    check_coordinatewise(lambda x: trained(x, features))
    assert np.all(np.abs(call(trained, X, features + 1.0) - call(trained, X, features)) > 1e-6)
    must_fail(check_coordinatewise, lambda x: trained(x, features) + 1e-3 * jnp.sum(x))


def test_the_residual_network_adds_the_branch():
    network = network_of(coordinate_width=5)
    np.testing.assert_array_equal(call(network, X, C_NOISE, C_TEMPERATURE), np.zeros(3))
    assert network_of(coordinate_width=0).coordinates is None
    trained = awake(network)
    features = trained.embedding(C_NOISE, C_TEMPERATURE)
    without = eqx.tree_at(lambda tree: tree.coordinates, trained, None)
    alone = call(trained.coordinates, X, features)
    expected = call(without, X, C_NOISE, C_TEMPERATURE) + alone
    np.testing.assert_allclose(call(trained, X, C_NOISE, C_TEMPERATURE), expected, rtol=1e-4, atol=1e-5)
    assert np.all(np.abs(alone) > 1e-6)


def test_features_tell_noise_levels_and_temperatures_apart():
    conditioned, plain = Embedding(True), Embedding(False)
    assert conditioned.size == 34 and plain.size == 33
    features = np.asarray(conditioned(C_NOISE, C_TEMPERATURE))
    assert features.shape == (34,) and features[0] == C_NOISE and features[-1] == C_TEMPERATURE
    np.testing.assert_array_equal(plain(C_NOISE, C_TEMPERATURE), features[:-1])


def test_the_linear_layer_is_affine():
    layer = Linear(3, 2, key=jax.random.key(0))
    assert layer.weight.shape == (3, 2) and np.all(np.abs(layer.weight) <= 3**-0.5)
    np.testing.assert_allclose(layer(X), np.asarray(layer.weight).T @ np.asarray(X) + layer.bias, rtol=1e-5)
    np.testing.assert_array_equal(layer.zeroed()(X), np.zeros(2))
