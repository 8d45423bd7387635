"""tempering: an unnormalised density made into a sampler."""

from tempering import xla_guard

xla_guard.guard()  # before anything makes an array
xla_guard.quiet_command_line()

from tempering.api import fit, load
from tempering.errors import BudgetError, DensityError, RunFolderError, SettingsError, TemperingError
from tempering.ledger import Ledger
from tempering.sampler import Sampler
from tempering.settings import PTDMSettings, PTSDSettings
from tempering.targets import ExactTarget, PairPotential, Target

__version__ = "0.1.0"

__all__ = [
    "BudgetError",
    "DensityError",
    "ExactTarget",
    "Ledger",
    "PTDMSettings",
    "PTSDSettings",
    "PairPotential",
    "RunFolderError",
    "Sampler",
    "SettingsError",
    "Target",
    "TemperingError",
    "fit",
    "load",
]
