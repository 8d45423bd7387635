"""The store of points: every value that was paid for, in a file that only grows. Nothing in it is ever executed.

points.bin begins with a line of JSON: format, dimension, the density's fingerprint. Records of one size follow, each
with its own checksum: the point, log density, gradient where there is one, seconds, worker, tries and outcome. Every
record is handed to the system as its value arrives, and to the disk once a second: a killed process loses nothing, a
power cut a second. A record that is cut short is dropped and written over; a damaged one is skipped.
"""

import hashlib
import json
import os
import time
import zlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tempering.errors import RunFolderError
from tempering.runs.folder import locked
from tempering.runs.storage import as_path

__all__ = ["OUTCOMES", "POINTS", "PointStore", "Stored", "has_points", "read_points"]

POINTS = "points.bin"
_FORMAT = "tempering points 1"
_HEADER = 512
"""Bytes of the first line, padded with blanks, so that records have fixed places."""
_SYNC = 1.0
OUTCOMES = ("answered", "raised", "timeout", "nan", "died")
KINDS = ("value", "gradient", "both")
_OPEN: set[Path] = set()
"""Stores that this process has opened; the lock decides, this tells who holds it."""


def _record(dim: int, has_gradient: bool) -> np.dtype:
    fields: list[Any] = [("check", "<u4"), ("kind", "u1"), ("outcome", "u1"), ("tries", "u1"), ("spare", "u1")]
    fields += [("seconds", "<f8"), ("time", "<f8"), ("worker", "S40"), ("value", "<f8"), ("x", "<f8", (dim,))]
    return np.dtype(fields + ([("gradient", "<f8", (dim,))] if has_gradient else []))


@dataclass(frozen=True)
class Stored:
    """What a store holds.

    Args:
        records: whole ones, in the order of their arrival, as a structured array.
        num_damaged: records whose checksum is wrong; they are left out.
        num_torn: bytes of a last record that was cut short.
    """

    path: Path
    dim: int
    records: np.ndarray
    num_damaged: int
    num_torn: int

    @property
    def is_answered(self) -> np.ndarray:
        """Which records are values, not failures."""
        return self.records["outcome"] == 0

    def columns(self) -> dict[str, np.ndarray]:
        """One column a number, for other programs."""
        held, names = self.records, self.records.dtype.names or ()
        columns = {f"x[{i}]": held["x"][:, i] for i in range(self.dim)} | {"log_density": held["value"]}
        if "gradient" in names:
            columns |= {f"gradient[{i}]": held["gradient"][:, i] for i in range(self.dim)}
        columns |= {"seconds": held["seconds"], "time": held["time"], "tries": held["tries"]}
        for name, words in (("kind", KINDS), ("outcome", OUTCOMES)):
            columns[name] = np.asarray(words)[np.minimum(held[name], len(words) - 1)]
        return columns | {"worker": held["worker"].astype(str)}


def has_points(folder: Path) -> bool:
    """Whether a folder holds a store."""
    return (folder / POINTS).is_file()


def read_points(folder: str | Path) -> Stored:
    """All that a store holds; nothing is locked or changed.

    Raises:
        RunFolderError: if there is none, or it was made by another version.
    """
    place = as_path(folder) / POINTS
    if not place.is_file():
        raise RunFolderError(
            f"{place.parent} holds no {POINTS}; points are kept by a fit with `out=` or `store=` of a density that is "
            "a Python function"
        )
    head = _read_header(place)
    kind = _record(head["dim"], head["has_gradient"])
    size = place.stat().st_size - _HEADER
    num = max(0, size) // kind.itemsize
    raw = np.fromfile(place, kind, num, offset=_HEADER)
    is_whole = np.fromiter((_check(record) == record["check"] for record in raw), bool, num)
    torn = max(0, size) - num * kind.itemsize
    return Stored(place, head["dim"], raw[is_whole], int(num - is_whole.sum()), torn)


def _is_cut_header(place: Path) -> bool:
    """Whether a kill came while the first line was written. A short file of somebody else's is none of it."""
    begin = json.dumps({"format": _FORMAT})[:-1].encode()
    with open(place, "rb") as file:
        found = file.read(_HEADER)
    return len(found) < _HEADER and found[: len(begin)] == begin[: len(found)]


def _check(record: np.void) -> int:
    return zlib.crc32(record.tobytes()[4:])


def _read_header(place: Path) -> dict[str, Any]:
    with open(place, "rb") as file:
        line = file.read(_HEADER)
    try:
        head = json.loads(line)
        found = str(head["format"])
        if found == _FORMAT:
            return {"dim": int(head["dim"]), "has_gradient": bool(head["has_gradient"]), "density": head["density"]}
    except (ValueError, KeyError, TypeError) as error:
        raise RunFolderError(f"{place} is not a store of points, or its first line is damaged; move it away") from error
    raise RunFolderError(
        f"{place} was made by another version: it has format {found!r}, and this version reads {_FORMAT!r}; choose "
        "another place, or use that version"
    )


class PointStore:
    """A store that is open for one run; the lock keeps others out.

    Points of earlier processes can be asked for. They take 16 bytes of memory each; points of this one take none.
    """

    def __init__(self, folder: str | Path, dim: int, density: str, has_gradient: bool):
        """Open the store of a folder, or make it.

        Raises:
            RunFolderError: if it is of another density or version, in use by another run, or cannot be written.
        """
        self.folder = as_path(folder, "store")
        self.place, self.kind = self.folder / POINTS, _record(dim, has_gradient)
        if self.folder.is_file():
            raise RunFolderError(f"store = {self.folder} is a file; give a folder")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunFolderError(f"cannot make {self.folder}: {error.strerror}; choose another `store=`") from error
        try:
            self._lock = locked(self.folder / ".points.lock", f"the store of points in {self.folder}")
        except RunFolderError as error:
            if self.place.resolve() not in _OPEN:
                raise
            raise RunFolderError(
                f"the store of points in {self.folder} is in use by another target of this program; close that one by "
                "`target.close()`, or choose another folder"
            ) from error
        try:
            self._open({"format": _FORMAT, "dim": dim, "density": density, "has_gradient": has_gradient})
        except BaseException:
            self._lock.release()
            raise
        _OPEN.add(self.place.resolve())

    def _open(self, head: dict[str, Any]) -> None:
        # A header that is shorter than it should be was cut by a kill: nothing can follow it.
        if self.place.exists() and not _is_cut_header(self.place):
            found = _read_header(self.place)
            if {name: head[name] for name in found} != found:
                raise RunFolderError(
                    f"{self.folder} holds points of another density: its function, the data in it, the dimension or "
                    "the kind of gradient is not the same; choose another `store=` or `out=`, or restore the function"
                )
        else:
            self.place.write_bytes(json.dumps(head).ljust(_HEADER - 1).encode() + b"\n")
        num, torn = divmod(self.place.stat().st_size - _HEADER, self.kind.itemsize)
        self._file = open(self.place, "r+b", buffering=0)
        self._file.truncate(_HEADER + num * self.kind.itemsize)
        self._file.seek(0, os.SEEK_END)
        self._synced = time.monotonic()
        self._index(num)
        self.num_dropped += torn > 0

    def _index(self, num: int) -> None:
        """Hashes of the points that may be replayed, in order, and the place of each; the points stay on disk."""
        self._old = np.memmap(self.place, self.kind, "r", _HEADER, (num,)) if num else np.zeros(0, self.kind)
        hashes, places, seconds = np.zeros(num, np.int64), np.zeros(num, np.int64), 0.0
        self.num_dropped, self.num_before, kept = 0, 0, 0
        self.rejected: Counter = Counter()
        for place in range(num):
            record = self._old[place]
            if _check(record) != record["check"]:
                self.num_dropped += 1
                continue
            self.num_before += 1
            seconds += float(record["seconds"])
            # A failure that ended a run has no value, and is tried again.
            if record["outcome"] and not np.isnan(record["value"]):
                self.rejected[OUTCOMES[min(int(record["outcome"]), len(OUTCOMES) - 1)]] += 1
            if record["outcome"] == 0 or not np.isnan(record["value"]):
                hashes[kept], places[kept] = _hash(int(record["kind"]), record["x"]), place
                kept += 1
        order = np.argsort(hashes[:kept], kind="stable")
        self._hashes, self._places = hashes[order], places[order]
        self.mean_seconds = seconds / self.num_before if self.num_before else None

    def find(self, kind: str, x: np.ndarray) -> tuple[float, np.ndarray | None] | None:
        """Value and gradient of a point that an earlier process paid for, or None."""
        record = self.record(kind, x, rejects=True)
        if record is None:
            return None
        gradient = np.array(record["gradient"]) if "gradient" in (self.kind.names or ()) else None
        return float(record["value"]), gradient

    def record(self, kind: str, x: np.ndarray, *, rejects: bool) -> Any:
        """What the store has of a point that an earlier process paid for, or None.

        Args:
            rejects: whether the run rejects points that fail: a rejected one is then an answer, and NaN is none. A run
                that stops at such points wants to know of them itself, and takes NaN as it is.
        """
        if not len(self._hashes):
            return None
        number = KINDS.index(kind)
        key = _hash(number, x)
        for place in range(*(int(np.searchsorted(self._hashes, key, side)) for side in ("left", "right"))):
            record = self._old[self._places[place]]
            if int(record["kind"]) == number and record["x"].tobytes() == x.tobytes():
                is_nan = bool(np.isnan(record["value"]))
                is_answer = (kind == "gradient" or not is_nan or not rejects) if record["outcome"] == 0 else rejects
                if is_answer:
                    return record
        return None

    def add(
        self,
        kind: str,
        x: np.ndarray,
        values: np.ndarray | float,
        gradients: np.ndarray | None = None,
        *,
        seconds: float,
        worker: str,
        tries: int = 1,
        outcome: str = "answered",
    ) -> None:
        """Write points (n, dim) that have just arrived together, in one piece.

        Args:
            seconds: of each of them.

        Raises:
            RunFolderError: if the disk is full; what is written stays written.
        """
        records = np.zeros(len(x), self.kind)
        records["kind"], records["outcome"] = KINDS.index(kind), OUTCOMES.index(outcome)
        records["tries"], records["seconds"], records["time"] = min(tries, 255), seconds, time.time()
        records["worker"], records["value"], records["x"] = worker.encode()[:40], values, x
        if gradients is not None:
            records["gradient"] = gradients
        for record in records:
            record["check"] = _check(record)
        try:
            self._append(records.tobytes())
            if time.monotonic() - self._synced > _SYNC:
                os.fsync(self._file.fileno())
                self._synced = time.monotonic()
        except OSError as error:
            raise RunFolderError(
                f"could not write {self.place}: {error.strerror or error}; free space and make the same call again: "
                "all points before this one are kept"
            ) from error

    def _append(self, content: bytes) -> None:
        """All of it or nothing: a full disk may take a part, after which later records would stand in wrong places."""
        begin, left = self._file.tell(), memoryview(content)
        try:
            while len(left):
                left = left[self._file.write(left) or 0 :]
        except OSError:
            self._file.truncate(begin)
            self._file.seek(begin)
            raise

    def close(self) -> None:
        """Have everything on disk, and let others in."""
        if self._file.closed:
            return
        try:
            os.fsync(self._file.fileno())
        finally:
            self._file.close()
            self._old = np.zeros(0, self.kind)
            _OPEN.discard(self.place.resolve())
            self._lock.release()


def _hash(kind: int, x: np.ndarray) -> int:
    """Eight bytes of a hash; whoever finds it compares the points themselves."""
    digest = hashlib.blake2b(x.tobytes(), digest_size=8, salt=bytes([kind])).digest()
    return int.from_bytes(digest, signed=True)
