"""Molecules in files: `NAME.npz` with the numbers and `NAME.json` with the texts, read without OpenMM, never pickle."""

from pathlib import Path
from typing import Any

from tempering.errors import RunFolderError, what_is
from tempering.molecules.system.bonded import BONDED
from tempering.molecules.system.pairwise import PAIRWISE
from tempering.molecules.system.record import MoleculeRecord
from tempering.molecules.target import MoleculeTarget
from tempering.runs.storage import as_path, read_arrays, read_json, write_arrays, write_json

__all__ = ["load_molecule", "save_molecule"]

_FORMAT = "tempering molecule 1"


def save_molecule(target: Any, path: Any, *, source: str = "") -> None:
    """Write a molecule to `path`.npz and `path`.json.

    Args:
        target: a MoleculeTarget.
        path: where, without the ending.
        source: what it was made from, for the reader of the JSON file.

    Raises:
        RunFolderError: if they cannot be written, or the target is no MoleculeTarget.
    """
    if not isinstance(target, MoleculeTarget):
        raise RunFolderError(
            f"{what_is(target)} cannot be exported: only molecules that JAX evaluates can, not callbacks"
        )
    place = as_path(path, "path")
    arrays, content = target.record.as_plain()
    write_arrays(Path(f"{place}.npz"), arrays)
    walls = [list(wall) for wall in target.walls]
    about = {"format": _FORMAT, "name": target.name, "temperature": target.temperature, "walls": walls}
    write_json(Path(f"{place}.json"), {**about, "source": source, "digest": target.record.digest, **content})


def load_molecule(path: Any, *, temperature: float | None = None) -> MoleculeTarget:
    """The molecule that `save_molecule` wrote; OpenMM need not be installed.

    Args:
        path: without the ending.
        temperature: kelvin; None takes that of the file.

    Raises:
        RunFolderError: if a file is missing, damaged, of another version, or the two do not belong together.
    """
    place = as_path(path, "path")
    arrays, content = read_arrays(Path(f"{place}.npz")), read_json(Path(f"{place}.json"))
    if content.get("format") != _FORMAT:
        raise RunFolderError(f"{place}.json has format {content.get('format')!r}, not {_FORMAT!r}; export it again")
    unknown = {term["kind"] for term in content["terms"]} - {*BONDED, *PAIRWISE}
    if unknown:
        raise RunFolderError(
            f"{place}.json has terms of an unknown kind, {', '.join(sorted(unknown))}; update tempering"
        )
    try:
        record = MoleculeRecord.from_plain(arrays, content)
        is_whole = record.digest == content["digest"]
    except (KeyError, TypeError, ValueError):
        is_whole = False
    if not is_whole:
        raise RunFolderError(f"{place}.npz and {place}.json do not belong together; copy both, or export it again")
    walls = tuple(tuple(wall) for wall in content["walls"])
    kelvin = content["temperature"] if temperature is None else temperature
    return MoleculeTarget(record, kelvin, name=content["name"], walls=walls)
