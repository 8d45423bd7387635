"""A reference made of optima, and improved by its own weighted draws.

First Laplace approximations with heavy tails, at every optimum. Then, a few times: draw, weigh, and move every
component towards the mean, covariance and mass that the weighted draws show (population Monte Carlo). Tails and widths
are those that promise most. Every draw stays in use: all of them together are draws of the mixture of all rounds.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from tempering.atlas.mixture import (
    StudentMixture,
    drawn_of,
    joined,
    log_densities,
    log_densities_of_parts,
    mixture_of,
)
from tempering.atlas.optima import Optima
from tempering.atlas.patch import cost_of_patches, has_much_heavy, with_patches
from tempering.devices.keys import folded
from tempering.runs.ledger import Ledger
from tempering.targets.base import Target
from tempering.targets.cost import points_per_gradient, spend
from tempering.targets.rows import evaluate_rows
from tempering.types import Key
from tempering.weights.pareto import pareto_k

__all__ = ["Drawn", "adapted", "draw_more", "first_guess", "log_weights_of"]

FIRST_NU, FIRST_WIDENING = 8.0, 1.15
"""Of Laplace approximations: heavy enough that modes which are not normal are covered."""
LEAST_WEIGHT = 0.02
"""Of a component, over an equal share: a mode that Laplace's approximation takes for nothing may be more."""
_TIMES = 3.0
"""A component that keeps a share of the draws has this many times its mass, up to that share."""
_NUS, _WIDENINGS = (3.0, 6.0, 12.0, 30.0, 100.0), (0.9, 1.0, 1.1, 1.25, 1.5)
_NEAR_BEST = 0.97
"""Heavier tails that promise nearly as much are taken."""
_ENOUGH, _GAIN, _HIGH_K = 0.6, 1.15, 0.5
"""Effective share from which no round is worth its draws, the gain that the next one must have brought, and the Pareto
k above which a few draws stand for what the components do not reach."""
_COLLAPSED = 0.5
"""Share of a round over the best before it, below which one heavy draw decides it."""
_STAGE = "reference"
"""Of the ledger."""


@dataclass
class Drawn:
    """All draws of a reference so far, with target values.

    Args:
        mixtures, nums: of every round, with the draws that it made.
        position, log_density, gradient: of the draws, in the order of rounds.
        shares: effective share of every round's own draws.
        components: that the latest mixture was made of: optima, and patches where draws were heavy.
    """

    mixtures: list[StudentMixture]
    nums: list[int] = field(default_factory=list)
    position: np.ndarray = field(init=False)
    log_density: np.ndarray = field(init=False)
    gradient: np.ndarray = field(init=False)
    shares: list[float] = field(default_factory=list)
    components: Optima | None = None
    _log_q: np.ndarray | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.position = self.gradient = np.zeros((0, self.mixtures[0].dim), np.float32)
        self.log_density = np.zeros((0,), np.float32)

    @property
    def reference(self) -> StudentMixture:
        """What all draws together are draws of."""
        return joined(self.mixtures[: len(self.nums)], self.nums)

    def log_weights(self) -> np.ndarray:
        """Of all draws, by the mixture of all rounds; -inf where the target is of no use."""
        if self._log_q is None or len(self._log_q) != len(self.log_density):
            self._log_q = log_densities(self.reference, self.position)
        return log_weights_of(self.log_density, self.gradient, self._log_q)

    @property
    def log_z(self) -> float:
        """log of the mean weight; -inf without any."""
        log_weights = self.log_weights()
        top = np.max(log_weights, initial=-np.inf)
        return float(np.log(np.mean(np.exp(log_weights - top))) + top) if np.isfinite(top) else -np.inf

    def log_heaviness(self) -> np.ndarray:
        """log p - log q - log Z of all draws; -inf where nothing is known."""
        log_z = self.log_z
        return self.log_weights() - log_z if np.isfinite(log_z) else np.full(len(self.log_density), -np.inf)


def log_weights_of(log_density: np.ndarray, gradient: np.ndarray, log_q: np.ndarray) -> np.ndarray:
    """log p - log q; -inf where the target is of no use."""
    is_usable = np.isfinite(log_density) & np.all(np.isfinite(gradient), axis=1) & np.isfinite(log_q)
    return np.where(is_usable, log_density.astype(np.float64) - log_q, -np.inf)


def first_guess(optima: Optima) -> StudentMixture:
    """Laplace approximations at the optima, widened, with heavy tails."""
    weight = np.maximum(optima.local_weight(), LEAST_WEIGHT / len(optima))
    return mixture_of(weight, optima.centre, optima.covariance, FIRST_NU, FIRST_WIDENING)


def draw_more(key: Key, target: Target, drawn: Drawn, num: int, ledger: Ledger) -> None:
    """`num` draws more of the latest mixture, one evaluation each."""
    spend(ledger, _STAGE, target, num)
    mixture = drawn.mixtures[-1]
    position = drawn_of(key, mixture, num)
    value, gradient = evaluate_rows(target, position)
    drawn.shares.append(_share(log_weights_of(value, gradient, log_densities(mixture, position))))
    parts = [(drawn.position, position), (drawn.log_density, value), (drawn.gradient, gradient)]
    drawn.position, drawn.log_density, drawn.gradient = (np.concatenate(pair) for pair in parts)
    drawn.nums.append(num)


def _share(log_weights: np.ndarray) -> float:
    """Effective share of weights."""
    top = np.max(log_weights, initial=-np.inf)
    if not np.isfinite(top):
        return 0.0
    weights = np.exp(log_weights - top)
    return float(np.sum(weights) ** 2 / np.sum(weights**2) / len(weights))


def adapted(
    key: Key,
    target: Target,
    optima: Optima,
    num_per_round: int,
    most_rounds: int,
    ledger: Ledger,
    on_round: Callable[[int, float], None] = lambda index, share: None,
    before: Drawn | None = None,
    held_back: int = 0,
) -> Drawn:
    """A reference and its weighted draws, after as many rounds as help.

    Where draws are heavy, components are added there (`patch`), and a round more shows what they come to.

    Args:
        num_per_round: draws of the first round; each later one makes as many.
        on_round: called with the number of the round and the effective share of its draws.
        before: draws of a reference with fewer components, which stay in use; `optima` has all of its components.
        held_back: evaluations of the stage that must be left. A round after the first is made if it leaves them.
    """
    drawn = Drawn([first_guess(optima)]) if before is None else before
    if before is not None:  # the latest, of which nothing is drawn yet, gives way
        drawn.mixtures[-1] = _improved(drawn, optima)
    index, last = 0, most_rounds - 1
    cost = num_per_round * points_per_gradient(target)
    while True:
        draw_more(folded(key, index), target, drawn, num_per_round, ledger)
        share, num = drawn.shares[-1], len(optima)
        on_round(index, share)
        has_much = has_much_heavy(drawn.log_heaviness())
        has_tail = has_much or pareto_k(drawn.log_weights()) > _HIGH_K
        can_be_patched = ledger.left(_STAGE) - held_back >= cost + cost_of_patches(target)
        if has_tail and can_be_patched and index < (2 * most_rounds if has_much else most_rounds):
            optima = with_patches(target, optima, drawn.position, drawn.log_heaviness(), drawn.log_z, ledger)
        drawn.mixtures.append(_improved(drawn, optima))
        best = max(drawn.shares[:-1], default=0.0)
        if len(optima) > num:  # what is new is to be drawn, and to be seen in its weights
            last = max(last, index + 1)
        elif share < _COLLAPSED * best:  # a draw that no round before had met: what knows of it is still unseen
            last = max(last, min(index + 1, most_rounds + 1))
        elif (share > _ENOUGH and not has_tail) or (index > 1 and share < _GAIN * best):
            break
        if index >= last or ledger.left(_STAGE) - held_back < cost:
            break
        index += 1
    drawn.components = optima
    return drawn


def _improved(drawn: Drawn, optima: Optima) -> StudentMixture:
    """The components moved towards what the weighted draws show, as far as draws that were held out bear it out."""
    log_weights = drawn.log_weights()
    if not np.any(np.isfinite(log_weights)):
        return drawn.mixtures[-1]
    num = len(log_weights)
    is_fitted = np.arange(num) % 3 > 0
    log_weights_fitted = np.where(is_fitted, log_weights, -np.inf)
    candidates = [
        _moved(drawn, optima, log_weights_fitted),
        (*_masses(drawn, optima, log_weights_fitted)[:1], optima.centre, optima.covariance),
    ]
    held_out = np.where(is_fitted, -np.inf, log_weights)
    return max((_best_tails(*parts, drawn, held_out) for parts in candidates), key=lambda found: found[1])[0]


def _masses(drawn: Drawn, optima: Optima, log_weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The share of every component, and what every draw counts in it."""
    last, num = drawn.mixtures[-1], len(optima)
    if last.log_weight.shape[0] != num:  # components that are new
        last = first_guess(optima)
    log_parts = log_densities_of_parts(last, drawn.position) + np.asarray(last.log_weight)[None]
    belongs = np.exp(log_parts - np.logaddexp.reduce(log_parts, axis=1, keepdims=True))
    own = _truncated(log_weights)[:, None] * belongs
    mass, size = np.sum(own, axis=0), _sizes(own)
    # A component that nothing was drawn of keeps what Laplace gives it.
    trust = size / (size + 10.0)
    shares = trust * mass + (1.0 - trust) * optima.local_weight()
    shares = shares / np.sum(shares)
    return np.maximum(shares, np.maximum(LEAST_WEIGHT / num, np.minimum(optima.keeps, _TIMES * shares))), own


def _sizes(own: np.ndarray) -> np.ndarray:
    """Effective draws of every component."""
    return np.sum(own, axis=0) ** 2 / np.maximum(np.sum(own**2, axis=0), 1e-300)


def _moved(drawn: Drawn, optima: Optima, log_weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Shares, means and covariances that weighted draws show, each as far as they are enough to show it."""
    shares, own = _masses(drawn, optima, log_weights)
    dim, size = optima.dim, _sizes(own)
    position = drawn.position.astype(np.float64)
    means, covariances = optima.centre, optima.covariance.copy()
    for k in range(len(optima)):
        mass = np.sum(own[:, k])
        if mass <= 0 or optima.keeps[k] > 0:
            continue
        means[k] += size[k] / (size[k] + 10.0 + dim) * (own[:, k] @ position / mass - means[k])
        away = position - means[k]
        shown = (own[:, k, None] * away).T @ away / mass
        # The noise of a covariance costs about exp(-(trust dim)^2 / (4 size)) of the effective share.
        trust = min(size[k] / (size[k] + 3.0 * dim), np.sqrt(0.2 * size[k]) / dim)
        covariances[k] += trust * (shown - covariances[k])
    return shares, means, covariances


def _truncated(log_weights: np.ndarray) -> np.ndarray:
    """Normalised weights, none above the root of their number times the mean: one draw must not move all."""
    weight = np.exp(log_weights - np.max(log_weights))
    weight = np.minimum(weight, np.mean(weight) * np.sqrt(len(weight)))
    return weight / np.sum(weight)


def _best_tails(
    shares: np.ndarray, means: np.ndarray, covariances: np.ndarray, drawn: Drawn, log_weights: np.ndarray
) -> tuple[StudentMixture, float]:
    """The degrees of freedom and the widening with the largest effective share that weighted draws foretell, and it."""
    from scipy.special import gammaln  # here: it would be a fifth of what importing the library takes

    is_used = np.isfinite(log_weights)
    if not np.any(is_used):
        return mixture_of(shares, means, covariances, FIRST_NU, FIRST_WIDENING), 0.0
    own, weight = log_weights[is_used], _truncated(log_weights[is_used])
    log_z = np.log(np.mean(np.exp(own - np.max(own)))) + np.max(own)
    log_p = drawn.log_density[is_used].astype(np.float64) - log_z
    factor = np.linalg.cholesky(covariances)
    away = drawn.position[is_used].astype(np.float64)[None] - means[:, None, :]
    square = np.sum((away @ np.linalg.inv(factor).transpose(0, 2, 1)) ** 2, axis=2).T
    log_det = np.sum(np.log(np.diagonal(factor, axis1=1, axis2=2)), axis=1)
    dim, best, best_promise = means.shape[1], (FIRST_NU, FIRST_WIDENING), 0.0
    for nu in _NUS:  # the heaviest first
        constant = gammaln(0.5 * (nu + dim)) - gammaln(0.5 * nu) - 0.5 * dim * np.log(nu * np.pi)
        for widening in _WIDENINGS:
            parts = (
                constant - log_det - dim * np.log(widening) - 0.5 * (nu + dim) * np.log1p(square / (nu * widening**2))
            )
            ratio = log_p - np.logaddexp.reduce(np.log(shares) + parts, axis=1)
            promise = 1.0 / max(float(weight @ np.exp(np.minimum(ratio, 300.0))), 1e-300)
            if promise > best_promise / _NEAR_BEST:
                best, best_promise = (nu, widening), promise
    return mixture_of(shares, means, covariances, *best), best_promise
