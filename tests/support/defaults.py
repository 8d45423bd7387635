"""What a fit without settings runs, for a density of that kind."""

from tempering.runs.config import SETTINGS_OF
from tempering.settings import MethodSettings, resolved
from tempering.transforms.centred import Centred

__all__ = ["default_settings"]


def default_settings(
    method: str, dim: int, geometry: Centred | None = None, atoms: tuple = (), bonds: tuple = ()
) -> MethodSettings:
    """The settings of the method without arguments, with everything chosen that they leave open."""
    particles = {} if geometry is None else geometry.as_dict()
    return resolved(SETTINGS_OF[method](), dim, **particles, atoms=atoms, bonds=bonds)
