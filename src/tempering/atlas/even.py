"""Coordinates in which modes that are long, narrow and turned are about as wide in every direction.

A network is told the width of every coordinate, and learns the rest. Of a mode a thousand times as long as wide, in no
coordinate's direction, it would have to learn a thousandth of what it sees. What the modes' own precisions show takes
that away: a linear chart, which is exact.
"""

import copy

import jax
import numpy as np

from tempering.atlas.adapt import Drawn
from tempering.atlas.mixture import StudentMixture, mixture_of
from tempering.transforms.triangular import Triangular

__all__ = ["evened", "linear_chart"]

_WORTH = 10.0
"""Factor by which the narrowest direction must become wider, measured by the spread of all, for a chart to be used."""
_LARGEST_DIM = 64
"""A chart goes through the coordinates one after another."""


def evened(drawn: Drawn) -> tuple[Drawn, Triangular] | None:
    """The draws and their reference in a chart that makes modes even; None where that would change little."""
    mixture, log_weights = drawn.mixtures[-1], drawn.log_weights()
    if mixture.dim > _LARGEST_DIM or not np.any(np.isfinite(log_weights)):
        return None
    share = np.exp(np.asarray(mixture.log_weight, np.float64))
    inverse = np.asarray(mixture.inverse, np.float64)
    precision = np.einsum("k,kij,kil->jl", share / np.sum(share), inverse, inverse)
    weight = np.exp(log_weights - np.max(log_weights))
    weight = weight / np.sum(weight)
    position = np.where(weight[:, None] > 0, drawn.position, 0.0).astype(np.float64)
    centre = weight @ position
    covariance = (weight[:, None] * (position - centre)).T @ (position - centre)
    factor = _root_of_inverse(precision)
    inward = np.linalg.inv(factor)
    before = _depth(covariance, precision)
    after = _depth(inward @ covariance @ inward.T, factor.T @ precision @ factor)
    if not (np.all(np.isfinite(factor)) and before > _WORTH * after):
        return None
    return _through(drawn, centre, factor, inward), linear_chart(centre, factor)


def _root_of_inverse(precision: np.ndarray) -> np.ndarray:
    """L with L L^T the inverse, lower triangular: by the Cholesky factor of the reversed matrix, without an inverse."""
    root = np.linalg.cholesky(precision[::-1, ::-1])[::-1, ::-1]
    return np.linalg.inv(root).T


def _depth(covariance: np.ndarray, precision: np.ndarray) -> float:
    """The spread of all over the width of modes, in the direction in which they are narrowest for it."""
    spread = np.sqrt(np.diagonal(covariance))
    return float(np.sqrt(np.max(np.linalg.eigvalsh(spread[:, None] * precision * spread[None]))))


def linear_chart(centre: np.ndarray, factor: np.ndarray) -> Triangular:
    """x = centre + factor y, with a lower triangular factor whose diagonal is positive."""
    width, dim = np.diagonal(factor), len(centre)
    # u = (x - centre) / width is y and what the coordinates before foretell.
    foretold = np.eye(dim) - np.linalg.inv(factor / width[:, None])
    arrays = {"centre": centre, "width": width, "mean_linear": np.tril(foretold, -1)}
    chart = Triangular.identity(dim)
    return Triangular(
        **{**vars(chart), **{name: jax.device_put(np.asarray(a, np.float32)) for name, a in arrays.items()}}
    )


def _through(drawn: Drawn, centre: np.ndarray, factor: np.ndarray, inward: np.ndarray) -> Drawn:
    """The same draws with their values in the chart's coordinates."""
    inner = copy.copy(drawn)
    inner._log_q = None
    inner.mixtures = [_mixture_through(mixture, centre, inward) for mixture in drawn.mixtures]
    log_volume = float(np.sum(np.log(np.diagonal(factor))))
    inner.position = ((drawn.position.astype(np.float64) - centre) @ inward.T).astype(np.float32)
    inner.log_density = (drawn.log_density.astype(np.float64) + log_volume).astype(np.float32)
    inner.gradient = (drawn.gradient.astype(np.float64) @ factor).astype(np.float32)
    return inner


def _mixture_through(mixture: StudentMixture, centre: np.ndarray, inward: np.ndarray) -> StudentMixture:
    mean = (np.asarray(mixture.mean, np.float64) - centre) @ inward.T
    root = inward @ np.asarray(mixture.factor, np.float64)
    covariance = root @ np.swapaxes(root, 1, 2)
    return mixture_of(np.exp(np.asarray(mixture.log_weight, np.float64)), mean, covariance, np.asarray(mixture.nu))
