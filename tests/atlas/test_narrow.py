"""Modes thousands of times as long as wide, turned: is their shape seen, and is it taken from the network?"""

import copy

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.random_checks import must_fail
from tempering.adapters import as_target
from tempering.atlas import curvature
from tempering.atlas.adapt import Drawn, draw_more
from tempering.atlas.even import evened
from tempering.atlas.mixture import log_densities, mixture_of
from tempering.atlas.survey import survey
from tempering.runs.ledger import Ledger
from tempering.targets.shaped import Shaped

DIM = 6
STDS = np.geomspace(0.002, 5.0, DIM)
ROTATION = np.linalg.qr(np.random.default_rng(4).standard_normal((DIM, DIM)))[0]
MEAN = np.linspace(-2.0, 3.0, DIM)
COVARIANCE = (ROTATION * STDS**2) @ ROTATION.T


def narrow(x):
    white = jnp.asarray((ROTATION / STDS).T, jnp.float32) @ (x - jnp.asarray(MEAN, jnp.float32))
    return -0.5 * jnp.sum(white**2)


def test_a_long_narrow_turned_mode_shows_its_longest_direction(monkeypatch):
    """The saboteur looks along the coordinates alone: single precision drowns what a millionth of the largest is."""

    def sees_all():
        found = survey(0, as_target(narrow, DIM), Ledger(), 20_000)
        assert len(found.optima) == 1 and found.is_closed
        widths = np.sqrt(np.linalg.eigvalsh(found.optima.covariance[0]))
        np.testing.assert_allclose(widths, STDS, rtol=0.05)

    sees_all()
    monkeypatch.setattr(curvature, "_DROWNED", 0.0)
    must_fail(sees_all)


def test_a_second_look_is_paid_for():
    ledger = Ledger()
    found = survey(0, as_target(narrow, DIM), ledger, 5_000)
    assert found.evaluations == ledger.total <= 5_000


def drawn_of(covariances, means, log_density_fn, num: int = 400) -> Drawn:
    mixture = mixture_of(np.full(len(means), 1.0 / len(means)), np.asarray(means), np.asarray(covariances), 8.0)
    drawn = Drawn([mixture])
    draw_more(jax.random.key(1), as_target(log_density_fn, mixture.dim), drawn, num, Ledger())
    drawn.mixtures.append(mixture)
    return drawn


def test_draws_in_an_even_chart_are_the_same_draws():
    """The saboteur forgets the chart's volume."""
    drawn = drawn_of([COVARIANCE], [MEAN], narrow)
    found = evened(drawn)
    assert found is not None
    inner, chart = found
    shaped = Shaped(as_target(narrow, DIM), chart)
    values, gradients = jax.jit(jax.vmap(jax.value_and_grad(shaped.log_density)))(jnp.asarray(inner.position))

    def agrees(inner: Drawn):
        np.testing.assert_allclose(inner.log_density, values, atol=0.02)
        np.testing.assert_allclose(inner.gradient, gradients, atol=0.02)
        np.testing.assert_allclose(inner.log_weights(), drawn.log_weights(), atol=0.02)
        np.testing.assert_allclose(inner.log_z, drawn.log_z, atol=0.02)

    agrees(inner)
    forgetful = copy.copy(inner)
    forgetful.log_density = drawn.log_density
    must_fail(agrees, forgetful)
    # In the chart the mode is round, and all draws stay in use.
    assert np.allclose(np.asarray(inner.mixtures[-1].factor[0]), np.eye(DIM), atol=0.02)
    assert log_densities(inner.mixtures[-1], inner.position).shape == (400,)


@pytest.mark.parametrize("widths", [np.ones(DIM), np.geomspace(1e-3, 1e3, DIM)], ids=["round", "unlike units"])
def test_coordinates_that_are_as_wide_as_their_modes_are_left_alone(widths):
    def plain(x):
        return -0.5 * jnp.sum((x / jnp.asarray(widths, jnp.float32)) ** 2)

    assert evened(drawn_of([np.diag(widths**2)], [np.zeros(DIM)], plain)) is None


def test_modes_far_apart_are_not_stretched():
    """Their distance is not their width: a chart would not bring them closer."""
    means = np.stack([MEAN, MEAN + 300.0])

    def two(x):
        away = x[None] - jnp.asarray(means, jnp.float32)
        return jax.nn.logsumexp(-0.5 * jnp.sum(away**2, axis=1))

    assert evened(drawn_of(np.stack([np.eye(DIM)] * 2), means, two)) is None
