"""tempering: an unnormalised density made into a sampler.

Names are imported when they are first used (PEP 562): `import tempering` and `tempering --help` load no JAX.
"""

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from tempering import _compat

_compat.guard()  # before anything makes an array

if TYPE_CHECKING:
    from tempering.adapters import from_callable, from_torch
    from tempering.adapters.numpyro import from_numpyro
    from tempering.adapters.pymc import from_pymc
    from tempering.adapters.stan import from_stan
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
    "from_pymc",
    "from_stan",
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

_HOMES = {
    "adapters.callback": ("from_callable",),
    "adapters.numpyro": ("from_numpyro",),
    "adapters.pymc": ("from_pymc",),
    "adapters.pytorch": ("from_torch",),
    "adapters.stan": ("from_stan",),
    "api": ("fit", "load"),
    "errors": ("BudgetError", "DensityError", "RunFolderError", "SettingsError", "TemperingError"),
    "methods.budget": ("split_budget",),
    "molecules": ("from_openmm",),
    "priors": ("Beta", "Exponential", "Gamma", "HalfNormal", "LogNormal", "Normal", "StudentT", "Uniform"),
    "runs.ledger": ("Ledger",),
    "sampler": ("Sampler",),
    "sampler.several": ("Samplers",),
    "settings": ("PTDMSettings", "PTSDSettings", "ReweightedSettings"),
    "targets": ("ExactTarget", "PairPotential", "Target"),
    "transforms": ("above", "below", "interval", "ordered", "positive", "real", "simplex"),
    "types": ("Event",),
    "weights.resample": ("resample",),
}
"""The module of every public name; tests/test_front_door.py compares it with `__all__`."""
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """A public name, or a room of the package, imported on first use."""
    home = _HOME_OF.get(name)
    if home is not None:
        value = getattr(import_module(f"tempering.{home}"), name)
        globals()[name] = value
        return value
    if not name.startswith("_") and find_spec(f"tempering.{name}") is not None:
        return import_module(f"tempering.{name}")
    # With the name and the module Python itself asks: did you mean ...?
    raise AttributeError(f"module 'tempering' has no attribute {name!r}", name=name, obj=sys.modules[__name__])


def __dir__() -> list[str]:
    """The public names alone: rooms would crowd completion."""
    return sorted([*__all__, "__version__"])
