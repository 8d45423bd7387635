"""What can be said of a baseline's draws, from recorded numbers; and what its method leaves unsaid."""

import dataclasses
from typing import Any

import jax
import numpy as np

from tempering.sampler.diagnosis import Finding
from tempering.sampler.diagnosis.comparison import log_z_agreement, moments
from tempering.sampler.diagnosis.findings import weight_findings

__all__ = ["baseline_findings", "compared"]

_MORE = "raise `budget` or num_steps and fit again; method='ptsd' has more to check its draws by"
_MANY_BAD = 0.01
"""Share of steps that were not finite from which training itself is in doubt."""
_DISAGREE = "at least one of the two is wrong: fit both longer"


def baseline_findings(sampler: Any) -> list[Finding]:
    """One finding a check."""
    title, record = sampler.method, sampler.levels[0]
    findings = []
    if sampler.baseline.has_weights:
        findings += [dataclasses.replace(own, advice=own.advice and _MORE) for own in weight_findings(sampler)]
    else:
        meaning = "no weights, no log Z: nothing here can vouch for the draws or against them"
        findings.append(Finding("density of the draws", "unchecked", f"{title} has none", meaning, _MORE))
    meaning = "a mode that training never came near is missing from the draws, and weights do not show it"
    advice = "compare two fits by diagnose(other=), or fit by method='ptsd', which searches"
    findings.append(Finding("modes beyond those of training", "unchecked", "nobody searched", meaning, advice))
    findings += _steps(record)
    if sampler.checks.hurried is not None:
        measured = f"the time limit of {sampler.checks.time_limit:g} s ended {sampler.checks.hurried} early"
        findings.append(Finding("time", "note", measured, "the sampler is what this time allowed", _MORE))
    return findings


def _steps(record: Any) -> list[Finding]:
    """Were steps of training left out?"""
    name, num, bad = "steps of training", record.training_steps or 0, record.num_nonfinite
    if bad == 0:
        return [Finding(name, "good", f"{num:,}, all finite", "training never broke down")]
    measured = f"{bad:,} of {num:,} had numbers that were not finite, and were left out in part or whole"
    if bad < _MANY_BAD * num:
        return [Finding(name, "note", measured, "the last good state was kept every time")]
    meaning = "training broke down: the model is that of the last good step"
    status = "wrong" if bad > 0.5 * num else "doubtful"
    return [Finding(name, status, measured, meaning, "lower the learning rate or the step sizes")]


def compared(first: Any, second: Any, *, num: int, seed: int) -> list[Finding]:
    """Two fits of one density: log Z where both have it, and means, spreads and quantiles of `num` draws of each."""
    findings = []
    estimates = [(s.log_z, s.log_z_error) for s in (first, second)]
    if all(value is not None for pair in estimates for value in pair):
        findings.append(log_z_agreement("log Z of two fits", estimates[0], estimates[1], "wrong", _DISAGREE))
    sets = [_drawn(sampler, num, seed) for sampler in (first, second)]
    return [*findings, moments(*sets)]


def _drawn(sampler: Any, num: int, seed: int) -> tuple[np.ndarray, np.ndarray, None]:
    """Draws as they are: two fits whose plain draws differ are of different densities, whatever their weights."""
    draws = sampler.inner_draws(jax.random.key(seed), num, "sampling")
    return np.asarray(draws), np.full(num, 1.0 / num), None
