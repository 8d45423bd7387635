"""tempering: an unnormalised density made into a sampler."""

from tempering import _compat

_compat.guard()  # before anything makes an array
_compat.quiet_command_line()

from tempering.adapters import from_callable, from_torch
from tempering.adapters.numpyro import from_numpyro
from tempering.api import fit, load
from tempering.errors import BudgetError, DensityError, RunFolderError, SettingsError, TemperingError
from tempering.methods.budget import split_budget
from tempering.molecules import from_openmm
from tempering.priors import Beta, Exponential, Gamma, HalfNormal, LogNormal, Normal, StudentT, Uniform
from tempering.runs.ledger import Ledger
from tempering.sampler import Sampler
from tempering.sampler.several import Samplers
from tempering.settings import PTDMSettings, PTSDSettings, ReweightedSettings
from tempering.targets import ExactTarget, PairPotential, Target
from tempering.transforms import above, below, interval, ordered, positive, real, simplex
from tempering.types import Event
from tempering.weights.resample import resample

__version__ = "0.1.0"

__all__ = [
    "Beta",
    "BudgetError",
    "DensityError",
    "Event",
    "ExactTarget",
    "Exponential",
    "Gamma",
    "HalfNormal",
    "Ledger",
    "LogNormal",
    "Normal",
    "PTDMSettings",
    "PTSDSettings",
    "PairPotential",
    "ReweightedSettings",
    "RunFolderError",
    "Sampler",
    "Samplers",
    "SettingsError",
    "StudentT",
    "Target",
    "TemperingError",
    "Uniform",
    "above",
    "below",
    "fit",
    "from_callable",
    "from_numpyro",
    "from_openmm",
    "from_torch",
    "interval",
    "load",
    "ordered",
    "positive",
    "real",
    "resample",
    "simplex",
    "split_budget",
]
