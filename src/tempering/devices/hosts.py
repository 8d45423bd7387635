"""Several processes in one fit (`jax.distributed`): the first writes and shows, the others follow.

Every process runs the same program on the same numbers. What only the first one knows, such as the parts of a run that
is resumed, it tells the others.
"""

import io
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import jax
import numpy as np

from tempering.errors import RunFolderError, SettingsError

__all__ = ["agreed", "followed_store", "is_first", "num_processes", "refuse_on_several"]


def num_processes() -> int:
    """Processes that have joined; 1 without `jax.distributed`."""
    return jax.process_count()


def is_first() -> bool:
    """Whether this process writes and shows."""
    return jax.process_index() == 0


def refuse_on_several(**refused: str | None) -> None:
    """Refuse arguments that several processes cannot agree on, with the reason for each that is given.

    Raises:
        SettingsError: what was given, and what to do.
    """
    if num_processes() == 1:
        return
    for name, reason in refused.items():
        if reason is not None:
            raise SettingsError(f"{name} does not go together with {num_processes()} joined processes: {reason}")


def told(content: bytes | None) -> bytes:
    """What the first process says, in all processes. The others give None."""
    from jax.experimental import multihost_utils

    own = np.frombuffer(content or b"", np.uint8)
    size = int(multihost_utils.broadcast_one_to_all(np.asarray(own.size, np.int32)))
    # As whole words: not every way between hosts carries bytes.
    words = np.zeros(-(-size // 4) * 4, np.uint8)
    if is_first():
        words[:size] = own
    if size:
        words = np.array(multihost_utils.broadcast_one_to_all(words.view(np.int32)), np.int32).view(np.uint8)
    return words[:size].tobytes()


class Told:
    """The store of the first process: what it loads, it tells the others."""

    def __init__(self, store: Any):
        self._store = store

    def load(self, level: int, part: str) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """A part of the store, in all processes."""
        with _told_errors():
            found = self._store.load(level, part)
        told(_packed(found))
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class Following:
    """The store of the other processes: parts come from the first one, and nothing is written."""

    def load(self, level: int, part: str) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """What the first process found."""
        del level, part
        return _unpacked(heard())

    def save(self, level: int, part: str, arrays: dict[str, Any], note: dict[str, Any]) -> None:
        """Keep nothing."""

    def log(self, entry: dict[str, Any]) -> None:
        """Log nothing."""


@contextmanager
def _told_errors() -> Iterator[None]:
    """What is raised in the first process is told to the others, which would wait for ever."""
    try:
        yield
    except BaseException as error:
        told(json.dumps({"error": str(error)}).encode())
        raise


def heard() -> dict[str, Any]:
    """The next message of the first process.

    Raises:
        RunFolderError: if something went wrong there.
    """
    content = told(None)
    head, _, body = content.partition(b"\n")
    message = json.loads(head)
    if "error" in message:
        raise RunFolderError(f"the first process stopped: {message['error']}")
    return {**message, "body": body}


def _packed(found: tuple[dict[str, Any], dict[str, Any]] | None) -> bytes:
    if found is None:
        return json.dumps({"found": False}).encode() + b"\n"
    file = io.BytesIO()
    named: dict[str, Any] = {f"array-{index}": np.asarray(array) for index, array in enumerate(found[0].values())}
    np.savez(file, **named)
    head = {"found": True, "names": list(found[0]), "note": found[1]}
    return json.dumps(head).encode() + b"\n" + file.getvalue()


def _unpacked(message: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]] | None:
    if not message["found"]:
        return None
    with np.load(io.BytesIO(message["body"]), allow_pickle=False) as archive:
        arrays = {name: archive[f"array-{index}"] for index, name in enumerate(message["names"])}
    return arrays, message["note"]


def agreed(value: bool) -> bool:
    """What the first process says, in all processes."""
    if num_processes() == 1:
        return value
    return told(json.dumps(value).encode() if is_first() else None) == b"true"


@contextmanager
def followed_store(opened: Callable[[], AbstractContextManager[Any]]) -> Iterator[Any]:
    """The store of this process, from the function that opens that of the first one.

    Args:
        opened: makes the context manager of the store; called in the first process alone.
    """
    if num_processes() == 1:
        with opened() as store:
            yield store
        return
    if not is_first():
        heard()
        yield Following()
        return
    with _told_errors():
        context = opened()
    with context as store:
        told(json.dumps({"open": True}).encode())
        yield Told(store)
