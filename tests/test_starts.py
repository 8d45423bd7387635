"""Chains start where there is a density, though it is zero on nearly all of the prior."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from support.random_checks import must_fail
from tempering.adapters.prior import posterior_of
from tempering.methods.pilot import prepare
from tempering.methods.start import inhabited, own_start
from tempering.runs.checkpoint import Journal, Nowhere
from tempering.runs.ledger import Ledger
from tempering.settings import resolved


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


def in_a_corner(x):
    """A box of a two-hundredth of the prior, with all of the mass where four of its walls meet."""
    return jnp.where(jnp.all((x > 0.05) & (x < 0.3)), 20.0 * jnp.sum(x - 0.3), -jnp.inf)


def test_chains_start_where_there_is_a_density_though_few_searches_came_to_an_optimum(monkeypatch):
    """Few of the starts of searches have one, and none of those of chains. The saboteur starts chains there all the
    same, which is an error after a fifth of the budget."""
    target = posterior_of(in_a_corner, 4, None, tp.Uniform(0.0, 1.0), None)

    class Heated(Exception):
        """With the starting points of the chains that were to be heated."""

    def heats(key, target, settings, start_fn, *_):
        raise Heated(start_fn(key, 16))

    def starts_inside():
        journal, settings = Journal(Ledger(40_000), Nowhere()), resolved(tp.PTSDSettings(), 4)
        with pytest.raises(Heated) as heated:
            prepare(jax.random.key(1), target, settings, None, journal, lambda *event, **numbers: None)
        assert np.all(np.isfinite(jax.vmap(target.log_density)(heated.value.args[0])))

    monkeypatch.setattr("tempering.methods.pilot._piloted", heats)
    starts_inside()
    monkeypatch.setattr("tempering.methods.pilot.Found.is_mostly_outside", False)
    must_fail(starts_inside)
