"""Chains start where there is a density, though it is zero on nearly all of the prior."""

import jax
import jax.numpy as jnp
import numpy as np

import tempering as tp
from tempering.adapters.prior import posterior_of
from tempering.methods.start import inhabited, own_start
from tempering.runs.ledger import Ledger


def ring(x):
    """0 on a ring that fills a hundredth of the prior, -inf elsewhere."""
    radius = jnp.sqrt((x[0] - 0.5) ** 2 + x[1] ** 2 + 1e-12)
    return jnp.where(jnp.abs(radius - 1.5) < 0.02, 0.0, -jnp.inf)


def test_points_with_a_density_are_found_within_a_part_of_the_budget():
    target = posterior_of(ring, 2, None, tp.Uniform(-3.0, 3.0), None)
    start_fn, ledger = own_start(None, target, 1.0, prefers_own=True), Ledger(70_000)
    points = inhabited(jax.random.key(0), target, start_fn, ledger)
    assert len(points) > 10 and 0 < ledger.total <= 0.05 * 70_000
    assert np.all(np.isfinite(jax.vmap(target.log_density)(points)))
    sides = np.asarray(jax.vmap(target.chart.embed)(points))[:, 0] > 0.5
    assert 0 < np.sum(sides) < len(sides)  # on all of the ring, not at one place
    few = Ledger(4_000)
    assert inhabited(jax.random.key(0), target, start_fn, few).shape[1] == 2 and few.total <= 200


def test_nothing_is_found_where_there_is_nothing():
    target = posterior_of(lambda x: jnp.sum(x) - jnp.inf, 2, None, tp.Uniform(-3.0, 3.0), None)
    start_fn = own_start(None, target, 1.0, prefers_own=True)
    assert inhabited(jax.random.key(0), target, start_fn, Ledger(70_000)).shape == (0, 2)
