"""Densities that end at a wall where they are largest, as users write them with `where` and -inf."""

import jax.numpy as jnp
import numpy as np
import pytest
from tests.support.random_checks import must_fail

from tempering.adapters import as_target
from tempering.atlas import survey as survey_module
from tempering.atlas.survey import survey
from tempering.atlas.walls import at_walls
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
