"""A component of a reference as wide as the target's prior.

Between the modes of a likelihood there is often a little of the prior everywhere: mass without an optimum of its own,
which chains find and a reference made of optima reaches by its tails alone.
"""

import copy
import dataclasses

import numpy as np

from tempering.atlas.optima import Optima, Shape
from tempering.devices.keys import from_seed
from tempering.targets.base import Target

__all__ = ["with_prior"]

_SHARE = 0.1
"""Of the draws, the most that the component keeps beyond its mass: where the likelihood is twice its mean, a weight is
then at most twenty times the mean."""
_NUM_DRAWS = 4096
"""That show how wide the prior is."""


def with_prior(target: Target, optima: Optima) -> Optima:
    """The optima and a component more, if the target has a prior, or another reference, to draw from."""
    if target.reference is None:
        return optima
    draws = np.asarray(target.reference.sample(from_seed(0), _NUM_DRAWS), np.float64)
    covariance = np.atleast_2d(np.cov(draws, rowvar=False))
    if not np.all(np.isfinite(covariance)) or np.linalg.eigvalsh(covariance)[0] <= 0.0:
        return optima
    prior, both = Optima(target.dim), copy.copy(optima)
    shape = Shape(np.mean(draws, axis=0), 0.0, 0.0, True, np.linalg.inv(covariance), covariance, np.zeros(target.dim))
    prior.add(shape)
    log_mass = np.logaddexp.reduce(optima.log_mass()) + np.log(_SHARE)
    both.add(dataclasses.replace(shape, height=float(log_mass - prior.log_mass()[0])), keeps=_SHARE)
    return both
