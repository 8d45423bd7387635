"""What we sample: densities, with whatever is known exactly about them."""

from tempering.targets.base import ExactTarget, Referenced, Target, Wrapper, evaluate
from tempering.targets.densities.gaussian import Gaussian, anisotropic_gaussian
from tempering.targets.densities.gaussian_mixture import GaussianMixture, mog40
from tempering.targets.densities.many_well import ManyWell
from tempering.targets.densities.pair_potential import PairPotential
from tempering.targets.densities.particles import dw4, lennard_jones
from tempering.targets.inner import Inner, in_inner_coordinates
from tempering.targets.shaped import Shaped
from tempering.targets.units import Scaled, Units

__all__ = [
    "ExactTarget",
    "Gaussian",
    "GaussianMixture",
    "Inner",
    "ManyWell",
    "PairPotential",
    "Shaped",
    "Referenced",
    "Target",
    "Units",
    "Wrapper",
    "anisotropic_gaussian",
    "dw4",
    "evaluate",
    "in_inner_coordinates",
    "lennard_jones",
    "mog40",
    "Scaled",
]
