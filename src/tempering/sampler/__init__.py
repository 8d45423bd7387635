"""WHAT COMES BACK: the trained sampler, how it is loaded, and whether it can be trusted."""

from tempering.sampler.facts import FORMAT
from tempering.sampler.folder import has_sampler
from tempering.sampler.sampler import Sampler

__all__ = ["FORMAT", "Sampler", "has_sampler"]
