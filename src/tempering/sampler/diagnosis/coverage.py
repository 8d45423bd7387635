"""Mass that a model does not cover, seen from samples that do not come from it.

Importance weights of a model's own draws cannot see a mode that it never draws. Samples of hotter levels can: they are
weighted to a colder one by log densities that were paid for, and log p - log q at each says whether the model would
ever have drawn it. No evaluation of the target.
"""

from collections.abc import Callable
from dataclasses import dataclass

import equinox as eqx
import jax
import numpy as np

from tempering.buffer import ORIGINS, Buffer, reweighted
from tempering.compilation import quick
from tempering.devices.keys import folded, generator, split
from tempering.sampler.diagnosis.thresholds import FEW_EVIDENCE
from tempering.types import Array, Float, Key
from tempering.weights.ess import NUM_JUDGED, effective_size, foretold_share
from tempering.weights.hidden import hidden_limit
from tempering.weights.log_z import log_z_with_tail
from tempering.weights.resample import systematic_indices

__all__ = [
    "Coverage",
    "Evidence",
    "LogProbFn",
    "coverage",
    "hidden_mass",
    "is_beyond_chance",
    "witnesses",
]

LogProbFn = Callable[[Key, Float[Array, "point dim"]], Float[Array, " point"]]
"""Normalised log densities of a model, which may need a key to estimate them."""


Evidence = tuple[tuple[Buffer, Float[Array, ""]], ...]
"""Buffers with their betas, hottest first."""

_NUM_KEPT = 2000
"""Samples of a level that are kept as witnesses, at the most."""
_INDEPENDENT = (ORIGINS.index("initial_pt"), ORIGINS.index("reference"))
"""Samples that owe nothing to any model."""


@dataclass(frozen=True)
class Coverage:
    """What samples of hotter levels say of a model; only `num_evidence` where there is too little to say more.

    Args:
        num_evidence: effective samples that were looked at.
        hidden_share, hidden_error: their mass where the model has practically none, with its standard error.
        num_hidden: the samples behind it.
        predicted_ess_fraction: of the model's weights.
    """

    num_evidence: float
    hidden_share: float | None = None
    hidden_error: float | None = None
    num_hidden: int | None = None
    predicted_ess_fraction: float | None = None


def hidden_mass(log_ratios: np.ndarray, weights: np.ndarray, own_log_ratios: np.ndarray) -> tuple[float, float, int]:
    """The mass where log p - log q is beyond everything that the model's own draws have, with its standard error.

    Args:
        log_ratios: log p - log q - log Z at points that do not come from q; +inf or NaN where q vanishes.
        weights: of these points as draws of p.
        own_log_ratios: the same quantity at draws of q.

    Returns:
        The share, its standard error, and the number of points behind it.
    """
    weights = np.asarray(weights, np.float64) / np.sum(weights)
    own = np.asarray(own_log_ratios, np.float64)
    limit = hidden_limit(own)
    is_hidden = ~(np.asarray(log_ratios, np.float64) <= limit)  # NaN is hidden too
    share = float(np.sum(weights[is_hidden]))
    error = float(np.sqrt(np.sum((weights * (is_hidden - share)) ** 2)))
    return share, error, int(np.sum(is_hidden & (weights > 0)))


def is_beyond_chance(share: float | None, error: float | None, num: int | None, least: float) -> bool:
    """Whether more than `least` of the mass is hidden: by two standard errors, and by three points at the least."""
    return (num or 0) >= 3 and (share or 0.0) - 2.0 * (error or 0.0) > least


def coverage(
    key: Key,
    log_prob_fn: LogProbFn,
    evidence: Evidence,
    own_log_weights: Float[Array, " particle"],
    beta: Float[Array, ""],
) -> Coverage:
    """What samples of hotter levels say of a model at `beta`.

    Looked at are the coldest level that keeps enough samples there, and the coldest whose samples came from chains,
    which owe nothing to any model.

    Args:
        log_prob_fn: log density of the model.
        evidence: buffers with their betas, hottest first.
        own_log_weights: raw log weights of the model's own draws.
        beta: of the model's level.

    Returns:
        The numbers of the worse of the two levels.
    """
    chosen, own = _chosen(evidence, beta), np.asarray(own_log_weights, np.float64)
    if not chosen or not np.any(own > -np.inf):
        return Coverage(0.0)
    log_z, _ = log_z_with_tail(own)
    keys = [folded(key, index) for index in range(len(chosen))]
    found = [
        _judge(k, log_prob_fn, at_beta, ess, own, log_z, beta) for k, (at_beta, ess) in zip(keys, chosen, strict=True)
    ]
    return max(found, key=lambda numbers: numbers.hidden_share or 0.0)


def _chosen(evidence: Evidence, beta: Float[Array, ""]) -> list[tuple[Buffer, float]]:
    """The coldest level that keeps enough samples at `beta`, and the coldest from chains; with effective sizes."""
    cold = []
    for buffer, beta_then in evidence:
        there = reweighted(buffer, beta_then, beta)
        ess = effective_size(there.weight)
        if ess >= FEW_EVIDENCE:
            cold.append((there, ess))
    # Samples of an improvement are of all origins, in random order.
    chains = [pair for pair in cold if np.all(np.isin(np.asarray(pair[0].origin), _INDEPENDENT))]
    return [*cold[-1:], *(pair for pair in chains[-1:] if pair is not cold[-1])]


def witnesses(key: Key, evidence: Evidence, beta: Float[Array, ""]) -> tuple[Buffer, ...]:
    """Samples that `coverage` would look at, few enough to be kept: they can judge a later model of the same level."""
    kept = []
    for index, (there, _) in enumerate(_chosen(evidence, beta)):
        offset = generator(folded(key, index)).uniform()
        picked = systematic_indices(np.asarray(there.log_weight), _NUM_KEPT, offset)
        rows, counts = np.unique(picked, return_counts=True)
        own = jax.tree.map(lambda leaf, rows=rows: np.asarray(leaf)[rows], there)
        own = eqx.tree_at(lambda tree: tree.log_weight, own, np.log(counts).astype(np.float32))
        kept.append(jax.device_put(own))
    return tuple(kept)


def _judge(
    key: Key,
    log_prob_fn: LogProbFn,
    buffer: Buffer,
    ess: float,
    own: np.ndarray,
    log_z: float,
    beta: Float[Array, ""],
) -> Coverage:
    key_pick, key_density = split(key)
    # The same number of rows whatever was picked, so that one compilation serves every level. A share of one in a
    # hundred shows as five of them.
    picked = systematic_indices(np.asarray(buffer.log_weight), NUM_JUDGED, generator(key_pick).uniform())
    position = jax.device_put(np.asarray(buffer.position)[picked])
    log_density = np.asarray(_tempered(buffer, beta))[picked]
    log_ratios = (log_density - np.asarray(log_prob_fn(key_density, position))).astype(np.float64) - log_z
    unique, first, counts = np.unique(picked, return_index=True, return_counts=True)
    share, error, num = hidden_mass(log_ratios[first], counts, own - log_z)
    return Coverage(min(ess, float(unique.size)), share, error, num, foretold_share(log_ratios))


@quick
def _tempered(buffer: Buffer, beta: Float[Array, ""]) -> Float[Array, " particle"]:
    return buffer.states().tempered(beta)
