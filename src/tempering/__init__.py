"""tempering: an unnormalised density made into a sampler."""

from tempering import _compat

_compat.guard()  # before anything makes an array
_compat.quiet_command_line()

from tempering.adapters import from_callable, from_torch
from tempering.adapters.numpyro import from_numpyro
from tempering.api import fit, load
from tempering.errors import BudgetError, DensityError, RunFolderError, SettingsError, TemperingError
from tempering.methods.automatic import split_budget
from tempering.molecules import from_openmm
from tempering.runs.ledger import Ledger
from tempering.sampler import Sampler
from tempering.settings import PTDMSettings, PTSDSettings
from tempering.targets import ExactTarget, PairPotential, Target
from tempering.targets.references import Normal, StudentT
from tempering.transforms import above, below, interval, ordered, positive, real, simplex
from tempering.weights.resample import resample

__version__ = "0.1.0"

__all__ = [
    "BudgetError",
    "DensityError",
    "ExactTarget",
    "Ledger",
    "Normal",
    "PTDMSettings",
    "PTSDSettings",
    "PairPotential",
    "RunFolderError",
    "Sampler",
    "SettingsError",
    "StudentT",
    "Target",
    "TemperingError",
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
