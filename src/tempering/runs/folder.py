"""A run's folder: what is written where, one process at a time, and nothing half.

config.json         the expanded configuration            levels/NN/buffer.npz   samples of a level and the one before
environment.json    versions, devices, platform           levels/NN/model.npz    their denoisers
stats.jsonl         one line for each event               sampler.{json,npz}     the trained sampler
progress.json       where a run is that goes on
result.json         account, quality, floors              figures/, report.html  pictures and tables
"""

import json
import os
import platform
import time
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from tempering.errors import RunFolderError
from tempering.runs.config import RunConfig, config_from_dict, config_to_dict
from tempering.runs.progress import read_entries
from tempering.runs.storage import as_path, read_arrays, read_json, write_arrays, write_json

if TYPE_CHECKING:
    from filelock import FileLock

__all__ = ["RunFolder", "environment", "is_in_use", "locked", "read_config_of"]

_FORMAT = "tempering run 2"
_NOTE = "note.json"


def read_config_of(path: Path) -> Any:
    """The configuration in a folder as it is written there.

    Raises:
        RunFolderError: if another version wrote it.
    """
    content = read_json(path / "config.json")
    if content.get("format") != _FORMAT:
        raise RunFolderError(
            f"{path} was made by another version: it has format {content.get('format')!r}, and this version reads "
            f"{_FORMAT!r}; fit it again, or use that version"
        )
    return content.get("config")


def environment() -> dict[str, Any]:
    """Versions, devices and platform: what a figure depends on besides its seed."""
    packages = ("tempering", "jax", "jaxlib", "equinox", "optax", "numpy", "scipy")
    versions = {}
    for package in packages:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = None
    return {
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "num_cores": os.cpu_count(),
        "devices": [device.device_kind for device in jax.devices()],
        "versions": versions,
    }


class RunFolder:
    """The store of a run. Holds a lock while open, so that two processes cannot share a folder."""

    def __init__(self, path: Path, lock: "FileLock", config: RunConfig):
        self.path, self.config = path, config
        self._held = lock
        self._started = time.monotonic()

    @classmethod
    def create(cls, path: str | Path, config: RunConfig) -> "RunFolder":
        """A new folder for `config`. An existing folder is taken only if it is empty.

        Raises:
            RunFolderError: if the folder holds anything, is in use, or cannot be made.
        """
        path = as_path(path)
        if path.exists() and not path.is_dir():
            raise RunFolderError(f"{path} is a file; choose a folder for the run")
        _require_empty(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunFolderError(f"cannot make {path}: {error.strerror}; choose a folder you may write to") from error
        folder = cls(path, _lock(path), config)
        try:
            _require_empty(path)  # again: another process may have come and gone before the lock was ours
            _sweep(path)
            write_json(path / "config.json", {"format": _FORMAT, "config": config_to_dict(config)})
            write_json(path / "environment.json", environment())
            folder.log({"event": "start"})
        except BaseException:
            folder.close()
            raise
        return folder

    @classmethod
    def open(cls, path: str | Path) -> "RunFolder":
        """An existing run's folder, to go on with it or to read it.

        Raises:
            RunFolderError: if it is missing, foreign, damaged or in use.
        """
        path = as_path(path)
        if not path.is_dir():
            raise RunFolderError(f"{path} is not a folder; give the folder of a run")
        if not (path / "config.json").exists():
            raise RunFolderError(f"{path} holds no config.json; give the folder of a run, the one after --out or out=")
        config = cls.read_config(path)
        lock = _lock(path)
        _sweep(path)
        return cls(path, lock, config)

    @staticmethod
    def read_config(path: Path) -> RunConfig:
        """The configuration in the folder, without taking the lock."""
        return config_from_dict(read_config_of(as_path(path)))

    def mend(self) -> None:
        """Write what is missing where a run was killed between its configuration and its first part."""
        if not (self.path / "environment.json").exists():
            write_json(self.path / "environment.json", environment())

    def close(self) -> None:
        """Release the lock."""
        self._held.release()

    def __enter__(self) -> "RunFolder":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def _place(self, level: int, part: str) -> Path:
        return self.path / "levels" / f"{level:02d}" / f"{part}.npz"

    def load(self, level: int, part: str) -> tuple[dict[str, np.ndarray], dict[str, Any]] | None:
        """A finished part, or None."""
        place = self._place(level, part)
        if not place.exists():
            return None
        arrays = read_arrays(place)
        try:
            note = json.loads(str(arrays.pop(_NOTE)))
        except (KeyError, ValueError) as error:
            raise RunFolderError(f"{place} is not a part of a run; delete it and resume") from error
        return arrays, note

    def save(self, level: int, part: str, arrays: dict[str, np.ndarray], note: dict[str, Any]) -> None:
        """Arrays and note in one file, so that a kill leaves both or neither."""
        write_arrays(self._place(level, part), {**arrays, _NOTE: np.array(json.dumps(note))})

    def log(self, entry: dict[str, Any]) -> None:
        """Append a line to stats.jsonl with the seconds since this process opened the folder.

        Raises:
            RunFolderError: if the disk is full or the file cannot be written; what is finished stays finished.
        """
        line = json.dumps({"seconds": round(time.monotonic() - self._started, 3), **entry})
        place = self.path / "stats.jsonl"
        try:
            with open(place, "ab+") as file:
                end = file.seek(0, os.SEEK_END)
                file.seek(max(end - 1, 0))
                # A line cut short by a kill or a full disk must not be joined by the next one.
                is_whole = file.read(1) in (b"", b"\n")
                file.write((b"" if is_whole else b"\n") + line.encode() + b"\n")
        except OSError as error:
            raise RunFolderError(
                f"could not write {place}: {error.strerror or error}; free space and resume: finished parts are kept"
            ) from error

    def seconds(self) -> dict[str, float | None]:
        """Wall time over all processes that worked on the folder, until the fit was done and until now.

        Each process counts from 0, beginning with a start or resume line. A line that is cut short or damaged is
        skipped: times are all that is lost with it.
        """
        total, last, fitted = 0.0, 0.0, None
        for entry in read_entries(self.path):
            if entry.get("event") in ("start", "resume"):
                total, last = total + last, 0.0
            last = max(last, entry["seconds"])
            if entry.get("event") == "fitted":
                fitted = round(total + last, 3)
        return {"fit_seconds": fitted, "wall_seconds": round(total + last, 3)}


def _require_empty(path: Path) -> None:
    if path.is_dir() and not all(_is_leftover(entry.name) for entry in path.iterdir()):
        remedy = "`tempering resume` goes on with it" if (path / "config.json").exists() else "it is not a run's"
        raise RunFolderError(f"{path} is not empty ({remedy}); choose another folder, nothing is overwritten")


def _is_leftover(name: str) -> bool:
    """What a process leaves in a new folder when it is killed before the configuration is written."""
    return name == ".lock" or (name.startswith(".config.json.") and name.endswith(".tmp"))


def _sweep(path: Path) -> None:
    """Delete halves of files that killed processes left: they would fill the disk. Whoever holds the lock owns them.

    Not those of figures and report, which are written without the lock.
    """
    for place in (path, *path.glob("levels/*")):
        for left in place.glob(".*.tmp"):
            name, _, number = left.name[1 : -len(".tmp")].rpartition(".")
            if number.isdigit() and Path(name).suffix in (".npz", ".json"):
                with suppress(OSError):
                    left.unlink()


def is_in_use(path: Path) -> bool:
    """Whether a process is working on the folder now; False where that cannot be found out."""
    if not (path / ".lock").exists():
        return False
    try:
        from filelock import FileLock, Timeout
    except ImportError:
        return False
    lock = FileLock(path / ".lock", thread_local=False, fallback_to_soft=False)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        return True
    except OSError:
        return False
    lock.release()
    return False


def _lock(path: Path) -> "FileLock":
    return locked(path / ".lock", str(path))


def locked(file: Path, what: str) -> "FileLock":
    """An exclusive lock, held until it is released, that the system drops with the process, however it ends.

    A disk that cannot be locked is refused: the substitute, a file that marks the folder as taken, outlives a killed
    process.

    Raises:
        RunFolderError: if another process has it, or the disk cannot lock.
    """
    try:
        from filelock import FileLock, Timeout  # here: fits without a folder need none
    except ImportError as error:
        raise RunFolderError(
            "folders of runs need filelock, which is not installed: pip install filelock, or fit without a folder"
        ) from error
    lock = FileLock(file, thread_local=False, fallback_to_soft=False)
    try:
        lock.acquire(blocking=False)
    except Timeout as error:
        raise RunFolderError(f"{what} is in use by another process; wait for it or choose another folder") from error
    except OSError as error:
        reason = error.strerror or error
        raise RunFolderError(
            f"cannot write in {file.parent} or lock it: {reason}; choose a folder you may write to, on a disk with "
            "locks"
        ) from error
    return lock
