"""Metrics that compare two sets of points, and their floors. Consumes points with their energies, produces metrics.

The floor of a comparison is the same comparison with exact samples in the role of the judged ones, at the same N.
"""

import math
import os
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from tempering.lab.metrics.alignment import aligned_w2, most_permuted, paper_aligned_w2
from tempering.lab.metrics.distances import PAPER_MAX_ITERATIONS, paper_w2, wasserstein_1, wasserstein_2
from tempering.lab.metrics.energy import (
    NUM_BINS,
    energy_tvd,
    energy_wasserstein_1,
    energy_wasserstein_2,
    paper_energy_tvd,
)
from tempering.lab.metrics.metric import Metric, MetricError, refuse_nonfinite
from tempering.lab.metrics.mmd import EnergyMMD, energy_mmd
from tempering.lab.metrics.particles import distance_tvd
from tempering.transforms.centred import Centred

__all__ = [
    "ABOUT",
    "PAPER_COMPARISONS",
    "Comparison",
    "FloorPair",
    "Points",
    "compare",
    "comparisons_of",
    "paper_comparisons_of",
]

_MAX_FLOOR_PAIRS = 4
"""Disjoint pairs of reference sets, at most, over which the floor of a costly metric is averaged."""
_MOST_PER_ATOM = 1_000
"""Configurations of each set in the paper's per-atom distance: a million rotations, each applied to every atom."""
_MMD_ROWS = 10_000
"""Energies of each set in the MMD, the paper's number: ten seconds, and memory that does not grow."""
_MOST_AT_ONCE = 4_000
"""Points of a transport up to which five run at once: POT takes up to 0.7 GB each, an assignment a fifth of it."""


@dataclass(frozen=True)
class Points:
    """Points (n, dim) with their energies (n,), in float64."""

    points: np.ndarray
    energies: np.ndarray

    def __len__(self) -> int:
        return len(self.points)

    def between(self, start: int, stop: int) -> "Points":
        return Points(self.points[start:stop], self.energies[start:stop])


@dataclass(frozen=True)
class FloorPair:
    """Two independent sets of exact samples, the first in the role of the judged ones, and where they come from."""

    stand_in: Points
    trusted: Points
    source: str


@dataclass(frozen=True)
class Comparison:
    """A computation on what it `reads` of two sets, giving the metrics `names`.

    `is_costly` ones get fewer rows, and no more than `most` of them; or `own` rows, whatever the others
    get. `is_apart` ones spend their time outside Python's lock: several run at once.
    """

    names: tuple[str, ...]
    reads: Literal["points", "energies"]
    compute: Callable[..., float | tuple[float, ...]]
    is_costly: bool = False
    most: int | None = None
    own: int | None = None
    is_apart: bool = False

    def __call__(self, judged: Points, trusted: Points) -> tuple[float, ...]:
        result = self.compute(getattr(judged, self.reads), getattr(trusted, self.reads))
        return tuple(result) if isinstance(result, tuple) else (result,)


_OF_ENERGIES = (
    Comparison(("energy_tvd",), "energies", energy_tvd),
    Comparison(("energy_w1",), "energies", energy_wasserstein_1),
    Comparison(("energy_w2",), "energies", energy_wasserstein_2),
    Comparison(
        tuple(f"energy_{name}" for name in EnergyMMD._fields), "energies", energy_mmd, is_costly=True, own=_MMD_ROWS
    ),
)
_OF_POINTS = (
    *_OF_ENERGIES,
    Comparison(("w1",), "points", wasserstein_1, is_costly=True, is_apart=True),
    Comparison(("w2",), "points", wasserstein_2, is_costly=True, is_apart=True),
)
PAPER_COMPARISONS = (
    Comparison(("paper_energy_tvd",), "energies", paper_energy_tvd),
    Comparison(("paper_w2",), "points", paper_w2, is_costly=True, is_apart=True),
)


def paper_comparisons_of(geometry: Centred | None) -> tuple[Comparison, ...]:
    """The definitions of the paper's code, for points or for configurations of particles."""
    if geometry is None:
        return PAPER_COMPARISONS
    per_atom = partial(paper_aligned_w2, **geometry.as_dict())
    return (
        *PAPER_COMPARISONS,
        Comparison(("paper_aligned_w2",), "points", per_atom, is_costly=True, most=_MOST_PER_ATOM),
    )


def comparisons_of(geometry: Centred | None, *, is_labelled: bool = False) -> tuple[Comparison, ...]:
    """Those of points, or of configurations of particles: there transport is taken up to their symmetries.

    Particles that are `is_labelled`, such as the atoms of a molecule, are not exchanged.
    """
    if geometry is None:
        return _OF_POINTS
    particles = geometry.as_dict()
    labelled = (
        *_OF_ENERGIES,
        Comparison(("distance_tvd",), "points", partial(distance_tvd, **particles)),
        Comparison(("aligned_w2",), "points", partial(aligned_w2, **particles), is_costly=True),
    )
    if is_labelled:
        return labelled
    # Floors repeat a comparison up to four times, so that a third of what two minutes allow is taken.
    most = max(2, most_permuted(geometry.num_particles) // 3)
    permuted = partial(aligned_w2, is_permuted=True, allow_reflection=True, **particles)
    return (*labelled, Comparison(("permuted_w2",), "points", permuted, is_costly=True, most=most))


ABOUT = {
    "num_nonfinite": ("samples", "samples with a coordinate that is not finite"),
    "num_nonfinite_energies": ("samples", "samples whose energy is not finite"),
    "energy_tvd": ("", f"total variation of energy histograms, {NUM_BINS} bins, mass outside counted as error"),
    "energy_w1": ("kT", "W1 between energies"),
    "energy_w2": ("kT", "W2 between energies"),
    "energy_mmd": ("", "MMD between energies, root of the biased MMD^2, five Gaussian kernels"),
    "energy_mmd_squared": ("", "biased MMD^2 between energies: what the paper's code calls MMD"),
    "energy_mmd_squared_unbiased": ("", "unbiased MMD^2 between energies; scatters about 0 for exact samples"),
    "w1": ("length", "W1, optimal transport with Euclidean cost, solved"),
    "w2": ("length", "W2, root of the optimal transport with squared Euclidean cost, solved"),
    "distance_tvd": ("", "total variation of histograms of interatomic distances, mass outside counted as error"),
    "aligned_w2": ("length", "W2 with configurations turned onto each other (Kabsch), labels kept: the paper's"),
    "permuted_w2": ("length", "W2 with configurations turned, reflected and relabelled: a search, so an upper bound"),
    "paper_energy_tvd": ("", "the paper's TVD: samples outside the reference's energies are dropped"),
    "paper_w2": ("length", f"the paper's 'W2': Euclidean cost, POT stopped at {PAPER_MAX_ITERATIONS:,} iterations"),
    "paper_aligned_w2": (
        "length",
        "the paper's code's 'W2' of particles: configurations turned onto each other (Kabsch), the mean over atoms "
        "of how far they are apart, no square or root",
    ),
    "second_moment_error": ("length^2", "absolute error of E|x|^2"),
    "region_tv": ("", "total variation of mode weights"),
    "region_max_error": ("", "largest absolute error of a region weight"),
}


def compare(comparison: Comparison, judged: Points, trusted: Points, floor_pair: FloorPair, limit: int) -> list[Metric]:
    """The metrics of one comparison, with their floors."""
    num_samples, num_trusted = len(judged), len(trusted)
    if comparison.is_costly:
        limit = comparison.own or min(limit, comparison.most or limit)
        num_samples = num_trusted = min(limit, num_samples, num_trusted)
    parts = _floor_parts(comparison, floor_pair, num_samples, num_trusted)
    (values, failure), *floors = _attempt_all(
        comparison, [(judged, num_samples, trusted.between(0, num_trusted)), *((a, len(a), b) for a, b in parts)]
    )
    floor = _floor_fields(comparison, floor_pair.source, len(parts[0][0]), floors)
    return [
        Metric(name, value, *about, num_samples=num_samples, failure=failure, **floor_fields)
        for name, value, about, floor_fields in zip(
            comparison.names, values, (ABOUT[name] for name in comparison.names), floor, strict=True
        )
    ]


def _floor_parts(
    comparison: Comparison, floor_pair: FloorPair, num_samples: int, num_trusted: int
) -> list[tuple[Points, Points]]:
    """The pairs of exact sets whose comparison is the floor."""
    stand_in, trusted = floor_pair.stand_in, floor_pair.trusted
    num_floor, num_trusted = min(num_samples, len(stand_in)), min(num_trusted, len(trusted))
    num_pairs = 1
    if comparison.is_costly:
        # Equal sizes, and the mean over disjoint pairs: where modes are far apart one pair is a noisy floor.
        num_floor = num_trusted = min(num_floor, num_trusted)
        num_pairs = min(_MAX_FLOOR_PAIRS, len(stand_in) // num_floor, len(trusted) // num_floor)
    return [
        (
            stand_in.between(i * num_floor, (i + 1) * num_floor),
            trusted.between(i * num_trusted, (i + 1) * num_trusted),
        )
        for i in range(num_pairs)
    ]


def _floor_fields(
    comparison: Comparison, source: str, num_floor: int, floors: list[tuple[tuple[float, ...], str | None]]
) -> list[dict]:
    """The fields of `Metric` that tell of the floor, for each of the comparison's names."""
    for _, failure in floors:
        if failure is not None:
            return [{"floor": None, "floor_failure": failure}] * len(comparison.names)
    num_pairs = len(floors)
    return [
        {
            "floor": float(np.mean(column)),
            "floor_spread": float(np.std(column, ddof=1)) if num_pairs > 1 else None,
            "num_floor": num_floor,
            "floor_source": source if num_pairs == 1 else f"{source}, mean of {num_pairs} pairs",
        }
        for column in zip(*(values for values, _ in floors), strict=True)
    ]


def _attempt_all(
    comparison: Comparison, jobs: list[tuple[Points, int, Points]]
) -> list[tuple[tuple[float, ...], str | None]]:
    """`_attempt` on every job, in order; in threads where that helps and the memory of all at once is bounded."""
    if not comparison.is_apart or max(num for _, num, _ in jobs) > _MOST_AT_ONCE:
        return [_attempt(comparison, *job) for job in jobs]
    # Threads share the filters of warnings, which transport changes: what they leave behind is undone here.
    with warnings.catch_warnings(), ThreadPoolExecutor(min(len(jobs), os.cpu_count() or 1)) as pool:
        return list(pool.map(lambda job: _attempt(comparison, *job), jobs))


def _attempt(
    comparison: Comparison, judged: Points, num_judged: int, trusted: Points
) -> tuple[tuple[float, ...], str | None]:
    """The values over the first `num_judged` rows and None, or NaN for each value and the reason."""
    try:
        if comparison.is_costly:
            # All rows, not the first ones: whether a bad one happens to be among the N chosen must not matter.
            refuse_nonfinite(getattr(judged, comparison.reads), comparison.reads)
        return comparison(judged.between(0, num_judged), trusted), None
    except MetricError as error:
        return (math.nan,) * len(comparison.names), str(error)
