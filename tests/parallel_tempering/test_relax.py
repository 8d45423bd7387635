"""Starting points in walls: moved out of them, replaced where that fails, and paid for."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tempering.kernels import HMC
from tempering.parallel_tempering.pilot.relax import NUM_STEPS, is_steep, settled, substitutes
from tempering.registry import make_target
from tempering.runs.ledger import Ledger
from tempering.targets import Target, in_inner_coordinates


@pytest.fixture
def cluster():
    return in_inner_coordinates(make_target("lj", num_particles=7))


def test_a_stuck_chain_starts_from_another_point():
    energies = jnp.array([10.0, 12.0, 2500.0, 9.0, jnp.nan, 11.0, jnp.inf])
    assert list(substitutes(-energies)) == [0, 1, 0, 3, 1, 5, 3]


def test_a_wide_spread_is_nobodys_fault(rng=0):
    energies = 1000.0 * jax.random.exponential(jax.random.key(rng), (200,))
    assert list(substitutes(-energies)) == list(range(200))


def test_all_stuck_stay():
    assert list(substitutes(jnp.full((3,), -jnp.inf))) in ([0, 1, 2], [0, 0, 0])


class Trough(Target):
    """A normal between walls at -1 and 1, steeper than any step can take."""

    dim: int = eqx.field(static=True, default=1)

    def log_density(self, x):
        return -1e6 * jnp.maximum(jnp.abs(x[0]) - 1.0, 0.0) - 0.5 * x[0] ** 2


def test_a_chain_too_far_out_to_climb_home_starts_elsewhere():
    starts = jnp.array([2.0, 2.5, -3.0, -2.0, 3.0, 100.0]).reshape(2, 3, 1)
    ledger = Ledger()
    state, _ = settled(jax.random.key(0), Trough(), HMC(num_leapfrog=1), starts, jnp.ones((2,)), ledger, "pilot")
    assert jnp.max(jnp.abs(state.chain.position)) < 1.1 and ledger.total == 6 * (2 + NUM_STEPS)
    np.testing.assert_allclose(state.chain.log_density, -0.5 * state.chain.position[..., 0] ** 2, rtol=1e-4)


@pytest.mark.slow
def test_chains_leave_their_walls_and_pay_for_it(cluster):
    kernel, ledger, betas = HMC(num_leapfrog=3), Ledger(), jnp.array([0.5, 1.0])
    # Two levels, five chains; overlapping particles as normal points have them.
    positions = 0.5 * jax.random.normal(jax.random.key(0), (2, 5, cluster.dim))
    gradients = jax.vmap(jax.grad(cluster.log_density))(positions.reshape(-1, cluster.dim))
    assert is_steep(gradients)
    state, num_replaced = settled(jax.random.key(1), cluster, kernel, positions, betas, ledger, "initial_pt")
    assert state.chain.log_density.shape == (2, 5) and num_replaced == 0
    assert ledger.points == {"initial_pt": 10 * (2 + NUM_STEPS)}
    assert not is_steep(state.chain.log_density_grad.reshape(-1, cluster.dim))
    # Values belong to the positions, whoever they were taken from.
    again = jax.vmap(cluster.log_density)(state.chain.position.reshape(-1, cluster.dim))
    np.testing.assert_allclose(np.asarray(again), np.asarray(state.chain.log_density).reshape(-1), rtol=1e-5)


def test_points_outside_walls_stay_and_cost_one_each(cluster):
    kernel, ledger = HMC(num_leapfrog=3), Ledger()
    wide = 5.0 * jax.random.normal(jax.random.key(2), (1, 4, cluster.dim))
    state, _ = settled(jax.random.key(1), cluster, kernel, wide, jnp.ones((1,)), ledger, "pilot")
    assert jnp.array_equal(state.chain.position, wide) and ledger.total == 4
