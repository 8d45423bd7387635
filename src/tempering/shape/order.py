"""In which order coordinates explain each other: the neck of a funnel first, a valley's length before its walls."""

import numpy as np

from tempering.shape.regression import fit_conditional, log_sizes
from tempering.shape.terms import features_of

__all__ = ["best_order", "pair_gains"]

_NUM_ROUNDS = 4


def pair_gains(points: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(i, j): nats that a curved mean and a sloped log width in coordinate j explain of coordinate i beyond a line.

    Lines are left out of the account: for a normal every order is as good as any other, and all gains are zero. So are
    gains that chance may give.
    """
    dim, num = points.shape[1], np.sum(weights)
    least = 2.0 * (0.5 * np.log(num) + 2.0 * np.log(dim) + 2.0)
    gains = np.zeros((dim, dim))
    for j in range(dim):
        promising = _promise(points, weights, j)
        for i in np.flatnonzero(promising > 2.0):
            if i == j:
                continue
            values, line = points[:, i], features_of(points, [(), (j,)])
            straight = fit_conditional(values, line, line[:, :1], weights, num_rounds=1).log_likelihood
            bent = features_of(points, [(), (j,), (j, j)])
            curved = fit_conditional(values, bent, line, weights, num_rounds=_NUM_ROUNDS).log_likelihood
            gains[i, j] = curved - straight if curved - straight > least else 0.0
    return gains


def _promise(points: np.ndarray, weights: np.ndarray, j: int) -> np.ndarray:
    """Of every coordinate given j, the larger of two scores: a square in the mean, a slope of the log size."""
    share = weights / np.sum(weights)
    basis = features_of(points, [(), (j,)])
    normal = np.linalg.inv(basis.T @ (share[:, None] * basis) + 1e-12 * np.eye(2))
    off_line = lambda columns: columns - basis @ (normal @ (basis.T @ (share[:, None] * columns)))  # noqa: E731
    residuals = off_line(points)
    square = off_line(points[:, j : j + 1] ** 2)
    sizes = np.stack([log_sizes(column) for column in residuals.T], axis=1)
    sizes = sizes - share @ sizes
    slope = points[:, j : j + 1] - share @ points[:, j]
    num = np.sum(weights)

    def score(values: np.ndarray, column: np.ndarray) -> np.ndarray:
        covariance = share @ (values * column)
        return 0.5 * num * covariance**2 / ((share @ values**2) * (share @ column**2) + 1e-300)

    return np.maximum(score(residuals, square), score(sizes, slope))


def best_order(gains: np.ndarray) -> list[int]:
    """An order in which the sum of the gains of all pairs, the explaining one first, cannot be raised by one move.

    The linear ordering problem, by moves of one coordinate at a time from the order of what each explains less what
    explains it. Coordinates that explain nothing keep their places.
    """
    dim = len(gains)
    order = [int(index) for index in np.argsort(np.sum(gains, axis=1) - np.sum(gains, axis=0), kind="stable")]
    for _ in range(dim):
        before = list(order)
        for index in before:
            rest = [other for other in order if other != index]
            after = np.concatenate([np.cumsum(gains[rest, index][::-1])[::-1], [0.0]])
            ahead = np.concatenate([[0.0], np.cumsum(gains[index, rest])])
            place = int(np.argmax(after + ahead))
            if (after + ahead)[place] > (after + ahead)[order.index(index)] + 1e-9:
                order = [*rest[:place], index, *rest[place:]]
        if order == before:
            break
    return order
