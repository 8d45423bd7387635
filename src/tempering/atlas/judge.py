"""Whether a reference covers the density: what its weights say, and what the referee's chains say."""

from dataclasses import dataclass, field

import jax
import numpy as np

from tempering.atlas.adapt import Drawn
from tempering.atlas.mixture import log_densities
from tempering.atlas.negligible import are_negligible
from tempering.atlas.optima import Optima
from tempering.atlas.referee import Walked, planned_evaluations, rank_p_value, walk
from tempering.devices.keys import folded, generator, split
from tempering.errors import DensityError
from tempering.kernels import Kernel
from tempering.parallel_tempering.initial import StartFn
from tempering.runs.ledger import Ledger
from tempering.targets import Units
from tempering.targets.base import Target
from tempering.targets.cost import points_per_gradient
from tempering.types import Key
from tempering.weights.hidden import hidden_limit
from tempering.weights.pareto import pareto_k
from tempering.weights.resample import systematic_indices

__all__ = ["Judgement", "cost_of_judging", "judge"]

MOST_HIDDEN = 0.005
"""Share of the chains' states that may be hidden."""
LEAST_P_VALUE = 1e-3
"""Of the ranks of chains among weighted draws."""
GOOD_SHARE, LEAST_SHARE = 0.4, 0.02
"""Effective share from which the density is drawn at once, and from which a path of levels leads there."""
_WIDEST_START = 5.0
"""Chains of the referee start from the user's points, moved away from their mean by up to this factor."""
_MOST_STRETCHES = 4
"""Such chains start far outside, and may be on their way when they are looked at. Those where the reference has nothing
walk on, each time as far as before, and count where they then are. A mode that is missing holds them however far."""


@dataclass(frozen=True)
class Judgement:
    """What was measured.

    Args:
        share, pareto_k: of the weights of the latest draws, and of all.
        hidden_share: of the chains' states, where the reference has practically nothing. Places that hold next to
            nothing are left out, where optima are very many.
        p_value: of the ranks of chains that started from weighted draws.
        hidden, log_heaviness: these states, and log p - log q - log Z there.
    """

    share: float
    pareto_k: float
    hidden_share: float
    p_value: float
    hidden: np.ndarray = field(repr=False, default_factory=lambda: np.zeros((0, 0)))
    log_heaviness: np.ndarray = field(repr=False, default_factory=lambda: np.zeros(0))

    @property
    def numbers(self) -> tuple[float, float, float, float]:
        """What goes into records."""
        return self.share, self.pareto_k, self.hidden_share, self.p_value

    @property
    def beyond(self) -> tuple[np.ndarray, np.ndarray]:
        """The hidden states, and how much too little of the reference there is."""
        return self.hidden, self.log_heaviness

    @property
    def covers(self) -> bool:
        """Whether nothing speaks against the reference."""
        return self.hidden_share <= MOST_HIDDEN and self.p_value >= LEAST_P_VALUE

    @property
    def is_good(self) -> bool:
        """Whether the density can be drawn from it at once."""
        return self.covers and self.share >= GOOD_SHARE

    @property
    def is_usable(self) -> bool:
        """Whether a path of levels can start from it."""
        return self.covers and self.share >= LEAST_SHARE


def cost_of_judging(target: Target, kernel: Kernel, num_chains: int, num_steps: int) -> int:
    """The most evaluations that `judge` spends on chains: the first ones may have to be started twice.

    Places that may count for nothing cost more, and so do chains that walk on, where there is enough left of the stage.
    """
    return (2 * planned_evaluations(num_chains, num_steps, kernel) + num_chains) * points_per_gradient(target)


def judge(
    key: Key,
    target: Target,
    kernel: Kernel,
    optima: Optima,
    drawn: Drawn,
    start_fn: StartFn,
    num_chains: int,
    num_steps: int,
    ledger: Ledger,
    held_back: int = 0,
) -> Judgement:
    """Let chains walk from the user's starting points, spread out, and from weighted draws; see where they are.

    Args:
        held_back: evaluations of the stage that must be left. Chains walk on only if it is.
    """
    keys = split(key, 5)
    log_weights = drawn.log_weights()
    weights = np.exp(log_weights - np.max(log_weights))
    log_z = float(np.log(np.mean(weights)) + np.max(log_weights))
    spread = np.sqrt(optima.local_weight() @ np.einsum("kii->ki", optima.covariance))
    units = Units(jax.device_put(spread.astype(np.float32)))
    rng = generator(keys[0])
    rows = rng.permutation(systematic_indices(log_weights, num_chains, rng.uniform()))
    own = np.asarray(start_fn(keys[1], num_chains))
    # Draws of a prior are wide enough: beyond them there is nothing, and single precision ends.
    widest = _WIDEST_START if target.reference is None else 1.0
    factor = np.exp(generator(keys[2]).uniform(size=(num_chains, 1)) * np.log(widest))
    apart = np.mean(own, axis=0) + factor * (own - np.mean(own, axis=0))
    follow = lambda key, positions: walk(key, target, kernel, positions, units, num_steps, ledger)  # noqa: E731
    try:
        first = follow(keys[3], apart)
    except DensityError:  # the user's points are outside of the support: from draws, the light ones as soon as heavy
        inside = np.flatnonzero(np.isfinite(log_weights))
        first = follow(keys[3], drawn.position[generator(folded(keys[1], 1)).choice(inside, size=num_chains)])
    second, limit = follow(keys[4], drawn.position[rows]), log_z + hidden_limit(log_weights - log_z)
    cost = planned_evaluations(num_chains, num_steps, kernel) * points_per_gradient(target)
    for stretch in range(1, _MOST_STRETCHES):
        is_lost = np.any(~(_log_ratio(drawn, first) <= limit), axis=0)
        if not np.any(is_lost) or ledger.left("reference") - held_back < cost:
            break
        first = first.replaced(is_lost, follow(folded(keys[3], stretch), first.position[-1]))
    walks = [first, second]
    ratios = [_log_ratio(drawn, one) for one in walks]
    last = np.concatenate([walks[1].position[-1], walks[1].log_density[-1][:, None], ratios[1][-1][:, None]], axis=1)
    for one, ratio in zip(walks, ratios, strict=True):
        is_hidden = ~(ratio <= limit)
        chains = np.flatnonzero(np.any(is_hidden, axis=0))
        highest = np.argmax(np.where(is_hidden, one.log_density, -np.inf)[:, chains], axis=0)
        counts_not = are_negligible(target, optima, one.position[highest, chains], log_z, ledger)
        ratio[:, chains[counts_not]] = -np.inf
    hidden = float(np.mean([np.mean(~(ratio <= limit)) for ratio in ratios]))
    draws = np.concatenate([drawn.position, drawn.log_density[:, None], log_weights[:, None]], axis=1)
    is_usable = np.isfinite(log_weights)
    p_value = rank_p_value(last, draws[is_usable], weights[is_usable])
    states, beyond = np.concatenate([one.position.reshape((-1, target.dim)) for one in walks]), np.ravel(ratios)
    is_hidden = (beyond > limit) & np.isfinite(beyond)
    own = (states[is_hidden], beyond[is_hidden] - log_z)
    return Judgement(drawn.shares[-1], pareto_k(log_weights), hidden, p_value, *own)


def _log_ratio(drawn: Drawn, walked: Walked) -> np.ndarray:
    """log p - log q at every state of chains."""
    flat = walked.position.reshape((-1, walked.position.shape[-1]))
    return walked.log_density - log_densities(drawn.reference, flat).reshape(walked.log_density.shape)
