"""The answer of a fit: weighted draws in the user's coordinates, by name, and what they say of every parameter.

Consumes draws that were paid for; evaluates nothing. Of particles and molecules, whose single coordinates mean nothing,
the energy and two sizes take their place.
"""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering.buffer import ORIGINS
from tempering.errors import SettingsError
from tempering.runs.exports import columns_of, named_arrays
from tempering.sampler.paid import is_independent
from tempering.transforms import Chart
from tempering.types import Array, Float
from tempering.weights.ess import effective_size
from tempering.weights.estimates import Estimate, estimate, shares_of

__all__ = ["Answer", "answer_of", "draws_columns", "user_log_density"]

_DEPENDENT = "samples of the last level, which depend on each other (errors are larger than ±)"
"""The source of states of chains and of copies: nobody has kept which belong together, to tell by how much."""
_DEPENDENT_ORIGINS = tuple(map(ORIGINS.index, ("initial_pt", "importance_resampled", "refined")))
MOST_DRAWS, MOST_NUMBERS = 20_000, 1_000_000
"""That an answer keeps: more change no digit that anybody reads."""


@dataclass(frozen=True)
class Answer:
    """Draws of the target, as named columns.

    Args:
        names: the names of the columns: `tau`, `theta[0]`, or `x[0]` for plain rows.
        values: an array with the axes (draw, column).
        log_weights: the log weights of the draws. None if they need none.
        log_density: the user's own log density, not normalised, at the draws. None if it is not known.
        source: what the draws are, in words.
    """

    names: tuple[str, ...]
    values: np.ndarray
    log_weights: np.ndarray | None
    log_density: np.ndarray | None
    source: str

    @property
    def num(self) -> int:
        """The number of draws."""
        return len(self.values)

    @property
    def worth(self) -> str:
        """What the draws are worth, in words."""
        return f"worth {'at most ' if self.source == _DEPENDENT else ''}{self.effective:,.0f} independent ones"

    @property
    def shares(self) -> np.ndarray | None:
        """Weights that sum to one. None if no weight is positive."""
        return shares_of(self.log_weights, self.num)

    @property
    def effective(self) -> float:
        """The effective sample size: how many draws of equal weight are worth as much."""
        shares = self.shares
        return 0.0 if shares is None else effective_size(shares)

    def estimates(self, most: int | None = None) -> list[Estimate]:
        """Mean, standard deviation and quantiles of the first `most` columns. None takes all columns."""
        shares = self.shares
        if shares is None:
            return []
        made = (estimate(name, self.values[:, k], shares) for k, name in enumerate(self.names[:most]))
        return [own for own in made if own is not None]

    def as_arrays(self) -> dict[str, np.ndarray]:
        """Arrays for a file. `from_arrays` reads them."""
        arrays = {"values": self.values.astype(np.float32), "names": np.array(self.names)}
        arrays["source"] = np.array(self.source)
        for name in ("log_weights", "log_density"):
            array = getattr(self, name)
            arrays |= {} if array is None else {name: array.astype(np.float32)}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> "Answer":
        """Make an answer from what `as_arrays` gave."""
        names = tuple(map(str, arrays["names"]))
        log_weights, log_density = (arrays.get(name) for name in ("log_weights", "log_density"))
        return cls(names, arrays["values"], log_weights, log_density, str(arrays["source"]))


def answer_of(sampler: Any) -> Answer | None:
    """The answer from what was paid for: weighted draws of the model, else samples of the last level; None without."""
    own = {name: buffer for name, buffer in sampler.paid.draws.items() if is_independent(name)}
    buffers, source = [*own.values()], "weighted draws of the sampler"
    if not buffers and sampler.paid.level is not None:
        level = sampler.paid.level
        is_dependent = bool(np.any(np.isin(np.asarray(level.origin), _DEPENDENT_ORIGINS)))
        buffers, source = [level], _DEPENDENT if is_dependent else "weighted samples of the last level"
    if not buffers:
        return None
    parts = ("position", "log_density", "log_weight")
    position, log_density, log_weights = (
        np.concatenate([np.asarray(getattr(buffer, part)) for buffer in buffers]) for part in parts
    )
    most = min(MOST_DRAWS, max(1000, MOST_NUMBERS // sampler.dim))
    position, log_density, log_weights = position[:most], log_density[:most], log_weights[:most]
    if len(position) == 0:
        return None
    log_density = user_log_density(sampler.chart, position, log_density)
    columns = draws_columns(sampler, sampler.outer(jnp.asarray(position)), log_density)
    values = np.stack([np.asarray(column, np.float32) for column in columns.values()], axis=1)
    return Answer(tuple(columns), values, log_weights, log_density, source)


def draws_columns(sampler: Any, rows: np.ndarray, log_density: np.ndarray | None) -> dict[str, np.ndarray]:
    """Rows of the user's coordinates as columns by name; of particles the energy and two sizes."""
    from tempering.molecules.coordinates.internal import InternalChart  # here: most fits are of no molecule

    if isinstance(sampler.chart, InternalChart):
        return _sizes(rows.reshape(len(rows), -1, 3), log_density)
    if sampler.geometry is not None:
        return _sizes(rows.reshape(len(rows), -1, sampler.geometry.spatial_dim), log_density)
    return columns_of(named_arrays(rows if sampler.structure is None else sampler.structure.restore(rows)))


def _sizes(points: np.ndarray, log_density: np.ndarray | None) -> dict[str, np.ndarray]:
    """Energy, radius of gyration and the mean distance of two particles, of every configuration."""
    columns = {} if log_density is None else {"energy": -np.asarray(log_density, np.float64)}
    centred = points - points.mean(axis=1, keepdims=True)
    columns["radius of gyration"] = np.sqrt(np.mean(np.sum(centred**2, axis=2), axis=1))
    first, second = np.triu_indices(points.shape[1], 1)
    total = np.zeros(len(points))
    for i, j in zip(first, second, strict=True):
        total += np.linalg.norm(points[:, i] - points[:, j], axis=1)
    columns["mean distance"] = total / max(len(first), 1)
    return columns


def user_log_density(chart: Chart | None, position: np.ndarray, log_density: np.ndarray) -> np.ndarray:
    """Log densities in the model's coordinates as those of the user's.

    A prior transform that mixes coordinates has no volume that is known: log densities stay as they are then.
    """
    if chart is None:
        return np.asarray(log_density)
    try:
        return np.asarray(log_density) - np.asarray(_log_volumes(chart, jnp.asarray(position, jnp.float32)))
    except SettingsError:
        return np.asarray(log_density)


@eqx.filter_jit
def _log_volumes(chart: Chart, points: Float[Array, "particle dim"]) -> Float[Array, " particle"]:
    return jax.vmap(chart.log_volume)(points)
