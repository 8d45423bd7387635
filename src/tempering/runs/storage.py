"""Files that are whole or absent: atomic writes, arrays and JSON that carry their own checksum, never pickle.

A file is written beside its place, flushed to disk and renamed, so a kill at any moment leaves the old file or the new.
"""

import hashlib
import io
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import jax
import numpy as np

from tempering.errors import RunFolderError, what_is

__all__ = [
    "arrays_of",
    "as_path",
    "read_arrays",
    "read_json",
    "replacing",
    "tree_from",
    "write_arrays",
    "write_bytes",
    "write_json",
]

_NOT_WHOLE = "the folder is not one of a run, a sampler or a reference, or not whole; give another, or restore the file"
_CHECKSUM = "sha256"


def as_path(given: Any, what: str = "folder") -> Path:
    """A path that the file system can be asked about.

    Raises:
        RunFolderError: for anything but a string or a path, or one with a NUL character or too long a name.
    """
    if not isinstance(given, str | os.PathLike) or isinstance(os.fspath(given), bytes):
        raise RunFolderError(f"{what} is {what_is(given)}; give a path, as a string or a pathlib.Path")
    path, shortened = Path(given), repr(str(given)[:60])
    if "\0" in str(path):
        raise RunFolderError(f"{what} {shortened} is not a path: it holds a NUL character; choose another name")
    try:
        path.exists()
    except OSError as error:
        raise RunFolderError(f"{what} {shortened}… is not a path: {error.strerror}; choose another name") from error
    return path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary file beside `path` to write to; it takes the name when the block ends well and is gone otherwise.

    Raises:
        RunFolderError: if the disk is full, the folder cannot be written, or is gone: nothing has changed then.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except BaseException as error:
        with suppress(OSError):  # the folder itself may be what is wrong
            temporary.unlink()
        if not isinstance(error, OSError):
            raise
        raise RunFolderError(
            f"could not write {path}: {error.strerror or error}; free space or choose another folder"
        ) from error


def _sync_folder(folder: Path) -> None:
    """Have the new name on disk as well: a power cut must not take back a file that others already rest on."""
    with suppress(OSError):  # some file systems cannot; the file itself is safe
        place = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(place)
        finally:
            os.close(place)


def write_bytes(path: Path, data: bytes) -> None:
    """Write atomically: temporary file in the same folder, fsync, rename."""
    with replacing(path) as temporary, open(temporary, "wb") as file:
        file.write(data)


def _digest_of_arrays(arrays: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name}|{array.dtype.str}|{array.shape}|".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def write_arrays(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Named arrays as an npz with a checksum inside."""
    plain = {name: np.asarray(array) for name, array in arrays.items()}
    objects = [name for name, array in plain.items() if array.dtype.hasobject]
    if objects:  # NumPy would pickle them
        raise TypeError(f"arrays of Python objects cannot be stored: {', '.join(objects)}")
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, **plain, **{_CHECKSUM: np.array(_digest_of_arrays(plain))})
    write_bytes(path, stream.getvalue())


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of `write_arrays`.

    Raises:
        RunFolderError: if the file is missing, truncated, altered or not ours.
    """
    if not path.is_file():
        raise RunFolderError(f"{path} is missing: {_NOT_WHOLE}")
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except Exception as error:  # damaged bytes make the readers of zip and npy raise anything, RuntimeError included
        raise RunFolderError(f"{path} is damaged ({error}); {_remedy(path)}") from error
    stored = arrays.pop(_CHECKSUM, None)
    if stored is None:
        raise RunFolderError(f"{path} carries no checksum: it was not written by tempering; give another folder")
    if str(stored) != _digest_of_arrays(arrays):
        raise RunFolderError(f"{path} is damaged (checksum differs); {_remedy(path)}")
    return arrays


def _remedy(path: Path) -> str:
    """What can be made again is deleted; the configuration cannot."""
    return "restore it from a copy" + ("" if path.name == "config.json" else " or delete it and resume")


def _digest_of_json(content: dict) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def write_json(path: Path, content: dict[str, Any]) -> None:
    """A readable JSON object with a checksum entry. NaN and infinities are refused: they are not JSON."""
    plain = json.loads(json.dumps(content, allow_nan=False))
    text = json.dumps({**plain, _CHECKSUM: _digest_of_json(plain)}, indent=2, allow_nan=False)
    write_bytes(path, (text + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    """The object of `write_json`.

    Raises:
        RunFolderError: if the file is missing, not JSON, altered or not ours.
    """
    if not path.is_file():
        raise RunFolderError(f"{path} is missing: {_NOT_WHOLE}")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise RunFolderError(f"{path} is damaged ({error}); {_remedy(path)}") from error
    if not isinstance(content, dict) or _CHECKSUM not in content:
        raise RunFolderError(f"{path} carries no checksum: it was not written by tempering; give another folder")
    stored = content.pop(_CHECKSUM)
    if stored != _digest_of_json(content):
        raise RunFolderError(f"{path} was altered (checksum differs); {_remedy(path)}")
    return content


def arrays_of(tree: Any) -> dict[str, np.ndarray]:
    """The array leaves of a pytree by path, e.g. `network/layers/0/weight`."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {_name(path): np.asarray(leaf) for path, leaf in leaves if hasattr(leaf, "shape")}


def tree_from(like: Any, arrays: dict[str, np.ndarray], *, check_shapes: bool = True) -> Any:
    """The pytree of `like`'s structure with the stored arrays in its leaves."""

    def restore(path, leaf):
        if not hasattr(leaf, "shape"):
            return leaf
        name = _name(path)
        if name not in arrays:
            raise RunFolderError(f"the stored arrays lack {name!r}; they belong to another configuration or version")
        stored = arrays[name]
        if stored.dtype != leaf.dtype or (check_shapes and stored.shape != leaf.shape):
            raise RunFolderError(
                f"stored array {name!r} has shape {stored.shape} and dtype {stored.dtype}, but {leaf.shape} and "
                f"{leaf.dtype} were expected; it belongs to another configuration or version"
            )
        return jax.numpy.asarray(stored)

    return jax.tree_util.tree_map_with_path(restore, like)


def _name(path) -> str:
    parts = (getattr(entry, "name", getattr(entry, "idx", getattr(entry, "key", entry))) for entry in path)
    return "/".join(str(part) for part in parts)
