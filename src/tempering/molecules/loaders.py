"""Molecules from the files that chemists have: PDB and force field, AMBER, a serialized System."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tempering.errors import SettingsError, first_line, require_extra
from tempering.molecules.callback import OpenMMTarget
from tempering.molecules.conversion import from_openmm
from tempering.molecules.target import MoleculeTarget
from tempering.settings.checks import require_choice

__all__ = ["from_amber", "from_pdb", "from_system_xml"]

_SOLVENTS = ("none", "HCT", "OBC1", "OBC2", "GBn", "GBn2")


def from_pdb(
    pdb: Any,
    force_field: Sequence[str] = ("amber14-all.xml", "implicit/obc2.xml"),
    temperature: Any = 300.0,
    *,
    add_hydrogens: bool = False,
    **options: Any,
) -> MoleculeTarget | OpenMMTarget:
    """A molecule from a PDB file and force-field files.

    Args:
        pdb: path of the PDB file.
        force_field: OpenMM's own files by name, or paths of one's own.
        temperature: kelvin, or a quantity.
        add_hydrogens: put in those that the file lacks, at pH 7.
        options: of `from_openmm`.

    Raises:
        SettingsError: if a file is missing or cannot be read, or the force field does not know the molecule.
    """
    require_extra("openmm", "Systems of OpenMM")
    from openmm import app

    structure = _read(app.PDBFile, pdb)
    try:
        field = app.ForceField(*map(str, force_field))
        topology, positions = structure.topology, structure.positions
        if add_hydrogens:
            modeller = app.Modeller(topology, positions)
            modeller.addHydrogens(field)
            topology, positions = modeller.topology, modeller.positions
        system = field.createSystem(topology, nonbondedMethod=app.NoCutoff, constraints=None, rigidWater=False)
    except Exception as error:  # OpenMM raises ValueError, KeyError and Exception itself
        raise SettingsError(
            f"the force field {', '.join(map(str, force_field))} does not take {pdb}: {first_line(error)}; add "
            "missing atoms (add_hydrogens=True, or PDBFixer) or choose another force field"
        ) from error
    return from_openmm(system, topology, positions, temperature, **options)


def from_amber(
    prmtop: Any,
    inpcrd: Any,
    temperature: Any = 300.0,
    *,
    implicit_solvent: str = "none",
    **options: Any,
) -> MoleculeTarget | OpenMMTarget:
    """A molecule from AMBER's topology and coordinates.

    Args:
        prmtop: path of the topology.
        inpcrd: path of the coordinates.
        temperature: kelvin, or a quantity.
        implicit_solvent: none, HCT, OBC1, OBC2, GBn or GBn2.
        options: of `from_openmm`.

    Raises:
        SettingsError: if a file is missing or cannot be read.
    """
    require_extra("openmm", "Systems of OpenMM")
    require_choice("implicit_solvent", implicit_solvent, _SOLVENTS)
    from openmm import app

    parameters, coordinates = _read(app.AmberPrmtopFile, prmtop), _read(app.AmberInpcrdFile, inpcrd)
    solvent = None if implicit_solvent == "none" else getattr(app, implicit_solvent)
    try:
        system = parameters.createSystem(
            nonbondedMethod=app.NoCutoff, constraints=None, rigidWater=False, implicitSolvent=solvent
        )
    except Exception as error:  # OpenMM raises KeyError for a missing section
        raise SettingsError(
            f"OpenMM makes no System of {prmtop}: {type(error).__name__} {first_line(error)}; check the file and "
            "implicit_solvent"
        ) from error
    return from_openmm(system, parameters.topology, coordinates.positions, temperature, **options)


def from_system_xml(
    system_xml: Any, pdb: Any, temperature: Any = 300.0, **options: Any
) -> MoleculeTarget | OpenMMTarget:
    """A molecule from a serialized System (`openmm.XmlSerializer`) and a PDB file with its topology and positions.

    Args:
        system_xml: path of the System.
        pdb: path of the structure.
        temperature: kelvin, or a quantity.
        options: of `from_openmm`.

    Raises:
        SettingsError: if a file is missing or cannot be read.
    """
    require_extra("openmm", "Systems of OpenMM")
    import openmm
    from openmm import app

    structure = _read(app.PDBFile, pdb)
    system = _read(lambda path: openmm.XmlSerializer.deserialize(Path(path).read_text(encoding="utf-8")), system_xml)
    return from_openmm(system, structure.topology, structure.positions, temperature, **options)


def _read(reader: Any, path: Any) -> Any:
    if not Path(path).is_file():
        raise SettingsError(f"{path} is not a file; give the path of one")
    try:
        return reader(str(path))
    except Exception as error:  # parsers of damaged files raise anything
        raise SettingsError(f"{path} cannot be read: {first_line(error)}; check what kind of file it is") from error
