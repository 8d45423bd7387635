"""What was paid for and stays of use: samples of the last level, optima, and weighted draws of the model.

Consumes weighted draws as they are made; produces the numbers that a verdict rests on, and what `improve` goes on from.
All samples are at T = 1.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tempering.atlas.optima import Optima
from tempering.buffer import ORIGINS, Buffer, blank_buffer
from tempering.runs.records import Weighed, finite_or_none
from tempering.runs.storage import arrays_of, read_arrays, tree_from, write_arrays
from tempering.weights.ess import share_of
from tempering.weights.log_z import log_z_with_tail
from tempering.weights.pareto import pareto_k, unseen_mass
from tempering.weights.weigh import Weighted

__all__ = ["FIT", "OF_OPTIMA", "SHOWN", "Paid", "is_independent", "plain_buffer", "usable", "weighted_buffer"]

FILE = "samples.npz"
FIT = "fit"
"""The name of the draws that a fit itself weighed."""
_EVEN = "even-"
"""Begins the names of quasi-random draws."""
SHOWN = "shown"
"""The group of the file that holds draws in the user's coordinates, for reports: they are read without the density."""
MOST_WEIGHTS, MOST_NUMBERS = 1_000_000, 20_000_000
"""Log weights that are kept, and numbers of the draws that they belong to: 4 MB and 80 MB."""


def is_independent(name: str) -> bool:
    """Whether the draws of this name are independent of each other: all but quasi-random ones."""
    return not name.startswith(_EVEN)


def plain_buffer(buffer: Buffer) -> Buffer:
    """A buffer at T = 1 without the values of a reference, which count for nothing there."""
    own = (buffer.position, buffer.log_density, buffer.log_density_grad, buffer.origin, buffer.log_weight)
    return Buffer(*own)


def weighted_buffer(weighted: Weighted) -> Buffer:
    """Weighted draws at T = 1 as they are, raw weights included."""
    states = weighted.states
    origin = jax.device_put(np.full(states.log_density.shape, ORIGINS.index("weighted"), np.int32))
    return Buffer(states.position, states.log_density, states.log_density_grad, origin, weighted.log_weights)


@dataclass
class Paid:
    """What a sampler holds beside its model.

    Args:
        level: samples of the last level with their weights, which the model was trained on.
        witnesses: samples that hotter levels have at T = 1: they show what the model does not cover.
        optima: that searches found.
        draws: weighted draws of the model by name, as long as there is room for them.
        weights: raw log weights of draws of the model, by name: those of the fit, and those of every seed since. The
            same seed makes the same draws, which count once.
    """

    level: Buffer | None = None
    witnesses: tuple[Buffer, ...] = ()
    optima: Optima | None = None
    draws: dict[str, Buffer] = field(default_factory=dict)
    weights: dict[str, np.ndarray] = field(default_factory=dict)

    def note(self, name: str, weighted: Weighted) -> None:
        """Keep the weights of draws, and the draws; of two sets of one name, which have draws in common, the longer."""
        log_weights = np.asarray(weighted.log_weights, np.float32)
        before = self.weights.get(name, log_weights[:0])
        if len(log_weights) <= len(before):
            return
        room = MOST_WEIGHTS - sum(len(own) for other, own in self.weights.items() if other != name)
        if room > len(before):
            self.weights[name] = log_weights[:room]
        position = weighted.states.position
        numbers = sum(2 * draws.position.size for other, draws in self.draws.items() if other != name)
        if numbers + 2 * position.size <= MOST_NUMBERS:
            self.draws[name] = weighted_buffer(weighted)

    def note_seed(self, seed: int, weighted: Weighted, *, is_quasi_random: bool) -> None:
        """The same for draws by seed; of quasi-random ones every number is a set of its own."""
        num = weighted.log_weights.shape[0]
        self.note(f"{_EVEN}{seed}-{num}" if is_quasi_random else f"seed-{seed}", weighted)

    def weighed(self, of_fit: Weighed | None = None) -> Weighed | None:
        """Of all draws together; log Z and its error of independent ones alone. None where there are none.

        Args:
            of_fit: the fit's own numbers, where its weights are not kept: they stand until as many draws say worse.
        """
        everything = np.concatenate([np.zeros(0, np.float32), *self.weights.values()])
        if len(everything) == 0 or (of_fit is not None and len(everything) < of_fit.num):
            return of_fit
        share = share_of(everything)
        if of_fit is not None and share >= of_fit.ess_fraction:
            return of_fit
        independent = [own for name, own in self.weights.items() if is_independent(name)]
        log_z = log_z_with_tail(np.concatenate(independent)) if independent else (np.nan, np.nan)
        numbers = (pareto_k(everything), *log_z, unseen_mass(everything))
        return Weighed(len(everything), share, *(finite_or_none(number) for number in numbers))

    def save(self, folder: Path, shown: dict[str, np.ndarray] | None = None) -> None:
        """Write all of it as one file, with `shown` beside it for reports; nothing where there is nothing."""
        tree: dict[str, Any] = {f"witness-{index}": buffer for index, buffer in enumerate(self.witnesses)}
        tree |= {f"draws-{name}": buffer for name, buffer in self.draws.items()}
        tree |= {} if self.level is None else {"level": self.level}
        arrays = arrays_of(tree) | {f"weights/{name}": own for name, own in self.weights.items()}
        if self.optima is not None:
            arrays |= {f"optima/{name}": getattr(self.optima, name) for name in OF_OPTIMA}
        arrays |= {f"{SHOWN}/{name}": array for name, array in (shown or {}).items()}
        if arrays:
            write_arrays(folder / FILE, arrays)

    @classmethod
    def load(cls, folder: Path, dim: int) -> "Paid":
        """What `save` wrote; nothing where there is no file."""
        if not (folder / FILE).exists():
            return cls()
        groups: dict[str, dict[str, np.ndarray]] = {}
        for name, array in read_arrays(folder / FILE).items():
            group, _, rest = name.partition("/")
            groups.setdefault(group, {})[rest] = array
        groups.pop(SHOWN, None)
        weights, optima = groups.pop("weights", {}), groups.pop("optima", None)
        buffers = {name: tree_from(blank_buffer(dim), own, check_shapes=False) for name, own in groups.items()}
        return cls(
            buffers.get("level"),
            tuple(buffers[name] for name in sorted(buffers) if name.startswith("witness-")),
            None if optima is None else _optima(dim, optima),
            {name.removeprefix("draws-"): own for name, own in buffers.items() if name.startswith("draws-")},
            weights,
        )


OF_OPTIMA = ("position", "log_density", "precision", "covariance", "is_peak", "slope", "hits")


def _optima(dim: int, arrays: dict[str, np.ndarray]) -> Optima:
    optima, number = Optima(dim), len(arrays["hits"])
    for name in OF_OPTIMA:  # older files have no slopes
        setattr(optima, name, arrays.get(name, np.zeros((number, dim))))
    return optima


def usable(buffer: Buffer) -> Buffer:
    """The samples that have a weight and numbers to go with it."""
    is_used = np.asarray(buffer.log_weight) > -np.inf
    is_used &= np.isfinite(np.asarray(buffer.log_density))
    is_used &= np.all(np.isfinite(np.asarray(buffer.log_density_grad)), axis=1)
    return buffer if np.all(is_used) else buffer.take(jnp.asarray(np.flatnonzero(is_used)))
