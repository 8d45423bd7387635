"""Networks for particles: symmetric to rounding, nothing before training, finite everywhere, able to learn."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from support.random_checks import must_fail
from support.tiny import quick_compilation
from tempering.diffusion.networks.egnn import EGNN
from tempering.diffusion.networks.pairs import SOFTENING, RadialFeatures, differences, lengths, pull
from tempering.diffusion.networks.particle_transformer import ParticleTransformer
from tempering.settings import Network
from tempering.transforms.centred import Centred

KINDS = [EGNN, ParticleTransformer]
TELLING = [EGNN, pytest.param(ParticleTransformer, marks=pytest.mark.slow)]
GEOMETRY = Centred(5, 3)
C_NOISE, C_TEMPERATURE, C_IN = jnp.asarray(-0.2), jnp.asarray(0.6), jnp.asarray(0.8)


@pytest.fixture(scope="module", autouse=True)
def compiled_quickly():
    with quick_compilation():
        yield


def settings_of(is_shared):
    return Network(width=16, depth=2, is_shared=is_shared)


def fresh(kind, geometry=GEOMETRY):
    return eqx.filter_jit(kind)(jax.random.key(0), geometry, settings_of(is_shared=False))


def awake(kind, geometry=GEOMETRY, is_shared=True, size=0.3, **kwargs):
    """All weights drawn at random, those that start at zero included; no initialiser is compiled."""
    rng = np.random.default_rng(4)
    shapes = eqx.filter_eval_shape(kind, jax.random.key(0), geometry, settings_of(is_shared), **kwargs)
    fill = lambda leaf: jnp.asarray(size * rng.normal(size=leaf.shape), leaf.dtype)  # noqa: E731
    return jax.tree.map(lambda leaf: fill(leaf) if isinstance(leaf, jax.ShapeDtypeStruct) else leaf, shapes)


@eqx.filter_jit
def call(network, x, c_temperature=C_TEMPERATURE):
    return network(x, C_NOISE, c_temperature, C_IN)


def point(geometry=GEOMETRY, seed=1):
    """No symmetry of its own."""
    return jnp.asarray(np.random.default_rng(seed).normal(size=geometry.dim), jnp.float32)


def moves_of(geometry):
    """A rotation by a generic matrix, a reflection, a permutation: maps of (particle, xyz) arrays."""
    rng = np.random.default_rng(2)
    axes = geometry.spatial_dim
    turn = np.linalg.qr(rng.normal(size=(axes, axes)))[0]
    turn[:, 0] *= np.sign(np.linalg.det(turn))
    mirror = np.diag([-1.0] + [1.0] * (axes - 1)) @ turn
    order = np.roll(np.arange(geometry.num_particles), 1)
    return {"rotation": lambda x: x @ turn.T, "reflection": lambda x: x @ mirror.T, "permutation": lambda x: x[order]}


def in_inner(geometry, move):
    """The map in inner coordinates: embed, move, restrict."""

    def moved(y):
        full = np.asarray(geometry.embed(y), np.float64).reshape(geometry.num_particles, -1)
        return geometry.restrict(jnp.asarray(move(full).reshape(-1), jnp.float32))

    return moved


def check_equivariance(function, geometry):
    y = point(geometry)
    plain = function(y)
    assert np.max(np.abs(plain)) > 1e-2
    for name, move in moves_of(geometry).items():
        moved = in_inner(geometry, move)
        scale = float(np.max(np.abs(plain)))
        np.testing.assert_allclose(function(moved(y)), moved(plain), atol=1e-5 * max(scale, 1.0), err_msg=name)


@pytest.mark.parametrize("geometry", [GEOMETRY, Centred(2, 2)], ids=["5 in 3-D", "2 in 2-D"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_output_turns_and_permutes_with_the_particles(kind, geometry):
    network = awake(kind, geometry)
    check_equivariance(lambda y: call(network, y), geometry)
    # What a network fed with absolute coordinates does: here one thousandth of a nonlinear function of them.
    must_fail(check_equivariance, lambda y: call(network, y) + 1e-3 * jnp.sin(3.0 * y), geometry)


@pytest.mark.parametrize("kind", KINDS)
def test_a_symmetry_broken_inside_is_seen(kind, monkeypatch):
    """The saboteur within: one axis counts a little more in every distance."""
    module = __import__(kind.__module__, fromlist=["lengths"])
    tilt = np.asarray([1.01, 1.0, 1.0], np.float32)[:, None, None]
    monkeypatch.setattr(module, "lengths", lambda difference: lengths(difference * tilt))
    network = awake(kind)
    function = jax.jit(lambda y: network(y, C_NOISE, C_TEMPERATURE, C_IN))  # `call` may hold the sound one compiled
    must_fail(check_equivariance, function, GEOMETRY)


@pytest.mark.parametrize("kind", TELLING)
def test_nothing_before_training(kind):
    output = call(fresh(kind), point())
    assert output.shape == (GEOMETRY.dim,) and output.dtype == jnp.float32
    np.testing.assert_array_equal(output, np.zeros(GEOMETRY.dim))


@pytest.mark.parametrize("kind", TELLING)
def test_only_a_shared_network_sees_the_temperature(kind):
    def change(is_shared):
        network = awake(kind, is_shared=is_shared)
        return np.max(np.abs(call(network, point()) - call(network, point(), jnp.asarray(0.1))))

    assert change(is_shared=True) > 1e-4
    assert change(is_shared=False) == 0.0


@pytest.mark.parametrize("kind", TELLING)
def test_coincident_particles_are_no_exception(kind):
    """Values, gradients in points and weights, forward derivatives: finite with two, and with all, in one place."""
    network = awake(kind)

    @eqx.filter_jit
    def everything(network, y, tangent):
        value, push = jax.linearize(lambda y: network(y, C_NOISE, C_TEMPERATURE, C_IN), y)
        by_weights = eqx.filter_grad(lambda network: jnp.sum(network(y, C_NOISE, C_TEMPERATURE, C_IN) ** 2))(network)
        by_point = jax.grad(lambda y: jnp.sum(network(y, C_NOISE, C_TEMPERATURE, C_IN) ** 2))(y)
        return value, push(tangent), by_weights, by_point

    pair = np.random.default_rng(5).normal(size=(5, 3))
    pair[1] = pair[0]
    together = GEOMETRY.restrict(jnp.asarray(pair.reshape(-1), jnp.float32))
    for y in (together, jnp.zeros_like(together), 1e-20 * point(), 1e4 * point()):
        found = jax.tree.leaves(everything(network, y, point(seed=3)))
        assert all(np.all(np.isfinite(leaf)) for leaf in found)


def test_the_norm_is_smooth_where_the_plain_one_is_not():
    x = jnp.asarray([[0.0, 0.0, 3.0], [0.0, 0.0, -4.0]])
    found = lengths(differences(x))
    np.testing.assert_allclose(found[0], [SOFTENING, SOFTENING, 5.0], rtol=1e-5)
    assert np.all(np.isfinite(jax.jacfwd(lambda x: lengths(differences(x)))(x)))
    must_fail(lambda: np.testing.assert_array_equal(np.isfinite(jax.jacfwd(_plain_norm)(x)), True))
    np.testing.assert_allclose(pull(jnp.ones((3, 3)), differences(x)), 3.0 * x - jnp.sum(x, axis=1, keepdims=True))


def _plain_norm(x):
    return jnp.sqrt(jnp.sum(differences(x) ** 2, axis=0))


def test_radial_features_are_of_physical_distances_and_bounded():
    radial = jax.jit(RadialFeatures(32, unit=1.0))
    size = RadialFeatures(32, unit=1.0).size
    length = jnp.asarray(np.geomspace(1e-3, 1e6, 16).reshape(4, 4), jnp.float32)
    features = np.asarray(radial(length, jnp.asarray(1.0)))
    assert features.shape == (size, 4, 4)
    np.testing.assert_array_equal(features[:, range(4), range(4)], np.zeros((size, 4)))
    assert np.all(np.isfinite(features)) and np.max(np.abs(features[:35])) <= 1.0
    slopes = jax.jit(jax.jacfwd(radial))(length, jnp.asarray(1.0))
    assert np.all(np.isfinite(slopes))
    # The same physical distance in another scale, and the same number of other units.
    bounded = slice(0, 36)  # the next one is the scaled distance itself
    np.testing.assert_allclose(radial(0.5 * length, jnp.asarray(0.5))[bounded], features[bounded], atol=2e-5)
    in_units = jax.jit(RadialFeatures(32, unit=2.0))(2.0 * length, jnp.asarray(1.0))
    np.testing.assert_allclose(in_units[bounded], features[bounded], atol=2e-5)
    walls = np.asarray(radial(jnp.full((2, 2), 0.9), jnp.asarray(1.0)))[32:35, 0, 1]
    np.testing.assert_allclose(walls, 1.0 / (1.0 + 4.0 * 0.9 ** np.array([2.0, 6.0, 12.0])), rtol=1e-5)


@pytest.mark.parametrize("kind", TELLING)
def test_half_precision_is_the_same_function_to_three_digits(kind):
    network, half = (awake(kind, size=0.2, is_half=is_half) for is_half in (False, True))
    full_output, half_output = call(network, point()), call(half, point())
    assert half_output.dtype == jnp.float32
    difference = np.max(np.abs(full_output - half_output)) / np.max(np.abs(full_output))
    assert 0.0 < difference < 0.03


def double_well_like(num):
    """Four particles in the plane near the corners of a square or of a rhombus, turned and relabelled at random."""
    rng = np.random.default_rng(6)
    shapes = np.array([[[2, 2], [2, -2], [-2, -2], [-2, 2]], [[0, 2], [3.5, 0], [0, -2], [-3.5, 0]]], float)
    angle = rng.uniform(0, 2 * np.pi, num)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]).transpose(2, 0, 1)
    chosen = shapes[rng.integers(2, size=num)] + 0.1 * rng.normal(size=(num, 4, 2))
    order = np.argsort(rng.uniform(size=(num, 4)), axis=1)
    return jnp.asarray((np.take_along_axis(chosen, order[:, :, None], axis=1) @ turn).reshape(num, 8), jnp.float32)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_tiny_network_learns_to_denoise(kind):
    """The loss at low and middling noise falls well below that of the best linear denoiser, which it starts from."""
    geometry = Centred(4, 2)
    data = jax.jit(jax.vmap(geometry.restrict))(double_well_like(512))
    sigma_data = float(jnp.std(data))

    def one(network, key, y):
        key_sigma, key_noise = jax.random.split(key)
        sigma = jnp.exp(jax.random.uniform(key_sigma, minval=np.log(0.1).item(), maxval=np.log(2.0).item()))
        c_in = 1.0 / jnp.sqrt(sigma**2 + sigma_data**2)
        noisy = y + sigma * jax.random.normal(key_noise, y.shape)
        wanted = (y - (sigma_data * c_in) ** 2 * noisy) / (sigma * sigma_data * c_in)
        return jnp.mean((network(c_in * noisy, jnp.log(sigma) / 4.0, jnp.zeros(()), c_in) - wanted) ** 2)

    def loss(weights, rest, key):
        network = eqx.combine(weights, rest)
        key_pick, key_noise = jax.random.split(key)
        batch = data[jax.random.randint(key_pick, (64,), 0, data.shape[0])]
        return jnp.mean(jax.vmap(lambda key, y: one(network, key, y))(jax.random.split(key_noise, 64), batch))

    optimiser = optax.adam(3e-3)

    @eqx.filter_jit
    def train(network, key):
        weights, rest = eqx.partition(network, eqx.is_inexact_array)

        def step(carry, key):
            weights, state = carry
            value, grad = jax.value_and_grad(loss)(weights, rest, key)
            with jax.numpy_dtype_promotion("standard"):  # Adam's bias correction raises a float to an integer power
                updates, state = optimiser.update(grad, state)
            return (optax.apply_updates(weights, updates), state), value

        return jax.lax.scan(step, (weights, optimiser.init(weights)), jax.random.split(key, 200))[1]

    losses = np.asarray(train(fresh(kind, geometry), jax.random.key(7)))
    before, after = losses[:3].mean(), losses[-40:].mean()
    assert after < 0.7 * before, f"loss {before:.3f} -> {after:.3f}"
