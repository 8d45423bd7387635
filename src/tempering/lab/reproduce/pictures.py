"""Small data for figures, kept in records: points, and histograms as counts. Consumes a run's arrays; no density."""

from typing import Any

import numpy as np

from tempering.lab.metrics.molecules import in_one_hand
from tempering.lab.metrics.particles import pair_distances
from tempering.molecules import MoleculeTarget
from tempering.molecules.observables import backbone_angles
from tempering.plots.style import show_some, window
from tempering.registry import target_of
from tempering.runs.config import RunConfig
from tempering.targets import Inner

__all__ = ["NUM_BINS", "histogram", "picture_data"]

NUM_BINS = 80
_NUM_SHOWN = 1_000
_TORUS_BINS = 64


def picture_data(config: RunConfig, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """What figures need of a run's evaluation.npz: points in two coordinates, energies, distances, dihedrals."""
    inner = target_of(config)
    target = inner.target if isinstance(inner, Inner) else inner
    draws, reference = arrays["draws"], arrays.get("reference")
    data: dict[str, Any] = {}
    if "draws_log_density" in arrays and "reference_log_density" in arrays:
        sets = {name: -arrays[f"{name}_log_density"] for name in ("draws", "reference")}
        limits = window([sets["reference"]], tail=0.001, margin=0.4)
        data["energies"] = _histograms(sets, limits)
    if isinstance(target, MoleculeTarget):
        sets = {"draws": draws} if reference is None else {"draws": draws, "reference": reference}
        data["torus"] = {name: _torus(target, points) for name, points in sets.items()}
    elif target.geometry is not None and reference is not None:
        particles = target.geometry.as_dict()
        both = (("draws", draws), ("reference", reference))
        sets = {name: np.ravel(pair_distances(points[:500], **particles)) for name, points in both}
        data["distances"] = _histograms(sets, (0.0, 1.15 * float(np.quantile(sets["reference"], 0.9999))))
    elif target.geometry is None:
        columns = (0, 1) if target.dim == 2 else (0, 2)  # of Many-Well two wells
        data["points"] = np.round(show_some(draws, _NUM_SHOWN)[:, columns].astype(float), 3).tolist()
        data["columns"] = list(columns)
    return data


def histogram(values: np.ndarray, limits: tuple[float, float], num_bins: int = NUM_BINS) -> dict[str, Any]:
    """Counts between limits, and how many values lie outside or are not finite."""
    inside = values[np.isfinite(values)]
    counts, _ = np.histogram(inside, np.linspace(*limits, num_bins + 1))
    return {"counts": counts.tolist(), "num": len(values)}


def _histograms(sets: dict[str, np.ndarray], limits: tuple[float, float]) -> dict[str, Any]:
    return {"limits": list(limits), **{name: histogram(values, limits) for name, values in sets.items()}}


def _torus(target: Any, points: np.ndarray) -> dict[str, Any]:
    """Counts of (phi, psi), rows phi."""
    angles = np.degrees(np.asarray(backbone_angles(target, in_one_hand(target, points)))[:, 0])
    is_finite = np.isfinite(angles).all(axis=1)
    edges = np.linspace(-180.0, 180.0, _TORUS_BINS + 1)
    counts, _, _ = np.histogram2d(angles[is_finite, 0], angles[is_finite, 1], bins=(edges, edges))
    return {"counts": counts.astype(int).tolist(), "num": len(points)}
