"""The order along a Hilbert curve: the curve itself, and what has no say in the order."""

import numpy as np
import pytest

from tempering.weights.hilbert import _MOST_BITS, _NUM_BITS, _place_on_curve, hilbert_order


@pytest.mark.parametrize(("dim", "num_bits"), [(1, 5), (2, 4), (3, 3), (4, 2), (6, 2)])
def test_the_curve_goes_through_every_cell_once_and_always_to_a_neighbour(dim, num_bits):
    sides = np.meshgrid(*[np.arange(2**num_bits)] * dim, indexing="ij")
    cells = np.stack(sides, axis=-1).reshape(-1, dim)
    place = _place_on_curve(cells, num_bits)
    np.testing.assert_array_equal(np.sort(place), np.arange(2 ** (num_bits * dim)))
    steps = np.abs(np.diff(cells[np.argsort(place)], axis=0))
    assert np.all(np.sum(steps, axis=1) == 1)


def test_a_place_on_the_curve_fits_into_its_integer():
    for dim in range(1, 9):
        num_bits = min(_NUM_BITS // dim, _MOST_BITS)
        corners = (2**num_bits - 1) * np.eye(dim + 1, dim, dtype=np.int64)
        place = _place_on_curve(corners, num_bits)
        assert np.all(place >= 0) and np.unique(place).size == dim + 1


def test_neither_units_nor_order_nor_outliers_decide():
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(500, 3))
    order = hilbert_order(rows)
    np.testing.assert_array_equal(order, hilbert_order(rows * [1e-9, 1.0, 1e12] + [0.0, 5.0, -3.0]))
    wild = rows.copy()
    wild[np.argmax(rows[:, 1]), 1] = 1e30
    np.testing.assert_array_equal(order, hilbert_order(wild))
    shuffled = generator.permutation(500)
    np.testing.assert_array_equal(rows[order], rows[shuffled][hilbert_order(rows[shuffled])])


def test_coordinates_that_do_not_vary_are_no_obstacle():
    rows = np.zeros((50, 11))
    rows[:, 3] = np.random.default_rng(0).normal(size=50)
    assert np.all(np.diff(rows[hilbert_order(rows), 3]) > 0)
    # Nor are twelve that say the same.
    same = np.outer(rows[:, 3], np.arange(1.0, 13.0))
    steps = np.diff(same[hilbert_order(same), 0])
    assert np.all(steps > 0) or np.all(steps < 0)
    np.testing.assert_array_equal(hilbert_order(np.ones((4, 2))), np.arange(4))
