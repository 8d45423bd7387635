r"""Histograms of angles and other single coordinates, weighted or not, and how far they are from the reference's.

Consumes numbers that were computed of conformations (dihedrals in radians, bond lengths, energies), produces densities
and distances. Nothing is dropped: a value that is not finite, or outside the bins, is mass that the density lacks, and
counts as error. Without such values `ramachandran_kl` is the definition of the paper's code.
"""

import math

import numpy as np
import numpy.typing as npt
from jaxtyping import Float

from tempering.lab.metrics.energy import NUM_BINS
from tempering.lab.metrics.metric import MetricError, checked_points, checked_values
from tempering.lab.metrics.particles import Histogram

__all__ = [
    "NUM_RAMACHANDRAN_BINS",
    "dihedral_histogram",
    "marginal_histogram",
    "marginal_tvds",
    "normalised_weights",
    "ramachandran_histogram",
    "ramachandran_kl",
    "wrapped",
]

NUM_RAMACHANDRAN_BINS = 64
"""Of phi and of psi: the paper's."""
_EPS = 1e-10
"""Per square radian, added to both densities: the paper's. An empty bin costs log(q / 1e-10) for its share q."""
_FULL_CIRCLE = (-math.pi, math.pi)


def normalised_weights(log_weights: npt.ArrayLike | None, num: int) -> Float[np.ndarray, " num"]:
    """Weights that add up to 1; equal ones for None.

    Raises:
        MetricError: for another number of them, NaN or +inf among them, or none above zero.
    """
    if log_weights is None:
        return np.full(num, 1.0 / num)
    array = np.asarray(log_weights, np.float64)
    if array.shape != (num,):
        raise MetricError(f"log_weights have shape {array.shape}; {num:,} samples need ({num},), one each")
    if np.any(np.isnan(array)) or np.max(array) in (np.inf, -np.inf):
        raise MetricError("log_weights hold NaN or +inf, or are all -inf; a sample of no weight has -inf")
    weights = np.exp(array - np.max(array))
    return weights / weights.sum()


def wrapped(angles: npt.ArrayLike, name: str = "angles") -> Float[np.ndarray, "*shape"]:
    """Angles brought to [-pi, pi), so that -180 and 180 degrees are one; what is not finite stays so.

    Raises:
        MetricError: for angles beyond two turns, which are degrees.
    """
    array = np.asarray(angles, np.float64)
    finite = array[np.isfinite(array)]
    if finite.size and np.max(np.abs(finite)) > 4 * math.pi:
        raise MetricError(f"{name} reach {np.max(np.abs(finite)):.4g}; give radians, not degrees")
    with np.errstate(invalid="ignore"):
        turned = np.mod(array + math.pi, 2 * math.pi) - math.pi
    # Just below -pi the remainder rounds up to a whole turn.
    return np.where(turned >= math.pi, -math.pi, turned)


def ramachandran_histogram(
    angles: npt.ArrayLike, *, log_weights: npt.ArrayLike | None = None, num_bins: int = NUM_RAMACHANDRAN_BINS
) -> Float[np.ndarray, "phi psi"]:
    """The density of (phi, psi) over equal bins of the torus, per square radian.

    Args:
        angles: phi and psi, shape (num, 2), radians. Rows that are not finite are mass that is lost.
        log_weights: shape (num,); equal weights without.

    Raises:
        MetricError: for wrong shapes, degrees, or weights that are none.
    """
    x = wrapped(_checked_angles(angles, "angles", allow_nonfinite=True))
    weights = normalised_weights(log_weights, len(x))
    _require_bins(num_bins)
    whole = np.isfinite(x).all(axis=1)
    phi, psi = x[whole, 0], x[whole, 1]
    shares, _, _ = np.histogram2d(phi, psi, num_bins, [_FULL_CIRCLE, _FULL_CIRCLE], weights=weights[whole])
    return shares * (num_bins / (2 * math.pi)) ** 2


def ramachandran_kl(
    angles: npt.ArrayLike,
    reference: npt.ArrayLike,
    *,
    log_weights: npt.ArrayLike | None = None,
    num_bins: int = NUM_RAMACHANDRAN_BINS,
) -> float:
    r"""KL(reference || samples) between Ramachandran histograms: the paper's, with its 64 x 64 bins.

        KL = (2 pi / 64)^2 sum_b q_b log((q_b + 1e-10) / (p_b + 1e-10)),

    with q and p the densities of reference and samples per square radian. A bin that the reference visits and the
    samples do not costs 15 to 25 times its share, so that the number is mostly a count of such bins and depends on how
    many samples there are: compare it with that of trusted samples at the same number.

    Args:
        angles: phi and psi of the samples, shape (num, 2), radians.
        reference: of trusted samples, shape (m, 2), finite.
        log_weights: of the samples, shape (num,); equal weights without.
        num_bins: fewer bins make a coarser look, whose floor is lower.

    Raises:
        MetricError: for wrong shapes, degrees, a reference that is not finite, or weights that are none.
    """
    q = ramachandran_histogram(_checked_angles(reference, "reference"), num_bins=num_bins)
    p = ramachandran_histogram(angles, log_weights=log_weights, num_bins=num_bins)
    return float(np.sum(q * np.log((q + _EPS) / (p + _EPS))) * (2 * math.pi / num_bins) ** 2)


def marginal_histogram(
    values: npt.ArrayLike,
    reference: npt.ArrayLike,
    *,
    log_weights: npt.ArrayLike | None = None,
    span: tuple[float, float] | None = None,
    num_bins: int = NUM_BINS,
) -> Histogram:
    """Densities of one coordinate of samples and reference; `.tvd` of it is `energy_tvd`'s, with weights.

    Args:
        values: of the samples, shape (num,); ones that are not finite are outside.
        reference: shape (m,), finite.
        log_weights: of the samples, shape (num,); equal weights without.
        span: of the bins; the reference's range without.

    Raises:
        MetricError: for wrong shapes, a reference that is not finite, or weights that are none.
    """
    x = checked_values(values, "values", allow_nonfinite=True)
    y = checked_values(reference, "reference")
    weights = normalised_weights(log_weights, len(x))
    _require_bins(num_bins)
    edges = np.histogram_bin_edges(y, num_bins, span)
    widths, finite = np.diff(edges), np.isfinite(x)
    # Edges would be searched for each value; equal bins are computed from the range, which is ten times as fast.
    bins = {"bins": num_bins, "range": (float(edges[0]), float(edges[-1]))}
    shares, _ = np.histogram(x[finite], **bins, weights=None if log_weights is None else weights[finite])
    if log_weights is None:
        shares = shares / len(x)
    counts, _ = np.histogram(y, **bins)
    outside = max(0.0, 1.0 - float(shares.sum()))
    return Histogram(edges, shares / widths, counts / (len(y) * widths), outside)


def dihedral_histogram(
    angles: npt.ArrayLike,
    reference: npt.ArrayLike,
    *,
    log_weights: npt.ArrayLike | None = None,
    num_bins: int = NUM_BINS,
) -> Histogram:
    """`marginal_histogram` of an angle on the full circle, radians: -pi and pi are one place."""
    x, y = wrapped(angles), wrapped(reference, "reference")
    return marginal_histogram(x, y, log_weights=log_weights, span=_FULL_CIRCLE, num_bins=num_bins)


def marginal_tvds(
    values: npt.ArrayLike, reference: npt.ArrayLike, *, log_weights: npt.ArrayLike | None = None
) -> Float[np.ndarray, " column"]:
    """The total variation of every column, such as one of `bond_lengths`, against the same of the reference.

    Args:
        values: shape (num, column).
        reference: shape (m, column), finite.
        log_weights: of the rows of `values`, shape (num,).

    Raises:
        MetricError: for wrong or different shapes, a reference that is not finite, or weights that are none.
    """
    x, y = checked_points(values, "values", allow_nonfinite=True), checked_points(reference, "reference")
    if x.shape[1] != y.shape[1]:
        raise MetricError(f"values have {x.shape[1]} columns and the reference {y.shape[1]}; they must agree")
    columns = zip(x.T, y.T, strict=True)
    return np.array([marginal_histogram(a, b, log_weights=log_weights).tvd for a, b in columns])


def _checked_angles(angles: npt.ArrayLike, name: str, *, allow_nonfinite: bool = False) -> np.ndarray:
    array = checked_points(angles, name, allow_nonfinite=allow_nonfinite)
    if array.shape[1] != 2:
        raise MetricError(f"{name} have shape {array.shape}; give phi and psi, shape (num, 2)")
    return array


def _require_bins(num_bins: int) -> None:
    if num_bins < 1:
        raise MetricError(f"num_bins is {num_bins}; give at least 1")
