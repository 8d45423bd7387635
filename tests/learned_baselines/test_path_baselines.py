"""DDS, CMCD and their trust regions: exact weights, exact controls, derivatives, and what they cost."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from support.counting import counting_target
from support.random_checks import assert_mean, must_fail
from tempering.baselines.cmcd import CMCD
from tempering.baselines.contract import Cost
from tempering.baselines.dds import DDS, DDSProcess, steps_of
from tempering.baselines.paths import Look, log_weight, look, look_twice, walk
from tempering.baselines.trust_region import divergence, log_variance, region
from tempering.errors import SettingsError
from tempering.settings import CMCDSettings, DDSSettings
from tempering.targets import Target
from tempering.targets.base import evaluate
from tempering.targets.densities.gaussian import Gaussian
from tempering.targets.densities.gaussian_mixture import GaussianMixture
from tempering.targets.densities.particles import dw4

SMALL = {"num_path_steps": 6, "batch_size": 8, "update_size": 4, "num_updates": 2, "width": 8, "init_std": 1.3}
METHODS = {"dds": (DDS(), DDSSettings), "cmcd": (CMCD(), CMCDSettings)}
LOG_Z = 0.7


def target() -> Gaussian:
    return Gaussian([0.5, -0.3], [[1.2, 0.3], [0.3, 0.8]], log_constant=LOG_Z)


def process_of(name: str, seed: int = 0, size: float = 0.1):
    """A process whose control is random."""
    method, kind = METHODS[name]
    settings = kind(**{**SMALL, "num_path_steps": 24, "loss": "tr_lv"})

    @eqx.filter_jit
    def made(key, key_move):
        process = method.process(key, 2, settings)
        leaves, tree = jax.tree.flatten(process.control)
        keys = jax.random.split(key_move, len(leaves))
        moved = [leaf + size * jax.random.normal(key, leaf.shape) for leaf, key in zip(leaves, keys, strict=True)]
        return eqx.tree_at(lambda one: one.control, process, jax.tree.unflatten(tree, moved))

    return made(jax.random.key(seed), jax.random.key(seed + 1))


def walks_of(process, num: int, key: int = 3):
    one = lambda key: walk(key, process, target())  # noqa: E731
    return eqx.filter_jit(jax.vmap(one))(jax.random.split(jax.random.key(key), num))


class Constant(eqx.Module):
    """A control that depends on the step alone."""

    values: jax.Array

    def __call__(self, k, x, gradient):
        return self.values[k]


class Shifted(eqx.Module):
    """A process that starts about another mean."""

    inner: DDSProcess
    mean: jax.Array

    @property
    def num_steps(self):
        return self.inner.num_steps

    def start(self, key):
        return self.mean + self.inner.start(key)

    def log_start(self, x):
        return self.inner.log_start(x - self.mean)

    def move(self, *args):
        return self.inner.move(*args)

    def log_ratio(self, *args):
        return self.inner.log_ratio(*args)

    def cost(self, *args):
        return self.inner.cost(*args)


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_a_process_that_is_ready_is_the_same(name):
    """Tables of what depends on the step alone change neither the kernels nor their derivatives."""
    method, kind = METHODS[name]
    process = eqx.filter_jit(method.process)(jax.random.key(0), 2, kind(width=8, num_path_steps=5))
    control = jax.tree.map(lambda leaf: leaf + 0.1, process.control)
    process = eqx.tree_at(lambda own: own.control, process, control)
    x, gradient, noise = (jnp.asarray(pair) for pair in ([0.3, -0.2], [3.0, -2.0], [0.5, 1.0]))

    def told(process, is_ready, k):
        process = process.ready() if is_ready else process
        there, innovation = process.move(k, x, gradient, noise)
        looks = Look(x, jnp.zeros(()), gradient), Look(there, jnp.zeros(()), 0.5 * gradient)
        return jnp.sum(there) + process.log_ratio(k, looks[0], innovation, looks[1])

    of = eqx.filter_jit(eqx.filter_value_and_grad(told))
    for k in (0, 4):  # CMCD goes back from the last one by the control of a step that is not there
        plain, ready = (of(process, is_ready, jnp.asarray(k)) for is_ready in (False, True))
        jax.tree.map(lambda a, b: np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-4), plain, ready)


@pytest.mark.parametrize(("name", "bias"), [("dds", 1.0), ("cmcd", 0.0)])
def test_the_network_is_the_published_one(name, bias):
    """Two networks see the features of the step, and no gelu stands before the exit of the one of the gradient."""
    method, kind = METHODS[name]
    control = eqx.filter_jit(method.process)(jax.random.key(0), 2, kind(width=8)).control
    x, gradient, k = jnp.asarray([0.3, -0.2]), jnp.asarray([3.0, -1e6]), jnp.asarray(3)
    call = eqx.filter_jit(lambda control, gradient: control(k, x, gradient))
    np.testing.assert_allclose(call(control, gradient), bias * np.asarray([3.0, -100.0]), atol=1e-4)
    np.testing.assert_array_equal(control.phase, 0.0)
    assert [layer.weight.shape for layer in control.gradients] == [(128, 8), (8, 8), (8, 8), (8, 2)]
    assert [layer.weight.shape for layer in control.times] == [(128, 8), (8, 8)]
    assert [layer.weight.shape for layer in control.states] == [(10, 8), (8, 8), (8, 2)]

    def factor(control):
        return call(control, jnp.ones(2)) - call(control, jnp.zeros(2))

    scaled = lambda part: jax.tree.map(lambda leaf: 1.5 * leaf, part)  # noqa: E731
    control = eqx.tree_at(lambda one: one.gradients[-1].weight, control, jnp.ones((8, 2)))
    deaf = eqx.tree_at(lambda one: one.times, control, scaled(control.times))
    np.testing.assert_allclose(factor(deaf), factor(control), rtol=1e-4)
    # Linear in what stands before the exit: a gelu there would bend it.
    exit_twice = eqx.tree_at(
        lambda one: one.gradients[-2], control, jax.tree.map(lambda leaf: -leaf, control.gradients[-2])
    )
    np.testing.assert_allclose(factor(exit_twice) - bias, bias - factor(control), rtol=1e-3, atol=1e-5)
    assert not np.allclose(factor(control), bias, atol=1e-2)


def test_cmcd_learns_from_the_published_schedule():
    process = eqx.filter_jit(CMCD().process)(jax.random.key(0), 2, CMCDSettings(num_path_steps=4, width=8))
    np.testing.assert_allclose(jax.jit(lambda one: one.betas())(process), [0.25, 0.5, 0.75, 1.0], rtol=1e-6)
    np.testing.assert_array_equal(process.raw_betas, 1.0)
    assert float(jax.nn.softplus(process.raw_factor)) == pytest.approx(1.0, rel=1e-6)


def test_dds_weights_are_constant_under_the_optimal_control():
    """For N(m, s^2 I) the reversed chain is a shift by u_k = m_{k+1} = (a_{k+1} ... a_{K-1}) m: every weight is Z."""
    scale, mean, num = 1.3, jnp.asarray([2.0, -1.0]), 12
    exact = Gaussian(mean, scale**2 * np.eye(2), log_constant=LOG_Z)
    keeps = np.sqrt(1.0 - steps_of(num))
    after = np.append(np.cumprod(keeps[::-1])[::-1], 1.0)  # means of x_0, ..., x_K in units of m

    def spread(factors):
        control = Constant(jnp.asarray(factors, jnp.float32)[:, None] * mean[None])
        process = Shifted(DDSProcess(control, num, 2, scale), after[0].astype(np.float32) * mean)
        return largest(process)

    @eqx.filter_jit
    def largest(process):
        walks = jax.vmap(lambda key: walk(key, process, exact))(jax.random.split(jax.random.key(0), 50))
        return jnp.max(jnp.abs(walks.log_weight - LOG_Z))

    assert spread(after[1:]) < 1e-4
    assert spread(after[:-1]) > 0.05  # the saboteur: the control of the step before


def running(process, paths):
    """The running cost of every path: half the sum of b_k^2 |u|^2 / s^2."""

    @jax.jit
    def costs(paths):
        def one(path):
            k = jnp.arange(process.num_steps)
            here = jax.tree.map(lambda one, rest: jnp.concatenate([one[None], rest[:-1]]), path.first, path.then)
            u = jax.vmap(process.control)(k, here.x, here.gradient)
            b2 = jnp.asarray(steps_of(process.num_steps), jnp.float32)
            return 0.5 * jnp.sum(b2 * jnp.sum(u**2, axis=1)) / process.init_std**2

        return jax.vmap(one)(paths)

    return np.asarray(costs(paths), np.float64)


@pytest.mark.parametrize(("name", "num_left_out"), [("dds", 1), pytest.param("cmcd", 12, marks=pytest.mark.slow)])
def test_weights_are_unbiased_under_any_control(name, num_left_out):
    process = process_of(name)
    walks = walks_of(process, 40_000)
    weights = np.exp(np.asarray(walks.log_weight, np.float64) - LOG_Z)
    assert_mean(weights, 1.0, name=f"Z of {name}")
    # What is minimised has the mean of -log w: the divergence of the two measures, less log Z.
    gap = np.asarray(walks.divergence + walks.log_weight, np.float64)
    if name == "dds":
        assert_mean(gap, 0.0, name="what the divergence leaves out")
        must_fail(assert_mean, gap + running(process, walks.trajectory), 0.0)  # the saboteur: a running cost twice
    # The saboteur leaves out the first steps.
    steps = jnp.arange(num_left_out)

    def left_out(path):
        here = jax.tree.map(lambda one, rest: jnp.concatenate([one[None], rest])[steps], path.first, path.then)
        then = jax.tree.map(lambda leaf: leaf[steps], path.then)
        return jnp.sum(jax.vmap(process.log_ratio)(steps, here, path.innovations[steps], then))

    ratio = eqx.filter_jit(jax.vmap(left_out))(walks.trajectory)
    must_fail(assert_mean, weights * np.exp(np.asarray(ratio, np.float64)), 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_a_path_weighs_the_same_without_evaluations(name):
    process = process_of(name)
    walks = walks_of(process, 20)
    again = jax.jit(jax.vmap(lambda one: log_weight(process, one)))(walks.trajectory)
    np.testing.assert_allclose(again, walks.log_weight, rtol=1e-4, atol=1e-4)
    # The divergence of DDS leaves out a part of mean 0; that of CMCD is all of it.
    same = np.allclose(walks.divergence, -walks.log_weight, atol=1e-4)
    assert same == (name == "cmcd")


def test_looks_are_differentiated_as_they_say():
    mixture = GaussianMixture([[-1.0, 0.5], [1.0, 0.2]], weights=[0.6, 0.4], stds=0.8)
    x, v = jnp.asarray([0.3, -0.4]), jnp.asarray([0.7, 1.1])

    def total(look_fn):
        def value(x):
            seen = look_fn(mixture, x)
            return 2.0 * seen.log_density + jnp.sum(v * seen.gradient)

        return jax.jit(jax.grad(value))(x)

    def plain(x):
        value, gradient = evaluate(mixture, x)
        return 2.0 * value + jnp.sum(v * gradient)

    once, (both, (_, gradient)) = total(look), jax.jit(lambda x: (jax.grad(plain)(x), evaluate(mixture, x)))(x)
    np.testing.assert_allclose(total(look_twice), both, rtol=1e-4)
    np.testing.assert_allclose(once, 2.0 * gradient, rtol=1e-5)
    assert not np.allclose(once, both, rtol=1e-2)  # the saboteur: no Hessian


def test_a_trust_region_of_normal_weights_is_known():
    """log w ~ N(0, s^2): P w^p has divergence p^2 s^2 / 2 from P."""
    spread, bound = 3.0, 0.2
    log_weights = jnp.asarray(spread * stats.norm.ppf((np.arange(20_000) + 0.5) / 20_000), jnp.float32)
    power = region(log_weights, bound)
    np.testing.assert_allclose(power, np.sqrt(2 * bound) / spread, rtol=2e-2)
    assert float(divergence(log_weights, power)) <= bound + 1e-4
    assert float(divergence(log_weights, 1.5 * power)) > 2 * bound  # the saboteur: a larger step
    assert float(region(0.01 * log_weights, bound)) == 1.0
    worthless = jnp.concatenate([log_weights, jnp.full(100, -jnp.inf)])
    np.testing.assert_allclose(region(worthless, bound), power, rtol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_the_log_variance_loss_is_zero_where_it_should_be(name):
    process = process_of(name)
    walks = walks_of(process, 64)
    old, paths = walks.log_weight, walks.trajectory
    variance = eqx.filter_jit(log_variance)
    assert float(variance(process, paths, old, jnp.zeros(()))) < 1e-6
    full = variance(process, paths, old, jnp.ones(()))
    np.testing.assert_allclose(full, np.var(old, ddof=1), rtol=1e-3)
    assert float(full) > 1e-2
    assert float(variance(process_of(name, 7), paths, old, jnp.zeros(()))) > 1e-4  # the saboteur: another control


@pytest.mark.parametrize(
    ("name", "loss"),
    [pytest.param(*case, marks=pytest.mark.slow) for case in (("cmcd", "tr_lv"), ("dds", "kl"), ("dds", "tr_lv"))],
)  # test_counts.py counts whole fits
def test_steps_and_draws_cost_what_they_say(name, loss):
    method, kind = METHODS[name]
    settings = kind(**SMALL, loss=loss)
    counting, counter = counting_target(target())
    state = eqx.filter_jit(method.init)(jax.random.key(0), counting, settings)
    assert counter.wait(state) == 0
    state, info = eqx.filter_jit(method.step)(jax.random.key(1), state, counting, settings)
    assert counter.wait((state, info)) == method.step_cost(settings, 2).points == 8 * 7
    assert counter.value_only == 0
    counter.reset()
    keys = jax.random.split(jax.random.key(2), 5)
    x = eqx.filter_jit(method.draw)(keys, state.model, counting, settings)
    assert counter.wait(x) == 5 * method.draw_cost(settings, 2).points == 5 * 6
    counter.reset()
    drawn = eqx.filter_jit(method.draw_weighted)(keys, state.model, counting, settings)
    assert counter.wait(drawn) == 5 * method.weigh_cost(settings, 2).points == 5 * 7
    np.testing.assert_allclose(drawn.position, x, rtol=1e-4, atol=1e-4)
    fewer = method.draw(keys[:2], state.model, target(), settings)
    np.testing.assert_allclose(fewer, x[:2], rtol=1e-4, atol=1e-4)


class TwiceCounted(Target):
    """Counts visits and lets itself be differentiated twice: a Hessian-vector product is a visit of its own."""

    inner: Target
    dim: int = eqx.field(static=True)
    visits: list = eqx.field(static=True)

    def log_density(self, x):
        @jax.custom_jvp
        def visit(x):
            def receive(points):
                self.visits.append(int(np.prod(np.shape(points)[:-1])))
                return np.asarray(points)

            return jax.pure_callback(receive, jax.ShapeDtypeStruct(x.shape, x.dtype), x, vmap_method="expand_dims")

        visit.defjvp(lambda primals, tangents: (visit(*primals), tangents[0]))
        return self.inner.log_density(visit(x))


@pytest.mark.slow
def test_products_of_cmcd_are_counted_apart():
    settings = CMCDSettings(**SMALL)
    # Not a Gaussian, whose Hessian is the same everywhere: no visit would be needed for it.
    counted = TwiceCounted(GaussianMixture([[-1.0, 0.5], [1.0, 0.2]], weights=[0.6, 0.4], stds=0.8), 2, [])
    method = CMCD()
    state = eqx.filter_jit(method.init)(jax.random.key(0), counted, settings)
    cost = method.step_cost(settings, 2)
    assert cost == Cost(8 * 7, 0, 8 * 6)
    jax.block_until_ready(eqx.filter_jit(method.step)(jax.random.key(1), state, counted, settings))
    assert sum(counted.visits) == cost.points + cost.hessian_vector


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "loss"),
    [("dds", "kl"), ("cmcd", "tr_lv"), ("cmcd", "kl"), ("dds", "tr_lv")],
)
def test_training_raises_the_evidence_bound(name, loss):
    method, kind = METHODS[name]
    sizes = {**SMALL, "batch_size": 64, "update_size": 64, "learning_rate": 1e-2, "init_std": 1.3}
    settings = kind(**sizes, loss=loss)
    shifted = Gaussian([1.5, -1.0], [[0.6, 0.2], [0.2, 0.5]], log_constant=LOG_Z)
    state = eqx.filter_jit(method.init)(jax.random.key(0), shifted, settings)

    @eqx.filter_jit
    def train(state):
        body = lambda state, key: method.step(key, state, shifted, settings)  # noqa: E731
        return jax.lax.scan(body, state, jax.random.split(jax.random.key(1), 40))

    state, info = train(state)
    before, after = float(jnp.mean(info["elbo"][:2])), float(jnp.mean(info["elbo"][-5:]))
    assert after > before + 0.5
    assert after <= LOG_Z + 0.3


def test_targets_that_cannot_be_served_are_refused():
    particles = dw4()
    for method, kind in METHODS.values():
        with pytest.raises(SettingsError, match="equivariant"):
            method.check(kind(), particles)
    with pytest.raises(SettingsError, match="at most batch_size"):
        DDSSettings(loss="tr_lv", batch_size=10, update_size=20)
