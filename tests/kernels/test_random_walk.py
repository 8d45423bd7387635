"""The kernel without gradients: it leaves the tempered density as it is, asks for values alone, and finds its step."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.random_checks import must_fail
from support.tempered import check_tempered, fitting_step_size, tempered_draws, walk
from tempering.kernels import Kernel, RandomWalk, StepSizes, kernel_of
from tempering.kernels.base import accept_or_stay, init
from tempering.kernels.step_size import adapt, guess_from_spread
from tempering.settings import Exploration
from tempering.targets import Target

NUM_CHAINS = 20_000
BETAS = (0.4, 3.0)
KEY = jax.random.key(31)


class FaultyWalk(Kernel):
    """A random walk with a fault each that is a number; with none it is the kernel."""

    tempering: jax.Array  # 0: the density ratio is that of T = 1
    correction: jax.Array  # 0: every proposal is accepted
    drift: jax.Array  # not 0: proposals are not symmetric, and nothing corrects for that
    evaluations_per_step: int = eqx.field(static=True, default=1)
    optimal_acceptance: float = eqx.field(static=True, default=0.234)
    scale_power: float = eqx.field(static=True, default=1.0)

    def step(self, key, state, target, *, beta, step_size):
        """One transition."""
        key_noise, key_accept = jax.random.split(key)
        noise = jax.random.normal(key_noise, state.position.shape) + self.drift
        proposal = init(state.position + step_size * noise, target)
        power = self.tempering * beta + (1.0 - self.tempering)
        log_ratio = self.correction * power * (proposal.log_density - state.log_density)
        return accept_or_stay(jax.random.uniform(key_accept), state, proposal, log_ratio)


def faulty(tempering: float = 1.0, correction: float = 1.0, drift: float = 0.0) -> FaultyWalk:
    return FaultyWalk(*(jnp.asarray(number) for number in (tempering, correction, drift)))


FAULTS = {
    "beta forgotten": faulty(tempering=0.0),
    "no Metropolis correction": faulty(correction=0.0),
    "a drift": faulty(drift=0.3),
}


class WithoutGradient(Target):
    """The same density with a gradient that would show if it were used."""

    inner: Target
    dim: int = eqx.field(static=True, default=3)

    def log_density(self, x):
        return jax.lax.stop_gradient(self.inner.log_density(x))


def after_steps(kernel, gaussian, beta: float):
    positions = tempered_draws(gaussian, KEY, NUM_CHAINS, beta)
    step_size = fitting_step_size(kernel, beta)
    return walk(jax.random.fold_in(KEY, 1), WithoutGradient(gaussian), kernel, positions, jnp.asarray(beta), step_size)


@pytest.mark.parametrize("beta", BETAS)
def test_it_leaves_the_tempered_density_invariant(gaussian, beta):
    states, info = after_steps(RandomWalk(), gaussian, beta)
    check_tempered(gaussian, beta, states.position, KEY)
    assert 0.2 < float(jnp.mean(info.is_accepted)) < 0.8


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("fault", FAULTS)
def test_saboteurs_are_rejected(gaussian, beta, fault):
    states, _ = after_steps(FAULTS[fault], gaussian, beta)
    must_fail(check_tempered, gaussian, beta, states.position, KEY)


def test_a_saboteur_without_a_fault_is_the_kernel(gaussian):
    positions = [after_steps(kernel, gaussian, BETAS[0])[0].position for kernel in (RandomWalk(), faulty())]
    assert np.mean(np.all(np.isclose(*positions, atol=1e-3), axis=1)) > 0.999


@pytest.mark.parametrize(("dim", "acceptance"), [(1, 0.44), (5, 0.234), (50, 0.234)])
def test_the_optimal_acceptance_falls_with_the_dimension(dim, acceptance):
    kernel = kernel_of(Exploration("random_walk"), dim)
    assert isinstance(kernel, RandomWalk) and kernel.evaluations_per_step == 1
    assert kernel.optimal_acceptance == pytest.approx(acceptance)
    assert 0.234 < kernel_of(Exploration("random_walk"), 3).optimal_acceptance < 0.44


def test_the_first_guess_is_near_where_adaptation_ends(gaussian):
    beta, kernel, target = BETAS[0], RandomWalk(), WithoutGradient(gaussian)
    positions = tempered_draws(gaussian, KEY, NUM_CHAINS, beta)
    guessed = guess_from_spread(positions, jnp.asarray([beta, 4.0 * beta]), kernel.scale_power)
    assert float(guessed[0] / guessed[1]) == pytest.approx(2.0)
    step_sizes = StepSizes.at(guessed)
    for index in range(10):
        step_size, key = jnp.exp(step_sizes.log_step_size[0]), jax.random.fold_in(KEY, index)
        _, info = walk(key, target, kernel, positions, jnp.asarray(beta), step_size)
        acceptance = jnp.full((2,), jnp.mean(info.acceptance_probability))
        step_sizes = adapt(step_sizes, acceptance, jnp.asarray(kernel.optimal_acceptance), jnp.asarray(True))
    assert 0.4 < float(guessed[0] / jnp.exp(step_sizes.log_step_size[0])) < 2.5


def test_a_guess_is_positive_whatever_the_start():
    betas = jnp.asarray([0.5, 1.0])
    for points in (np.zeros((4, 2)), np.ones((1, 2)), np.asarray([[0.0, 1.0], [0.0, 3.0]])):
        step_size = np.asarray(guess_from_spread(jnp.asarray(points, jnp.float32), betas, 1.0))
        assert np.all(np.isfinite(step_size)) and np.all(step_size > 0)
