"""What the benchmarks share: interleaved timing, quartiles, and the record of where a figure was measured.

A machine that others use changes speed from second to second, so a single time means little here. The sides of a
comparison take turns, many short repeats each, and what is reported is the ratio within a turn: both halves of a ratio
saw the same machine.
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
from pathlib import Path

import numpy as np

__all__ = ["finish", "interleave", "parser", "quartiles", "ratio", "show"]

_PACKAGES = ("jax", "jaxlib", "equinox", "optax", "numpy", "torch")


def parser(description: str | None) -> argparse.ArgumentParser:
    """The options that every benchmark has."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--quick", action="store_true", help="few repeats: shows that the script runs, not how fast")
    made.add_argument("--out", type=Path, default=None, help="where to write the figures, e.g. results/X.json")
    made.add_argument("--commit", default=None, help="where the tree is not a git checkout")
    return made


def interleave(sides: dict[str, Callable[[], object]], num_turns: int, num_warm: int = 2) -> dict[str, np.ndarray]:
    """Seconds of every call by side. A side must itself wait for its result.

    The order is reversed every other turn, so that no side always runs in the caches that the same other one left.
    """
    for _ in range(num_warm):
        for call in sides.values():
            call()
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(num_turns):
        names = list(sides) if turn % 2 == 0 else list(sides)[::-1]
        for name in names:
            begin = time.perf_counter()
            sides[name]()
            seconds[name].append(time.perf_counter() - begin)
    return {name: np.asarray(values) for name, values in seconds.items()}


def quartiles(values: np.ndarray) -> dict[str, float]:
    """Median and quartiles, to four digits."""
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    rounded = {"median": middle, "q25": low, "q75": high}
    return {name: float(f"{value:.4g}") for name, value in rounded.items()}


def ratio(above: np.ndarray, below: np.ndarray) -> dict[str, float]:
    """Quartiles of the ratio within a turn."""
    return quartiles(above / below)


def show(title: str, rows: dict[str, dict[str, float]], unit: str) -> None:
    """Print median [quartiles] of every row."""
    print(f"\n{title} ({unit}; median [quartiles])")
    width = max(len(name) for name in rows)
    for name, row in rows.items():
        print(f"  {name:<{width}}  {row['median']:>10,.4g}  [{row['q25']:,.4g}, {row['q75']:,.4g}]")


def finish(options: argparse.Namespace, figures: dict, **settings) -> None:
    """Write the figures with command, commit, device, load and versions, if a place was given."""
    content = {
        "command": " ".join(["python", *sys.argv]),
        "commit": options.commit or _commit(),
        "is_quick": options.quick,
        "device": _device(),
        "load_average": [round(load, 2) for load in os.getloadavg()],
        "versions": {"python": platform.python_version(), **_versions()},
        "settings": settings,
        "figures": figures,
    }
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(content, indent=1) + "\n")
        print(f"\nwritten: {options.out}")


def _commit() -> str:
    """The checkout this file lies in, marked where tracked files have changed since."""
    git = ["git", "-C", str(Path(__file__).parent)]
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


def _versions() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
