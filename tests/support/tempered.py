"""A Gaussian tempered exactly, a jitted walk of many chains on it, and the check that they are still distributed so."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from support.random_checks import assert_mean, assert_same_distribution_ks, assert_std
from tempering.kernels import init
from tempering.targets import Gaussian

__all__ = ["check_tempered", "fitting_step_size", "tempered_draws", "walk"]


def tempered_draws(target: Gaussian, key, num: int, beta: float) -> jax.Array:
    """Exact draws of N(m, C / beta)."""
    return target.location[None] + (target.sample(key, num) - target.location[None]) / np.sqrt(beta)


def fitting_step_size(kernel, beta: float) -> jax.Array:
    """So large on `anisotropic_gaussian` that a missing correction shows, whatever the temperature.

    The smallest standard deviation there is 0.5. Leapfrog is stable up to twice that, and nearly exact at once.
    """
    factor = {1.0: 1.6, 2.0: 1.0}[kernel.scale_power]
    return jnp.asarray(factor * (0.25 / beta) ** (kernel.scale_power / 2.0))


@eqx.filter_jit
def walk(key, target, kernel, positions, beta, step_size, num_steps: int = 4):
    """`num_steps` steps of every chain: the last states, and the diagnostics of axes (step, chain)."""
    states = jax.vmap(lambda position: init(position, target))(positions)

    def one(states, key):
        keys = jax.random.split(key, positions.shape[0])
        step = jax.vmap(lambda key, state: kernel.step(key, state, target, beta=beta, step_size=step_size))
        return step(keys, states)

    return jax.lax.scan(one, states, jax.random.split(key, num_steps))


def check_tempered(target: Gaussian, beta: float, positions, key) -> None:
    """The positions are independent draws of N(m, C / beta), judged where that is N(0, I)."""
    centred = np.asarray(positions, np.float64) - np.asarray(target.location, np.float64)
    white = np.sqrt(beta) * centred @ np.asarray(target.whitening, np.float64).T
    for axis, column in enumerate(white.T):
        assert_same_distribution_ks(column, stats.norm.cdf, name=f"whitened coordinate {axis}", key=key)
    assert_same_distribution_ks(np.sum(white**2, axis=1), stats.chi2(target.dim).cdf, name="squared radius", key=key)
    assert_mean(white, 0.0, name="whitened mean", key=key)
    assert_std(white, 1.0, name="whitened standard deviation", key=key)
    pairs = np.stack([white[:, i] * white[:, j] for i in range(target.dim) for j in range(i)], axis=1)
    assert_mean(pairs, 0.0, name="whitened covariance", key=key)
