"""Findings from the numbers that a fit recorded. No evaluation, no draw: they can be made again from a saved sampler.

`thresholds` has every number that they are judged by; docs/trust.md shows what they come to on targets made to fool
them.
"""

import math
from dataclasses import replace

from tempering.runs.records import IMPROVED, Checks, LevelRecord
from tempering.sampler.diagnosis.comparison import log_z_agreement
from tempering.sampler.diagnosis.coverage import is_beyond_chance
from tempering.sampler.diagnosis.modes import is_drawn_from_modes, mode_findings
from tempering.sampler.diagnosis.others import other_findings
from tempering.sampler.diagnosis.thresholds import (
    FAR_ENOUGH,
    FEW_EFFECTIVE,
    FEW_EVIDENCE,
    FEW_OF_LEVEL,
    FEW_SEARCHES,
    FEW_SWAPS,
    HIDDEN,
    HIDDEN_ON_THE_WAY,
    HIGH_K,
    HIGH_RHAT,
    LARGEST_GROWTH,
    LARGEST_SHIFT,
    LEAST_REACH,
    LEAST_VIRIAL,
    LIKELY_MORE,
    LOW_SHARE,
    MOST_COUNT,
    MOST_LOST,
    MUCH_HIDDEN,
    MUCH_UNSEEN,
    MUCH_UNSEEN_AGAIN,
    TOO_FEW_EFFECTIVE,
    UNSEEN_OF_FEW,
    VERY_HIGH_K,
)
from tempering.sampler.diagnosis.verdict import Finding

__all__ = ["beside_prior", "recorded_findings", "weight_findings"]

_REFERENCE = (
    "give `reference=`, a proper distribution that covers the density: the path from it can be normalised at every "
    "temperature, and p^(1/T) of a heavy tail cannot"
)
_MORE = "go on with `improve(budget=…)`, raise `budget`, or give more levels in `ladder=`"
_COVER = (
    "give `scale=` or `init=` that covers where the density may be, a hotter `ladder=`, or a larger `budget`, and "
    "compare two fits by diagnose(other=)"
)

_NOT_BESIDE_PRIOR = {
    "a wider `scale=` or an `init=`": "an `init=`",
    "`scale=` or `init=`": "`init=`",
    ", `support=` or `reference=`": "",
}
"""Advice that `tp.fit` refuses beside a prior, and what is left of it there."""


def beside_prior(finding: Finding) -> Finding:
    """The finding with advice that can be followed where there is a prior."""
    advice = finding.advice
    for words, rest in _NOT_BESIDE_PRIOR.items():
        advice = advice.replace(words, rest)
    return replace(finding, advice=advice)


def recorded_findings(sampler) -> list[Finding]:
    """One finding for each check, in the order of the run."""
    levels, checks = sampler.levels, sampler.checks
    start = [] if is_drawn_from_modes(checks) else [*_pilot(checks), *_start(levels, checks)]
    findings = [
        *start,
        *mode_findings(checks, sampler.modes),
        *_way(sampler),
        *_rescues(levels),
        *weight_findings(sampler),
        *_covered(sampler),
    ]
    return [*findings, *other_findings(sampler)]


def _pilot(checks: Checks) -> list[Finding]:
    """Did chains mix at the hottest temperature, and did scouts find anything beyond?"""
    name, search = "the hottest level", "modes beyond the starting points"
    if checks.pilot_temperature is None and _has_searched(checks):
        measured = f"{checks.num_optima} optima from {checks.atlas_num_searches:,.0f} searches uphill"
        return [Finding(search, "good", measured, "searches from near and far end where others have ended")]
    if checks.pilot_temperature is None:
        meaning = "the ladder was given and no pilot was run: nothing looked beyond the starting points"
        return [Finding(search, "unchecked", "no scouts were sent", meaning, f"leave out `ladder=`, or {_COVER}")]
    hottest, rhat = checks.pilot_temperature, _number(checks.pilot_rhat)
    scout, reach = checks.scout_rhat, checks.scout_reach
    findings = []
    measured = f"pilot's R-hat {rhat:.2f} at T = {hottest:.4g}"
    if not checks.pilot_is_mixed:
        if scout is not None:
            measured += f", with scouts {scout:.2f}"
        meaning = "chains did not mix at any temperature that was tried: modes may be missing, or weighted wrongly"
        findings.append(Finding(name, "doubtful", measured, meaning, f"{_COVER}; or give the pilot more steps"))
    else:
        findings.append(Finding(name, "good", measured, "chains from different starts agree"))
    if checks.is_running_away:
        measured = f"above T = {hottest:.4g}"
        meaning = "hot chains run away: the integral of p^(1/T) is infinite there, or nearly"
        if scout is None or (reach or 1.0) < LEAST_REACH:
            findings.append(Finding("heavy tails", "doubtful", measured, meaning, _REFERENCE))
    if scout is not None:
        measured = f"scouts went {_number(reach):.4g} times as hot, R-hat {scout:.2f} when they were back"
        meaning = "the scouts found nothing new, or the ladder was made hotter until chains reached it too"
        findings.append(Finding(search, "good", measured, meaning))
    elif hottest >= FAR_ENOUGH:
        findings.append(Finding(search, "good", f"chains were heated to T = {hottest:.4g}", "no scouts were needed"))
    else:
        meaning = "chains that all start in one mode see only that one"
        findings.append(Finding(search, "unchecked", "no scouts were sent", meaning, _COVER))
    return findings


def _has_searched(checks: Checks) -> bool:
    """Whether searches uphill, as `improve` makes them, have looked beyond the starting points and closed in."""
    num, missing = checks.atlas_num_searches or 0.0, checks.atlas_missing
    has_arrived = (checks.atlas_num_lost or 0.0) <= MOST_LOST * num
    return num >= FEW_SEARCHES and missing is not None and missing <= LIKELY_MORE and has_arrived


def _since_improved(levels: list[LevelRecord]) -> list[LevelRecord]:
    """The records that the sampler rests on: all, or the last that `improve` made, whose weights count for all."""
    last = max((index for index, record in enumerate(levels) if record.proposal == IMPROVED), default=0)
    return levels[last:]


def _start(levels: list[LevelRecord], checks: Checks) -> list[Finding]:
    """The initial parallel tempering: mixed, stationary, swapping, and at home at the hottest level."""
    name = "the initial parallel tempering"
    if not levels or levels[0].rhat is None:
        return []
    hottest = levels[0]
    troubles = []
    if not _number(hottest.rhat) < HIGH_RHAT:
        troubles.append("its chains have not forgotten their starts at the hottest level")
    if hottest.drift is not None and hottest.drift > LARGEST_SHIFT:
        troubles.append("early and late draws of the hottest level have different means")
    growth = hottest.spread_growth
    if growth is not None and growth > LARGEST_GROWTH:
        troubles.append("the hottest level was still spreading")
    swaps = [record.swap_rate for record in levels if record.swap_rate is not None and record.ess_fraction is None]
    if swaps and min(swaps) < FEW_SWAPS:
        troubles.append("neighbouring levels hardly ever swapped")
    if hottest.round_trips == 0:
        troubles.append("no replica went from hot to cold and back")
    measured = f"R-hat {hottest.rhat:.2f} at T = {hottest.temperature:.4g}, {hottest.round_trips or 0:,} round trips"
    if swaps:
        measured += f", lowest swap rate {min(swaps):.2f}"
    if hottest.drift is not None:
        measured += f", drift {hottest.drift:.1f} standard errors"
    findings = []
    if troubles:
        meaning = "; ".join(troubles) + ": what follows rests on its samples"
        findings.append(Finding(name, "doubtful", measured, meaning, _MORE))
    else:
        findings.append(Finding(name, "good", measured, "mixed and stationary"))
    balance, error = hottest.virial, hottest.virial_error
    if balance is None or error is None:
        return findings
    measured = f"virial {balance:.2f} ± {error:.2f} at T = {hottest.temperature:.4g}, which should be 1"
    is_growing = growth is not None and growth > 1.1
    if balance + 4.0 * error < LEAST_VIRIAL and (is_growing or checks.is_running_away):
        meaning = "hot chains spread further and further: the integral of p^(1/T) is probably infinite there"
        findings.append(Finding("the hottest level is proper", "doubtful", measured, meaning, _REFERENCE))
    return findings


def _enough(sampler, found: float, wanted: float) -> str:
    """The budget that would give `wanted` of what this one gave `found`, in words: two digits, rounded up."""
    needed = sampler.evaluations * min(10.0, max(1.5, wanted / max(found, 1e-9)))
    digit = 10.0 ** (math.floor(math.log10(max(needed, 10.0))) - 1)
    return f"give `budget=` {math.ceil(needed / digit) * int(digit):,} or more"


def _way(sampler) -> list[Finding]:
    """The levels between: effective draws, tails of their weights, and promises that were not kept."""
    levels = sampler.levels
    guided = [record for record in _since_improved(levels) if record.ess_fraction is not None]
    if not guided:
        return []
    shares = [_number(record.ess_fraction) for record in guided]
    sizes = [share * (record.num_draws or math.inf) for share, record in zip(shares, guided, strict=True)]
    worst = min(range(len(guided)), key=lambda k: sizes[k] if math.isfinite(sizes[k]) else shares[k])
    record, size = guided[worst], sizes[worst]
    number = f", {size:,.0f} effective draws" if math.isfinite(size) else ""
    measured = f"lowest effective share {record.ess_fraction:.3f}{number} at T = {record.temperature:.4g}"
    tails = [level.pareto_k for level in guided if level.pareto_k is not None]
    measured += f", largest Pareto k {max(tails):.2f}" if tails else ""
    # What a level dropped before stays a doubt, unless searches since have looked for it.
    dropped = [level for level in (guided if _has_searched(sampler.checks) else levels) if _is_hidden(level)]
    if size < FEW_OF_LEVEL or (not math.isfinite(size) and shares[worst] < 0.01):
        if math.isfinite(size) and shares[worst] >= LOW_SHARE:
            meaning = "a level has too few draws to be judged: the budget is too small for a verdict"
            advice = _enough(sampler, size, FEW_OF_LEVEL)
            return [Finding("levels on the way", "unknown", measured, meaning, advice)]
        meaning = "a level has only a handful of effective draws, and all later levels rest on it"
        return [Finding("levels on the way", "doubtful", measured, meaning, _MORE)]
    if any(_has_tail(level.pareto_k, level.unseen, level.num_draws, VERY_HIGH_K, is_both=True) for level in guided):
        meaning = "a few draws of a level outweigh the rest: the region that they stand for was hardly ever drawn"
        return [Finding("levels on the way", "doubtful", measured, meaning, _MORE)]
    if dropped:
        level = dropped[0]
        measured = (
            f"{level.hidden_share:.1%} ± {level.hidden_error:.1%} of the mass of the level above lies where the model "
            f"of T = {level.temperature:.4g} has practically none"
        )
        meaning = "that model does not draw everything that the level above has: a mode may have been dropped"
        return [Finding("levels on the way", "doubtful", measured, meaning, _MORE)]
    return [Finding("levels on the way", "good", measured, "every level has enough effective draws")]


def _has_tail(
    k: float | None,
    unseen: float | None,
    num: int | None,
    high: float,
    *,
    is_both: bool = False,
    most: float = MUCH_UNSEEN,
) -> bool:
    """Whether weights beyond those drawn may hold much of the mass; k decides where that was not measured.

    Args:
        is_both: whether k must be high as well.
        most: mass beyond the largest weight that is no tail.
    """
    is_high = k is not None and k > high
    if unseen is None:
        return is_high
    holds = unseen > max(most, UNSEEN_OF_FEW / (num or math.inf))
    return holds and (is_high or not is_both)


def _is_hidden(level: LevelRecord) -> bool:
    return is_beyond_chance(level.hidden_share, level.hidden_error, level.num_hidden, HIDDEN_ON_THE_WAY)


def _rescues(levels: list[LevelRecord]) -> list[Finding]:
    """Levels whose draws or networks were of no use, and what was done instead."""
    levels = _since_improved(levels)
    found = [record for record in levels if record.rescue is not None]
    if not found:
        return []
    worst = next((record for record in found if record.is_rescued), found[0])
    measured = f"{len(found)} of {len(levels)} levels; at T = {worst.temperature:.4g} {worst.rescue}"
    if not worst.is_rescued:
        meaning = "training that went wrong was noticed, and nothing rests on it"
        return [Finding("levels that went wrong", "note", measured, meaning)]
    meaning = "the model did not learn this density: later levels rest on fewer samples than planned"
    return [Finding("levels that went wrong", "doubtful", measured, meaning, f"{_MORE}, `support=` or `reference=`")]


def weight_findings(sampler) -> list[Finding]:
    """The final weights, and log Z from them and from the last level."""
    name, all_draws = "final weights", getattr(sampler, "weighed", None)
    share, num, k, unseen = sampler.ess_fraction, sampler.checks.num_final_draws, sampler.pareto_k, None
    log_z = (sampler.checks.log_z_final, sampler.checks.log_z_final_error)
    if all_draws is not None:
        share, num, k, unseen = all_draws.ess_fraction, all_draws.num, all_draws.pareto_k, all_draws.unseen
        # Where probes estimate determinants, only the fit's own draws were checked.
        log_z = (all_draws.log_z, all_draws.log_z_error) if sampler.checks.determinants == "exact" else log_z
    if share is None:
        meaning = "the final model was never weighed against the density"
        return [Finding(name, "unchecked", "none", meaning, "set num_final_draws above 0, or call sample_weighted")]
    size = share * num if num else math.inf
    shown = "none" if k is None else f"{k:.2f}"
    measured = f"effective share {share:.3f} of {num or 0:,} draws, Pareto k {shown}"
    if all_draws is not None and num != sampler.checks.num_final_draws:
        measured += f" (of the fit's {sampler.checks.num_final_draws or 0:,} alone {_number(sampler.ess_fraction):.3f})"
    if unseen is not None:
        measured += f", {_mass(unseen)} beyond the largest weight"
    first = sampler.checks.num_first_draws
    if first is not None:
        measured += f" ({_mass(_number(sampler.checks.unseen_first))} by the first {first:,} draws)"
    has_tail = _has_tail(k, unseen, num, HIGH_K, most=MUCH_UNSEEN if first is None else MUCH_UNSEEN_AGAIN)
    has_no_mean = has_tail and k is not None and k > VERY_HIGH_K
    advice = _MORE + (", and compare `sample_weighted` over several seeds" if has_tail else "")
    if share >= LOW_SHARE and size < FEW_EFFECTIVE and not has_tail:
        meaning = "too few draws were weighed to say how good they are: the budget is too small for a verdict"
        findings = [Finding(name, "unknown", measured, meaning, _enough(sampler, size, FEW_EFFECTIVE))]
    elif not size >= TOO_FEW_EFFECTIVE or (has_no_mean and share < MOST_COUNT):
        meaning = "a few draws carry all the weight: weighted means, log Z and their errors mean nothing"
        findings = [Finding(name, "wrong", measured, meaning, advice)]
    elif share < LOW_SHARE or size < FEW_EFFECTIVE or (has_tail and share < MOST_COUNT):
        meaning = "a few draws outweigh the rest: weighted means and log Z have larger errors than stated"
        if share < LOW_SHARE:
            meaning += ", and draws without weights do not follow the density"
        findings = [Finding(name, "doubtful", measured, meaning, advice)]
    elif has_tail:
        why = f"a k above {HIGH_K}" if unseen is None else f"{_mass(unseen)} may lie beyond what was drawn"
        meaning = (
            f"{why}: the largest weights have a heavy tail. The region that they stand for is drawn too rarely. Do not "
            "rely on weighted means, log Z and their errors"
        )
        findings = [Finding(name, "doubtful", measured, meaning, advice)]
    else:
        meaning = "weighted expectations can be relied on"
        if first is not None:
            meaning += "; more draws were made, because the first ones could not say so"
        findings = [Finding(name, "good", measured, meaning)]
    pairs = [log_z, *((record.log_z, record.log_z_error) for record in sampler.levels[-1:])]
    if len(pairs) == 2 and all(value is not None for pair in pairs for value in pair):
        findings.append(
            log_z_agreement("log Z of the last level and the final draws", pairs[0], pairs[1], "doubtful", _MORE)
        )
    return findings


def _mass(unseen: float) -> str:
    """Mass that was not drawn. It is measured by that of all draws, and the fitted tail may foretell more than that."""
    return f"{unseen:.1%} of the mass" if unseen <= 1 else "more mass than all draws have"


def _covered(sampler) -> list[Finding]:
    """Does the final model draw all that hotter levels have at T = 1?"""
    checks, name = sampler.checks, "modes that the model dropped"
    num, share, error = checks.num_evidence, checks.hidden_share, checks.hidden_error
    if num is None:
        return []
    samples = "samples of hotter levels" if len(sampler.levels) > 1 else "samples drawn from the modes"
    if num < FEW_EVIDENCE or share is None or error is None:
        meaning = f"too few {samples} count at T = 1 to check the model with them"
        return [Finding(name, "unknown", f"{num:.0f} effective samples", meaning, _enough(sampler, num, FEW_EVIDENCE))]
    measured = f"{share:.1%} ± {error:.1%} of the mass of {num:,.0f} {samples}"
    if is_beyond_chance(share, error, checks.num_hidden, HIDDEN):
        status = "wrong" if is_beyond_chance(share, error, checks.num_hidden, MUCH_HIDDEN) else "doubtful"
        meaning = f"{samples} lie where the final model has practically no density: it misses them"
        return [Finding(name, status, measured, meaning, f"{_MORE}, or train longer")]
    return [Finding(name, "good", measured, "the model draws where these samples lie")]


def _number(value) -> float:
    return math.nan if value is None else float(value)
