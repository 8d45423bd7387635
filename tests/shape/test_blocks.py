"""Products by blocks of rows are the products."""

import numpy as np
import pytest

from tempering.shape.blocks import applied, crossed


@pytest.mark.parametrize("rows", [1, 7, 400, 3001])
@pytest.mark.parametrize("columns", [1, 3, 40])
def test_blocks_of_rows_are_the_whole(rows, columns):
    rng = np.random.default_rng(0)
    tall, other = rng.normal(size=(rows, columns)), rng.normal(size=(rows, 190))
    matrix, vector, values = rng.normal(size=(columns, 190)), rng.normal(size=columns), rng.normal(size=rows)
    np.testing.assert_allclose(applied(tall, matrix), tall @ matrix, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(applied(tall, vector), tall @ vector, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(crossed(tall, other), tall.T @ other, rtol=1e-12, atol=1e-11)
    np.testing.assert_allclose(crossed(tall, values), tall.T @ values, rtol=1e-12, atol=1e-11)
