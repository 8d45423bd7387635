"""Every density of the proving ground by name; each is made when it is asked for."""

from collections.abc import Callable
from functools import cache, partial

from . import classic, models, physics, shapes
from .conjugate import CONJUGATE_POSTERIORS
from .decoys import DECOYS
from .edges import EDGES
from .guests import GUESTS
from .hierarchies import HIERARCHIES
from .laboratory import LABORATORY
from .landscapes import LANDSCAPES
from .likelihoods import GRID_POSTERIORS
from .mixtures import random_mixture
from .newcomers import NEWCOMERS
from .obstacles import OBSTACLES
from .oddities import ODDITIES
from .puzzles import PUZZLES
from .record import Density
from .ridges import RIDGES
from .signals import SIGNALS
from .strangers import STRANGERS
from .stubborn import STUBBORN
from .surveys import SURVEYS
from .switches import SWITCHES
from .visitors import VISITORS
from .wanderers import WANDERERS

__all__ = ["DENSITIES", "density_of"]

DENSITIES: dict[str, Callable[[], Density]] = {
    "eggbox": classic.eggbox,
    "shells-2": partial(classic.shells, 2),
    "shells-10": partial(classic.shells, 10),
    "loggamma-2": partial(classic.loggamma, 2),
    "loggamma-10": partial(classic.loggamma, 10),
    "loggamma-10-free": partial(classic.loggamma_free, 10),
    "rosenbrock-2": partial(classic.rosenbrock, 2),
    "rosenbrock-3": partial(classic.rosenbrock, 3),
    "rosenbrock-4": partial(classic.rosenbrock, 4),
    "rosenbrock-5": partial(classic.rosenbrock, 5),
    "rosenbrock-10": classic.rosenbrock_pairs,
    "unid": classic.unid,
    "pathology": classic.pathology,
    "phi4-chain-16": physics.phi4_chain,
    "phi4-6": partial(physics.phi4_lattice, 6),
    "phi4-8": partial(physics.phi4_lattice, 8),
    "multiwell-16": partial(physics.multiwell, 16),
    "multiwell-64": partial(physics.multiwell, 64),
    "sensors": models.sensors,
    "mrna": models.mrna,
    "galaxy": models.galaxy,
    "logistic-10": models.logistic,
    "funnel-10": shapes.funnel,
    "hybrid-rosenbrock-5": shapes.hybrid_rosenbrock,
    "banana": shapes.banana,
    "needle": shapes.needle,
    "gaussians40-2": partial(shapes.gaussians40, 2),
    "gaussians40-50": partial(shapes.gaussians40, 50),
    "gaussian-10": shapes.gaussian,
    "student-5": shapes.student,
    "neal-6": shapes.neal,
    **STRANGERS,
    **GRID_POSTERIORS,
    **CONJUGATE_POSTERIORS,
    **HIERARCHIES,
    **STUBBORN,
    **RIDGES,
    **LANDSCAPES,
    **DECOYS,
    **EDGES,
    **GUESTS,
    **VISITORS,
    **NEWCOMERS,
    **WANDERERS,
    **ODDITIES,
    **SURVEYS,
    **LABORATORY,
    **PUZZLES,
    **SIGNALS,
    **SWITCHES,
    **OBSTACLES,
}
_RANDOM = "mixture-"


@cache
def density_of(name: str) -> Density:
    """A density by name, made once; `mixture-7` is the random mixture of seed 7."""
    if name in DENSITIES:
        return DENSITIES[name]()
    if name.startswith(_RANDOM) and name.removeprefix(_RANDOM).isdigit():
        return random_mixture(int(name.removeprefix(_RANDOM))).density()
    raise ValueError(f"no density {name!r}; there are {', '.join(DENSITIES)} and mixture-0, mixture-1, …")
