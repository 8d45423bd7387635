"""Findings from the numbers that a fit recorded. No evaluation, no draw: they can be made again from a saved sampler.

Every threshold has its reason beside it; docs/trust.md shows what they come to on targets made to fool them.
"""

import math

from tempering.runs.records import LevelRecord
from tempering.sampler.diagnosis.comparison import log_z_agreement
from tempering.sampler.diagnosis.verdict import Finding

__all__ = ["recorded_findings"]

_HIGH_RHAT = 1.4
"""Of the initial tempering's hottest level: what the pilot calls mixed; its chains are as short."""
_LARGEST_SHIFT = 5.0
"""Standard errors between the means of early and late draws, over all coordinates."""
_LARGEST_GROWTH = 1.25
"""Late over early spread of the hottest level; 100 chains know a spread to a few per cent."""
_LEAST_VIRIAL = 0.85
_HIGH_K, _VERY_HIGH_K = 0.7, 1.0
"""Above the first means over weights cannot be trusted, above the second they need not exist (Vehtari et al. 2024)."""
_LOW_SHARE, _LOW_ESS, _LEAST_ESS = 0.05, 100.0, 20.0
"""Effective share and numbers of final draws: means are known to a tenth, or a quarter, of a standard deviation."""
_MOST_COUNT = 0.5
"""Effective share of final draws from which the largest do not outweigh the rest, whatever their tail foretells."""
_COLLAPSED = 30.0
"""Effective draws of a level below which nothing can be learnt from it."""
_LOW_SWAPS = 0.05
_FAR_ENOUGH = 1024.0
"""Chains heated to this temperature have themselves gone 32 times as far as at T = 1."""
_LEAST_REACH = 16.0
_HIDDEN, _MUCH_HIDDEN = 0.01, 0.1
_LEAST_EVIDENCE = 30.0
_HIDDEN_ON_THE_WAY = 0.02
"""Of a level between: less is expected where weights have a tail, and the next level may find it again."""
_BAD_STARTS, _BAD_VALUES = 0.2, 1e-3

_REFERENCE = (
    "give `reference=`, a proper distribution that covers the density: the path from it has a normaliser at every "
    "temperature, where p^(1/T) of a heavy tail has none"
)
_MORE = "raise `budget`, or give more levels in `ladder=`"
_COVER = (
    "give `scale=` or `init=` that covers where the density may be, a hotter `ladder=`, or a larger `budget`, and "
    "compare two fits by diagnose(other=)"
)


def recorded_findings(sampler) -> list[Finding]:
    """One finding a check, in the order of the run."""
    levels, checks = sampler.levels, sampler.checks
    findings = [*_pilot(checks), *_start(levels, checks), *_way(levels), *_final(sampler), *_covered(checks)]
    return [*findings, *_values(sampler)]


def _pilot(checks: dict) -> list[Finding]:
    """Did chains mix at the hottest temperature, and did scouts find anything beyond?"""
    name, search = "the hottest level", "modes beyond the starting points"
    if checks.get("pilot_temperature") is None:
        meaning = "the ladder was given and no pilot was run, so that nobody looked beyond the starting points"
        return [Finding(search, "unchecked", "no scouts were sent", meaning, f"leave out `ladder=`, or {_COVER}")]
    hottest, rhat = checks["pilot_temperature"], _number(checks.get("pilot_rhat"))
    scout, reach = checks.get("scout_rhat"), checks.get("scout_reach")
    findings = []
    measured = f"pilot's R-hat {rhat:.2f} at T = {hottest:.4g}"
    if not checks.get("pilot_is_mixed"):
        if scout is not None:
            measured += f", with scouts {scout:.2f}"
        meaning = "chains did not mix at any temperature that was tried: modes may be missing, or weighted wrongly"
        findings.append(Finding(name, "doubtful", measured, meaning, _COVER))
    else:
        findings.append(Finding(name, "good", measured, "chains from different starts agree"))
    if checks.get("is_running_away"):
        measured = f"above T = {hottest:.4g}"
        meaning = "hot chains run away: p^(1/T) has no normaliser there, or hardly one"
        if scout is None or (reach or 1.0) < _LEAST_REACH:
            findings.append(Finding("heavy tails", "doubtful", measured, meaning, _REFERENCE))
    if scout is not None:
        measured = f"scouts went {reach:.4g} times as hot, R-hat {scout:.2f} when they were back"
        meaning = "they found nothing that the chains had not seen, or the ladder was made hotter until it was shared"
        findings.append(Finding(search, "good", measured, meaning))
    elif hottest >= _FAR_ENOUGH:
        findings.append(Finding(search, "good", f"chains were heated to T = {hottest:.4g}", "no scouts were needed"))
    else:
        meaning = "chains that all start in one mode see only that one"
        findings.append(Finding(search, "unchecked", "no scouts were sent", meaning, _COVER))
    return findings


def _start(levels: list[LevelRecord], checks: dict) -> list[Finding]:
    """The initial parallel tempering: mixed, stationary, swapping, and at home at the hottest level."""
    name = "the initial parallel tempering"
    if not levels or levels[0].rhat is None:
        return []
    hottest = levels[0]
    troubles = []
    if not _number(hottest.rhat) < _HIGH_RHAT:
        troubles.append("its chains have not forgotten their starts at the hottest level")
    if hottest.drift is not None and hottest.drift > _LARGEST_SHIFT:
        troubles.append("early and late draws of the hottest level have different means")
    growth = hottest.spread_growth
    if growth is not None and growth > _LARGEST_GROWTH:
        troubles.append("the hottest level was still spreading")
    swaps = [record.swap_rate for record in levels if record.swap_rate is not None and record.ess_fraction is None]
    if swaps and min(swaps) < _LOW_SWAPS:
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
    if balance + 4.0 * error < _LEAST_VIRIAL and (is_growing or checks.get("is_running_away")):
        meaning = "hot chains spread on and on: p^(1/T) has no normaliser there, or hardly one"
        findings.append(Finding("the hottest level is proper", "doubtful", measured, meaning, _REFERENCE))
    return findings


def _way(levels: list[LevelRecord]) -> list[Finding]:
    """The levels between: effective draws, tails of their weights, and promises that were not kept."""
    guided = [record for record in levels if record.ess_fraction is not None]
    if not guided:
        return []
    shares = [_number(record.ess_fraction) for record in guided]
    sizes = [share * (record.num_draws or math.inf) for share, record in zip(shares, guided, strict=True)]
    worst = min(range(len(guided)), key=lambda k: sizes[k] if math.isfinite(sizes[k]) else shares[k])
    record, size = guided[worst], sizes[worst]
    number = f", {size:.0f} draws" if math.isfinite(size) else ""
    measured = f"lowest effective share {record.ess_fraction:.3f}{number} at T = {record.temperature:.4g}"
    tails = [level.pareto_k for level in guided if level.pareto_k is not None]
    measured += f", largest Pareto k {max(tails):.2f}" if tails else ""
    dropped = [level for level in guided if level.hidden_share is not None and _is_hidden(level, _HIDDEN_ON_THE_WAY)]
    if size < _COLLAPSED or (not math.isfinite(size) and shares[worst] < 0.01):
        meaning = "a level rests on a handful of draws, and all that follows with it"
        return [Finding("levels on the way", "doubtful", measured, meaning, _MORE)]
    if tails and max(tails) > _VERY_HIGH_K:
        meaning = "a few draws outweigh the rest of a level: what they stand for was hardly ever drawn"
        return [Finding("levels on the way", "doubtful", measured, meaning, _MORE)]
    if dropped:
        level = dropped[0]
        measured = (
            f"{level.hidden_share:.1%} ± {level.hidden_error:.1%} of the mass of the level above lies where the model "
            f"of T = {level.temperature:.4g} has practically none"
        )
        meaning = "that model does not draw all that the level above has: a mode may have been dropped"
        return [Finding("levels on the way", "doubtful", measured, meaning, _MORE)]
    return [Finding("levels on the way", "good", measured, "every level has enough effective draws")]


def _final(sampler) -> list[Finding]:
    """The final weights, and log Z from them and from the last level."""
    name, share = "final weights", sampler.ess_fraction
    if share is None:
        meaning = "the final model was never weighed against the density"
        return [Finding(name, "unchecked", "none", meaning, "set num_final_draws above 0, or call sample_weighted")]
    num = sampler.checks.get("num_final_draws")
    size = share * num if num else math.inf
    k = sampler.pareto_k
    shown = "none" if k is None else f"{k:.2f}"
    measured = f"effective share {share:.3f} of {num or 0:,} draws, Pareto k {shown}"
    has_tail, has_no_mean = k is not None and k > _HIGH_K, k is not None and k > _VERY_HIGH_K
    if size < _LEAST_ESS or (has_no_mean and share < _MOST_COUNT):
        meaning = "a few draws carry all the weight: weighted means, log Z and their errors mean nothing"
        findings = [Finding(name, "wrong", measured, meaning, _MORE)]
    elif share < _LOW_SHARE or size < _LOW_ESS or (has_tail and share < _MOST_COUNT):
        meaning = "a few draws outweigh the rest: weighted means and log Z have larger errors than stated"
        findings = [Finding(name, "doubtful", measured, meaning, _MORE)]
    elif has_tail:
        meaning = (
            "the largest weights have a heavy tail: what they stand for is drawn too rarely, and errors may be larger"
        )
        findings = [Finding(name, "doubtful", measured, meaning, _MORE)]
    else:
        findings = [Finding(name, "good", measured, "weighted expectations can be relied on")]
    pairs = [(sampler.checks.get("log_z_final"), sampler.checks.get("log_z_final_error"))]
    pairs += [(record.log_z, record.log_z_error) for record in sampler.levels[-1:]]
    if len(pairs) == 2 and all(value is not None for pair in pairs for value in pair):
        findings.append(
            log_z_agreement("log Z of the last level and the final draws", pairs[0], pairs[1], "doubtful", _MORE)
        )
    return findings


def _covered(checks: dict) -> list[Finding]:
    """Does the final model draw all that hotter levels have at T = 1?"""
    name = "modes that the model dropped"
    num = checks.get("num_evidence")
    if num is None:
        return []
    if num < _LEAST_EVIDENCE:
        meaning = "too few samples of hotter levels count at T = 1 to check the model by"
        return [Finding(name, "unchecked", f"{num:.0f} effective samples", meaning, _MORE)]
    share, error, hidden = checks["hidden_share"], checks["hidden_error"], checks["num_hidden"]
    measured = f"{share:.1%} ± {error:.1%} of the mass of {num:.0f} samples of hotter levels"
    if hidden >= 3 and share - 2.0 * error > _HIDDEN:
        status = "wrong" if share - 2.0 * error > _MUCH_HIDDEN else "doubtful"
        meaning = "hotter levels have samples where the final model has practically none: it misses them"
        advice = f"{_MORE}, or train longer"
        return [Finding(name, status, measured, meaning, advice)]
    return [Finding(name, "good", measured, "the model draws what hotter levels have")]


def _values(sampler) -> list[Finding]:
    """Starting points and values that were no use."""
    levels, spent = sampler.levels, max(1, sampler.evaluations)
    nonfinite = sum(record.num_nonfinite for record in levels)
    replaced = sum(record.num_replaced for record in levels)
    starts = sampler.checks.get("num_starts") or 0
    measured = f"{nonfinite:,} values of {spent:,} not finite, {replaced:,} starting points replaced"
    troubles = []
    if nonfinite > _BAD_VALUES * spent:
        troubles.append(
            "return -inf outside the support, and mend the density where it is NaN, +inf or has no gradient"
        )
    if starts and replaced > _BAD_STARTS * starts:
        troubles.append("give `scale=` or `init=` points inside the support")
    if not troubles:
        return [Finding("usable values", "good", measured, "the density is finite where chains and draws went")]
    meaning = "chains and draws avoid such places, and what lies there is missing"
    return [Finding("usable values", "doubtful", measured, meaning, "; ".join(troubles))]


def _is_hidden(record: LevelRecord, least: float) -> bool:
    share, error = record.hidden_share or 0.0, record.hidden_error or 0.0
    return (record.num_hidden or 0) >= 3 and share - 2.0 * error > least


def _number(value) -> float:
    return math.nan if value is None else float(value)
