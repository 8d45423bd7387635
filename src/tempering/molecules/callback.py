"""A System evaluated by OpenMM itself, called from compiled programs: for forces that have no translation.

One conformation at a time, first derivatives only, some hundred times slower than the translation; every conformation
is counted as that of any other black box.
"""

from typing import Any

import equinox as eqx
import numpy as np

from tempering.adapters.callback import CallbackTarget, from_callable
from tempering.molecules.system.reading import identities, refuse_no_density
from tempering.molecules.system.record import Atom
from tempering.molecules.target import GAS_CONSTANT
from tempering.targets.base import Wrapper
from tempering.transforms.centred import Centred

__all__ = ["OpenMMTarget", "callback_target"]

_SHIFT = np.array([0.31, -0.17, 0.23])
"""nm: what the molecule is moved by to see whether its energy minds."""


class OpenMMTarget(Wrapper):
    """log_density(x) = -U(x) / (k_B T), x in nm, U by OpenMM."""

    dim: int = eqx.field(static=True)
    target: CallbackTarget
    atoms: tuple[Atom, ...] = eqx.field(static=True)
    temperature: float = eqx.field(static=True)
    is_translation_invariant: bool = eqx.field(static=True)
    name: str = eqx.field(static=True)

    @property
    def geometry(self) -> Centred | None:
        """The coordinates of centred conformations; None where its energy depends on its place."""
        return Centred(self.dim // 3, 3) if self.is_translation_invariant else None


class _Evaluator:
    """Log density and gradient of one conformation by a context of OpenMM."""

    def __init__(self, system: Any, positions: np.ndarray, kelvin: float):
        import openmm

        self.system_text = openmm.XmlSerializer.serialize(system)  # what tells one density from another
        self.kelvin = kelvin
        self.context = self._context(system)
        self.context.setPositions(positions)

    @staticmethod
    def _context(system: Any) -> Any:
        import openmm

        # The double precision of Reference: other platforms compute forces in single.
        platform = openmm.Platform.getPlatform("Reference")
        return openmm.Context(system, openmm.VerletIntegrator(0.001), platform)

    def __getstate__(self) -> dict[str, Any]:
        """What travels to a worker: the System as text. A context stays where it is."""
        return {"system_text": self.system_text, "kelvin": self.kelvin}

    def __setstate__(self, state: dict[str, Any]) -> None:
        import openmm

        self.__dict__.update(state)
        self.context = self._context(openmm.XmlSerializer.deserialize(self.system_text))

    def __call__(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        from openmm import OpenMMException, unit

        if not np.all(np.isfinite(x)):
            return float("nan"), np.zeros_like(x)
        try:
            self.context.setPositions(x.reshape((-1, 3)))
            state = self.context.getState(getEnergy=True, getForces=True)
        except OpenMMException:  # "Particle coordinate is NaN", and its like for atoms at one place
            return float("-inf"), np.zeros_like(x)
        energy = state.getPotentialEnergy().value_in_unit(unit.kilojoule_per_mole)
        forces = state.getForces(asNumpy=True).value_in_unit_system(unit.md_unit_system)
        if not (np.isfinite(energy) and np.all(np.isfinite(forces))):
            return float("-inf"), np.zeros_like(x)
        scale = 1.0 / (GAS_CONSTANT * self.kelvin)
        return -scale * energy, scale * np.asarray(forces).reshape(-1)


def callback_target(
    system: Any, topology: Any, positions: np.ndarray, kelvin: float, name: str, **host: Any
) -> OpenMMTarget:
    """The target that asks OpenMM.

    It asks twice now, for the molecule here and there: an energy that is the same has a normaliser on centred
    conformations only.
    """
    refuse_no_density(system)
    atoms, _ = identities(topology, system.getNumParticles())
    evaluator = _Evaluator(system, positions, kelvin)
    inner = from_callable(evaluator, 3 * len(atoms), gradient="returned", **host)
    here, there = (evaluator((positions + shift).reshape(-1))[0] for shift in (0.0 * _SHIFT, _SHIFT))
    is_free = len(atoms) > 1 and abs(here - there) <= 1e-6 * max(1.0, abs(here))
    return OpenMMTarget(3 * len(atoms), inner, atoms, kelvin, is_free, name)
