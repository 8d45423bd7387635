"""Maximum mean discrepancy between two sets of energies. Consumes energies (-log density), produces numbers.

The kernel is the paper's: a sum (not a mean) of five Gaussians, k(a, b) = sum_l exp(-(a - b)^2 / 2^l) with l = -2 ... 2
and energies in kT. Sums run in blocks, so memory grows with N and not with N^2.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tempering.lab.metrics.metric import MetricError, checked_values

__all__ = ["EnergyMMD", "energy_mmd"]

_NUM_KERNELS = 5
_WIDEST = 4.0
_BLOCK = 512


class EnergyMMD(NamedTuple):
    """Three readings of one discrepancy.

    `mmd_squared` is biased: over N samples it is about 2 (5 - E k) / N too large, and it is what the paper's code
    calls MMD. `mmd` is its root. `mmd_squared_unbiased` leaves out the diagonal and may be negative.
    """

    mmd: float
    mmd_squared: float
    mmd_squared_unbiased: float


def energy_mmd(energies: npt.ArrayLike, reference_energies: npt.ArrayLike) -> EnergyMMD:
    r"""MMD^2 = E k(X, X') + E k(Y, Y') - 2 E k(X, Y) for energies X of the samples and Y of the reference.

    Args:
        energies: shape (n,), n at least 2.
        reference_energies: shape (m,), m at least 2.

    Raises:
        MetricError: for energies that are not finite, or fewer than two of them.
    """
    x, y = checked_values(energies, "energies"), checked_values(reference_energies, "reference energies")
    n, m = len(x), len(y)
    if min(n, m) < 2:
        raise MetricError(f"MMD needs two energies on each side, and got {n} and {m}")
    sum_xx, sum_yy, sum_xy = _kernel_sum(x, x), _kernel_sum(y, y), _kernel_sum(x, y)
    cross = 2.0 * sum_xy / (n * m)
    biased = sum_xx / n**2 + sum_yy / m**2 - cross
    # k(a, a) = 5: the diagonals are known.
    unbiased = (sum_xx - _NUM_KERNELS * n) / (n * (n - 1)) + (sum_yy - _NUM_KERNELS * m) / (m * (m - 1)) - cross
    # The biased estimate is a squared norm; rounding may leave it at -1e-16.
    biased = max(biased, 0.0)
    return EnergyMMD(float(np.sqrt(biased)), float(biased), float(unbiased))


def _kernel_sum(x: np.ndarray, y: np.ndarray) -> float:
    """The sum of k(x_i, y_j) over all pairs."""
    total = 0.0
    for start in range(0, len(x), _BLOCK):
        gaps = x[start : start + _BLOCK, None] - y[None]
        kernel = np.exp(-(gaps * gaps) / _WIDEST)
        total += kernel.sum()
        for _ in range(_NUM_KERNELS - 1):
            # Halving the denominator squares the kernel: one exponential serves all five.
            kernel *= kernel
            total += kernel.sum()
    return total
