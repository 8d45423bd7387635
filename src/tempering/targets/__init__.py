"""What we sample: densities, with whatever is known exactly about them."""

from tempering.targets.base import ExactTarget, Target, evaluate
from tempering.targets.gaussian import Gaussian, anisotropic_gaussian
from tempering.targets.gaussian_mixture import GaussianMixture, mog40
from tempering.targets.many_well import ManyWell
from tempering.targets.registry import TARGETS, make_target
from tempering.targets.scaled import Scaled

__all__ = [
    "TARGETS",
    "ExactTarget",
    "Gaussian",
    "GaussianMixture",
    "ManyWell",
    "Target",
    "anisotropic_gaussian",
    "evaluate",
    "make_target",
    "mog40",
    "Scaled",
]
