"""Denoisers, variance exploding or preserving: noise, preconditioning, networks, objective, fit, solvers, densities."""

from tempering.diffusion.fit import Dataset, FitInfo, LevelData, fit_networks
from tempering.diffusion.model import DiffusionModel
from tempering.diffusion.noise import NoiseLevels, Prior, sigma_grid
from tempering.diffusion.precondition import Denoiser
from tempering.diffusion.process import VariancePreserving
from tempering.diffusion.solve import draw, in_chunks, log_likelihood, method_of

__all__ = [
    "Dataset",
    "Denoiser",
    "DiffusionModel",
    "FitInfo",
    "LevelData",
    "NoiseLevels",
    "Prior",
    "VariancePreserving",
    "draw",
    "fit_networks",
    "in_chunks",
    "log_likelihood",
    "method_of",
    "sigma_grid",
]
