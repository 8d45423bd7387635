"""Kernels leave the tempered density as it is: exact draws, a few steps, and the same distribution again.

Every fault a kernel could have is built into a saboteur, which the same check must reject.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.broken_kernels import FAULTS, Faults, FaultyHMC, FaultyMALA
from support.random_checks import must_fail
from support.tempered import check_tempered, fitting_step_size, tempered_draws, walk
from tempering.kernels import HMC, MALA
from tempering.targets.base import evaluate_many

NUM_CHAINS = 20_000
BETAS = (0.4, 3.0)
KEY = jax.random.key(20)


def _after_steps(kernel, gaussian, beta):
    positions = tempered_draws(gaussian, KEY, NUM_CHAINS, beta)
    step_size = fitting_step_size(kernel, beta)
    return walk(jax.random.fold_in(KEY, 1), gaussian, kernel, positions, jnp.asarray(beta), step_size)


def _faulty(kernel, faults: Faults):
    return FaultyMALA(faults) if isinstance(kernel, MALA) else FaultyHMC(faults, kernel.num_leapfrog)


@pytest.mark.parametrize("beta", BETAS)
def test_kernel_leaves_the_tempered_density_invariant(kernel, gaussian, beta):
    states, info = _after_steps(kernel, gaussian, beta)
    check_tempered(gaussian, beta, states.position, KEY)
    # The chains did move, and some stayed: an identity would pass the check above.
    assert 0.3 < float(jnp.mean(info.is_accepted)) < 0.95


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("fault", FAULTS.keys())
def test_saboteurs_are_rejected(kernel, gaussian, beta, fault):
    states, _ = _after_steps(_faulty(kernel, FAULTS[fault]), gaussian, beta)
    must_fail(check_tempered, gaussian, beta, states.position, KEY)


def test_saboteurs_without_a_fault_are_the_kernel(kernel, gaussian):
    states, info = _after_steps(kernel, gaussian, BETAS[0])
    others, other_info = _after_steps(_faulty(kernel, Faults.of()), gaussian, BETAS[0])
    probability, other = np.asarray(info.acceptance_probability), np.asarray(other_info.acceptance_probability)
    # Rounding turns a decision once in about 1e5 steps, and then that chain goes its own way.
    is_same = np.all(np.isclose(states.position, others.position, atol=1e-3), axis=1)
    assert np.mean(is_same) > 0.999
    np.testing.assert_allclose(probability[:, is_same], other[:, is_same], atol=1e-3)


def test_stored_values_are_the_untempered_ones_of_the_position(kernel, gaussian):
    states, _ = _after_steps(kernel, gaussian, BETAS[0])
    log_density, grad = evaluate_many(gaussian, states.position)
    np.testing.assert_allclose(states.log_density, log_density, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(states.log_density_grad, grad, rtol=1e-4, atol=1e-4)


def test_acceptance_is_the_acceptance_probability(kernel, gaussian):
    _, info = _after_steps(kernel, gaussian, BETAS[0])
    is_sure = np.asarray(info.acceptance_probability) == 1.0
    assert np.all(np.asarray(info.is_accepted)[is_sure])
    assert not np.any(np.asarray(info.is_nonfinite))


def test_hmc_costs_one_evaluation_a_leapfrog_step():
    assert [HMC(num_leapfrog=num).evaluations_per_step for num in (1, 5)] == [1, 5]
    assert MALA().evaluations_per_step == 1
