"""Ramachandran histograms of as many draws as the paper takes, in bounded memory: of a draw only its angles stay."""

from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np

from tempering.lab.metrics import Metric
from tempering.lab.metrics.marginals import ramachandran_kl
from tempering.lab.metrics.molecules import in_one_hand
from tempering.molecules import MoleculeTarget
from tempering.molecules.observables import backbone, backbone_angles
from tempering.runs.config import MetricsConfig
from tempering.runs.storage import read_arrays, write_arrays
from tempering.sampler import Sampler
from tempering.types import Key

__all__ = ["many_dihedrals"]

_PART = 20_000
"""Draws that are held at once: 5 MB for 22 atoms, and 16 bytes of each are kept."""


def many_dihedrals(
    sampler: Sampler,
    target: MoleculeTarget,
    key: Key,
    config: MetricsConfig,
    trusted: np.ndarray,
    tell: Callable[[str, int, int], None] = lambda name, done, total: None,
    store: Path | None = None,
) -> dict[str, Metric]:
    """`ramachandran_kl_many`: the paper's KL at `config.num_ramachandran` draws, against all trusted conformations.

    The floor is that of one half of them against the other. They are fewer than the draws, so that it is the higher for
    it: `num_floor` says how many. No evaluation is made. Nothing is returned for a molecule without phi and psi.

    Args:
        store: a folder for the angles of finished parts, which are found again there: a million draws take long.
    """
    residues = backbone(target)
    if not residues:
        return {}
    num = config.num_ramachandran
    parts = []
    for begin in range(0, num, _PART):
        tell("Ramachandran histogram", begin, num)
        size = min(_PART, num - begin)
        file = None if store is None else store / f"{begin:09d}-{size}.npz"
        if file is not None and file.exists():
            parts.append(read_arrays(file)["angles"])
            continue
        draws, _ = sampler.model.draw(jax.random.fold_in(key, begin), size, sampler.sampling.raw, with_density=False)
        parts.append(_angles(target, sampler.outer(draws)))
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_arrays(file, {"angles": parts[-1]})
    judged, known = np.concatenate(parts), _angles(target, trusted)
    shuffled = np.random.default_rng(0).permutation(len(known))
    half = len(known) // 2
    one, other = known[shuffled[:half]], known[shuffled[half:]]
    metrics = {}
    for place, residue in enumerate(residues):
        name = "ramachandran_kl_many" + ("" if len(residues) == 1 else f"_{residue.residue.lower()}")
        metrics[name] = Metric(
            name,
            ramachandran_kl(judged[:, place], known[:, place]),
            "",
            f"KL of Ramachandran histograms, all {len(known):,} reference samples to {num:,} draws, 64 x 64 bins",
            floor=ramachandran_kl(one[:, place], other[:, place]),
            num_samples=num,
            num_floor=half,
            floor_source="the two halves of the reference set",
        )
    return metrics


def _angles(target: MoleculeTarget, conformations: np.ndarray) -> np.ndarray:
    """phi and psi (num, residue, 2) of L-forms, in single precision."""
    return backbone_angles(target, in_one_hand(target, conformations)).astype(np.float32)
