"""More weighted draws where a few large weights alone speak against a sampler, and the budget has them.

Consumes the first draws; produces all draws together, with what the first ones said. One weight of ten times the mean
among 2,000 that are even foretells a tail which four times as many draws mostly do not have. Where they have it, the
verdict stays; and a mass that was hardly ever drawn is then better known.
"""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from tempering.kernels import ChainState
from tempering.runs.ledger import Ledger
from tempering.runs.records import finite_or_none
from tempering.sampler import Sampler
from tempering.sampler.diagnosis.findings import recorded_findings, weight_findings
from tempering.sampler.diagnosis.thresholds import LOW_SHARE
from tempering.sampler.paid import FIT
from tempering.targets import Target
from tempering.targets.cost import points_per_gradient
from tempering.types import Array, Key
from tempering.weights.weigh import Weighted, weigh

__all__ = ["look_again"]

_MOST_BATCHES = 3
"""Times as many draws as the first: 15 % of a budget at the most, as the first are 5 % of it."""
_MOST_UNSEEN = 0.2
"""Share of the mass beyond the largest weight from which more draws are not worth it: what one weight foretells falls
to about a quarter with four times as many, and that would still be an alarm."""
_KEY = 0x2ECD
"""Folded into the key of the first draws."""
_MADE_LATER = (
    "final weights",
    "log Z of the last level and the final draws",
    "optima that the model dropped",
    "modes that the model dropped",
    "the end of the prior's cube",
    "determinants behind log Z",
)
"""Findings that rest on final draws: those of a sampler from before say nothing of this one."""


def look_again(
    key: Key,
    sampler: Sampler,
    weighted: Weighted,
    draw_fn: Callable[[Key, int], tuple[Array, Array]],
    target: Target,
    ledger: Ledger,
    held_back: int = 0,
) -> tuple[Sampler, Weighted]:
    """All draws together, and a sampler that has noted what the first ones said; both as they are if that is enough.

    There are as many as the budget has left, in batches of the same size, and all are made before anybody looks: to
    stop at the first good sight would be to look until chance is kind. The end of a time limit may stop them: it does
    not depend on what they say.

    Args:
        key: the one that the first draws were made with.
        sampler: with all that was measured before its final draws.
        draw_fn: so many draws of the model with their log densities.
        held_back: evaluations that must be left.
    """
    num = weighted.log_weights.shape[0]
    batches = _affordable(num * points_per_gradient(target), ledger, held_back)
    if batches == 0 or ledger.clock.left() <= 0.0 or not _is_worth_it(sampler, weighted):
        return sampler, weighted
    parts = [weighted]
    for batch in range(batches):
        if batch > 0 and ledger.clock.left() <= 0.0:
            break
        x, log_q = draw_fn(jax.random.fold_in(jax.random.fold_in(key, _KEY), batch), num)
        parts.append(weigh(target, x, log_q, jnp.ones(()), ledger=ledger, stage="final_weights"))
    checks = dataclasses.replace(sampler.checks, num_first_draws=num, unseen_first=finite_or_none(weighted.unseen))
    return dataclasses.replace(sampler, checks=checks), _joined(parts)


def _affordable(cost: int, ledger: Ledger, held_back: int) -> int:
    """Batches of this cost that the budget has left."""
    if ledger.budget is None:
        return _MOST_BATCHES
    return max(0, min(_MOST_BATCHES, (ledger.budget - ledger.total - held_back) // cost))


def _is_worth_it(sampler: Sampler, weighted: Weighted) -> bool:
    """Whether nothing but the weights speaks against the sampler, and more of them may say otherwise."""
    checks = dataclasses.replace(sampler.checks, num_final_draws=weighted.log_weights.shape[0])
    own = dataclasses.replace(sampler, checks=checks, ess_fraction=weighted.ess_fraction)
    own.paid.note(FIT, weighted)
    is_hopeless = not weighted.ess_fraction >= LOW_SHARE or weighted.unseen > _MOST_UNSEEN
    if is_hopeless or weight_findings(own)[0].status == "good":
        return False
    others = (finding for finding in recorded_findings(own) if finding.name not in _MADE_LATER)
    return all(finding.status in ("good", "note") for finding in others)


def _joined(parts: list[Weighted]) -> Weighted:
    """Draws of several batches as one set."""
    states = [part.states for part in parts]
    joined: ChainState = jax.tree.map(lambda *leaves: jnp.asarray(np.concatenate(leaves)), *states)
    log_weights = jnp.asarray(np.concatenate([part.log_weights for part in parts]))
    return Weighted(joined, log_weights, sum(part.num_nonfinite for part in parts))
