"""What lies where a density has no value: little beyond a wall that it falls to, much in a hole of its bulk."""

import numpy as np
import pytest

from tempering.sampler.diagnosis.thresholds import HIDDEN
from tempering.weights.without_value import mass_without_value

MEAN, STD = np.array([0.4, -1.0]), np.array([2.0, 0.5])


def draws(num: int = 6000) -> tuple[np.ndarray, np.ndarray]:
    """Points of a wide normal, and its log density up to a constant."""
    noise = np.random.default_rng(0).standard_normal((num, 2))
    return MEAN + 2.0 * STD * noise, -0.5 * np.sum(noise**2, axis=1)


def share(log_density: np.ndarray, position: np.ndarray, log_q: np.ndarray) -> float:
    return mass_without_value(position, log_density, np.isfinite(log_density), log_q)


def normal(position: np.ndarray) -> np.ndarray:
    return -0.5 * np.sum(((position - MEAN) / STD) ** 2, axis=1)


def test_beyond_a_wall_that_the_density_falls_to_there_is_next_to_nothing():
    position, log_q = draws()
    with np.errstate(invalid="ignore"):
        log_density = normal(position) + 2.0 * np.log(position[:, 0] + 1.6)  # as a user writes it: NaN beyond
    assert 500 < np.sum(np.isnan(log_density))
    assert share(log_density, position, log_q) < HIDDEN


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_hole_in_the_bulk_is_missed(value):
    position, log_q = draws()
    is_hole = np.sum(((position - MEAN) / STD) ** 2, axis=1) < 0.5
    found = share(np.where(is_hole, value, normal(position)), position, log_q)
    truth = 1.0 - np.exp(-0.25)  # of a normal in the plane within a radius of sqrt(0.5)
    assert found == 1.0 if value == np.inf else found == pytest.approx(truth, abs=0.08)
    assert found > HIDDEN


def test_a_cut_through_the_bulk_is_missed_though_the_rest_is_whole():
    position, log_q = draws()
    assert share(np.where(position[:, 1] > -0.8, np.nan, normal(position)), position, log_q) > 0.05


def test_what_is_outside_the_support_is_known():
    position, log_q = draws()
    log_density = np.where(position[:, 1] > -0.8, -np.inf, normal(position))
    assert share(log_density, position, log_q) == 0.0
    far = position[:, 1] > 0.2  # NaN behind a layer of -inf: what is next to it has no mass
    assert share(np.where(far, np.nan, log_density), position, log_q) < 1e-3


def test_nothing_usable_is_everything_missing():
    position, log_q = draws(10)
    assert share(np.full(10, np.nan), position, log_q) == 1.0
