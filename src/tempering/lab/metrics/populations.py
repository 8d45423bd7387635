r"""The population of a mode and its free energy, each with an honest error. Consumes angles, produces numbers.

The estimate is p = sum_i w_i I_i, with normalised weights w and I_i whether sample i is inside. Its error is

    error^2 = G / (G - 1) sum_g ( sum_{i in g} w_i (I_i - p) )^2

over G groups of samples that are independent of each other: the samples themselves (equal weights: the binomial
error), or blocks and chains of correlated ones. Weights enter as they are, not through one effective sample size:
where those inside the mode are larger than the others, as for a mode that a model draws too seldom, that would be too
small by their ratio. An error is never below 1 / (effective number of samples): none of n seen is no proof of none.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tempering.lab.metrics.marginals import normalised_weights, wrapped
from tempering.lab.metrics.metric import MetricError
from tempering.molecules.target import GAS_CONSTANT
from tempering.weights.ess import effective_size

__all__ = ["RARE_MODE", "Population", "population", "rare_mode"]

RARE_MODE = (0.0, 120.0)
"""Degrees of phi. "phi > 0" would be wrong: the beta basin goes on through 180 degrees."""


@dataclass(frozen=True)
class Population:
    """The share of a mode.

    Args:
        share: p, of all samples, those that are not finite among them (they are in no mode).
        error: its standard error.
        num_inside: samples inside, without weights.
        num_samples: samples in all.
        num_effective: of the weights, (sum w)^2 / sum w^2; for correlated chains p (1 - p) / error^2 where that is
            less, and the number of blocks where all samples are on one side.
    """

    share: float
    error: float
    num_inside: int
    num_samples: int
    num_effective: float

    def free_energy(self, temperature: float) -> tuple[float, float]:
        """F = -k_B T log(p / (1 - p)) against everything else, and its standard error, kJ/mol.

        Both are infinite where no sample is inside, or none outside.

        Args:
            temperature: T, kelvin.
        """
        if not 0.0 < self.share < 1.0:
            return math.copysign(math.inf, 0.5 - self.share), math.inf
        thermal = GAS_CONSTANT * temperature
        odds = self.share / (1.0 - self.share)
        return -thermal * math.log(odds), thermal * self.error / (self.share * (1.0 - self.share))


def rare_mode(
    phi: npt.ArrayLike,
    *,
    log_weights: npt.ArrayLike | None = None,
) -> Population:
    """The population of 0 < phi < 120 degrees, the rare mode of alanine dipeptide.

    Args:
        phi: radians. Shape (num,) for independent draws, (chain, draw) for draws of chains, which are correlated.
        log_weights: of the draws, of the same shape; equal weights without.

    Raises:
        MetricError: for degrees in place of radians, or as `population`.
    """
    turned = np.degrees(wrapped(phi, "phi"))
    return population((turned > RARE_MODE[0]) & (turned < RARE_MODE[1]), log_weights=log_weights)


def population(is_inside: npt.ArrayLike, *, log_weights: npt.ArrayLike | None = None) -> Population:
    """The share of samples that are inside.

    Args:
        is_inside: of every sample. Shape (num,): independent draws. Shape (chain, draw): draws in their order, of
            chains that are independent of each other; the error is then the larger one of that between blocks of
            successive draws, as many as a block is long, and that between whole chains. With one chain or few, it is no
            better than the chains are long: blocks must be longer than a visit to the mode.
        log_weights: of the same shape; equal weights without.

    Raises:
        MetricError: for other shapes, too few samples, or weights that are none.
    """
    inside = np.asarray(is_inside)
    if inside.dtype != bool or inside.ndim not in (1, 2) or inside.size < 2:
        raise MetricError(
            f"is_inside is {inside.dtype} of shape {inside.shape}; give booleans, (num,) or (chain, draw), at least two"
        )
    flat = None if log_weights is None else np.asarray(log_weights, np.float64)
    if flat is not None and flat.shape != inside.shape:
        raise MetricError(f"log_weights have shape {flat.shape} and the samples {inside.shape}; they must agree")
    weights = normalised_weights(None if flat is None else flat.ravel(), inside.size)
    # Rounding may leave the sum of all weights at 1 + 1e-16.
    share = min(float(weights[inside.ravel()].sum()), 1.0)
    num_effective = effective_size(weights)
    terms = (weights * (inside.ravel() - share)).reshape(inside.shape)
    groups = [terms.ravel()]
    if inside.ndim == 2:
        blocks = _block_sums(terms)
        groups += [blocks, terms.sum(axis=1)]
        if not 0.0 < share < 1.0:
            num_effective = min(num_effective, float(len(blocks)))
    error = max(1.0 / num_effective, *(_error(sums) for sums in groups))
    if inside.ndim == 2 and 0.0 < share < 1.0:
        num_effective = min(num_effective, share * (1.0 - share) / error**2)
    return Population(share, error, int(inside.sum()), int(inside.size), num_effective)


def _error(sums: np.ndarray) -> float:
    """The root of G / (G - 1) sum_g (sum over the group)^2; nothing can be told from one group."""
    return math.sqrt(len(sums) / (len(sums) - 1) * float(np.sum(sums**2))) if len(sums) > 1 else 0.0


def _block_sums(terms: np.ndarray) -> np.ndarray:
    num_draws = terms.shape[1]
    size = max(1, math.isqrt(num_draws))
    # A rest shorter than a block joins the last one.
    starts = np.arange(num_draws // size) * size
    return np.add.reduceat(terms, starts, axis=1).ravel()
