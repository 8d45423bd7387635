"""Findings about the density and the fit around the sampling: values, failed points, precision, a time limit."""

import numpy as np

from tempering.runs.records import Checks, LevelRecord
from tempering.sampler.diagnosis.thresholds import BAD_STARTS, BAD_VALUES, COARSE_STEP, HIDDEN
from tempering.sampler.diagnosis.verdict import Finding

__all__ = ["other_findings"]


def other_findings(sampler) -> list[Finding]:
    """What does not depend on how the density was sampled."""
    checks = sampler.checks
    return [
        *_determinants(sampler),
        *_cube(checks),
        *_digits(sampler.log_z),
        *_values(sampler),
        *_failures(sampler),
        *_hurry(checks),
    ]


def _determinants(sampler) -> list[Finding]:
    """Is the density of the final draws known, or estimated from random probes?"""
    name, how = "determinants behind log Z", sampler.checks.determinants
    if how is None:
        return []
    if how == "exact":
        return [Finding(name, "good", "exact", "weights and log Z have no error from random probes")]
    if how == "checked":
        measured = "estimated from random probes, checked against exact ones on some draws"
        return [Finding(name, "good", measured, "log Z is corrected for what the check found")]
    measured = f"estimated from random probes in {sampler.dim} dimensions, unchecked"
    meaning = "log Z may be off by more than its standard error"
    return [Finding(name, "note", measured, meaning, "sampling.divergence=exact removes this error, and is slow")]


def _cube(checks: Checks) -> list[Finding]:
    """Does a prior transform tell apart the points of the cube where the mass is?"""
    name, share = "the end of the prior's cube", checks.cube_end
    if share is None:
        return []
    measured = f"{share:.1%} of the mass where u is 1 in single precision, or nearly"
    if share <= HIDDEN:
        return [Finding(name, "good", measured, "the transform tells points apart where the mass is")]
    meaning = "the transform gives one point for all of them: log Z and the draws are wrong there"
    remedy = "give `prior=`, which keeps its precision at both ends, or turn the coordinate round: transform 1 - u"
    return [Finding(name, "doubtful", measured, meaning, remedy)]


def _digits(log_z: float | None) -> list[Finding]:
    """Are log densities so large that single precision tells them apart too coarsely? They are as large as log Z."""
    step = 0.0 if log_z is None else float(np.spacing(np.float32(abs(log_z))))
    if step <= COARSE_STEP:
        return []
    near = f"{log_z:,.0f}" if step < 1e6 else f"{log_z:.3g}"
    measured = f"log densities are near {near}, where single precision has steps of {step:.3g}"
    meaning = "weights and log Z are rounded to such steps, and so are the moves of chains"
    remedy = (
        "subtract a constant in your function before it is rounded, such as its value at one point; log Z is then less "
        "by as much"
    )
    return [Finding("digits of the log density", "doubtful", measured, meaning, remedy)]


def _values(sampler) -> list[Finding]:
    """Starting points and values that were of no use; a few are a note, many leave a doubt."""
    levels, spent, starts = sampler.levels, max(1, sampler.evaluations), sampler.checks.num_starts or 0
    nonfinite = sum(record.num_nonfinite for record in levels)
    replaced = sum(record.num_replaced for record in levels)
    measured = f"{nonfinite:,} values of {spent:,} not finite, {replaced:,} starting points replaced"
    meanings, advice = [], []
    if nonfinite:
        meanings.append(
            "proposals, samples or training steps met a density that was NaN or +inf, or had no finite gradient; none "
            "was accepted"
        )
        advice.append("fix the density there, or return -inf outside its support")
    if replaced:
        meanings.append(
            "starting points that could not start a chain (outside the support, or not finite) were replaced by others"
        )
        advice.append("give `scale=` or `init=` points inside the support")
    if not meanings:
        return [Finding("usable values", "good", measured, "the density is finite where chains and draws went")]
    is_much = _is_much(levels, spent) or (starts > 0 and replaced > BAD_STARTS * starts)
    if is_much:
        meanings.append("there are many of them: mass at these points may be missing")
    status = "doubtful" if is_much else "note"
    return [Finding("usable values", status, measured, "; ".join(meanings), "; ".join(advice))]


def _is_much(levels: list[LevelRecord], spent: int) -> bool:
    """Whether mass may be missing where values were not finite.

    Draws from the modes tell how much it is. Chains do not: they see no more than the edge of where they cannot go.
    """
    lost = [record.lost_mass for record in levels if record.lost_mass is not None]
    of_chains = sum(record.num_nonfinite for record in levels if record.lost_mass is None)
    return max(lost, default=0.0) > HIDDEN or of_chains > BAD_VALUES * spent


def _failures(sampler) -> list[Finding]:
    """Points that failed on the host and were taken as outside the support, by the user's choice."""
    host, spent = sampler.host, max(1, sampler.evaluations)
    if host is None or not host.num_failed:
        return []
    kinds = ", ".join(f"{num:,} {kind}" for kind, num in sorted(host.failed.items()))
    measured = f"{host.num_failed:,} points of {spent:,} failed twice ({kinds})"
    meaning = "they count as outside the support"
    is_much = host.num_failed > BAD_VALUES * spent
    meaning += ", and there are many of them: mass at these points may be missing" if is_much else ""
    remedy = "`tempering points` on the run's folder lists them; fix the function there, or give a longer `timeout=`"
    return [Finding("points that failed", "doubtful" if is_much else "note", measured, meaning, remedy)]


def _hurry(checks: Checks) -> list[Finding]:
    """What a time limit ended. Its consequences, if any, are in the other findings."""
    if checks.hurried is None:
        return []
    measured = f"the time limit of {checks.time_limit:g} s ended {checks.hurried} sooner than planned"
    remedy = "give more time by `time_limit=`, or go on with `improve(budget=…)`"
    return [Finding("time", "note", measured, "the sampler is the best that this time allowed", remedy)]
