"""Transport distances: exact identities, an independent solver, refusals, and the paper's variant told apart."""

import sys

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from tempering.lab.metrics import (
    MetricError,
    distances,
    energy_wasserstein_1,
    energy_wasserstein_2,
    paper_w2,
    wasserstein_1,
    wasserstein_2,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 3)) * [1.0, 2.0, 0.3] + [1.0, 0.0, -2.0]
Y = RNG.normal(size=(200, 3)) * [0.5, 1.0, 1.0]
SHIFT = np.array([3.0, -1.0, 0.5])


def test_a_set_is_at_distance_zero_of_itself_in_any_order():
    for distance in (wasserstein_1, wasserstein_2, paper_w2):
        assert distance(X, X[::-1]) == pytest.approx(0.0, abs=1e-7)
        assert distance(X, Y) == pytest.approx(distance(Y, X))
        assert isinstance(distance(X, Y), float)


def test_a_shifted_copy_is_as_far_as_the_shift():
    length = np.linalg.norm(SHIFT)
    assert wasserstein_1(X, X + SHIFT) == pytest.approx(length)
    assert wasserstein_2(X, X + SHIFT) == pytest.approx(length)


def test_shifting_adds_to_w2_squared_what_it_must():
    """W2^2(x, y + s) = W2^2(x, y) + |s|^2 + 2 s . (mean y - mean x) holds exactly, for any two sets."""
    expected = wasserstein_2(X, Y) ** 2 + SHIFT @ SHIFT + 2 * SHIFT @ (Y.mean(axis=0) - X.mean(axis=0))
    assert wasserstein_2(X, Y + SHIFT) ** 2 == pytest.approx(expected)
    # Saboteurs: the identity belongs to the root of the squared cost, and to no other.
    for impostor in (wasserstein_1, paper_w2):
        wrong = impostor(X, Y) ** 2 + SHIFT @ SHIFT + 2 * SHIFT @ (Y.mean(axis=0) - X.mean(axis=0))
        assert impostor(X, Y + SHIFT) ** 2 != pytest.approx(wrong, rel=1e-3)


def test_stretching_a_line_has_a_closed_form():
    """Between x and a x the sorted order is optimal: W2 = |a - 1| rms(x), W1 = |a - 1| mean |x|."""
    line = RNG.normal(size=(150, 1)) + 0.5
    assert wasserstein_2(line, 3 * line) == pytest.approx(2 * np.sqrt(np.mean(line**2)))
    assert wasserstein_1(line, 3 * line) == pytest.approx(2 * np.mean(np.abs(line)))


def test_masses_split_when_sizes_differ():
    assert wasserstein_1([[0.0]], [[0.0], [3.0]]) == pytest.approx(1.5)
    assert wasserstein_2([[0.0]], [[0.0], [3.0]]) == pytest.approx(np.sqrt(4.5))


def test_two_solvers_agree():
    """Sets of equal size are assigned, others transported; a set with every point twice is the same measure."""
    for metric, distance, root in (("euclidean", wasserstein_1, 1.0), ("sqeuclidean", wasserstein_2, 0.5)):
        transported = distances.transport(cdist(X, Y, metric), 1_000_000)[1]
        assert distance(X, Y) == pytest.approx(transported**root)
        assert distance(np.repeat(X, 2, axis=0), Y) == pytest.approx(distance(X, Y))


def test_on_a_line_transport_is_the_quantile_formula():
    x, y = X[:70, 0], Y[:110, 1]
    assert wasserstein_1(x[:, None], y[:, None]) == pytest.approx(energy_wasserstein_1(x, y))
    assert wasserstein_2(x[:, None], y[:, None]) == pytest.approx(energy_wasserstein_2(x, y))


def test_an_unsolved_transport_raises(monkeypatch):
    monkeypatch.setattr(distances, "MAX_ITERATIONS", 50)
    for distance in (wasserstein_1, wasserstein_2):
        with pytest.raises(MetricError, match="not solved within 50 iterations"):
            distance(X, Y[:150])


def test_the_papers_w2_is_w1_when_solved_and_an_unsolved_one_when_not(monkeypatch):
    assert distances.PAPER_MAX_ITERATIONS == 100_000
    solved = wasserstein_1(X, Y)
    assert paper_w2(X, Y) == pytest.approx(solved) and solved < 0.95 * wasserstein_2(X, Y)
    monkeypatch.setattr(distances, "PAPER_MAX_ITERATIONS", 50)
    assert paper_w2(X, Y) != pytest.approx(solved, rel=1e-2)


@pytest.mark.parametrize("distance", [wasserstein_1, wasserstein_2, paper_w2])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nonfinite_points_raise_and_are_counted(distance, bad):
    broken = X.copy()
    broken[[3, 7], 1] = bad
    with pytest.raises(MetricError, match="2 of the 200 rows of samples"):
        distance(broken, Y)
    with pytest.raises(MetricError, match="2 of the 200 rows of reference"):
        distance(Y, broken)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [(X, Y[:, :2], "dimensions"), (X[:0], Y, "at least one point"), (X[:, 0], Y, "shape")],
)
def test_shapes_that_do_not_fit_raise(x, y, message):
    with pytest.raises(MetricError, match=message):
        wasserstein_1(x, y)


def test_without_the_solver_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ot", None)
    with pytest.raises(MetricError, match=r"pip install 'tempering\[metrics\]'"):
        wasserstein_1(X, Y[:150])
    assert wasserstein_1(X, Y) > 0  # sets of equal size need none
