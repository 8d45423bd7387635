"""FAB: its flow is a density, AIS is unbiased, the buffer draws by weight, and the loss is that of its divergence."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.random_checks import assert_fraction, assert_mean, must_fail
from tempering.baselines.contract import row_keys
from tempering.baselines.fab import FAB, Buffer, ais, buffer_loss
from tempering.baselines.flow import Flow
from tempering.baselines.optimise import clipped_by_median
from tempering.kernels import HMC, RandomWalk
from tempering.settings import FABSettings
from tempering.targets import Target

KEY = jax.random.key(11)


class Normal(Target):
    """N(mean, variance I) times e^shift."""

    dim: int = eqx.field(static=True)
    mean: float
    variance: float
    shift: float

    def log_density(self, x):
        log_z = 0.5 * self.dim * jnp.log(2 * jnp.pi * self.variance)
        return -0.5 * jnp.sum((x - self.mean) ** 2) / self.variance - log_z + self.shift


new_flow = eqx.filter_jit(Flow)


def disturbed(flow: Flow, scale: float = 0.3) -> Flow:
    """The flow with random numbers added to all of it: at the start it is the identity."""
    arrays, rest = eqx.partition(flow, eqx.is_inexact_array)
    leaves, tree = jax.tree.flatten(arrays)
    rng = np.random.default_rng(11)
    moved = [leaf + np.asarray(scale * rng.standard_normal(leaf.shape), leaf.dtype) for leaf in leaves]
    return eqx.combine(jax.tree.unflatten(tree, moved), rest)


@pytest.mark.parametrize(
    ("dim", "is_mixing"),
    [(3, True), (2, False), *(pytest.param(*case, marks=pytest.mark.slow) for case in ((2, True), (3, False)))],
)
def test_a_flow_is_the_density_of_its_draws(dim, is_mixing):
    flow = disturbed(new_flow(KEY, dim, 3, 8, 2, is_mixing))
    noise = jax.random.normal(jax.random.key(3), (dim,))
    # By the change of variables, with the Jacobian of the draw itself.
    jacobian, x = eqx.filter_jit(lambda z: (jax.jacfwd(lambda z: _drawn_from(flow, z))(z), _drawn_from(flow, z)))(noise)
    expected = np.sum(-0.5 * np.asarray(noise) ** 2 - 0.5 * np.log(2 * np.pi)) - np.linalg.slogdet(jacobian)[1]
    log_density = eqx.filter_jit(lambda flow, x: flow.log_density(x))
    assert log_density(flow, x) == pytest.approx(float(expected), abs=2e-4)
    wrong = eqx.tree_at(lambda own: own.log_scale, flow, flow.log_scale + 0.01)
    assert log_density(wrong, x) != pytest.approx(float(expected), abs=2e-4)


def _drawn_from(flow, z):
    arrays, rest = eqx.partition(flow.layers, eqx.is_array)
    start = flow.location + jnp.exp(flow.log_scale) * z
    return jax.lax.scan(lambda z, layer: (eqx.combine(layer, rest).outward(z), None), start, arrays, reverse=True)[0]


def test_a_flow_integrates_to_one():
    flow = disturbed(new_flow(KEY, 2, 3, 8, 2, True), 0.15)
    axis = np.linspace(-14.0, 14.0, 281, dtype=np.float32)
    points = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    density = np.exp(jax.jit(jax.vmap(flow.log_density))(points))
    assert float(np.sum(density) * 0.1**2) == pytest.approx(1.0, abs=2e-3)


@pytest.fixture(scope="module")
def flow():
    flow = new_flow(KEY, 2, 1, 4, 1, False)
    return eqx.tree_at(lambda own: own.log_scale, flow, jnp.full((2,), jnp.log(1.5)))


def _weights(flow, kernel, alpha, target, num=6000, num_levels=3):
    run = eqx.filter_jit(
        lambda keys: jax.vmap(lambda key: ais(key, flow, target, kernel, jnp.full((num_levels,), 0.5), alpha, 1))(keys)
    )
    states, log_weights, accepted = run(jax.random.split(jax.random.key(5), num))
    return states, np.asarray(log_weights), accepted


@pytest.mark.parametrize(
    "kernel", [pytest.param(RandomWalk(), marks=pytest.mark.slow), HMC(2)], ids=["random walk", "hmc"]
)
def test_weights_of_ais_are_unbiased(flow, kernel):
    target = Normal(2, 0.5, 1.2, 0.7)
    _, log_weights, accepted = _weights(flow, kernel, 1.0, target)
    assert_mean(np.exp(log_weights), np.exp(0.7), name="Z of AIS with alpha = 1")
    must_fail(assert_mean, np.exp(log_weights), np.exp(0.6), name="another Z")
    assert 0.1 < float(jnp.mean(accepted)) <= 1.0
    # alpha = 2: the integral of p^2 / q, each coordinate a Gaussian integral.
    _, log_weights, _ = _weights(flow, kernel, 2.0, target)
    expected = _square_over(0.5, 1.2, 0.0, 1.5**2) ** 2 * np.exp(2 * 0.7)
    assert_mean(np.exp(log_weights), expected, name="the integral of p^2 / q")
    must_fail(assert_mean, np.exp(log_weights), np.exp(0.7), name="Z in its place")


def _square_over(mean, variance, mean_q, variance_q):
    """The integral of N(mean, variance)^2 / N(mean_q, variance_q) over a line, by quadrature."""
    x = np.linspace(-30, 30, 200_001)
    log_p = -0.5 * (x - mean) ** 2 / variance - 0.5 * np.log(2 * np.pi * variance)
    log_q = -0.5 * (x - mean_q) ** 2 / variance_q - 0.5 * np.log(2 * np.pi * variance_q)
    return np.trapezoid(np.exp(2 * log_p - log_q), x)


def test_weights_of_the_flow_are_unbiased(flow):
    target = Normal(2, 0.5, 1.2, 0.7)
    drawn = eqx.filter_jit(FAB().draw_weighted)(row_keys(KEY, 6000), flow, target, FABSettings())
    assert_mean(np.exp(np.asarray(drawn.log_weight)), np.exp(0.7), name="Z of the flow's weights")
    must_fail(assert_mean, np.exp(np.asarray(drawn.log_weight)), np.exp(0.9), name="another Z")


def test_the_loss_has_the_gradient_of_its_divergence(flow):
    """On draws of p^2 / q_old the gradient is that of the integral of p^2 / q, over that of p^2 / q_old."""
    variance, old = 1.0, 1.5**2
    width = np.sqrt(1 / (2 / variance - 1 / old))
    points = width * jax.random.normal(jax.random.key(2), (40_000, 2))
    log_q_old = jax.jit(jax.vmap(flow.log_density))(points)
    new = jnp.array([0.3, 0.0]), jnp.log(jnp.array([1.7, 1.4]))
    moved = eqx.tree_at(lambda own: (own.location, own.log_scale), flow, new)

    def gradients(alpha):
        def of_one(point, log_q):
            loss = lambda own: buffer_loss(own, point[None], log_q[None], alpha, None, jnp.ones(1, bool))[0]  # noqa: E731
            gradient = eqx.filter_grad(loss)(moved)
            return jnp.concatenate([gradient.location, gradient.log_scale])

        return np.asarray(jax.jit(jax.vmap(of_one))(points, log_q_old))

    def divergence(mean, log_scale):
        parts = [_square_over(0.0, variance, mean[k], np.exp(2 * log_scale[k])) for k in (0, 1)]
        return parts[0] * parts[1] / _square_over(0.0, variance, 0.0, old) ** 2

    mean, log_scale, step = np.array([0.3, 0.0]), np.log([1.7, 1.4]), 1e-4
    expected = []
    for vector in (mean, log_scale):
        for k in (0, 1):
            vector[k] += step
            up = divergence(mean, log_scale)
            vector[k] -= 2 * step
            expected.append((up - divergence(mean, log_scale)) / (2 * step))
            vector[k] += step
    assert_mean(gradients(2.0), np.array(expected), name="gradient of the divergence")
    must_fail(assert_mean, gradients(1.0), np.array(expected), name="without the correction for the flow's change")


def test_large_corrections_are_clipped(flow):
    points = jnp.zeros((4, 2))
    log_q = jax.vmap(flow.log_density)(points)
    all_weigh = jnp.ones(4, bool)
    loss, (_, change) = buffer_loss(flow, points, log_q + 5.0, 2.0, 10.0, all_weigh)
    np.testing.assert_allclose(change, 5.0, rtol=1e-5)
    assert float(loss) == pytest.approx(-10.0 * float(log_q[0]), rel=1e-5)
    unclipped, _ = buffer_loss(flow, points, log_q + 5.0, 2.0, None, all_weigh)
    assert float(unclipped) == pytest.approx(-float(np.exp(5.0) * log_q[0]), rel=1e-4)


def test_points_without_weight_teach_nothing(flow):
    points = jnp.array([[0.2, -0.5], [40.0, 3.0], [jnp.nan, 1.0], [-0.3, 0.1]])
    is_weighing, log_q = jnp.array([True, False, False, True]), jnp.full(4, -2.0)

    @eqx.filter_jit
    @eqx.filter_value_and_grad
    def of(flow, points, log_q, is_weighing):
        return buffer_loss(flow, points, log_q, 2.0, 10.0, is_weighing)[0]

    loss, gradient = of(flow, points, log_q, is_weighing)
    alone, expected = of(flow, points[jnp.array([0, 3])], log_q[:2], jnp.ones(2, bool))
    assert float(loss) == pytest.approx(0.5 * float(alone), rel=1e-5)
    np.testing.assert_allclose(gradient.log_scale, 0.5 * expected.log_scale, rtol=1e-5)
    believed, _ = of(flow, points[:2], log_q[:2], jnp.ones(2, bool))  # the saboteur: the far point counts
    assert abs(float(believed) - float(alone)) > 1.0


def test_the_buffer_draws_by_weight_and_forgets_the_oldest():
    buffer = Buffer.empty(6, 1)
    fill = lambda value: (jnp.full((2, 1), value), jnp.log(jnp.array([1.0, 3.0])), jnp.zeros(2))  # noqa: E731
    buffer = buffer.added(*fill(1.0)).added(*fill(2.0))
    chosen = jax.vmap(lambda key: buffer.chosen(key, 1, 1)[0, 0])(jax.random.split(KEY, 4000))
    assert set(np.unique(chosen)) == {0, 1, 2, 3}, "empty places are never drawn"
    assert_fraction(np.isin(chosen, (1, 3)), 0.75, name="draws of the heavier points")
    must_fail(assert_fraction, np.isin(chosen, (1, 3)), 0.5, name="draws without weights")
    both = np.asarray(buffer.chosen(KEY, 2, 2))
    assert len(np.unique(both)) == 4, "without replacement"
    buffer = buffer.added(*fill(3.0)).added(*fill(4.0))
    np.testing.assert_array_equal(buffer.position[:, 0], [4, 4, 2, 2, 3, 3])
    spoilt = buffer.updated(jnp.array([0, 1]), jnp.array([0.5, jnp.nan]), jnp.array([0.25, 0.0]))
    assert float(spoilt.log_weight[0]) == 0.25 and float(spoilt.log_weight[1]) == -np.inf


def test_gradients_are_clipped_by_the_median_of_those_before():
    clip = clipped_by_median(10)
    state = clip.init(None)
    for _ in range(10):
        updates, state = clip.update({"a": jnp.array([1.0])}, state)
        assert float(updates["a"][0]) == 1.0
    assert float(clip.update({"a": jnp.array([5.0])}, state)[0]["a"][0]) == pytest.approx(2.0)
    assert float(clip.update({"a": jnp.array([11.0])}, state)[0]["a"][0]) == 0.0
    assert float(clip.update({"a": jnp.array([jnp.nan])}, state)[0]["a"][0]) == 0.0
