"""Findings of the search for modes: was it thorough, does its reference cover the density, does the final model?"""

import math
from collections.abc import Iterable

from tempering.atlas.judge import LEAST_P_VALUE, MOST_HIDDEN
from tempering.runs.records import Checks, Mode
from tempering.sampler.diagnosis.thresholds import (
    FEW_SEARCHES,
    HIDDEN,
    LIKELY_MORE,
    LIKELY_UNSEEN,
    MOST_LOST,
    MUCH_HIDDEN,
    RARE_WEIGHT,
)
from tempering.sampler.diagnosis.verdict import Finding

__all__ = ["expected_unseen", "is_drawn_from_modes", "mode_findings"]

_WIDER = (
    "give `scale=` or `init=` that covers where the density may be, or raise `budget`; compare fits with other seeds"
)


_MANY, _MOST_ONCE = 50, 0.3
"""Optima, and the share of them that were found once, from which hits of the others are luck."""
_UNSURE = {1: 1.0, 2: 0.645, 3: 0.202, 4: 0.082, 5: 0.037}
"""The mean of 1 / (e^a - 1) over a gamma distribution of h: zeta(h) - 1, about 2^-h; infinite for 1, and taken as 1."""


def is_drawn_from_modes(checks: Checks) -> bool:
    """Whether the fit rests on modes that were found, and on no hot chains."""
    return checks.path in ("reference", "shape")


def expected_unseen(modes: Iterable[Mode]) -> float:
    """How many optima that count were probably not found, by how often the others were.

    An optimum that takes h of n searches is found with a probability of about 1 - e^-h. For each one that was found,
    1 / (e^h - 1) others like it were not (Horvitz and Thompson's estimator). Where most optima are found once, h itself
    is a matter of luck: then it is the mean of that number over what h searches may stand for.
    """
    return math.fsum(number for number, _ in _unseen(tuple(modes)))


def _unseen_mass(modes: Iterable[Mode]) -> float:
    """The local weight of those that were probably not found, each as heavy as the one it is foretold by."""
    return math.fsum(number * weight for number, weight in _unseen(tuple(modes)))


def _unseen(modes: tuple[Mode, ...]) -> list[tuple[float, float]]:
    """For every optimum that counts, how many like it were probably not found, and its weight."""
    counted = [(max(1, mode.hits), mode.weight) for mode in modes if mode.weight >= RARE_WEIGHT]
    if sum(mode.hits == 1 for mode in modes) > _MOST_ONCE * len(modes) and len(modes) > _MANY:
        return [(_UNSURE.get(hits, 2.0**-hits), weight) for hits, weight in counted]
    return [(1.0 / math.expm1(min(hits, 50)), weight) for hits, weight in counted]


def mode_findings(checks: Checks, modes: Iterable[Mode] = ()) -> list[Finding]:
    """Of the search, of its referee, and of optima that the final model must cover.

    Args:
        modes: the optima that were found.
    """
    if checks.atlas_num_searches is None:
        return []
    findings = [*_covered_optima(checks)]
    if is_drawn_from_modes(checks):
        is_searched = checks.path != "shape" or checks.num_optima
        searched = [_searched(checks, tuple(modes))] if is_searched else []
        findings = [*searched, _refereed(checks), *findings]
    return findings


def _searched(checks: Checks, modes: tuple[Mode, ...]) -> Finding:
    name, num, missing = "the search for modes", checks.atlas_num_searches or 0.0, checks.atlas_missing
    chance = 1.0 if missing is None else missing
    optima = f"{checks.num_optima} optim{'um' if checks.num_optima == 1 else 'a'}"
    measured = (
        f"{optima} from {num:,.0f} searches, chance of a new one {max(chance, 1.0 / max(num, 1.0)):.2g} at the most"
    )
    if num < FEW_SEARCHES:
        return Finding(name, "doubtful", measured, "there were few searches, which may have missed modes", _WIDER)
    lost = checks.atlas_num_lost or 0.0
    # Learned coordinates are for densities that searches find no way up; nobody draws from the optima there.
    if checks.path == "reference" and lost > MOST_LOST * num:
        measured += f", {lost:,.0f} more ended at no optimum"
        return Finding(name, "doubtful", measured, "they may have been on their way to other modes", _WIDER)
    if chance > LIKELY_MORE:
        return Finding(name, "doubtful", measured, "more searches would find more modes that count", _WIDER)
    unseen, mass = expected_unseen(modes), _unseen_mass(modes)
    if unseen > LIKELY_UNSEEN and mass > HIDDEN:
        measured += f"; some were found very seldom, so that about {unseen:.1f} others with {mass:.1%} of the mass are "
        measured += "probably missing"
        return Finding(name, "doubtful", measured, "the search ended while some modes were still hard to find", _WIDER)
    return Finding(name, "good", measured, "searches from near and far end where others have ended")


def _refereed(checks: Checks) -> Finding:
    """Chains that owe nothing to the reference are where it has mass; chains from its draws stay among them."""
    name = "the referee's chains"
    hidden, p_value = checks.atlas_hidden, checks.atlas_p_value
    if hidden is None or p_value is None:
        return Finding(name, "unchecked", "none walked", "nothing checked whether the modes cover the density", _WIDER)
    measured = f"{hidden:.1%} of their states uncovered; even ranks among weighted draws: p = {p_value:.2g}"
    meaning = "chains go where draws from the modes have practically no density: the modes do not cover everything"
    if hidden > MOST_HIDDEN or p_value < LEAST_P_VALUE:
        return Finding(name, "doubtful", measured, meaning, "set atlas.path=temperature, or raise `budget`")
    return Finding(name, "good", measured, "chains stay where draws from the modes are")


def _covered_optima(checks: Checks) -> list[Finding]:
    """Has the final model mass at every optimum that matters?"""
    name, share = "optima that the model dropped", checks.uncovered
    if share is None:
        return []
    optima = f"{checks.num_optima} optim{'um' if checks.num_optima == 1 else 'a'}"
    measured = f"{checks.num_uncovered or 0} of {optima}, local weight {share:.1%}"
    if share > HIDDEN and math.isfinite(share):
        status = "wrong" if share > MUCH_HIDDEN else "doubtful"
        meaning = "searches found optima where the final model has practically no density"
        return [
            Finding(name, status, measured, meaning, "raise `budget`, train longer, or fit again with another seed")
        ]
    return [Finding(name, "good", measured, "the model has mass at every optimum that matters")]
