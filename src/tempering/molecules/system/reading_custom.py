"""OpenMM's custom forces, and its generalised Born force, read into terms that hold their expressions as text."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tempering.errors import SettingsError
from tempering.molecules.system.pairwise import COULOMB
from tempering.molecules.system.record import Term
from tempering.molecules.system.tables import Table, spline_table

__all__ = ["READERS", "globals_of", "reason_against_tables"]

_PAIR_KINDS = ("single", "pair", "all pairs")
"""OpenMM's CustomGBForce.SingleParticle, ParticlePair and ParticlePairNoExclusions, in the order of its numbers."""

_TABLES = ("Discrete1DFunction", "Discrete2DFunction", "Discrete3DFunction", "Continuous1DFunction")


def globals_of(force: Any) -> dict[str, float]:
    """A force's global parameters, at their default values."""
    return {
        force.getGlobalParameterName(i): float(force.getGlobalParameterDefaultValue(i))
        for i in range(force.getNumGlobalParameters())
    }


def _tables(force: Any) -> dict[str, Table]:
    if not hasattr(force, "getNumTabulatedFunctions"):
        return {}
    names = [force.getTabulatedFunctionName(i) for i in range(force.getNumTabulatedFunctions())]
    return {name: _table(force.getTabulatedFunction(i)) for i, name in enumerate(names)}


def _table(function: Any) -> Table:
    kind, given = type(function).__name__, function.getFunctionParameters()
    if kind == "Continuous1DFunction":
        values, low, high = given
        return spline_table(np.array(values), low, high, is_periodic=function.getPeriodic())
    sizes, values = ((-1,), given) if kind == "Discrete1DFunction" else (given[:-1], given[-1])
    # The first argument varies fastest.
    return Table("discrete", {"values": np.array(values, np.float64).reshape(sizes, order="F")})


def reason_against_tables(force: Any, kind: str) -> str | None:
    """Why a force's tabulated functions cannot be translated, or None."""
    if not hasattr(force, "getNumTabulatedFunctions"):
        return None
    kinds = {type(force.getTabulatedFunction(i)).__name__ for i in range(force.getNumTabulatedFunctions())}
    unknown = sorted(kinds - set(_TABLES))
    return f"{kind} with {', '.join(unknown)}: write the function as a formula" if unknown else None


def _check(term: Term, text: str, known: set[str]) -> None:
    """Refuse an expression now rather than when it is compiled: one that does not parse, or asks for unknown names."""
    unknown = sorted(term.parse(text).variables - known - set(term.settings["globals"]))
    if unknown:
        raise SettingsError(
            f"the expression {text!r} uses {', '.join(unknown)}, which the force does not define; add the parameter"
        )


def _of_both(names: list[str]) -> set[str]:
    """What an expression of pairs calls the numbers of its two atoms."""
    return {f"{name}{suffix}" for name in names for suffix in "12"}


def _per_item(force: Any, kind: str, item: str, num_atoms: int, variables: tuple[str, ...]) -> Term:
    """A custom force of bonds, angles, torsions or single atoms, whose expression may use the variables."""
    count = getattr(force, f"getNum{item}s")()
    rows = [getattr(force, f"get{item}Parameters")(i) for i in range(count)]
    num_names = getattr(force, f"getNumPer{item}Parameters")()
    names = [getattr(force, f"getPer{item}ParameterName")(i) for i in range(num_names)]
    atoms = np.array([row[:num_atoms] for row in rows], np.int32).reshape((count, num_atoms))
    arrays = {
        "atoms": atoms[:, 0] if num_atoms == 1 else atoms,
        "parameters": np.array([row[-1] for row in rows], np.float64).reshape((count, num_names)),
    }
    energy = force.getEnergyFunction()
    settings = {"energy": energy, "parameters": names, "globals": globals_of(force)}
    term = Term(kind, arrays, settings, _tables(force))
    _check(term, energy, {*names, *variables})
    return term


def _particles(force: Any) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Per-particle numbers and exclusions, and the names of the numbers."""
    count, num_names = force.getNumParticles(), force.getNumPerParticleParameters()
    rows = [force.getParticleParameters(i) for i in range(count)]
    exclusions = [force.getExclusionParticles(i) for i in range(force.getNumExclusions())]
    arrays = {
        "parameters": np.array(rows, np.float64).reshape((count, num_names)),
        "exclusions": np.array(exclusions, np.int32).reshape((-1, 2)),
    }
    names = [force.getPerParticleParameterName(i) for i in range(num_names)]
    return arrays, {"parameters": names, "globals": globals_of(force)}


def _custom_nonbonded(force: Any) -> Term:
    """A CustomNonbondedForce."""
    arrays, settings = _particles(force)
    values = [list(force.getComputedValueParameters(i)) for i in range(force.getNumComputedValues())]
    settings |= {"energy": force.getEnergyFunction(), "values": values}
    term = Term("custom_nonbonded", arrays, settings, _tables(force))
    names = settings["parameters"]
    for _, text in values:
        _check(term, text, set(names))
    _check(term, settings["energy"], {"r"} | _of_both([*names, *(name for name, _ in values)]))
    return term


def _generalised_born(force: Any) -> Term:
    """A CustomGBForce, such as OpenMM makes for HCT, OBC1, OBC2, GBn and GBn2."""
    arrays, settings = _particles(force)
    values = [force.getComputedValueParameters(i) for i in range(force.getNumComputedValues())]
    energies = [force.getEnergyTermParameters(i) for i in range(force.getNumEnergyTerms())]
    settings |= {
        "values": [[name, text, _PAIR_KINDS[kind]] for name, text, kind in values],
        "energies": [[text, _PAIR_KINDS[kind]] for text, kind in energies],
    }
    term, names = Term("generalised_born", arrays, settings, _tables(force)), list(settings["parameters"])
    for name, text, kind in settings["values"]:
        _check(term, text, {*names, *"xyz"} if kind == "single" else {"r"} | _of_both(names))
        names.append(name)
    for text, kind in settings["energies"]:
        _check(term, text, {*names, *"xyz"} if kind == "single" else {"r"} | _of_both(names))
    return term


def _obc_force(force: Any) -> Term:
    """A GBSAOBCForce as the expressions that it stands for: Onufriev, Bashford and Case (2004), their second model.

    Beyond OpenMM's CustomGBForce for OBC2 it corrects the integral where an atom lies wholly inside another.
    """
    from openmm import unit

    md = unit.md_unit_system
    rows = [force.getParticleParameters(i) for i in range(force.getNumParticles())]
    numbers = [[value.value_in_unit_system(md) for value in row[:2]] + [row[2]] for row in rows]
    arrays = {
        "parameters": np.array(numbers, np.float64).reshape((-1, 3)),
        "exclusions": np.zeros((0, 2), np.int32),
    }
    solute, solvent = force.getSoluteDielectric(), force.getSolventDielectric()
    factor = COULOMB * (1.0 / solute - 1.0 / solvent if solute and solvent else 0.0)
    surface = 4.0 * np.pi * force.getSurfaceAreaEnergy().value_in_unit_system(md)
    integral = (
        "select(step(r+s2-o1), 0.5*(1/L-1/U+0.25*(r-s2^2/r)*(1/U^2-1/L^2)+0.5*log(L/U)/r+inside), 0);"
        "inside=select(step(s2-r-o1), 2*(1/o1-1/L), 0); U=r+s2; L=max(o1, abs(r-s2));"
        "s2=scale2*(radius2-0.009); o1=radius1-0.009"
    )
    born = "1/(1/o-tanh(psi-0.8*psi^2+4.85*psi^3)/radius); psi=I*o; o=radius-0.009"
    settings = {
        "parameters": ["charge", "radius", "scale"],
        "globals": {"factor": factor, "surface": surface},
        "values": [["I", integral, "all pairs"], ["B", born, "single"]],
        "energies": [
            ["-0.5*factor*charge^2/B+surface*(radius+0.14)^2*(radius/B)^6", "single"],
            ["-factor*charge1*charge2/sqrt(r^2+B1*B2*exp(-r^2/(4*B1*B2)))", "all pairs"],
        ],
    }
    return Term("generalised_born", arrays, settings)


READERS: dict[str, Callable[[Any], Term]] = {
    "GBSAOBCForce": _obc_force,
    "CustomGBForce": _generalised_born,
    "CustomBondForce": lambda force: _per_item(force, "custom_bond", "Bond", 2, ("r",)),
    "CustomAngleForce": lambda force: _per_item(force, "custom_angle", "Angle", 3, ("theta",)),
    "CustomTorsionForce": lambda force: _per_item(force, "custom_torsion", "Torsion", 4, ("theta",)),
    "CustomExternalForce": lambda force: _per_item(force, "custom_external", "Particle", 1, ("x", "y", "z")),
    "CustomNonbondedForce": _custom_nonbonded,
}
"""By OpenMM's name of the force."""
