"""Products of tall matrices by blocks of rows, each too small for BLAS to share among threads.

A fit of a chart makes tens of thousands of products of some thousand rows and a few columns. Threads save nothing
there, and on a busy machine each product waits until all of them have had their turn.
"""

import numpy as np

__all__ = ["applied", "crossed"]

_MOST_MATRIX, _MOST_VECTOR = 200_000, 8_000
"""Multiplications of a block with a matrix and with a vector: OpenBLAS takes threads from 262,144 and 9,216 on."""


def applied(tall: np.ndarray, right: np.ndarray) -> np.ndarray:
    """`tall @ right`."""
    rows = _rows(tall, right)
    whole = len(tall) // rows * rows
    head = tall[:whole].reshape((-1, rows, tall.shape[1])) @ right
    return np.concatenate([head.reshape((whole, *right.shape[1:])), tall[whole:] @ right])


def crossed(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """`left.T @ right` of two tall matrices, or of a tall matrix and as long a vector."""
    if right.ndim == 1:
        return crossed(left, right[:, None])[:, 0]
    rows = _rows(left, right)
    whole = len(left) // rows * rows
    blocks = left[:whole].reshape((-1, rows, left.shape[1])).transpose(0, 2, 1)
    head = np.sum(blocks @ right[:whole].reshape((-1, rows, right.shape[1])), axis=0)
    return head + left[whole:].T @ right[whole:]


def _rows(tall: np.ndarray, right: np.ndarray) -> int:
    columns = 1 if right.ndim == 1 else right.shape[1]
    most = _MOST_VECTOR if columns == 1 else _MOST_MATRIX
    return max(1, most // max(1, tall.shape[1] * columns))
