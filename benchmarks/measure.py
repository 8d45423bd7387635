"""What the benchmarks share: interleaved timing, quartiles, and the record of where a figure was measured.

A machine that others use changes speed from second to second, so a single time means little here. The sides of a
comparison take turns, many short repeats each, and what is reported is the ratio within a turn: both halves of a ratio
saw the same machine. Even so a load from elsewhere need not slow both sides alike, so every turn also records how many
cores others kept busy, and the ratio is given once more for the quiet turns alone. `--wait` holds every turn back until
the machine is quiet, which is the way to take figures that are to be quoted.
"""

import argparse
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

__all__ = ["Meter", "Patience", "Turns", "commit", "finish", "interleave", "parser", "quartiles", "ratio", "show"]

_PACKAGES = ("jax", "jaxlib", "equinox", "optax", "numpy", "torch")
_QUIET = 0.2
"""Cores that others may keep busy in a quiet turn: a tenth of a machine with two."""


class Meter:
    """How many cores other processes have kept busy since the last reading; NaN where /proc/stat does not exist."""

    def __init__(self):
        self._last = self._now()

    def read(self) -> float:
        now = self._now()
        busy, own, wall = (after - before for after, before in zip(now, self._last, strict=True))
        self._last = now
        return max(0.0, (busy - own) / wall)

    @staticmethod
    def _now() -> tuple[float, float, float]:
        try:
            ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        except OSError:
            return float("nan"), time.process_time(), time.perf_counter()
        busy = sum(ticks) - ticks[3] - ticks[4]  # all but idle and waiting for disks
        return busy / os.sysconf("SC_CLK_TCK"), time.process_time(), time.perf_counter()


class Patience:
    """Waits before a turn until others leave the machine alone, for so many seconds in all."""

    def __init__(self, seconds: float):
        self._left = seconds

    def wait(self) -> None:
        begin, meter = time.perf_counter(), Meter()
        while time.perf_counter() - begin < self._left:
            time.sleep(0.4)
            if meter.read() < _QUIET:
                break
        self._left -= time.perf_counter() - begin


@dataclass(frozen=True)
class Turns:
    """Seconds by side and turn, and the cores that others kept busy in each turn."""

    seconds: dict[str, np.ndarray]
    others: np.ndarray


def parser(description: str | None) -> argparse.ArgumentParser:
    """The options that every benchmark has."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--quick", action="store_true", help="few repeats: shows that the script runs, not how fast")
    made.add_argument("--out", type=Path, default=None, help="where to write the figures, e.g. results/X.json")
    made.add_argument("--wait", type=float, default=0.0, help="seconds, in all, to wait for a quiet machine")
    made.add_argument("--commit", default=None, help="where the tree is not a git checkout")
    return made


def interleave(sides: dict[str, Callable[[], object]], num_turns: int, patience: Patience, num_warm: int = 2) -> Turns:
    """Time every side once a turn. A side must itself wait for its result.

    The order is reversed every other turn, so that no side always runs in the caches that the same other one left.
    """
    for _ in range(num_warm):
        for call in sides.values():
            call()
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    others = []
    for turn in range(num_turns):
        patience.wait()
        meter = Meter()
        names = list(sides) if turn % 2 == 0 else list(sides)[::-1]
        for name in names:
            begin = time.perf_counter()
            sides[name]()
            seconds[name].append(time.perf_counter() - begin)
        others.append(meter.read())
    return Turns({name: np.asarray(values) for name, values in seconds.items()}, np.asarray(others))


def quartiles(values: np.ndarray) -> dict[str, float]:
    """Median and quartiles, to four digits."""
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    rounded = {"median": middle, "q25": low, "q75": high}
    return {name: float(f"{value:.4g}") for name, value in rounded.items()}


def ratio(above: np.ndarray, below: np.ndarray, others: np.ndarray) -> dict:
    """Quartiles of the ratio within a turn, over all turns and over the quiet ones."""
    is_quiet = others < _QUIET
    quiet = quartiles((above / below)[is_quiet]) if np.any(is_quiet) else None
    busy = float(f"{np.median(others):.2g}")
    counts = {"num_turns": len(others), "num_quiet": int(np.sum(is_quiet)), "cores_of_others": busy}
    return {**quartiles(above / below), "quiet": quiet, **counts}


def show(title: str, rows: dict[str, dict], unit: str) -> None:
    """Print median [quartiles] of every row."""
    print(f"\n{title} ({unit}; median [quartiles])", flush=True)
    width = max(len(name) for name in rows)
    for name, row in rows.items():
        print(f"  {name:<{width}}  {_range(row)}" + _quiet_part(row), flush=True)


def _range(row: dict) -> str:
    return f"{row['median']:>10,.4g}  [{row['q25']:,.4g}, {row['q75']:,.4g}]"


def _quiet_part(row: dict) -> str:
    if "num_quiet" not in row:
        return ""
    found = _range(row["quiet"]) if row["quiet"] else " none"
    return f"   quiet turns ({row['num_quiet']} of {row['num_turns']}):{found}"


def finish(options: argparse.Namespace, figures: dict, **settings) -> None:
    """Write the figures with command, commit, device, load and versions, if a place was given."""
    content = {
        "command": " ".join(["python", *sys.argv]),
        "commit": options.commit or commit(),
        "is_quick": options.quick,
        "seconds_of_patience": options.wait,
        "device": _device(),
        "load_average": [round(load, 2) for load in os.getloadavg()],
        "versions": {"python": platform.python_version(), **versions()},
        "settings": settings,
        "figures": figures,
    }
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(content, indent=1) + "\n")
        print(f"\nwritten: {options.out}", flush=True)


def commit(folder: Path | None = None) -> str:
    """The checkout this file or `folder` lies in, marked where tracked files have changed since."""
    git = ["git", "-C", str(folder or Path(__file__).parent)]
    found = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    changed = subprocess.run([*git, "status", "--porcelain", "-uno"], capture_output=True, text=True, check=False)
    return (found.stdout.strip() or "unknown") + (" with changes" if changed.stdout.strip() else "")


def _device() -> str:
    import jax  # here, because settings of the threads must be made before JAX is imported

    kinds = ", ".join(sorted({device.device_kind for device in jax.devices()}))
    return f"{len(jax.devices())} x {kinds} ({jax.default_backend()}), {os.cpu_count()} CPU cores, {_processor()}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def versions(packages: tuple[str, ...] = _PACKAGES) -> dict[str, str]:
    """Of those packages that are installed."""
    found = {}
    for name in packages:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
