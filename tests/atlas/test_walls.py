"""Densities that end at a wall where they are largest, as users write them with `where` and -inf."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.support.random_checks import must_fail

from tempering.adapters import as_target
from tempering.atlas import survey as survey_module
from tempering.atlas.adapt import first_guess
from tempering.atlas.mixture import drawn_of
from tempering.atlas.optima import Optima, Shape
from tempering.atlas.survey import Survey, survey
from tempering.atlas.walls import at_walls
from tempering.methods.atlas import _found
from tempering.methods.from_modes import optima_in
from tempering.runs.ledger import Ledger


def cornered(x):
    """exp(-x0 / 0.5) and exp(-(3 - x1) / 2) inside of x0 > 0 and x1 < 3, beside a normal about -4."""
    inside = (x[0] > 0.0) & (x[1] < 3.0)
    return jnp.where(inside, -2.0 * x[0] - 0.5 * (3.0 - x[1]) - 0.5 * (x[2] + 4.0) ** 2, -jnp.inf)


def test_searches_that_end_at_walls_find_one_optimum_as_wide_as_it_falls(monkeypatch):
    """The saboteur sees no walls."""

    def finds():
        found = survey(0, as_target(cornered, 3), Ledger(), 14_000)
        assert len(found.optima) == 1 and found.num_searches > 5 * found.num_lost, found
        np.testing.assert_allclose(found.optima.position[0], [0.0, 3.0, -4.0], atol=0.7)
        np.testing.assert_allclose(np.sqrt(np.diagonal(found.optima.covariance[0])), [0.5, 2.0, 1.0], rtol=0.05)

    finds()
    monkeypatch.setattr(survey_module, "at_walls", lambda *_: (None, None))
    must_fail(finds)


def in_two_rooms(x):
    """Two boxes of unlike size in a plane of -inf, in each of which all mass is where four walls meet."""
    first, second = jnp.all((x > -2.0) & (x < 0.5)), jnp.all((x > 1.0) & (x < 4.0))
    return jnp.where(first, 8.0 * jnp.sum(x - 0.5), jnp.where(second, -10.0 * jnp.sum(x - 1.0), -jnp.inf))


def test_searches_come_to_where_four_walls_meet(monkeypatch):
    """They stay at each wall that they come to. The saboteur's leave it with every step, and are cut short again."""

    def finds():
        found = survey(0, as_target(in_two_rooms, 4), Ledger(), 16_000)
        assert len(found.optima) == 2 and found.num_searches > 60, found
        place = np.sort(found.optima.position.mean(axis=1))
        np.testing.assert_allclose(place, [0.5, 1.0], atol=0.1)
        widths = np.sqrt(np.diagonal(found.optima.covariance, axis1=1, axis2=2))
        np.testing.assert_allclose(np.sort(widths.mean(axis=1)), [0.1, 0.125], rtol=0.05)

    finds()
    plain = survey_module.climb

    def forgets(target, state, num_ticks):
        return plain(target, eqx.tree_at(lambda s: s.at_wall, state, np.zeros_like(state.at_wall)), num_ticks)

    monkeypatch.setattr(survey_module, "climb", forgets)
    must_fail(finds)


@pytest.mark.parametrize(
    ("x2", "is_optimum", "onward"), [(-4.0, True, None), (-1.0, False, [0.0, 0.0, -3.0])], ids=["top", "below"]
)
def test_a_search_at_a_wall_goes_on_along_it(x2, is_optimum, onward):
    target, at = as_target(cornered, 3), np.array([1e-6, 3.0 - 1e-6, x2])
    gradient, hessian = np.array([-2.0, 0.5, -(x2 + 4.0)]), np.diag([0.0, 0.0, -1.0])
    reach, ledger = np.array([-1e-3, 1e-3, 0.0]), Ledger()
    shape, along = at_walls(target, at, 0.0, gradient, hessian, reach, ledger, 100)
    assert ledger.points == {"atlas": 3}
    assert (shape is not None) == is_optimum
    assert (along is None) if onward is None else np.allclose(along, onward)
    # Far from the walls there is none to be seen, and nothing is looked for that cannot be paid.
    inside = np.array([1.0, 1.0, x2])
    assert at_walls(target, inside, 0.0, gradient, hessian, reach, ledger, 100) == (None, None)
    assert at_walls(target, at, 0.0, gradient, hessian, reach, ledger, 7) == (None, None)


def test_a_search_that_falls_evenly_from_a_wall_is_recognised_from_afar():
    """With the slope and the value of the optimum at a wall; another slope, or another height, is another optimum."""
    optima, slope = Optima(2), np.array([4.0, 0.0])
    shape = Shape(np.array([0.5, 1.0]), 0.0, 0.0, True, np.diag([16.0, 1.0]), np.diag([1 / 16.0, 1.0]), np.zeros(2))
    optima.add(dataclasses.replace(shape, slope=slope))
    at = np.array([[-9.5, 3.0], [-9.5, 3.0], [-9.5, 3.0]])
    value, gradient = np.array([-42.0, -20.0, -42.0]), np.array([[4.0, -2.0], [4.0, -2.0], [6.0, -2.0]])
    np.testing.assert_array_equal(optima.recognise(at, value, gradient), [0, -1, -1])


def test_the_mass_at_walls_is_that_of_an_exponential(monkeypatch):
    """1 / 4 along the wall's coordinate and a normal's along the other; the saboteur takes both for normals."""
    optima = Optima(2)
    shape = Shape(np.zeros(2), 0.0, 0.0, True, np.diag([16.0, 1.0]), np.diag([1 / 16.0, 1.0]), np.zeros(2))
    optima.add(dataclasses.replace(shape, slope=np.array([4.0, 0.0])))

    def is_exact():
        np.testing.assert_allclose(np.exp(optima.log_mass()), [0.25 * np.sqrt(2.0 * np.pi)])

    is_exact()
    monkeypatch.setattr(Optima, "num_walls", np.zeros(1))
    must_fail(is_exact)


def test_a_reference_at_walls_begins_where_the_mass_is(monkeypatch):
    """A width inside of each of four walls; of draws about the corner itself one in sixteen is inside."""
    optima, widths = Optima(4), np.array([0.1, 0.5, 1.0, 3.0])
    shape = Shape(np.zeros(4), 0.0, 0.0, True, np.diag(widths**-2), np.diag(widths**2), np.zeros(4))
    optima.add(dataclasses.replace(shape, slope=np.array([1.0, -1.0, 1.0, -1.0]) / widths))
    sides = np.array([-1.0, 1.0, -1.0, 1.0])

    def is_mostly_inside():
        draws = drawn_of(jax.random.key(0), first_guess(optima), 500)
        assert np.mean(np.all(draws * sides > 0.0, axis=1)) > 0.35

    np.testing.assert_allclose(optima.centre[0], sides * widths)
    is_mostly_inside()
    monkeypatch.setattr(Optima, "centre", np.zeros((1, 4)))
    must_fail(is_mostly_inside)


def test_a_model_is_asked_for_the_mass_at_walls_a_width_inside():
    """Where an exponential is lower by a nat for each wall. In the corner itself no model has much."""
    optima, slope = Optima(2), np.array([4.0, -2.0])
    shape = Shape(np.zeros(2), 3.0, 0.0, True, np.diag(slope**2), np.diag(slope**-2), np.zeros(2))
    optima.add(dataclasses.replace(shape, slope=slope))
    place, log_density = optima_in(_found(Survey(optima)))
    np.testing.assert_allclose(place, [[-0.25, 0.5]])
    np.testing.assert_allclose(log_density, [3.0 + slope @ np.asarray(place)[0]])
