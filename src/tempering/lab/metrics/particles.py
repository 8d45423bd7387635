"""Metrics of particle systems that need no alignment: pair distances and their histograms.

Consumes configurations of n particles in d dimensions, one in each row of an array (num, n*d), full coordinates with
the particle as the slower axis; produces numbers and histograms. Everything here is invariant under translations,
rotations, reflections and permutations of the particles. `alignment` holds the transport distances that must search.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from jaxtyping import Float

from tempering.lab.metrics.energy import NUM_BINS
from tempering.lab.metrics.metric import MetricError, checked_points
from tempering.transforms.centred import distance_chunks

__all__ = ["Histogram", "checked_configurations", "distance_tvd", "pair_distances"]


class Histogram(NamedTuple):
    """Densities of samples and reference over equal bins that span the reference's range.

    `density` is per unit of the axis and of *all* samples, so that it integrates to 1 - `share_outside`.
    """

    edges: Float[np.ndarray, " edge"]
    density: Float[np.ndarray, " bin"]
    reference_density: Float[np.ndarray, " bin"]
    share_outside: float

    @property
    def tvd(self) -> float:
        """(1/2) (sum_b |p_b - q_b| + p_out): the total variation, mass outside counted as error."""
        misplaced = np.diff(self.edges) @ np.abs(self.density - self.reference_density)
        return float(0.5 * (misplaced + self.share_outside))


def checked_configurations(
    points: npt.ArrayLike, name: str, *, num_particles: int, spatial_dim: int, allow_nonfinite: bool = False
) -> Float[np.ndarray, "num n d"]:
    """Configurations as float64, shape (num, n, d).

    Raises:
        MetricError: for another number of coordinates than n*d, fewer than two particles, no configurations, or
            (unless allowed) coordinates that are not finite.
    """
    if num_particles < 2 or spatial_dim < 1:
        raise MetricError(
            f"num_particles is {num_particles} and spatial_dim {spatial_dim}; give at least 2 particles (one has no "
            "pair and nothing to align) in at least 1 dimension"
        )
    array = checked_points(points, name, allow_nonfinite=allow_nonfinite)
    if array.shape[1] != num_particles * spatial_dim:
        raise MetricError(
            f"{name} has {array.shape[1]} coordinates in a row and {num_particles} particles in {spatial_dim} "
            f"dimensions have {num_particles * spatial_dim}; give full coordinates, not those of the centred subspace"
        )
    return array.reshape(len(array), num_particles, spatial_dim)


def pair_distances(samples: npt.ArrayLike, *, num_particles: int, spatial_dim: int) -> Float[np.ndarray, "num pair"]:
    """|x_i - x_j| of every pair i < j, in the order (0, 1), (0, 2), ..., (1, 2), ...

    Args:
        samples: shape (num, n*d). A coordinate that is not finite makes the distances of its particle not finite.
        num_particles: n, at least 2.
        spatial_dim: d.

    Returns:
        Shape (num, n(n-1)/2), float64. 10,000 configurations of 55 particles take 119 MB; `distance_tvd` needs no
        such array.

    Raises:
        MetricError: for a wrong number of coordinates, or fewer than two particles.
    """
    x = checked_configurations(
        samples, "samples", num_particles=num_particles, spatial_dim=spatial_dim, allow_nonfinite=True
    )
    return np.concatenate(list(distance_chunks(x)))


def distance_tvd(
    samples: npt.ArrayLike,
    reference: npt.ArrayLike,
    *,
    num_particles: int,
    spatial_dim: int,
    num_bins: int = NUM_BINS,
) -> float:
    """Total variation between histograms of interatomic distances, all pairs of all configurations pooled.

    TVD = (1/2) (sum_b |p_b - q_b| + p_out), over `num_bins` equal bins that span the reference's distances; p_out, the
    share of distances outside, is error, and distances that are not finite are outside. Pooled distances are not
    independent: 10,000 configurations are 10,000 samples, however many pairs they have.

    Args:
        samples: shape (num, n*d).
        reference: shape (m, n*d), finite.

    Returns:
        A number in [0, 1].

    Raises:
        MetricError: for a wrong number of coordinates or a reference that is not finite.
    """
    x, y = (
        checked_configurations(
            points, name, num_particles=num_particles, spatial_dim=spatial_dim, allow_nonfinite=name == "samples"
        )
        for name, points in (("samples", samples), ("reference", reference))
    )
    return _distance_histogram(x, y, num_bins).tvd


def _distance_histogram(x: np.ndarray, y: np.ndarray, num_bins: int) -> Histogram:
    if num_bins < 1:
        raise MetricError(f"num_bins is {num_bins}; give at least 1")
    # Distances are computed once more rather than kept: it is cheaper than the memory.
    ranges = [(chunk.min(), chunk.max()) for chunk in distance_chunks(y)]
    span = (min(low for low, _ in ranges), max(high for _, high in ranges))
    edges = np.histogram_bin_edges(np.empty(0), num_bins, span)
    widths = np.diff(edges)
    densities, shares = [], []
    for configurations in (x, y):
        counts, total = np.zeros(num_bins), 0
        for chunk in distance_chunks(configurations):
            counts += np.histogram(chunk, num_bins, span)[0]
            total += chunk.size
        densities.append(counts / (total * widths))
        shares.append(1.0 - counts.sum() / total)
    return Histogram(edges, densities[0], densities[1], float(shares[0]))
