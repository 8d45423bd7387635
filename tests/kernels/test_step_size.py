"""Step sizes: the first guess, the Robbins-Monro update, and how they scale with temperature."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tempering.kernels import HMC, MALA, StepSizes, kernel_of
from tempering.kernels.step_size import adapt, guess, rescale
from tempering.settings import Exploration

TARGET = jnp.asarray(0.6)
YES, NO = jnp.asarray(True), jnp.asarray(False)


def test_update_is_robbins_monro_on_the_logarithm():
    step_sizes = StepSizes.at(jnp.asarray([0.1, 2.0]))
    acceptance = jnp.asarray([0.9, 0.2])
    for update in range(3):
        before = step_sizes.log_step_size
        step_sizes = adapt(step_sizes, acceptance, TARGET, YES)
        expected = before + 2.0 / np.sqrt(1.0 + update) * np.asarray([0.3, -0.4], np.float32)
        np.testing.assert_allclose(step_sizes.log_step_size, expected, rtol=1e-6)
    assert int(step_sizes.num_updates) == 3


def test_frozen_means_unchanged():
    step_sizes = adapt(StepSizes.at(jnp.asarray([0.1, 2.0])), jnp.asarray([0.9, 0.2]), TARGET, YES)
    frozen = adapt(step_sizes, jnp.asarray([0.0, 1.0]), TARGET, NO)
    np.testing.assert_array_equal(frozen.log_step_size, step_sizes.log_step_size)
    assert int(frozen.num_updates) == 1


def test_hopeless_acceptance_does_not_overflow():
    def body(_, step_sizes):
        return adapt(step_sizes, jnp.asarray([0.0, 1.0]), TARGET, YES)

    step_sizes = jax.lax.fori_loop(0, 5_000, body, StepSizes.at(jnp.asarray([1.0, 1.0])))
    step_size = np.exp(np.asarray(step_sizes.log_step_size))
    assert np.all(np.isfinite(step_size)) and np.all(step_size > 0)
    assert step_size[0] < 1e-6 < 1e6 < step_size[1]


@pytest.mark.parametrize("kernel", [MALA(), HMC()])
def test_guess_of_a_unit_gaussian_scales_as_lengths_do(kernel):
    grads = -jax.random.normal(jax.random.key(0), (4_000, 8))
    betas = jnp.asarray([0.25, 1.0])
    step_size = np.asarray(guess(grads, betas, kernel.scale_power))
    # Of the order of the optimum: 0.4 for MALA and its square root for HMC, at dim = 8.
    assert 0.5 < step_size[1] / 0.4 ** (kernel.scale_power / 2.0) < 2.0
    # Ten times as wide a density has a tenth of the gradient, and a length ten times as long.
    wider = np.asarray(guess(grads / 10.0, betas, kernel.scale_power))
    np.testing.assert_allclose(wider / step_size, 10.0**kernel.scale_power, rtol=1e-4)


def test_guess_is_not_decided_by_one_start_at_a_cliff_nor_by_a_flat_one():
    grads = -jax.random.normal(jax.random.key(0), (100, 2))
    cliff = grads.at[0].set(1e12)
    betas = jnp.ones(1)
    np.testing.assert_allclose(guess(cliff, betas, 2.0), guess(grads, betas, 2.0), rtol=0.1)
    assert np.all(np.isfinite(guess(jnp.zeros((5, 2)), betas, 2.0)))


def test_rescale_follows_the_square_root_of_temperature():
    args = jnp.asarray(0.3), jnp.asarray(4.0), jnp.asarray(1.0)
    np.testing.assert_allclose(rescale(*args, MALA().scale_power), 1.2)
    np.testing.assert_allclose(rescale(*args, HMC().scale_power), 0.6, rtol=1e-6)


def test_kernels_by_name():
    assert isinstance(kernel_of(Exploration("mala", 5), 100), MALA)
    assert kernel_of(Exploration("hmc", 5), 1).evaluations_per_step == 5


def test_the_automatic_kernel_takes_more_leapfrog_steps_in_more_dimensions():
    """2 d^(1/4) - 1, rounded: MALA, which is one such step, up to two dimensions."""
    assert all(isinstance(kernel_of(Exploration("automatic", 9), dim), MALA) for dim in (1, 2))
    kernels = [kernel_of(Exploration("automatic", 9), dim) for dim in (16, 32, 256)]
    assert all(isinstance(kernel, HMC) for kernel in kernels)
    assert [kernel.evaluations_per_step for kernel in kernels] == [3, 4, 7]
