"""A cell: one piece of work of a reproduction, such as the fit of a preset with one seed, and where it is kept."""

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

__all__ = ["Cell", "cell_of", "cells_of", "digest"]

Kind = Literal["fit", "refit", "extrapolation", "illustration"]


@dataclass(frozen=True)
class Cell:
    """One piece of work.

    Args:
        kind: `fit` is a run of a variant; `refit` a diffusion model fitted to the draws of one; `extrapolation` the
            ways to T = 0.1 on one target; `illustration` those from T = 2 and 1.5 on LJ-55.
        name: of the variant (`variants.py`), or of the target.
        budget: that a variant is scaled to; None leaves it as it is.
        is_quick: the small version of it: not the paper's settings.
    """

    kind: Kind
    name: str
    seed: int
    budget: int | None = None
    is_quick: bool = False

    @property
    def key(self) -> str:
        """What a record of it is found by."""
        at = "" if self.budget is None else f"@{self.budget}"
        return f"{self.kind}:{self.name}{at}/{self.seed}{'/quick' if self.is_quick else ''}"

    def folder(self, root: Path) -> Path:
        """Where its work is kept while it goes on and afterwards."""
        at = "" if self.budget is None else f"-{self.budget}"
        return root / ("quick" if self.is_quick else "full") / f"{self.kind}-{self.name}{at}-{self.seed}"


def cell_of(key: str) -> Cell:
    """The cell of a record's key."""
    what, seed, *quick = key.split("/")
    kind, _, rest = what.partition(":")
    name, _, budget = rest.partition("@")
    assert kind in ("fit", "refit", "extrapolation", "illustration")
    return Cell(kind, name, int(seed), int(budget) if budget else None, bool(quick))


def cells_of(kind: Kind, names: list[str], seeds: list[int], is_quick: bool, budget: int | None = None) -> list[Cell]:
    """The cells of several names, seed by seed: the first seed of all comes before the second of any."""
    return [Cell(kind, name, seed, budget, is_quick) for seed in seeds for name in names]


def digest(settings: Any) -> str:
    """A short checksum of settings: dataclasses, numbers, words, tuples and dictionaries of them.

    Fields that have their default are left out, so that a field which later versions add changes nothing.
    """
    return hashlib.sha256(json.dumps(_told(settings), sort_keys=True).encode()).hexdigest()[:12]


def _told(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: (getattr(value, field.name), field) for field in dataclasses.fields(value)}
        return {name: _told(own) for name, (own, field) in fields.items() if not _is_default(own, field)}
    if isinstance(value, dict):
        return {str(name): _told(own) for name, own in value.items()}
    if isinstance(value, list | tuple):
        return [_told(own) for own in value]
    return value


def _is_default(value: Any, field: dataclasses.Field) -> bool:
    if field.default is not dataclasses.MISSING:
        return value == field.default and type(value) is type(field.default)
    return field.default_factory is not dataclasses.MISSING and value == field.default_factory()
