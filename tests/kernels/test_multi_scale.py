"""MALA with step sizes over decades: it leaves the density as it is, and moves where one step size does not."""

import jax
import jax.numpy as jnp
import numpy as np

from support.broken_kernels import FAULTS, FaultyMALA
from support.random_checks import must_fail
from support.tempered import check_tempered, tempered_draws, walk
from tempering.kernels.multi_scale import MultiScaleMALA
from tempering.targets import Gaussian

KEY = jax.random.key(21)


def test_the_tempered_density_is_left_invariant(gaussian):
    beta, step_size = jnp.asarray(0.4), jnp.asarray(5.0)
    positions = tempered_draws(gaussian, KEY, 20_000, 0.4)
    states, info = walk(jax.random.fold_in(KEY, 1), gaussian, MultiScaleMALA(), positions, beta, step_size)
    check_tempered(gaussian, 0.4, states.position, KEY)
    assert 0.3 < float(jnp.mean(info.is_accepted)) < 0.95
    broken = FaultyMALA(next(iter(FAULTS.values())))
    states, _ = walk(jax.random.fold_in(KEY, 1), gaussian, broken, positions, beta, jnp.asarray(0.6))
    must_fail(check_tempered, gaussian, 0.4, states.position, KEY)


def test_it_moves_at_every_scale():
    for scale in (0.03, 1.0):
        target = Gaussian(np.zeros(3), scale**2 * np.eye(3))
        positions = jnp.full((200, 3), 0.5 * scale)
        one, step_size = jnp.ones(()), jnp.asarray(0.1)
        _, info = walk(KEY, target, MultiScaleMALA(), positions, one, step_size, num_steps=20)
        assert np.mean(np.any(np.asarray(info.is_accepted), axis=0)) > 0.8
