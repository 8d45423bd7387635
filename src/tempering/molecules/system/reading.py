"""An OpenMM System read into a record, force by force; what cannot be translated is refused by name.

Consumes a `System` and a `Topology`; produces a `MoleculeRecord`. OpenMM is used only to ask these objects, so the
module imports without it.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tempering.errors import SettingsError
from tempering.molecules.system import reading_custom as custom
from tempering.molecules.system.record import Atom, MoleculeRecord, Term

__all__ = ["identities", "read_system", "refuse_no_density", "untranslated"]

_CALLBACK = 'or let OpenMM itself evaluate it, slowly: tp.from_openmm(..., unsupported="callback")'
_WITHOUT_ENERGY = ("CMMotionRemover", "AndersenThermostat")
"""Forces of a System that change velocities only."""


def plain_number(quantity: Any) -> float:
    """A number in OpenMM's own units: nm, kJ/mol, radians, dalton, elementary charges."""
    from openmm import unit

    return float(quantity.value_in_unit_system(unit.md_unit_system) if unit.is_quantity(quantity) else quantity)


def _columns(rows: list[tuple], num_atoms: int, *names: str) -> dict[str, np.ndarray]:
    """Rows of atoms and quantities as arrays: `atoms`, then one for each name."""
    atoms = np.array([row[:num_atoms] for row in rows], np.int32).reshape((len(rows), num_atoms))
    values = np.array([[plain_number(value) for value in row[num_atoms:]] for row in rows], np.float64)
    values = values.reshape((len(rows), len(names)))
    return {"atoms": atoms, **{name: values[:, place] for place, name in enumerate(names)}}


def _bonds(force: Any) -> Term:
    rows = [tuple(force.getBondParameters(i)) for i in range(force.getNumBonds())]
    return Term("harmonic_bond", _columns(rows, 2, "length", "strength"))


def _angles(force: Any) -> Term:
    rows = [tuple(force.getAngleParameters(i)) for i in range(force.getNumAngles())]
    return Term("harmonic_angle", _columns(rows, 3, "angle", "strength"))


def _torsions(force: Any) -> Term:
    rows = [tuple(force.getTorsionParameters(i)) for i in range(force.getNumTorsions())]
    arrays = _columns(rows, 4, "periodicity", "phase", "strength")
    return Term("periodic_torsion", {**arrays, "periodicity": arrays["periodicity"].astype(np.int32)})


def _ryckaert_bellemans(force: Any) -> Term:
    rows = [tuple(force.getTorsionParameters(i)) for i in range(force.getNumTorsions())]
    arrays = _columns(rows, 4, *(f"c{order}" for order in range(6)))
    coefficients = np.stack([arrays[f"c{order}"] for order in range(6)], axis=1)
    return Term("ryckaert_bellemans", {"atoms": arrays["atoms"], "coefficients": coefficients})


def _cmap(force: Any) -> Term:
    rows = np.array([force.getTorsionParameters(i) for i in range(force.getNumTorsions())], np.int32).reshape((-1, 9))
    arrays = {"maps": rows[:, 0], "atoms": rows[:, 1:]}
    for which in range(force.getNumMaps()):
        size, energies = force.getMapParameters(which)
        grid = np.array([plain_number(energy) for energy in energies]).reshape((size, size), order="F")
        arrays[f"map_{which}"] = grid
    return Term("cmap_torsion", arrays)


def _nonbonded(force: Any) -> Term:
    """With the offsets that global parameters bring, at their default values."""
    particles = [
        [plain_number(value) for value in force.getParticleParameters(i)] for i in range(force.getNumParticles())
    ]
    particles = np.array(particles, np.float64).reshape((-1, 3))
    rows = [force.getExceptionParameters(i) for i in range(force.getNumExceptions())]
    atoms = np.array([row[:2] for row in rows], np.int32).reshape((-1, 2))
    exceptions = np.array([[plain_number(value) for value in row[2:]] for row in rows], np.float64).reshape((-1, 3))
    globals_ = custom.globals_of(force)
    for i in range(force.getNumParticleParameterOffsets()):
        name, which, *scales = force.getParticleParameterOffset(i)
        particles[which] += globals_[name] * np.array([plain_number(scale) for scale in scales])
    for i in range(force.getNumExceptionParameterOffsets()):
        name, which, *scales = force.getExceptionParameterOffset(i)
        exceptions[which] += globals_[name] * np.array([plain_number(scale) for scale in scales])
    names = ("charge", "sigma", "epsilon")
    arrays = {name: particles[:, place] for place, name in enumerate(names)}
    arrays |= {f"exception_{name}": exceptions[:, place] for place, name in enumerate(names)}
    return Term("nonbonded", {**arrays, "exceptions": atoms})


_READERS: dict[str, Callable[[Any], Term]] = {
    "HarmonicBondForce": _bonds,
    "HarmonicAngleForce": _angles,
    "PeriodicTorsionForce": _torsions,
    "RBTorsionForce": _ryckaert_bellemans,
    "CMAPTorsionForce": _cmap,
    "NonbondedForce": _nonbonded,
    **custom.READERS,
}

_ADVICE = {
    "Barostat": "remove it: a density at constant volume has none",
    "Amoeba": "choose a fixed-charge force field such as amber14-all.xml",
    "Drude": "choose a force field without Drude particles, such as charmm36.xml",
    "Hippo": "choose a fixed-charge force field such as amber14-all.xml",
    "LCPO": "create the system with sasaMethod='ACE' or None",
}


def refuse_no_density(system: Any) -> None:
    """Refuse constraints, virtual sites and massless atoms, which leave no density of all coordinates."""
    found = []
    if system.getNumConstraints():
        found.append(
            f"{system.getNumConstraints()} constraints: create the system with constraints=None, rigidWater=False"
        )
    virtual = sum(system.isVirtualSite(i) for i in range(system.getNumParticles()))
    if virtual:
        found.append(f"{virtual} virtual sites: choose a model without them")
    massless = sum(plain_number(system.getParticleMass(i)) == 0 for i in range(system.getNumParticles())) - virtual
    if massless > 0:
        found.append(f"{massless} massless atoms, which stay where they are: give them their mass")
    if found:
        raise SettingsError(f"this System is not a density of all its coordinates: it has {'; '.join(found)}")


def untranslated(system: Any) -> list[str]:
    """The forces that cannot be translated, each with what to do instead."""
    reasons = [_reason_against(force) for force in system.getForces()]
    return [reason for reason in reasons if reason]


def _reason_against(force: Any) -> str | None:
    kind = _kind(force)
    if kind in _WITHOUT_ENERGY:
        return None
    if kind not in _READERS:
        advice = next((advice for part, advice in _ADVICE.items() if part in kind), "remove it")
        return f"{kind} is not translated: {advice}"
    method = _method_name(force)
    if method not in (None, "NoCutoff"):
        return f"{kind} with {method}: create the system with nonbondedMethod=NoCutoff, in implicit solvent or none"
    if force.usesPeriodicBoundaryConditions():
        return f"{kind} in a periodic box: create the system without one, with nonbondedMethod=NoCutoff"
    if kind == "CustomNonbondedForce" and force.getNumInteractionGroups():
        return f"{kind} with interaction groups: use exclusions instead"
    return custom.reason_against_tables(force, kind)


def _method_name(force: Any) -> str | None:
    if not hasattr(force, "getNonbondedMethod"):
        return None
    names = ("NoCutoff", "CutoffNonPeriodic", "CutoffPeriodic", "Ewald", "PME", "LJPME")
    numbers = {getattr(type(force), name): name for name in names if hasattr(type(force), name)}
    return numbers.get(force.getNonbondedMethod(), "an unknown method")


def _kind(force: Any) -> str:
    """The class of OpenMM's own that a force belongs to: OpenMM's models of implicit solvent are subclasses."""
    return next(kind.__name__ for kind in type(force).__mro__ if kind.__module__.startswith("openmm.openmm"))


def read_system(system: Any, topology: Any, positions: np.ndarray) -> MoleculeRecord:
    """The record of a System.

    Args:
        topology: an `openmm.app.Topology`, or None.
        positions: (atom, 3), nm.

    Raises:
        SettingsError: naming everything in it that cannot be translated.
    """
    refuse_no_density(system)
    if found := untranslated(system):
        raise SettingsError(f"this System cannot be translated to JAX: {'; '.join(found)}; {_CALLBACK}")
    num_atoms = system.getNumParticles()
    masses = np.array([plain_number(system.getParticleMass(i)) for i in range(num_atoms)], np.float64)
    atoms, bonds = identities(topology, num_atoms)
    forces = [force for force in system.getForces() if _kind(force) not in _WITHOUT_ENERGY]
    for force in forces:
        # Forces of pairs have numbers for every atom; OpenMM itself looks only when a Context is made.
        if hasattr(force, "getNonbondedMethod") and force.getNumParticles() != num_atoms:
            raise SettingsError(
                f"{_kind(force)} has numbers for {force.getNumParticles()} particles and the System {num_atoms}; add "
                "one for every atom"
            )
    terms = [_READERS[_kind(force)](force) for force in forces]
    return MoleculeRecord(masses, atoms, bonds, positions, tuple(filter(_is_filled, terms)))


def _is_filled(term: Term) -> bool:
    """A force without bonds, angles, torsions or particles adds nothing, and has no shapes to compute with."""
    main = term.arrays.get("atoms", term.arrays.get("parameters", term.arrays.get("charge")))
    return main is not None and len(main) > 0


def identities(topology: Any, num_atoms: int) -> tuple[tuple[Atom, ...], np.ndarray]:
    """Who the atoms are, and their bonds (bond, 2), as a topology says."""
    if topology is None:
        return (Atom(),) * num_atoms, np.zeros((0, 2), np.int32)
    given = list(topology.atoms())
    if len(given) != num_atoms:
        raise SettingsError(
            f"the topology has {len(given)} atoms and the System {num_atoms}; give the topology that the System was "
            "created from"
        )
    elements = ["" if atom.element is None else atom.element.symbol for atom in given]
    atoms = tuple(
        Atom(atom.name, element, atom.residue.name, atom.residue.index)
        for atom, element in zip(given, elements, strict=True)
    )
    bonds = [(bond[0].index, bond[1].index) for bond in topology.bonds()]
    return atoms, np.array(bonds, np.int32).reshape((-1, 2))
