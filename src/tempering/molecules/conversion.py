"""`tp.from_openmm`: an OpenMM System, its topology and positions checked and made into a target."""

from typing import Any

import numpy as np

from tempering.compilation import plain_jax
from tempering.errors import SettingsError, require_extra, what_is
from tempering.molecules.callback import OpenMMTarget, callback_target
from tempering.molecules.system.reading import read_system, untranslated
from tempering.molecules.target import MoleculeTarget
from tempering.settings.checks import require_choice, require_number

__all__ = ["checked_positions", "from_openmm", "kelvin_of"]

_OVERLAP = 0.01
"""nm: no two atoms of a molecule come within a fifth of the shortest bond."""
_LONGEST_BOND = 0.5
"""nm: a median bond longer than this was given in another unit; ångström make 1."""


@plain_jax()
def from_openmm(
    system: Any,
    topology: Any,
    positions: Any,
    temperature: Any = 300.0,
    *,
    unsupported: str = "refuse",
    name: str = "molecule",
    **host: Any,
) -> MoleculeTarget | OpenMMTarget:
    """Make an OpenMM System a target for `tp.fit`: its Boltzmann density at a temperature, evaluated by JAX.

    The parameters of the force field are read once. OpenMM takes no part in the evaluation. Coordinates are in nm,
    flat, atom after atom.

    Args:
        system: an `openmm.System` without constraints, cutoffs and periodic box.
        topology: the `openmm.app.Topology` of the system. None leaves atoms without names and bonds.
        positions: a conformation, as OpenMM gives it, or an array (atom, 3) in nm.
        temperature: a quantity, or a number in kelvin.
        unsupported: what to do with forces that cannot be translated. "refuse" raises an error that names them.
            "callback" lets OpenMM evaluate the System, one conformation at a time. Every conformation is counted.
        name: the name of the target in reports.
        host: `pool`, `timeout`, `on_failure` and `store` of `tp.from_callable`, for a System that OpenMM evaluates.

    Returns:
        A target.

    Raises:
        SettingsError: if OpenMM is not installed, if the System cannot be translated, or if positions or temperature
            are not allowed.
    """
    require_extra("openmm", "Systems of OpenMM")
    require_choice("unsupported", unsupported, ("refuse", "callback"))
    import openmm

    if not isinstance(system, openmm.System):
        raise SettingsError(
            f"system is {what_is(system)}; give an openmm.System, such as ForceField.createSystem makes"
        )
    if topology is not None and not hasattr(topology, "atoms"):
        raise SettingsError(f"topology is {what_is(topology)}; give an openmm.app.Topology, or None")
    kelvin = kelvin_of(temperature)
    checked = checked_positions(positions, system.getNumParticles(), topology)
    if unsupported == "callback" and untranslated(system):
        return callback_target(system, topology, checked, kelvin, name, **host)
    if host:
        raise SettingsError(
            f"{', '.join(host)} is for a System that OpenMM evaluates; JAX evaluates this one: leave it out"
        )
    return MoleculeTarget(read_system(system, topology, checked), kelvin, name=name)


def kelvin_of(temperature: Any) -> float:
    """A temperature as a number of kelvin."""
    from openmm import unit

    if unit.is_quantity(temperature):
        if not temperature.unit.is_compatible(unit.kelvin):
            raise SettingsError(f"temperature is {temperature}; give it in kelvin, such as 300*kelvin")
        temperature = float(temperature.value_in_unit(unit.kelvin))
    require_number("temperature", temperature, lambda value: value > 0, "a positive number of kelvin")
    return float(temperature)


def checked_positions(positions: Any, num_atoms: int, topology: Any = None) -> np.ndarray:
    """Positions as an array (atom, 3) in nm."""
    array = _in_nm(positions)
    if array.shape != (num_atoms, 3):
        raise SettingsError(
            f"positions have shape {array.shape}; the System has {num_atoms} atoms: give ({num_atoms}, 3), nm"
        )
    if not np.all(np.isfinite(array)):
        atom = int(np.argmin(np.all(np.isfinite(array), axis=1)))
        raise SettingsError(f"positions are not finite, first at atom {atom}: {array[atom]}; give real coordinates")
    _check_bonds(array, topology)
    first, second = np.triu_indices(num_atoms, 1)
    distances = np.sqrt(np.sum((array[first] - array[second]) ** 2, axis=1))
    if len(distances) and np.min(distances) < _OVERLAP:
        closest = int(np.argmin(distances))
        raise SettingsError(
            f"atoms {first[closest]} and {second[closest]} overlap: they are {distances[closest]:.2g} nm apart, and at "
            f"least {_OVERLAP} is needed; minimise the structure first (openmm.LocalEnergyMinimizer)"
        )
    return array


def _in_nm(positions: Any) -> np.ndarray:
    from openmm import unit

    if unit.is_quantity(positions):
        if not positions.unit.is_compatible(unit.angstrom):
            raise SettingsError(f"positions are in {positions.unit}; give a length, such as nanometers")
        positions = positions.value_in_unit_system(unit.md_unit_system)
    elif isinstance(positions, list | tuple) and len(positions) and unit.is_quantity(positions[0]):
        positions = [_in_nm(position) for position in positions]
    try:
        return np.array([[float(value) for value in row] for row in positions], np.float64)
    except (TypeError, ValueError) as error:
        raise SettingsError(
            f"positions are {what_is(positions)} that is not a list of points; give an array (atom, 3) in nm, or "
            "positions of OpenMM"
        ) from error


def _check_bonds(array: np.ndarray, topology: Any) -> None:
    bonds = [] if topology is None else [(bond[0].index, bond[1].index) for bond in topology.bonds()]
    if not bonds or np.max(bonds) >= len(array):
        return
    ends = np.array(bonds)
    length = float(np.median(np.linalg.norm(array[ends[:, 0]] - array[ends[:, 1]], axis=1)))
    if length > _LONGEST_BOND:
        raise SettingsError(
            f"half of the bonds are longer than {length:.3g} nm: positions seem to be in another unit; plain numbers "
            "are nm (divide ångström by 10), or give them with their unit, such as positions*angstrom"
        )
