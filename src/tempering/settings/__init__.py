"""The settings of methods: frozen dataclasses, checked where they enter. Plain numbers only, no arrays, no functions.

`None` means "chosen from the run itself": the hottest temperature by a counted pilot, the number of levels from the
dimension, the noise range from the buffers.
"""

from tempering.settings.baselines import BaselineSettings, DiKLSettings, FABSettings
from tempering.settings.chains import Atlas, Exploration, Initial, Ladder, Pilot, Refinement
from tempering.settings.checks import (
    as_whole,
    require,
    require_choice,
    require_count,
    require_flag,
    require_positive,
    require_seed,
)
from tempering.settings.defaults import resolved
from tempering.settings.methods import (
    DescentSettings,
    MethodSettings,
    PTDMSettings,
    PTSDSettings,
    ReweightedSettings,
)
from tempering.settings.models import Guidance, Network, Noise, Resampling, Sampling, Training
from tempering.settings.path_baselines import CMCDSettings, DDSSettings
from tempering.settings.score_baselines import BNEMSettings, IDEMSettings

__all__ = [
    "Atlas",
    "BNEMSettings",
    "BaselineSettings",
    "CMCDSettings",
    "DDSSettings",
    "DescentSettings",
    "DiKLSettings",
    "Exploration",
    "FABSettings",
    "Guidance",
    "IDEMSettings",
    "Initial",
    "Ladder",
    "MethodSettings",
    "Network",
    "Noise",
    "PTDMSettings",
    "PTSDSettings",
    "Pilot",
    "Refinement",
    "Resampling",
    "ReweightedSettings",
    "Sampling",
    "Training",
    "as_whole",
    "require",
    "require_choice",
    "require_count",
    "require_flag",
    "require_positive",
    "require_seed",
    "resolved",
]
