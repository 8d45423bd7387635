"""Which products enter a coordinate's mean, and which coordinates its log width: those that held-out points support."""

from dataclasses import dataclass

import numpy as np

from tempering.shape.blocks import applied, crossed
from tempering.shape.regression import Fitted, fit_conditional, log_sizes, weighted_least_squares

__all__ = ["NUM_FOLDS", "Conditional", "Term", "choose_terms", "features_of"]

Term = tuple[int, ...]
"""(), (j,) or (j, k): a constant, a coordinate, a product of two."""

NUM_FOLDS = 4
_NU = 4.0
"""Terms are tried with a Student's likelihood: one outlier must not decide, whether it is held out or not."""
_NUM_ERRORS = 2.0
"""A term must gain so many standard errors, and a nat."""
_LEAST_SCORE = 2.0
"""Nats that a term must promise before it is tried: a normal's two sigma."""
_CLIP = 1.5
"""Huber's constant: of standardised residuals, where many small ones are to be heard beside few large ones."""
_POINTS_PER_TERM = 3.0
_MOST_TERMS = 40


@dataclass
class Conditional:
    """The terms of one coordinate and what was fitted: `mean_terms` and `scale_terms` name the coefficients."""

    mean_terms: list[Term]
    scale_terms: list[Term]
    fitted: Fitted


@dataclass
class _Data:
    """Points in units of their width, the coordinate in question, weights, and the fold of every point."""

    points: np.ndarray
    values: np.ndarray
    weights: np.ndarray
    folds: np.ndarray


@dataclass
class _Trial(Conditional):
    """The same, and the log density of every point by a fit that did not see its fold."""

    held_out: np.ndarray


def features_of(points: np.ndarray, terms: list[Term]) -> np.ndarray:
    """(point, term): the product of the coordinates that a term names."""
    columns = [np.ones(len(points)), *points.T]
    factors = [(*term, -1, -1)[:2] for term in terms]  # -1 is the constant
    return np.stack([columns[j + 1] * columns[k + 1] for j, k in factors], axis=1)


def choose_terms(
    points: np.ndarray, index: int, before: list[int], pairs: list[Term], weights: np.ndarray, folds: np.ndarray
) -> Conditional:
    """The conditional density of a coordinate given those before: linear, and what more earns its place.

    Forward, one term at a time, while held-out points gain; then back, leaving out what is not missed. A normal gives
    an affine map.

    Args:
        pairs: products that may enter the mean.
    """
    data = _Data(points, points[:, index], weights, folds)
    best = _tried(data, [(), *((j,) for j in before)], [()])
    candidates = pairs
    most = min(_MOST_TERMS + len(before), np.sum(weights) / _POINTS_PER_TERM)
    while before and len(best.mean_terms) + len(best.scale_terms) < most:
        products = [term for term in candidates if term not in best.mean_terms]
        slopes = [(j,) for j in before if (j,) not in best.scale_terms]
        trials = [_tried(data, *terms) for terms in _promising(data, best, products, slopes)]
        gains = [_gain(trial, best, weights) for trial in trials]
        if not gains or max(gains) <= 0.0:
            break
        best = trials[int(np.argmax(gains))]
    chosen = _without_weak_lines(data, _pruned(data, best))
    mean, scale = features_of(points, chosen.mean_terms), features_of(points, chosen.scale_terms)
    fitted = fit_conditional(data.values, mean, scale, weights)
    return Conditional(chosen.mean_terms, chosen.scale_terms, fitted)


def _tried(data: _Data, mean_terms: list[Term], scale_terms: list[Term]) -> _Trial:
    """A fit to all points, and by folds."""
    mean, scale = features_of(data.points, mean_terms), features_of(data.points, scale_terms)
    whole = fit_conditional(data.values, mean, scale, data.weights, nu=_NU)
    held_out = np.zeros(len(data.values))
    for fold in range(NUM_FOLDS):
        out = data.folds == fold
        kept, start = ~out, whole.log_scale
        given = data.values[kept], mean[kept], scale[kept], data.weights[kept]
        part = fit_conditional(*given, num_rounds=2, start=start, nu=_NU)
        log_scales = np.clip(scale[out] @ part.log_scale, -30.0, 30.0)
        squares = (data.values[out] - mean[out] @ part.mean) ** 2 * np.exp(-2.0 * log_scales)
        held_out[out] = -log_scales - 0.5 * (_NU + 1.0) * np.log1p(squares / _NU)
    return _Trial(mean_terms, scale_terms, whole, held_out)


def _gain(new: _Trial, old: _Trial, weights: np.ndarray) -> float:
    """Held-out log likelihood gained, less what chance may have given. What one heavy point says is no gain."""
    change = weights * (new.held_out - old.held_out)
    return float(np.sum(change) - _NUM_ERRORS * np.sqrt(change @ change) - 1.0)


def _promising(
    data: _Data, best: _Trial, products: list[Term], slopes: list[Term]
) -> list[tuple[list[Term], list[Term]]]:
    """What to try next: the best product by three scores, the best slope of the log width."""
    fitted, weights = best.fitted, data.weights
    inverse = np.exp(-fitted.log_scales)
    mean, scale = features_of(data.points, best.mean_terms), features_of(data.points, best.scale_terms)
    chosen: list[tuple[list[Term], list[Term]]] = []
    if products:
        curvature = weights * inverse**2
        rest = _orthogonal(features_of(data.points, products), mean, curvature)
        standard = fitted.residuals * inverse
        plain = crossed(rest, weights * standard * inverse)
        scores = [
            0.5 * plain**2 / (crossed(rest**2, curvature) + 1e-300),  # as if the residuals were normal
            _robust_score(weights * standard * inverse, rest),
            _robust_score(weights * np.clip(standard, -_CLIP, _CLIP) * inverse, rest),
        ]
        best_ones = {int(np.argmax(score)) for score in scores if np.max(score) > _LEAST_SCORE}
        chosen += [([*best.mean_terms, products[k]], best.scale_terms) for k in sorted(best_ones)]
    if slopes:
        sizes = log_sizes(fitted.residuals)
        free = np.full(scale.shape[1], 1e-6)
        sizes = sizes - applied(scale, weighted_least_squares(scale, sizes, weights, free))
        score = _robust_score(weights * sizes, _orthogonal(features_of(data.points, slopes), scale, weights))
        if np.max(score) > _LEAST_SCORE:
            chosen.append((best.mean_terms, [*best.scale_terms, slopes[int(np.argmax(score))]]))
    return chosen


def _orthogonal(columns: np.ndarray, to: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """What the columns have that no combination of `to` has."""
    weighted = weights[:, None] * to
    normal = crossed(to, weighted)
    normal += 1e-10 * np.diag(np.diag(normal)) + 1e-300 * np.eye(len(normal))
    return columns - applied(to, np.linalg.solve(normal, crossed(weighted, columns)))


def _robust_score(scores: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Half the squared score of every column over its own empirical variance: one heavy point gives half a nat."""
    return 0.5 * crossed(columns, scores) ** 2 / (crossed(columns**2, scores**2) + 1e-300)


def _pruned(data: _Data, best: _Trial) -> _Trial:
    """Without the terms that held-out points do not miss."""
    extra = [term for term in best.mean_terms if len(term) == 2] + [term for term in best.scale_terms if term]
    for term in extra:
        mean_terms = [each for each in best.mean_terms if len(term) != 2 or each != term]
        scale_terms = [each for each in best.scale_terms if len(term) != 1 or each != term]
        trial = _tried(data, mean_terms, scale_terms)
        if _gain(best, trial, data.weights) <= 0.0:
            best = trial
    return best


def _without_weak_lines(data: _Data, best: _Trial) -> _Trial:
    """Without the lines that may be chance, all at a time, if held-out points do not miss them.

    Where widths fall far below what was seen, as in the neck of a funnel, the smallest slope of the mean leads astray.
    """
    features, weights = features_of(data.points, best.mean_terms), data.weights
    inverse = np.exp(-2.0 * best.fitted.log_scales)
    normal = crossed(features, (weights * inverse)[:, None] * features)
    # A column may be nothing: a coordinate that does not vary among the points that have weight.
    spread = np.linalg.inv(normal + 1e-10 * np.diag(np.diag(normal)) + 1e-12 * np.eye(len(normal)))
    scores = (weights * inverse * best.fitted.residuals)[:, None] * features
    errors = np.sqrt(np.diag(spread @ crossed(scores, scores) @ spread) + 1e-300)
    is_weak = np.abs(best.fitted.mean) < _NUM_ERRORS * errors
    kept = [term for term, weak in zip(best.mean_terms, is_weak, strict=True) if len(term) != 1 or not weak]
    if len(kept) == len(best.mean_terms):
        return best
    trial = _tried(data, kept, best.scale_terms)
    return trial if _gain(best, trial, weights) <= 0.0 else best
