"""Our kernels against BlackJAX's on the same tempered density: the same key gives the same proposal and decision.

BlackJAX tempers by scaling the density it is given; ours is given beta. Both split a key into one for the proposal
and one for the decision, so that single steps agree number by number, and long runs in their statistics.
"""

import blackjax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.random_checks import must_fail
from support.tempered import fitting_step_size, tempered_draws, walk
from tempering.kernels import MALA

NUM_CHAINS = 3_000
NUM_STEPS = 4
BETA = 0.4
KEY = jax.random.key(21)


def _blackjax_kernel(kernel, log_density_fn, step_size):
    if isinstance(kernel, MALA):
        return blackjax.mala(log_density_fn, step_size)
    return blackjax.hmc(log_density_fn, step_size, jnp.ones(3), kernel.num_leapfrog)


@eqx.filter_jit
def _blackjax_walk(key, target, kernel, positions, beta, step_size):
    """The same as `walk`, key for key."""
    other = _blackjax_kernel(kernel, lambda x: beta * target.log_density(x), step_size)

    def one(states, key):
        return jax.vmap(other.step)(jax.random.split(key, positions.shape[0]), states)

    states, info = jax.lax.scan(one, jax.vmap(other.init)(positions), jax.random.split(key, NUM_STEPS))
    return states.position, info.acceptance_rate, info.is_accepted


@pytest.fixture
def pair(kernel, gaussian):
    """Our walk and theirs, from the same points with the same keys, as (positions, acceptance, decisions)."""
    positions = tempered_draws(gaussian, KEY, NUM_CHAINS, BETA)
    step_size = fitting_step_size(kernel, BETA)
    states, info = walk(KEY, gaussian, kernel, positions, jnp.asarray(BETA), step_size, NUM_STEPS)
    ours = states.position, info.acceptance_probability, info.is_accepted

    def theirs(beta: float):
        # BlackJAX itself is not written for strict promotion.
        with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
            return _blackjax_walk(KEY, gaussian, kernel, positions, jnp.asarray(beta), step_size)

    return ours, theirs


def _check_same(ours, theirs) -> None:
    for name, our, their in zip(("position", "acceptance", "decision"), ours, theirs, strict=True):
        # The two sum in another order; 1e-3 is what four steps make of float32 rounding.
        np.testing.assert_allclose(our, their, rtol=1e-3, atol=1e-3, err_msg=name)


def test_same_steps_as_blackjax(pair):
    ours, theirs = pair
    _check_same(ours, theirs(BETA))
    assert 0.3 < np.mean(ours[2]) < 0.95


def test_another_temperature_would_show(pair):
    ours, theirs = pair
    must_fail(_check_same, ours, theirs(1.1 * BETA))
