"""Independent Metropolis over weighted draws: the target is invariant, and forgets no -inf."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from support.random_checks import assert_fraction, assert_mean, assert_same_distribution_ks, must_fail
from tempering.weights.metropolis import independent_metropolis

POLISH = jax.jit(independent_metropolis, static_argnums=2)
TARGET, MODEL = stats.norm(1.0, 0.7), stats.norm(0.3, 1.2)
NUM_CHAINS, LENGTH = 4000, 6


@pytest.fixture(scope="module")
def proposals():
    """Chains that start in the target and propose from the model: asymmetric, with an unknown constant."""
    rng = np.random.default_rng(0)
    x = MODEL.rvs(size=(NUM_CHAINS, LENGTH), random_state=rng)
    x[:, 0] = TARGET.rvs(size=NUM_CHAINS, random_state=rng)
    return x


def last_states(x, log_weights) -> np.ndarray:
    indices, _ = POLISH(jax.random.key(1), jnp.asarray(log_weights.ravel(), jnp.float32), NUM_CHAINS)
    return x.ravel()[np.asarray(indices).reshape((NUM_CHAINS, LENGTH))[:, -1]]


def test_the_target_is_invariant(proposals):
    log_weights = 40.0 + TARGET.logpdf(proposals) - MODEL.logpdf(proposals)
    assert_same_distribution_ks(last_states(proposals, log_weights), TARGET.cdf)
    # The ratio upside down, the model's density forgotten, everything accepted.
    must_fail(assert_same_distribution_ks, last_states(proposals, -log_weights), TARGET.cdf)
    must_fail(assert_same_distribution_ks, last_states(proposals, TARGET.logpdf(proposals)), TARGET.cdf)
    must_fail(assert_same_distribution_ks, last_states(proposals, np.zeros_like(log_weights)), TARGET.cdf)


def test_a_start_elsewhere_is_forgotten():
    x = MODEL.rvs(size=(500, 60), random_state=np.random.default_rng(1))
    log_weights = jnp.asarray((TARGET.logpdf(x) - MODEL.logpdf(x)).ravel(), jnp.float32)
    indices, _ = POLISH(jax.random.key(2), log_weights, 500)
    states = x.ravel()[np.asarray(indices).reshape(x.shape)]
    assert_mean(states[:, -1], TARGET.mean())
    must_fail(assert_mean, states[:, 0], TARGET.mean())


def test_the_acceptance_rate_is_that_of_two_weights():
    """Half of the draws weigh 1, half 1/4: in the long run 4/5 of the states are heavy, 7/10 of proposals pass."""
    num_chains, length = 400, 400
    is_heavy = np.random.default_rng(2).uniform(size=num_chains * length) < 0.5
    log_weights = jnp.asarray(np.where(is_heavy, 0.0, np.log(0.25)), jnp.float32)
    indices, acceptance = POLISH(jax.random.key(3), log_weights, num_chains)
    ends = is_heavy[np.asarray(indices).reshape((num_chains, length))[:, 99::100]].ravel()
    assert_fraction(ends, 0.8)
    must_fail(assert_fraction, ends, 0.5)
    # From a heavy state (0.8): 0.5 + 0.5 / 4; from a light one (0.2): 1. Correlated, but 160,000 of them.
    assert float(acceptance) == pytest.approx(0.8 * 0.625 + 0.2, abs=0.01)


def test_every_state_is_its_own_or_the_one_before():
    log_weights = jnp.asarray(np.random.default_rng(3).normal(size=50), jnp.float32)
    for num_chains in (1, 7, 50):  # 7 chains of 8 draws, the last of 2
        indices, acceptance = POLISH(jax.random.key(4), log_weights, num_chains)
        indices, length = np.asarray(indices), -(-50 // num_chains)
        assert indices.shape == (50,) and 0.0 <= float(acceptance) <= 1.0
        for position, index in enumerate(indices):
            allowed = {position} if position % length == 0 else {position, indices[position - 1]}
            assert index in allowed


def test_equal_weights_change_nothing():
    indices, acceptance = POLISH(jax.random.key(5), jnp.full(30, 1e5), 4)
    np.testing.assert_array_equal(indices, np.arange(30))
    assert acceptance == 1.0


def test_weightless_draws_are_left_and_never_entered():
    log_weights = jnp.full(20, -jnp.inf).at[jnp.array([3, 9])].set(2.0)
    indices, _ = POLISH(jax.random.key(6), log_weights, 1)
    np.testing.assert_array_equal(indices, np.repeat([0, 3, 9], [3, 6, 11]))
    indices, acceptance = POLISH(jax.random.key(6), log_weights, 2, jnp.array([9, 3]))
    np.testing.assert_array_equal(indices, np.repeat([9, 3, 9, 3], [3, 6, 1, 10]))
    assert acceptance == pytest.approx(2 / 20)
