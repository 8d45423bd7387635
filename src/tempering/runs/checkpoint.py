"""What a method has done so far, and where its finished parts are kept: a killed run goes on from the last one.

The protocol of a store, no files. A part is named by level and kind (pilot, buffer, model). A part that was kept is
never computed again; a part that was not is computed from the same key, so a resumed run ends bit for bit where an
undisturbed one does.
"""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import jax

from tempering.errors import RunFolderError
from tempering.runs.ledger import Ledger
from tempering.runs.records import LevelRecord
from tempering.runs.storage import arrays_of, tree_from

__all__ = ["Journal", "Nowhere", "Store"]


@runtime_checkable
class Store(Protocol):
    """Keeps parts: named arrays and a JSON-ready note, both or neither."""

    def load(self, level: int, part: str) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """The arrays and the note of a part, or None if it was not finished."""
        ...

    def save(self, level: int, part: str, arrays: dict[str, Any], note: dict[str, Any]) -> None:
        """Keep a finished part."""
        ...

    def log(self, entry: dict[str, Any]) -> None:
        """One line of statistics."""
        ...


class Nowhere:
    """The store of a run that lives in memory only."""

    def load(self, level: int, part: str) -> None:
        """Nothing was kept."""
        del level, part

    def save(self, level: int, part: str, arrays: dict[str, Any], note: dict[str, Any]) -> None:
        """Keep nothing."""

    def log(self, entry: dict[str, Any]) -> None:
        """Log nothing."""


class Journal:
    """The account of a run: the ledger, one record per level, and the store behind both."""

    def __init__(self, ledger: Ledger, store: Store):
        self.ledger = ledger
        self.store = store
        self.levels: dict[int, LevelRecord] = {}

    def find(self, level: int, name: str, like: Any) -> Any:
        """A kept part, with ledger and records set to what they were then; None if it was not kept.

        Args:
            like: a pytree of the part's structure; leaves may be `jax.ShapeDtypeStruct`s, whose dtypes are checked.

        Raises:
            RunFolderError: if the part has no account that this version reads, or is of another configuration.
        """
        kept = self.store.load(level, name)
        if kept is None:
            return None
        arrays, note = kept
        try:
            points, value_only = (dict(note["ledger"][kind]) for kind in ("points", "value_only"))
            products = dict(note["ledger"].get("hessian_vector", {}))
            levels = {record["level"]: LevelRecord.from_dict(record) for record in note["levels"]}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise RunFolderError(
                f"the kept {name} of level {level} has no account that this version reads; delete it and resume"
            ) from error
        self.ledger.points, self.ledger.value_only, self.levels = points, value_only, levels
        self.ledger.hessian_vector = products
        return tree_from(like, arrays, check_shapes=False)

    def keep(self, level: int, name: str, tree: Any) -> None:
        """Keep a finished part with the account as it is now."""
        tree = jax.block_until_ready(tree)
        note = {"ledger": self.ledger.as_dict(), "levels": [record.as_dict() for record in self.ordered()]}
        self.store.save(level, name, arrays_of(tree), note)
        record = self.levels.get(level)
        entry = {"event": "part", "level": level, "part": name, "evaluations": self.ledger.total}
        self.store.log(entry | ({"record": record.as_dict()} if record else {}))

    def part(self, level: int, name: str, like: Any, compute: Callable[[], Any]) -> Any:
        """A kept part, or the computed one, which is then kept."""
        found = self.find(level, name, like)
        if found is None:
            found = compute()
            self.keep(level, name, found)
        return found

    def ordered(self) -> list[LevelRecord]:
        """The records, hottest first."""
        return [self.levels[level] for level in sorted(self.levels)]
