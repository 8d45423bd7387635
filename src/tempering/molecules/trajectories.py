"""Draws for other programs: an MDTraj trajectory, or a DCD or PDB file. Consumes conformations in nm.

MDTraj works in nm and files are in ångström; the conversion is made here. PDB needs no other package.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from tempering.errors import SettingsError, require_extra
from tempering.molecules.observables import checked_conformations, identity_of
from tempering.molecules.system.record import Atom
from tempering.runs.storage import as_path, replacing, write_bytes

__all__ = ["save_trajectory", "to_mdtraj"]

_ANGSTROM = 10.0
"""In a nm."""
_WIDEST = 999.0
"""nm: a coordinate of a PDB file has eight places, three of them after the point."""
_MOST_ATOMS = 99_999
"""A serial number of a PDB file has five places."""


def to_mdtraj(target: Any, draws: npt.ArrayLike) -> Any:
    """Draws as an `mdtraj.Trajectory`, with the molecule's topology; draw after draw, time having no meaning.

    Args:
        target: the molecule.
        draws: (num, 3 * atom) or (num, atom, 3), nm, such as `sampler.sample` gives.

    Raises:
        SettingsError: if MDTraj is missing, or for a wrong shape.
    """
    require_extra("mdtraj", "trajectories of MDTraj")
    import mdtraj

    conformations = checked_conformations(target, draws)
    return mdtraj.Trajectory(conformations.astype(np.float32), _mdtraj_topology(*identity_of(target)))


def save_trajectory(target: Any, draws: npt.ArrayLike, path: Any) -> None:
    """Write draws to a file, by its ending: `.pdb`, one model per draw, or `.dcd` (needs MDTraj), which is binary.

    A DCD file holds coordinates alone: a program that reads it asks for a PDB file of the same molecule, too; one draw
    is enough for that.

    Args:
        target: the molecule.
        draws: (num, 3 * atom) or (num, atom, 3), nm. Files are in ångström.
        path: of the file, which is replaced if there is one.

    Raises:
        SettingsError: for another ending, a wrong shape, coordinates that are not finite, or a missing MDTraj.
        RunFolderError: if the file cannot be written.
    """
    place = as_path(path, "path")
    ending = place.suffix.lower()
    if ending not in (".pdb", ".dcd"):
        raise SettingsError(f"path ends in {place.suffix!r}; give a name that ends in .pdb or .dcd")
    conformations = checked_conformations(target, draws)
    num_bad = int(np.sum(~np.isfinite(conformations).all(axis=(1, 2))))
    if num_bad:
        raise SettingsError(
            f"{num_bad:,} of {len(conformations):,} draws are not finite, and no file format has a place for them; "
            "leave them out: draws[np.isfinite(draws).all(axis=1)]"
        )
    if ending == ".pdb":
        write_bytes(place, _pdb(*identity_of(target), conformations).encode())
        return
    require_extra("mdtraj", ".dcd files")
    from mdtraj.formats import DCDTrajectoryFile

    with replacing(place) as temporary, DCDTrajectoryFile(str(temporary), "w", force_overwrite=True) as file:
        file.write(_ANGSTROM * conformations.astype(np.float32))


def _mdtraj_topology(atoms: tuple[Atom, ...], bonds: np.ndarray) -> Any:
    from mdtraj import Topology
    from mdtraj.core.element import Element, virtual

    topology = Topology()
    chain, residue, number = topology.add_chain(), None, None
    for atom in atoms:
        if residue is None or atom.residue_number != number:
            number = atom.residue_number
            residue = topology.add_residue(atom.residue or "UNK", chain, resSeq=number + 1)
        element = Element.getBySymbol(atom.element) if atom.element else virtual
        topology.add_atom(atom.name or atom.element or "X", element, residue)
    made = list(topology.atoms)
    for first, second in bonds.tolist():
        topology.add_bond(made[first], made[second])
    return topology


def _pdb(atoms: tuple[Atom, ...], bonds: np.ndarray, conformations: np.ndarray) -> str:
    """The format of wwPDB 3.3: one MODEL per conformation, CONECT records for all bonds.

    Programs know the bonds of standard residues only; a molecule of one's own needs them written.
    """
    if len(atoms) > _MOST_ATOMS or np.max(np.abs(conformations)) >= _WIDEST:
        raise SettingsError(
            f"PDB has no place for more than {_MOST_ATOMS:,} atoms or for coordinates beyond {_WIDEST:g} nm; save as "
            ".dcd, or fix the draws"
        )
    heads = [_pdb_head(serial, atom) for serial, atom in enumerate(atoms, start=1)]
    tails = [f"  1.00  0.00          {atom.element.upper():>2}  " for atom in atoms]
    lines = []
    for model, places in enumerate(_ANGSTROM * conformations.astype(np.float64), start=1):
        lines.append(f"MODEL     {model % 10_000:4d}")
        for head, (x, y, z), tail in zip(heads, places.tolist(), tails, strict=True):
            lines.append(f"{head}{x:8.3f}{y:8.3f}{z:8.3f}{tail}")
        lines.append("ENDMDL")
    both_ways = np.concatenate([bonds, bonds[:, ::-1]])
    lines += [f"CONECT{first + 1:5d}{second + 1:5d}" for first, second in sorted(both_ways.tolist())]
    return "\n".join([*lines, "END", ""])


def _pdb_head(serial: int, atom: Atom) -> str:
    name = (atom.name or atom.element or "X")[:4]
    # Columns 13 and 14 are the element's: a name starts one place later where its symbol has one letter.
    name = f"{name:<4}" if len(name) == 4 or len(atom.element) == 2 else f" {name:<3}"
    return f"ATOM  {serial:5d} {name} {(atom.residue or 'UNK')[:3]:>3} A{(atom.residue_number + 1) % 10_000:4d}    "
