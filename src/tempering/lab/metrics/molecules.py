"""All metrics of a molecule, each beside its floor. Consumes conformations and trusted ones, produces metrics.

The floor is the same metric with trusted conformations in the role of the judged ones. No energies are evaluated here:
`evaluate_samples` has those of energies, and `marginal_histogram` their total variation with weights.
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from tempering.lab.metrics.marginals import dihedral_histogram, marginal_tvds, ramachandran_kl
from tempering.lab.metrics.metric import Metric, MetricError, refuse_nonfinite
from tempering.lab.metrics.observables import expected_mean_error
from tempering.lab.metrics.populations import rare_mode
from tempering.molecules.coordinates.dihedrals import reflect
from tempering.molecules.observables import backbone, backbone_angles, bond_angles, bond_lengths, checked_conformations
from tempering.molecules.target import MoleculeTarget

__all__ = ["NUM_COARSE_BINS", "in_one_hand", "molecule_metrics"]

NUM_COARSE_BINS = 16
"""Of phi and of psi, 22.5 degrees each: few enough that ten thousand draws leave no bin empty that matters."""


@dataclass(frozen=True)
class _Observed:
    """phi and psi (num, residue, 2), bond lengths (num, bond) and angles (num, angle); none is an axis of length 0."""

    dihedrals: np.ndarray
    lengths: np.ndarray
    angles: np.ndarray

    def __len__(self) -> int:
        return len(self.dihedrals)

    def taken(self, rows: slice | np.ndarray) -> "_Observed":
        return _Observed(self.dihedrals[rows], self.lengths[rows], self.angles[rows])


def in_one_hand(target: MoleculeTarget, draws: npt.ArrayLike) -> np.ndarray:
    """Conformations (num, atom, 3) with D-forms replaced by their mirror images, where the density is both's.

    A target whose `walls` forbid D-forms, and a molecule without chiral centres, leave everything as it is.
    """
    x = checked_conformations(target, draws)
    centres = target.chiral_centres
    if target.walls or not len(centres):
        return x
    reflected, _ = reflect(jnp.asarray(x.reshape((len(x), -1)), jnp.float32), centres)
    return np.asarray(reflected).reshape(x.shape)


def molecule_metrics(
    target: MoleculeTarget,
    samples: npt.ArrayLike,
    reference: npt.ArrayLike,
    *,
    reference_second: npt.ArrayLike | None = None,
    log_weights: npt.ArrayLike | None = None,
    seed: int = 0,
) -> dict[str, Metric]:
    """Judge conformations by what chemists look at.

    `ramachandran_kl` (the paper's) and `ramachandran_kl_coarse`, `phi_tvd` and `psi_tvd`, `rare_mode_error` of every
    residue that has phi and psi (named after it where there are several), `bond_tvd` and `angle_tvd`: means over
    all bonds and bond angles of the topology. D-forms are turned into L-forms first, unless the target forbids them.

    Args:
        target: the molecule.
        samples: (num, 3 * atom) or (num, atom, 3), nm. Those that are not finite count as error everywhere.
        reference: trusted conformations, finite, at least 4.
        reference_second: a second, independent such set for the floors; without it they come from the halves of
            `reference`. Where it has fewer than there are samples, floors of histograms are too high and flatter;
            `Metric.num_floor` tells.
        log_weights: of the samples, shape (num,); equal weights without. Floors are those of as many equal weights.
        seed: of the shuffle before the reference is cut in half.

    Raises:
        SettingsError: for wrong shapes.
        MetricError: for a reference that is not finite or too small, or weights that are none.
    """
    judged = _observe(target, samples)
    trusted = _observe(target, reference, "reference")
    if reference_second is None:
        source, half = "the two halves of the reference set", len(trusted) // 2
        shuffled = np.random.default_rng(seed).permutation(len(trusted))
        stand_in, rest = trusted.taken(shuffled[:half]), trusted.taken(shuffled[half:])
    else:
        source, rest = "the two reference sets", trusted
        stand_in = _observe(target, reference_second, "reference_second")
    num = len(judged)
    stand_in = stand_in.taken(slice(num))

    def measured(name: str, description: str, compute: Callable[..., float]) -> Metric:
        return Metric(
            name,
            compute(judged, trusted, log_weights),
            "",
            description,
            floor=compute(stand_in, rest, None),
            num_samples=num,
            num_floor=len(stand_in),
            floor_source=source,
        )

    metrics: list[Metric] = []
    residues = backbone(target)
    for place, residue in enumerate(residues):
        suffix = "" if len(residues) == 1 else f"_{residue.residue.lower()}"
        metrics += [measured(name + suffix, about, compute) for name, about, compute in _of_residue(place)]
        metrics.append(_rare_mode(f"rare_mode_error{suffix}", place, judged, trusted, log_weights))
    for name, words, field in (("bond_tvd", "bond lengths", "lengths"), ("angle_tvd", "bond angles", "angles")):
        if getattr(judged, field).shape[1]:
            description = f"total variation of histograms of {words}, mean over all of the molecule"
            metrics.append(measured(name, description, _mean_tvd(field)))
    return {metric.name: metric for metric in metrics}


def _observe(target: MoleculeTarget, draws: npt.ArrayLike, trusted_as: str | None = None) -> _Observed:
    x = in_one_hand(target, draws)
    if trusted_as is not None:
        refuse_nonfinite(x, trusted_as)
        if len(x) < 4:
            raise MetricError(f"{trusted_as} has {len(x)} conformations; give at least 4, and thousands for a use")
    has_bonds = len(target.record.bonds) > 0
    return _Observed(
        backbone_angles(target, x) if backbone(target) else np.empty((len(x), 0, 2)),
        bond_lengths(target, x) if has_bonds else np.empty((len(x), 0)),
        bond_angles(target, x) if has_bonds else np.empty((len(x), 0)),
    )


def _of_residue(place: int) -> list[tuple[str, str, Callable[..., float]]]:
    """Name, description and computation on (judged, trusted, log_weights), of the residue at that place."""

    def kl(num_bins: int) -> Callable[..., float]:
        return lambda a, b, log_weights: ramachandran_kl(
            a.dihedrals[:, place], b.dihedrals[:, place], log_weights=log_weights, num_bins=num_bins
        )

    def tvd(axis: int) -> Callable[..., float]:
        return lambda a, b, log_weights: (
            dihedral_histogram(a.dihedrals[:, place, axis], b.dihedrals[:, place, axis], log_weights=log_weights).tvd
        )

    return [
        ("ramachandran_kl", "KL of Ramachandran histograms, reference to samples, 64 x 64 bins: the paper's", kl(64)),
        ("ramachandran_kl_coarse", f"the same with {NUM_COARSE_BINS} x {NUM_COARSE_BINS} bins", kl(NUM_COARSE_BINS)),
        ("phi_tvd", "total variation of histograms of phi, 200 bins", tvd(0)),
        ("psi_tvd", "total variation of histograms of psi, 200 bins", tvd(1)),
    ]


def _mean_tvd(field: str) -> Callable[..., float]:
    return lambda a, b, log_weights: float(
        np.mean(marginal_tvds(getattr(a, field), getattr(b, field), log_weights=log_weights))
    )


def _rare_mode(name: str, place: int, judged: _Observed, trusted: _Observed, log_weights) -> Metric:
    truth = rare_mode(trusted.dihedrals[:, place, 0])
    found = rare_mode(judged.dihedrals[:, place, 0], log_weights=log_weights)
    indicator = np.zeros(truth.num_samples)
    # One at least: a reference without any is no proof that exact samples would have none.
    indicator[: max(truth.num_inside, 1)] = 1.0
    return Metric(
        name,
        abs(found.share - truth.share),
        "",
        f"absolute error of the population of 0 < phi < 120 degrees: {_text(found)}, reference {_text(truth)}",
        floor=expected_mean_error(indicator, found.num_samples, truth.num_samples),
        num_samples=found.num_samples,
        num_floor=found.num_samples,
        floor_source="its expectation for independent exact samples, by the central limit theorem",
    )


def _text(found) -> str:
    return f"{found.share:.4g} ± {found.error:.2g}"
