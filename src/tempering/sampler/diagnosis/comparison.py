"""Two samplers of one density, fitted from different seeds: where they disagree, one at least is wrong."""

from statistics import NormalDist

import jax
import numpy as np

from tempering.errors import SettingsError
from tempering.runs.words import with_error
from tempering.sampler.diagnosis.coverage import hidden_mass, is_beyond_chance
from tempering.sampler.diagnosis.thresholds import FALSE_ALARMS, FEW_TO_COMPARE, HIDDEN_FROM_OTHER
from tempering.sampler.diagnosis.verdict import Finding
from tempering.weights.ess import effective_size

__all__ = ["compare", "compare_draws", "drawn_to_compare", "log_z_agreement"]

DrawnSet = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Positions, weights and log densities of draws, as `drawn_to_compare` has them."""

_QUANTILES = (0.1, 0.5, 0.9)
_DISAGREE = (
    "compare both with a third fit, with another `seed`, a wider `scale=` or an `init=` that covers the modes, and a "
    "larger `budget`"
)


def log_z_agreement(name: str, first: tuple, second: tuple, status: str, advice: str) -> Finding:
    """Whether two estimates (log Z, standard error) agree within four standard errors, or within 0.05."""
    difference = abs(first[0] - second[0])
    error = float(np.hypot(first[1], second[1]))
    measured = f"log Z {with_error(*first)} and {with_error(*second)}"
    if difference <= max(4.0 * error, 0.05):
        return Finding(name, "good", measured, "two estimates of log Z agree")
    return Finding(name, status, measured, f"they differ by {difference:.2f}: mass is missing from one of them", advice)


def compare(first, second, *, num: int, seed: int) -> list[Finding]:
    """Findings on log Z, on moments and quantiles of every coordinate, and on modes that one has and the other has not.

    Draws are weighted where both samplers have their density, and taken as they are where not.

    Raises:
        SettingsError: if the samplers have different dimensions.
    """
    if first.dim != second.dim:
        raise SettingsError(f"the samplers have {first.dim} and {second.dim} dimensions; compare two of one density")
    is_weighted = first.target is not None and second.target is not None
    sets = [
        drawn_to_compare(sampler, num, seed + index, is_weighted=is_weighted)
        for index, sampler in enumerate((first, second))
    ]
    return compare_draws(first, second, sets, num=num, seed=seed)


def compare_draws(first, second, sets: list[DrawnSet], *, num: int, seed: int) -> list[Finding]:
    """The same with draws of both that are there already."""
    findings = []
    estimates = [(s.log_z, s.log_z_error) for s in (first, second)]
    if all(value is not None for pair in estimates for value in pair):
        findings.append(log_z_agreement("log Z of two fits", estimates[0], estimates[1], "wrong", _DISAGREE))
    sizes = [effective_size(weights) for _, weights, _ in sets]
    if min(sizes) < FEW_TO_COMPARE:
        measured = f"{min(sizes):.0f} effective draws of {num:,}"
        meaning = "these are too few to compare two fits"
        findings.append(Finding("draws of two fits", "doubtful", measured, meaning, "raise `budget`, or `num=`"))
        return findings
    findings.append(moments(*sets))
    findings.append(_missing(first, second, sets, seed))
    return findings


def drawn_to_compare(sampler, num: int, seed: int, *, is_weighted: bool) -> DrawnSet:
    """Positions in the model's coordinates, weights that sum to one, and log densities up to one constant."""
    if is_weighted:
        weighted = sampler._weighted(num, seed)
        log_weights = np.asarray(weighted.log_weights, np.float64)
        weights = np.exp(log_weights - np.max(log_weights))
        return np.asarray(weighted.states.position), weights / weights.sum(), np.asarray(weighted.states.log_density)
    draws, log_q = sampler.model.draw(jax.random.key(seed), num, sampler.sampling, with_density=True)
    return np.asarray(draws), np.full(num, 1.0 / num), np.asarray(log_q)


def moments(first: tuple, second: tuple) -> Finding:
    """Means, standard deviations and quantiles of all coordinates against their Monte Carlo errors."""
    numbers = [_statistics(positions, weights) for positions, weights, _ in (first, second)]
    pooled = np.concatenate([first[0], second[0]])
    weights = np.concatenate([first[1], second[1]]) / 2.0
    probabilities = [_below(positions, own, _quantiles(pooled, weights)) for positions, own, _ in (first, second)]
    scores = []
    for (a, a_error), (b, b_error) in (numbers, probabilities):
        error = np.sqrt(a_error**2 + b_error**2)
        scores.append(np.abs(a - b) / np.where(error > 0, error, np.inf))
    worst = np.concatenate(scores)  # axes (statistic, coordinate)
    limit = -NormalDist().inv_cdf(FALSE_ALARMS / 2.0 / worst.size)
    where = np.unravel_index(np.argmax(worst), worst.shape)
    what = ("mean", "spread", *(f"{q:.0%} quantile" for q in _QUANTILES))[where[0]]
    measured = f"largest difference {worst[where]:.1f} standard errors ({what} of coordinate {where[1]})"
    if worst[where] <= limit:
        return Finding("draws of two fits", "good", measured, "means, spreads and quantiles agree")
    meaning = f"above {limit:.1f}, which chance exceeds once in a thousand times: the fits follow different densities"
    return Finding("draws of two fits", "wrong", measured, meaning, _DISAGREE)


def _statistics(positions: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and log variance of every coordinate, with standard errors: axes (2, dim)."""
    w = weights[:, None]
    mean = np.sum(w * positions, axis=0)
    centred = positions - mean[None]
    variance = np.sum(w * centred**2, axis=0)
    mean_error = np.sqrt(np.sum(w**2 * centred**2, axis=0))
    spread_error = np.sqrt(np.sum(w**2 * (centred**2 - variance[None]) ** 2, axis=0)) / variance
    return np.stack([mean, np.log(variance)]), np.stack([mean_error, spread_error])


def _quantiles(positions: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Weighted quantiles of every coordinate: axes (quantile, dim)."""
    order = np.argsort(positions, axis=0)
    cumulative = np.cumsum(weights[order], axis=0)
    rows = [np.minimum(np.sum(cumulative < q, axis=0), len(weights) - 1) for q in _QUANTILES]
    columns = np.arange(positions.shape[1])
    return np.stack([positions[order[row, columns], columns] for row in rows])


def _below(positions: np.ndarray, weights: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mass below every place, with standard errors."""
    is_below = positions[None] <= places[:, None]
    share = np.sum(weights[None, :, None] * is_below, axis=1)
    return share, np.sqrt(np.sum(weights[None, :, None] ** 2 * (is_below - share[:, None]) ** 2, axis=1))


def _missing(first, second, sets: list, seed: int) -> Finding:
    """Draws of each that the other would never make."""
    worst = (0.0, 0.0, 0)
    for model_of, own, foreign in ((first, sets[0], sets[1]), (second, sets[1], sets[0])):
        key = jax.random.key(seed)
        positions = np.concatenate([foreign[0], own[0]])
        log_q = np.asarray(model_of.model.log_prob(key, positions, model_of.sampling), np.float64)
        split = len(foreign[0])
        own_ratio, ratio = own[2] - log_q[split:], foreign[2] - log_q[:split]
        # E_q[p / q] = Z; over weighted draws of p it is 1 / E_p[q / p].
        used = own[1] > 0
        log_z = -np.logaddexp.reduce(np.log(own[1][used]) - own_ratio[used])
        found = hidden_mass((ratio - log_z)[foreign[1] > 0], foreign[1][foreign[1] > 0], (own_ratio - log_z)[used])
        worst = max(worst, found)
    share, error, num = worst
    measured = f"{share:.1%} ± {error:.1%} of the mass, {num} draws"
    if is_beyond_chance(share, error, num, HIDDEN_FROM_OTHER):
        meaning = "one fit has draws where the other has none: a mode is missing"
        return Finding("modes that one of two fits has", "wrong", measured, meaning, _DISAGREE)
    return Finding("modes that one of two fits has", "good", measured, "each covers what the other draws")
