"""Flat tops: is their width measured where second derivatives promise any, and is all else left as it is?"""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from support.random_checks import must_fail
from tempering.adapters import as_target
from tempering.atlas.optima import Shape, laplace_log_mass
from tempering.atlas.widths import with_measured_widths
from tempering.runs.ledger import Ledger

SIDES, CENTRE = np.array([0.5, 2.0, 4.0]), np.array([1.0, -2.0, 3.0])
EXACT = float(np.prod(2.0 * SIDES) * 0.9417**3)
"""The volume of exp(-sum (x / s)^8): twice Gamma(9 / 8) for every side."""


def box(x):
    return -jnp.sum(((x - jnp.asarray(CENTRE, jnp.float32)) / jnp.asarray(SIDES, jnp.float32)) ** 8)


def test_the_mass_of_a_flat_top_is_of_its_own_size(monkeypatch):
    """The saboteur believes second derivatives."""
    shape = Shape.at(CENTRE, 0.0, np.zeros(3), -np.diag([1e-6, 1e-8, 1e-7]))

    def is_of_size():
        ledger = Ledger()
        found = with_measured_widths(as_target(box, 3), shape, ledger, 1000)
        widths = np.sqrt(np.diagonal(found.covariance))
        assert np.all(widths < 1.01 * SIDES) and np.all(widths > 0.5 * SIDES)
        assert abs(float(laplace_log_mass(np.zeros(1), found.covariance[None])[0]) - np.log(EXACT)) < 1.5
        np.testing.assert_allclose(found.precision @ found.covariance, np.eye(3), atol=1e-6)
        assert ledger.total <= 1000

    is_of_size()
    monkeypatch.setattr("tempering.atlas.widths._FAR_TOO_LOW", np.inf)
    must_fail(is_of_size)


def ridge(x):
    return -0.5 * (x[0] / 0.5) ** 2 - 0.5 * ((x[1] - x[0] ** 2) / 0.01) ** 2 - 0.5 * x[2] ** 2


def normal(x):
    return -0.5 * jnp.sum((x / jnp.array([1e-3, 1.0, 10.0])) ** 2)


@pytest.mark.parametrize(
    ("log_density", "widths"), [(normal, [1e-3, 1.0, 10.0]), (ridge, [0.5, 0.01, 1.0])], ids=["normal", "valley"]
)
def test_other_optima_keep_their_widths_for_two_evaluations(log_density, widths):
    shape = Shape.at(np.zeros(3), 0.0, np.zeros(3), -np.diag(np.array(widths) ** -2.0))
    ledger = Ledger()
    found = with_measured_widths(as_target(log_density, 3), shape, ledger, 10_000)
    assert found is shape and ledger.total == 2


def test_nothing_is_measured_where_it_cannot_be_paid_for():
    shape = dataclasses.replace(Shape.at(CENTRE, 0.0, np.zeros(3), -np.diag([1e-6] * 3)))
    ledger = Ledger()
    assert with_measured_widths(as_target(box, 3), shape, ledger, 100) is shape and ledger.total == 0
