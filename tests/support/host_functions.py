"""Densities for tests of pools: importable by workers, and light. Some misbehave at one point, once or always."""

import os
import signal
import time
from pathlib import Path

import numpy as np

__all__ = ["Bulk", "Noted", "NotedRows", "POINTS", "count_as_quick", "density", "misbehaving"]

POINTS = np.random.default_rng(7).normal(size=(24, 2))
BAD = 5
"""The row of POINTS where densities misbehave."""


def density(x: np.ndarray) -> float:
    """Off-centre and anisotropic."""
    return float(-0.5 * ((x[0] - 0.3) ** 2 / 0.7 + (x[1] + 1.1) ** 2 / 2.3))


class Noted:
    """A density that writes a line for every point it is given, and misbehaves at one of them.

    Args:
        folder: where the lines and the marks of what happened are.
        trouble: none, raises, nan, kills, hangs or slow.
        once: whether only the first time.
        seconds: that every point takes.
        weight: bytes that it holds, for its journey.
    """

    def __init__(self, folder: Path, trouble: str = "none", once: bool = True, seconds: float = 0.0, weight: int = 0):
        self.folder, self.trouble, self.once, self.seconds = str(folder), trouble, once, seconds
        self.table = np.zeros(weight, np.uint8)

    def __call__(self, x: np.ndarray) -> float:
        """The density, or trouble."""
        with open(os.path.join(self.folder, "calls"), "a", encoding="utf-8") as file:
            file.write(f"{x.tobytes().hex()} {os.getpid()}\n")
        if self.trouble != "none" and np.array_equal(x, POINTS[BAD]) and self._is_time():
            return self._misbehave()
        time.sleep(self.seconds)
        return density(x)

    def _is_time(self) -> bool:
        mark = Path(self.folder) / "happened"
        if self.once and mark.exists():
            return False
        mark.touch()
        return True

    def _misbehave(self) -> float:
        if self.trouble == "raises":
            raise LookupError("no table for this point")
        if self.trouble == "kills":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.trouble == "hangs":
            time.sleep(600)
        if self.trouble == "slow":
            time.sleep(max(1.0, 10 * self.seconds))
            return density(POINTS[BAD])
        return float("nan")

    def calls(self) -> list[bytes]:
        """The points that were given, in order."""
        place = Path(self.folder) / "calls"
        lines = place.read_text(encoding="utf-8").splitlines() if place.exists() else []
        return [bytes.fromhex(line.split()[0]) for line in lines]


class NotedRows(Noted):
    """The same for many points at once; its values tell how many, as the last bits of a matrix product do."""

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """The densities."""
        lines = [f"{row.tobytes().hex()} {os.getpid()}\n" for row in x]
        with open(os.path.join(self.folder, "calls"), "a", encoding="utf-8") as file:
            file.write("".join(lines))
        time.sleep(self.seconds)
        return np.array([density(row) for row in x]) + 0.01 * len(x)


class Bulk:
    """A vectorised density that tells how many rows it was given together, as the last bits of a product do."""

    def __init__(self, folder: Path, trouble: str = "none"):
        self.folder, self.trouble = str(folder), trouble

    def __call__(self, x):
        """The densities plus the number of rows, after what happens once."""
        mark = Path(self.folder) / "happened"
        if self.trouble != "none" and np.any(np.all(x == POINTS[BAD], axis=1)) and not mark.exists():
            mark.touch()
            if self.trouble == "kills":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.trouble == "raises":
                raise LookupError("no table for these points")
            time.sleep(600)
        return np.array([density(row) for row in x]) + len(x)


def count_as_quick(monkeypatch) -> None:
    """Have runs of a program count as a millisecond, however busy the machine is (`tempering.host.paces`)."""
    from tempering.host.paces import Paces

    plain = Paces.end

    def end(paces: Paces) -> np.ndarray:
        fresh = plain(paces)
        paces.cost = 1e-3
        return fresh

    monkeypatch.setattr(Paces, "end", end)


def misbehaving(x: np.ndarray) -> np.ndarray:
    """A vectorised density that is NaN where the first coordinate is above one."""
    return np.where(x[:, 0] > 1.0, np.nan, -0.5 * np.sum(x**2, axis=1))
