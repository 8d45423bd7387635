"""What an OpenMM system comes to: plain arrays and texts, one term for each force, without OpenMM.

A record is immutable by convention and compared by its content, so that it can be a static part of a target: compiled
programs hold its numbers as constants, in whatever precision they run in. Lengths are nm, energies kJ/mol, angles
radians, masses dalton, charges elementary charges.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tempering.molecules.system.expressions import Expression, parse
from tempering.molecules.system.tables import Table

__all__ = ["Atom", "MoleculeRecord", "Term"]


@dataclass(frozen=True, eq=False)
class Term:
    """One part of the energy.

    Args:
        kind: which formula; the keys of `terms.TERMS`.
        arrays: its numbers, float64 or integer.
        settings: its texts and lists, such as expressions and names of parameters; JSON-ready.
        tables: tabulated functions of its expressions.
    """

    kind: str
    arrays: Mapping[str, np.ndarray]
    settings: Mapping[str, Any] = field(default_factory=dict)
    tables: Mapping[str, Table] = field(default_factory=dict)

    def parse(self, text: str) -> Expression:
        """One of its expressions."""
        return parse(text, {name: table.arity for name, table in self.tables.items()})


@dataclass(frozen=True)
class Atom:
    """Who an atom is, as the topology says; empty texts where there is none."""

    name: str = ""
    element: str = ""
    residue: str = ""
    residue_number: int = 0


@dataclass(frozen=True, eq=False)
class MoleculeRecord:
    """A molecule: its atoms, its bonds and the terms of its energy.

    Args:
        masses: of the atoms, dalton.
        atoms: who they are.
        bonds: pairs of atoms that the topology joins, (bond, 2).
        positions: a conformation to start from, (atom, 3), nm.
        terms: the energy is their sum.
    """

    masses: np.ndarray
    atoms: tuple[Atom, ...]
    bonds: np.ndarray
    positions: np.ndarray
    terms: tuple[Term, ...]

    @property
    def num_atoms(self) -> int:
        """How many atoms."""
        return len(self.masses)

    @cached_property
    def is_translation_invariant(self) -> bool:
        """Whether moving the whole molecule leaves its energy alone: no term asks for coordinates themselves."""
        return not any(term.kind == "custom_external" or _asks_for_places(term) for term in self.terms)

    @cached_property
    def digest(self) -> str:
        """A hash of everything in it."""
        arrays, content = self.as_plain()
        digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
        for name in sorted(arrays):
            digest.update(f"{name}{arrays[name].dtype}{arrays[name].shape}".encode())
            digest.update(np.ascontiguousarray(arrays[name]).tobytes())
        return digest.hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MoleculeRecord) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def as_plain(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Named arrays and a JSON-ready object; `from_plain` restores the record."""
        arrays: dict[str, np.ndarray] = {"masses": self.masses, "bonds": self.bonds, "positions": self.positions}
        content: list[dict[str, Any]] = []
        for place, term in enumerate(self.terms):
            arrays |= {f"terms/{place}/{name}": array for name, array in term.arrays.items()}
            for name, table in term.tables.items():
                arrays |= {f"tables/{place}/{name}/{part}": array for part, array in table.arrays.items()}
            kinds = {name: table.kind for name, table in term.tables.items()}
            content.append({"kind": term.kind, "settings": dict(term.settings), "tables": kinds})
        atoms = [[atom.name, atom.element, atom.residue, atom.residue_number] for atom in self.atoms]
        return arrays, {"atoms": atoms, "terms": content}

    @classmethod
    def from_plain(cls, arrays: Mapping[str, np.ndarray], content: Mapping[str, Any]) -> "MoleculeRecord":
        """The record that `as_plain` described."""
        terms = []
        for place, term in enumerate(content["terms"]):
            tables = {
                name: Table(kind, _below(arrays, f"tables/{place}/{name}/")) for name, kind in term["tables"].items()
            }
            terms.append(Term(term["kind"], _below(arrays, f"terms/{place}/"), term["settings"], tables))
        atoms = tuple(Atom(*entry) for entry in content["atoms"])
        return cls(arrays["masses"], atoms, arrays["bonds"], arrays["positions"], tuple(terms))


def _asks_for_places(term: Term) -> bool:
    if term.kind != "generalised_born":
        return False
    values = [entry[1] for entry in term.settings["values"] if entry[2] == "single"]
    energies = [entry[0] for entry in term.settings["energies"] if entry[1] == "single"]
    return any(term.parse(text).variables & set("xyz") for text in values + energies)


def _below(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
