"""Rows of the proving ground: one for a density, a method and a seed. A row that is there is not made again."""

import gc
import json
import math
import os
import platform
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import jax
from measure import versions

from .catalogue import density_of
from .judge import Answer, judge
from .record import Density

__all__ = ["OURS", "Method", "allowed_for", "identity", "joined", "one_row", "read_rows", "run", "write_rows"]

OURS = "tempering"
Method = Callable[[Density, int, int | None], Answer]
_PACKAGES = ("tempering", "jax", "jaxlib", "numpy", "dynesty", "nautilus-sampler", "pocomc", "blackjax", "numpyro")


def identity(row: dict[str, Any]) -> tuple[str, str, int, int | None]:
    """What a row is a row of. The budget that was asked for is part of it."""
    return row["density"], row["method"], row["seed"], row["budget"]


def read_rows(*paths: Path) -> list[dict[str, Any]]:
    """The rows of some files; a file that is missing has none."""
    return [row for path in paths if path.exists() for row in json.loads(path.read_text())["rows"]]


def joined(*parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of all parts; of rows with the same identity the one of the latest part, in the place of the first."""
    return list({identity(row): row for part in parts for row in part}.values())


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write a file that is either the old one or the new one, whenever the process ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    made = "python benchmarks/densities.py, with the densities, methods and seeds of the rows"
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps({"command": made, "rows": [_clean(row) for row in rows]}, indent=1) + "\n")
    os.replace(temporary, path)


def run(
    names: Iterable[str],
    methods: dict[str, Method],
    seeds: Iterable[int],
    out: Path,
    *,
    budget: int | str | None = None,
    commit: str = "unknown",
    say: Callable[[str], None] = print,
) -> list[dict[str, Any]]:
    """Make the rows that are missing, one after another, and write each as soon as it is there.

    Failures are rows too; take them out of the file to try again.

    Args:
        budget: evaluations for every density and method; "equal" is what our own method would take; None leaves our
            method the density's own and others their defaults.
    """
    rows = read_rows(out)
    known = {identity(row) for row in rows}
    names, seeds = list(names), list(seeds)
    for name in names:
        density = density_of(name)
        for method, fit in methods.items():
            allowed = allowed_for(method, density, budget)
            for seed in seeds:
                if (name, method, seed, allowed) in known:
                    say(f"{name}, {method}, seed {seed}: there already")
                    continue
                row = one_row(density, method, fit, seed, allowed) | {"commit": commit}
                rows.append(row)
                write_rows(out, rows)
                say(line_of(row))
                jax.clear_caches()  # a process that has compiled a hundred fits runs out of memory maps
                gc.collect()
    return rows


def allowed_for(method: str, density: Density, budget: int | str | None) -> int | None:
    """Evaluations that a method may spend; None is what it takes by itself."""
    if isinstance(budget, int):
        return budget
    if budget == "equal":
        return density.budget or 50_000 + 10_000 * density.dim
    return density.budget if method == OURS else None


def one_row(density: Density, method: str, fit: Method, seed: int, budget: int | None) -> dict[str, Any]:
    """One answer, judged; or what went wrong."""
    row: dict[str, Any] = {
        "density": density.name,
        "method": method,
        "seed": seed,
        "budget": budget,
        "dim": density.dim,
        "handed_over": density.handed_over,
        "limit": density.limit,
        "device": jax.devices()[0].device_kind,
        "versions": {"python": platform.python_version(), **versions(_PACKAGES)},
    }
    begin, begin_cpu = time.perf_counter(), time.process_time()
    try:
        answer = fit(density, seed, budget)
        row |= {
            "evaluations": int(answer.evaluations),
            "log_z": answer.log_z,
            "log_z_error": answer.log_z_error,
            "ess_fraction": answer.ess_fraction,
            "verdict": answer.verdict,
            "findings": answer.findings,
            **answer.facts,
            **judge(density, answer),
        }
    except Exception as error:  # a method that fails is a result
        row |= {"failed": f"{type(error).__name__}: {error}", "is_right": False, "outcome": "failed"}
        traceback.print_exc()
    row["seconds"] = round(time.perf_counter() - begin, 1)
    row["cpu_seconds"] = round(time.process_time() - begin_cpu, 1)  # of all threads: what a busy machine leaves alone
    return row


def line_of(row: dict[str, Any]) -> str:
    """A row in a line, for whoever waits."""
    head = f"{row['density']}, {row['method']}, seed {row['seed']}: "
    if "failed" in row:
        return f"{head}failed after {row['seconds']:.0f} s: {row['failed'][:200]}"
    parts = [row["outcome"], f"{row['evaluations']:,} evaluations", f"{row['seconds']:.0f} s"]
    for title, key in (("log Z", "log_z_off"), ("weights", "weights_off"), ("spread", "spread_off")):
        if row.get(key) is not None:
            parts.append(f"{title} off by {row[key]:+.3f}")
    if row["findings"]:
        parts.append("; ".join(row["findings"]))
    return head + ", ".join(parts)


def _clean(value: Any) -> Any:
    """JSON has no NaN."""
    if isinstance(value, dict):
        return {key: _clean(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
