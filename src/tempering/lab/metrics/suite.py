"""All metrics that a target allows, each beside its floor. Consumes samples and reference samples, produces a report.

The floor of a metric is the same metric with exact (or reference) samples in place of the ones judged, at the same N:
between `reference_second` and `reference`, or between the halves of `reference` when there is no second set. Floors of
transport and MMD are means over up to four disjoint pairs, if the sets are large enough.
Nothing is dropped in silence: samples that are not finite are counted, they are mass outside in the histograms and
the region weights, and every metric that has no value for them is reported as failed.
"""

import math
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from tempering.adapters import as_target
from tempering.lab.metrics.comparisons import ABOUT, FloorPair, Points, compare, comparisons_of, paper_comparisons_of
from tempering.lab.metrics.metric import Metric, MetricError, MetricsReport, checked_points
from tempering.lab.metrics.molecules import molecule_metrics
from tempering.lab.metrics.observables import expected_mean_error, second_moment_error
from tempering.lab.metrics.regions import estimated_region_weights, max_region_error, region_tv
from tempering.molecules.target import MoleculeTarget
from tempering.targets.base import ExactTarget, Target
from tempering.types import TargetLike

__all__ = ["evaluate_samples", "log_densities"]

_CHUNK = 4096
"""Points evaluated at a time, to bound memory; it does not change results."""


def evaluate_samples(
    target: Target | TargetLike,
    samples: npt.ArrayLike,
    *,
    reference: npt.ArrayLike,
    reference_second: npt.ArrayLike | None = None,
    num_transport: int = 2_000,
    paper_compatible: bool = False,
    seed: int = 0,
    on_metric: Callable[[str, int, int], None] = lambda name, done, total: None,
) -> MetricsReport:
    """Judge `samples`, unweighted draws meant to be from `target`, by every metric that the target's facts allow.

    Args:
        target: any object with `dim` and `log_density`. An `ExactTarget` is also judged by its exact second moment and
            region weights, one with a `geometry` by distances between particles and by transport up to their
            symmetries; its samples must be centred.
        samples: shape (n, dim), NumPy or JAX; rows that are not finite are counted, never dropped.
        reference: exact or trusted samples, shape (m, dim), finite, at least 4.
        reference_second: a second, independent such set for the floors. Without it they come from the halves of
            `reference`, hence at N <= m/2, and are the larger for it; `Metric.num_floor` tells.
        num_transport: N for transport distances, whose cost grows with N^2 or faster; at most n and m. MMD takes up to
            10,000, the paper's number, in any case.
        paper_compatible: add `paper_w2`, `paper_energy_tvd` and, of particles, `paper_aligned_w2`: the definitions of
            the paper's code.
        seed: of the shuffles that choose the N rows, so that the order of the samples does not matter.
        on_metric: called with (name, number done, number in all) before each computation.

    Returns:
        The metrics by name. `num_evaluations` is n + m + the size of the second set: one energy for every point.

    Raises:
        MetricError: for wrong shapes, or a reference with points or energies that are not finite.
    """
    target = target if isinstance(target, Target) else as_target(target)
    rng = np.random.default_rng(seed)
    sets = _prepare(target, samples, reference, reference_second, rng)
    judged, trusted = sets[0], sets[1]
    if len(sets) == 3:
        floor_pair = FloorPair(sets[2], trusted, "the two reference sets")
    else:
        half = len(trusted) // 2
        floor_pair = FloorPair(
            trusted.between(half, len(trusted)), trusted.between(0, half), "the two halves of the reference set"
        )
    if num_transport < 2:
        raise MetricError(f"num_transport is {num_transport}; give at least 2")
    is_molecule = isinstance(target, MoleculeTarget)
    comparisons = comparisons_of(target.geometry, is_labelled=is_molecule)
    comparisons += paper_comparisons_of(target.geometry) if paper_compatible else ()
    total = len(comparisons) + 1
    metrics = _count_nonfinite(judged)
    for done, comparison in enumerate(comparisons):
        on_metric(comparison.names[0], done, total)
        metrics += compare(comparison, judged, trusted, floor_pair, num_transport)
    on_metric("second_moment_error", total - 1, total)
    metrics += _judge_facts(target, judged, trusted)
    if is_molecule:
        second = sets[2].points if len(sets) == 3 else None
        metrics += molecule_metrics(target, judged.points, trusted.points, reference_second=second, seed=seed).values()
    return MetricsReport({metric.name: metric for metric in metrics}, sum(len(points) for points in sets))


@eqx.filter_jit
def log_densities(target: Target, points: jax.Array) -> jax.Array:
    """Of many points, some at a time."""
    return jax.lax.map(target.log_density, points, batch_size=_CHUNK)


def _prepare(target: Target, samples, reference, reference_second, rng: np.random.Generator) -> list[Points]:
    """The two or three sets, shuffled, with their energies."""
    named = [("samples", samples), ("reference", reference)]
    if reference_second is not None:
        named.append(("reference_second", reference_second))
    sets = []
    for name, points in named:
        x = checked_points(points, name, allow_nonfinite=name == "samples")
        if x.shape[1] != target.dim:
            raise MetricError(f"{name} has {x.shape[1]} dimensions and the target {target.dim}; they must agree")
        if name != "samples" and len(x) < 4:
            raise MetricError(f"{name} has {len(x)} points; give at least 4, and thousands for a useful floor")
        x = rng.permutation(x)
        energies = -np.asarray(log_densities(target, jnp.asarray(x)), np.float64)
        if name != "samples" and not np.all(np.isfinite(energies)):
            raise MetricError(
                f"{np.sum(~np.isfinite(energies)):,} of {len(x):,} points of {name} have an energy that is not finite; "
                "it is not a sample of this target"
            )
        sets.append(Points(x, energies))
    return sets


def _count_nonfinite(judged: Points) -> list[Metric]:
    bad_points = int(np.sum(~np.isfinite(judged.points).all(axis=1)))
    bad_energies = int(np.sum(~np.isfinite(judged.energies)))
    return [
        Metric(name, float(count), *ABOUT[name], floor=0.0, num_samples=len(judged))
        for name, count in (("num_nonfinite", bad_points), ("num_nonfinite_energies", bad_energies))
    ]


def _judge_facts(target: Target, judged: Points, trusted: Points) -> list[Metric]:
    """Errors of expectations: against exact facts where there are any, and else the second moment of the reference."""
    is_exact = isinstance(target, ExactTarget)
    squares = np.sum(trusted.points**2, axis=1)
    truth = target.second_moment() if is_exact else float(squares.mean())
    floor = expected_mean_error(squares, len(judged), None if is_exact else len(trusted))
    value, failure = math.nan, None
    try:
        value = second_moment_error(judged.points, truth)
    except MetricError as error:
        failure = str(error)
    metrics = [
        Metric(
            "second_moment_error",
            value,
            *ABOUT["second_moment_error"],
            floor=floor,
            num_samples=len(judged),
            num_floor=len(judged),
            floor_source="its expectation for exact samples, by the central limit theorem",
            failure=failure,
        )
    ]
    if not is_exact:
        return metrics
    # The truth being exact, the reference itself can stand in for the samples here; no second set is needed.
    num_floor = min(len(judged), len(trusted))
    exact = np.asarray(target.region_weights(), np.float64)
    estimated = estimated_region_weights(target, judged.points)
    stand_in = estimated_region_weights(target, trusted.points[:num_floor])
    errors = {"region_max_error": max_region_error}
    if target.regions_partition:
        errors["region_tv"] = region_tv
    source = "the reference set against the exact weights"
    sizes = {"num_samples": len(judged), "num_floor": num_floor, "floor_source": source}
    return metrics + [
        Metric(name, error_fn(estimated, exact), *ABOUT[name], floor=error_fn(stand_in, exact), **sizes)
        for name, error_fn in errors.items()
    ]
