"""Uphill searches: are all optima found, counted and told apart, within their evaluations, and is it known when not?"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.random_checks import must_fail
from tempering.adapters import as_target, from_callable
from tempering.atlas import survey as surveying
from tempering.atlas.optima import Optima, Shape, laplace_log_mass
from tempering.atlas.survey import MATTERS, missing_chance, survey
from tempering.runs.ledger import Ledger

MEANS = np.array([[-6.0, 2.0, 0.0], [5.0, -1.0, 3.0], [0.0, 8.0, -4.0]])
WIDTHS = np.array([0.5, 1.0, 2.0])
WEIGHTS = np.array([0.5, 0.3, 0.2])


def mixture(x):
    means, widths = jnp.asarray(MEANS, jnp.float32), jnp.asarray(WIDTHS, jnp.float32)
    square = jnp.sum((x[None] - means) ** 2, axis=1) / widths**2
    constant = jnp.log(jnp.asarray(WEIGHTS, jnp.float32)) - 3 * jnp.log(widths) - 1.5 * jnp.log(2 * jnp.pi)
    return jax.nn.logsumexp(constant - 0.5 * square)


def rosenbrock(x):
    return -10.0 * (x[1] - x[0] ** 2) ** 2 - (x[0] - 1.0) ** 2


def test_all_modes_are_found_with_their_places_weights_and_hits():
    ledger = Ledger()
    found = survey(0, as_target(mixture, 3), ledger, 6000)
    optima = found.optima
    assert len(optima) == 3 and found.is_closed and found.num_lost == 0
    order = np.argsort(-optima.local_weight())
    np.testing.assert_allclose(optima.position[order], MEANS, atol=0.05)
    np.testing.assert_allclose(optima.local_weight()[order], WEIGHTS, atol=0.02)
    np.testing.assert_allclose(
        np.einsum("kii->ki", optima.covariance)[order], WIDTHS[:, None] ** 2 * np.ones(3), rtol=0.1
    )
    assert optima.hits.sum() == found.num_searches
    assert ledger.points == {"atlas": found.evaluations} and found.evaluations <= 6000
    # A normal mode is recognised from afar: most searches end after an evaluation or two.
    assert found.evaluations < 2.0 * found.num_searches


def test_every_evaluation_is_counted():
    calls = []

    def energy(points):
        calls.append(len(points))
        square = np.sum(points**2, axis=1)
        return -0.5 * square, -points

    target = from_callable(energy, 2, gradient="returned", batched=True)
    ledger = Ledger()
    found = survey(0, target, ledger, 2000)
    assert sum(calls) == ledger.points["atlas"] == found.evaluations
    assert len(found.optima) == 1
    np.testing.assert_allclose(found.optima.covariance[0], np.eye(2), atol=0.02)


def test_a_curved_valley_has_one_optimum():
    found = survey(1, as_target(rosenbrock, 2), Ledger(), 12_000)
    assert len(found.optima) == 1, found.optima.position
    np.testing.assert_allclose(found.optima.position[0], [1.0, 1.0], atol=0.02)


def test_many_optima_are_not_listed_and_cost_little():
    # 2^16 of them: every search finds another.
    def wells(x):
        return jnp.sum(-((x**2 - 4.0) ** 2))

    ledger = Ledger()
    found = survey(0, as_target(wells, 16), ledger, 50_000)
    assert not found.is_closed and found.missing > 0.5
    assert ledger.total < 8000


@pytest.mark.parametrize(
    "flat", [lambda x: jnp.zeros(()) * x[0], lambda x: x[0] - 0.5 * x[1] ** 2], ids=["constant", "without end"]
)
def test_what_has_no_peak_closes_nothing(flat):
    ledger = Ledger()
    found = survey(0, as_target(flat, 2), ledger, 20_000)
    assert not found.is_closed
    assert ledger.total <= 20_000


def test_searches_outside_the_support_are_lost_and_the_others_count():
    found = survey(
        0, as_target(lambda x: jnp.where(x[0] > 0, -0.5 * jnp.sum((x - 2.0) ** 2), -jnp.inf), 2), Ledger(), 3000
    )
    assert found.num_outside > 100 and found.num_lost == 0 and len(found.optima) == 1


def test_the_chance_of_another_optimum_is_that_of_good_and_turing():
    weight = np.array([0.5, 0.4, 0.1, 0.1 * MATTERS])
    assert missing_chance(np.array([10, 1, 1, 1]), weight, 13) == pytest.approx(2 / 13)
    assert missing_chance(np.array([10, 2, 2, 1]), weight, 15) == 0.0
    assert missing_chance(np.zeros(0), np.zeros(0), 0) == 1.0


def test_a_saddle_is_left_to_the_side_that_rises():
    shape = Shape.at(np.zeros(2), 0.0, np.zeros(2), np.diag([2.0, -1.0]))
    assert not shape.is_peak
    assert abs(shape.ascent[0]) > 0.5 and abs(shape.ascent[1]) < 1e-9


def test_an_optimum_is_recognised_by_its_quadratic_shape_alone():
    optima = Optima(2)
    optima.add(Shape.at(np.array([3.0, 0.0]), 1.0, np.zeros(2), -np.diag([4.0, 1.0])))
    away = np.array([[2.0, 1.0]])
    there, fall = optima.position[0] + away, 0.5 * (4.0 * 4.0 + 1.0)
    gradient = -away * np.array([4.0, 1.0])
    assert optima.recognise(there, np.array([1.0 - fall]), gradient)[0] == 0
    assert optima.recognise(there, np.array([1.0 - fall]), -gradient)[0] == -1
    assert optima.recognise(there, np.array([1.0 + fall]), gradient)[0] == -1


def test_a_mode_five_hundred_widths_away_is_found(monkeypatch):
    def far_apart(x):
        far = jnp.array([400.0, 300.0])
        return jnp.logaddexp(-0.5 * jnp.sum(x**2), -0.5 * jnp.sum((x - far) ** 2))

    found = survey(0, as_target(far_apart, 2), Ledger(), 4000)
    assert len(found.optima) == 2 and found.optima.hits.min() > 3
    # The saboteur: clouds of up to forty widths alone, and one mode is all that there is.
    monkeypatch.setattr("tempering.atlas.survey._FAR_SHARE", 0.0)
    assert len(survey(0, as_target(far_apart, 2), Ledger(), 4000).optima) == 1


def test_laplaces_mass_is_exact_for_normals():
    """The saboteur leaves out the widths."""
    covariance = np.array([[[4.0, 1.0], [1.0, 0.5]], [[0.01, 0.0], [0.0, 9.0]]])
    heights = np.array([1.5, -2.0])
    exact = heights + np.log(2.0 * np.pi) + 0.5 * np.log([1.0, 0.09])

    def agrees(log_mass):
        assert np.allclose(log_mass, exact)

    agrees(laplace_log_mass(heights, covariance))
    must_fail(agrees, laplace_log_mass(heights, np.broadcast_to(np.eye(2), (2, 2, 2))))
    assert len(laplace_log_mass(np.zeros(0), np.zeros((0, 2, 2)))) == 0


def kinked(x):
    """Two narrow modes. At their tops slopes of 60 and -60 meet: there second derivatives promise a rise for ever."""
    away = jnp.stack([x - jnp.array([2.0, -1.0]), x + jnp.array([3.0, 0.5])])
    return jax.nn.logsumexp(-5e3 * jnp.sum(away**2, axis=1) - 60.0 * jnp.abs(away[:, 0]))


def test_summits_at_a_kink_are_accepted(monkeypatch):
    """The saboteur waits there for derivatives that promise nothing."""

    def finds_both():
        found = survey(0, as_target(kinked, 2), Ledger(), 8_000, scale=1.0)
        places = sorted(found.optima.position[found.optima.local_weight() > 0.1].tolist())
        assert len(places) == 2 and np.allclose(places, [[-3.0, -0.5], [2.0, -1.0]], atol=2e-3), places

    finds_both()
    monkeypatch.setattr(surveying, "_KINK", 0.0)
    must_fail(finds_both)
