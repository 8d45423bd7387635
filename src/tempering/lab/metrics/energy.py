"""How far the distribution of energies is from the reference's. Consumes energies (-log density), produces numbers.

An energy is one number, so these see only how deep the samples lie, not where: two modes of equal depth can be
swapped for free. What they have over distances in space is a small floor in high dimension.
"""

import numpy as np
import numpy.typing as npt

from tempering.lab.metrics.metric import MetricError, checked_values

__all__ = ["NUM_BINS", "energy_tvd", "energy_wasserstein_1", "energy_wasserstein_2", "paper_energy_tvd"]

NUM_BINS = 200
"""The paper's."""


def energy_tvd(energies: npt.ArrayLike, reference_energies: npt.ArrayLike, *, num_bins: int = NUM_BINS) -> float:
    r"""Total variation between energy histograms, counting what falls outside the bins as error.

    TVD = (1/2) (sum_b |p_b - q_b| + p_out), with q_b the share of the reference in bin b, p_b that of *all* samples,
    and p_out the share of samples outside the reference's range. Energies that are not finite are outside.

    Args:
        energies: of the samples, shape (n,).
        reference_energies: shape (m,), finite; `num_bins` equal bins span their range.

    Returns:
        A number in [0, 1]; 1 when every sample is outside.

    Raises:
        MetricError: for a non-finite or empty reference, or no samples.
    """
    counts, reference_counts, num = _histograms(energies, reference_energies, num_bins)
    p, q = counts / num, reference_counts / reference_counts.sum()
    return float(0.5 * (np.abs(p - q).sum() + (1.0 - counts.sum() / num)))


def paper_energy_tvd(energies: npt.ArrayLike, reference_energies: npt.ArrayLike, *, num_bins: int = NUM_BINS) -> float:
    """The TVD of the paper's code: samples outside the reference's range are dropped before normalising.

    For comparison with published tables only: it is blind to samples of impossible energy. Use `energy_tvd`.

    Raises:
        MetricError: also when no sample is in range, where the paper's formula is 0/0.
    """
    counts, reference_counts, _ = _histograms(energies, reference_energies, num_bins)
    if counts.sum() == 0:
        raise MetricError("no sample's energy is within the reference's range, so the paper's TVD is 0/0")
    return float(0.5 * np.abs(counts / counts.sum() - reference_counts / reference_counts.sum()).sum())


def energy_wasserstein_1(energies: npt.ArrayLike, reference_energies: npt.ArrayLike) -> float:
    """W1 between two sets of energies: the mean absolute difference of their quantile functions.

    Raises:
        MetricError: for energies that are not finite.
    """
    gaps, widths = _quantile_gaps(energies, reference_energies)
    return float(widths @ gaps)


def energy_wasserstein_2(energies: npt.ArrayLike, reference_energies: npt.ArrayLike) -> float:
    """W2 between two sets of energies: the root mean squared difference of their quantile functions.

    Raises:
        MetricError: for energies that are not finite.
    """
    gaps, widths = _quantile_gaps(energies, reference_energies)
    return float(np.sqrt(widths @ gaps**2))


def _histograms(
    energies: npt.ArrayLike, reference_energies: npt.ArrayLike, num_bins: int
) -> tuple[np.ndarray, np.ndarray, int]:
    if num_bins < 1:
        raise MetricError(f"num_bins is {num_bins}; give at least 1")
    values = checked_values(energies, "energies", allow_nonfinite=True)
    reference_counts, edges = np.histogram(checked_values(reference_energies, "reference energies"), num_bins)
    inside = values[np.isfinite(values)]
    counts, _ = np.histogram(inside, edges)
    return counts, reference_counts, len(values)


def _quantile_gaps(energies: npt.ArrayLike, reference_energies: npt.ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """|F^{-1} - G^{-1}| on every piece of [0, 1] where both quantile functions are constant, and the pieces' widths."""
    x = np.sort(checked_values(energies, "energies"))
    y = np.sort(checked_values(reference_energies, "reference energies"))
    n, m = len(x), len(y)
    # The steps are at i/n and j/m; in units of 1/(n m) they are whole numbers, so coinciding steps coincide exactly.
    ends = np.union1d(np.arange(1, n + 1) * m, np.arange(1, m + 1) * n)
    widths = np.diff(ends, prepend=0) / (n * m)
    return np.abs(x[(ends - 1) // m] - y[(ends - 1) // n]), widths
