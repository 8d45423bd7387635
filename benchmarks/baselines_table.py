"""The baselines' presets over seeds, merged into one JSON; and the tables of docs/baselines.md from it.

    python benchmarks/baselines_table.py run mog40-fab mw32-fab --seeds 0 1 --workers 4 --out results/baselines.json
    python benchmarks/baselines_table.py docs

Each run is a process of its own (`seeds.py`), `--workers` at a time, and its folder stays under `--folder`: the same
command goes on where it was stopped, bit for bit. `--seconds` stops what is still running after so long, for machines
that are lent for minutes; what is not finished is not in the results.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from measure import commit
from seeds import ONE, one_run, summarise

ROOT = Path(__file__).parent.parent
RESULTS, PAGE = ROOT / "results" / "baselines.json", ROOT / "docs" / "baselines.md"

SAME = {"fab-torch": "fab", "bnem-factorised": "bnem"}
"""Presets whose code the paper ran, by the row of its table: fab-torch, and BNEM with a log-mean-exp a particle."""
LOG_Z_ERRORS = {"mw32-fab": 0.0316}
"""Of fab-jax's README, by preset."""

METRICS = ("energy_tvd", "energy_mmd", "w2", "log_z_error")
"""Ours, in the columns of the published ones."""


def run(options: argparse.Namespace) -> None:
    """Run presets over seeds, and put those that are finished into the results."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # several processes share one device
    jobs = [(name, seed) for seed in options.seeds for name in options.presets]
    with ThreadPoolExecutor(options.workers) as pool:
        done = list(pool.map(lambda job: _one(job[0], job[1], options), jobs))
    content = json.loads(options.out.read_text()) if options.out.exists() else {"presets": {}}
    for name in options.presets:
        own = [result for (job, _), result in zip(jobs, done, strict=True) if job == name and result is not None]
        kept = content["presets"].get(name, {}).get("runs", [])
        runs = [*(old for old in kept if old["seed"] not in {new["seed"] for new in own}), *own]
        if not runs:
            print(f"{name}: no run is finished; the same command goes on")
            continue
        content["presets"][name] = {
            "command": " ".join(["python", *sys.argv]),
            "commit": options.commit or commit(),
            "changes": options.set,
            "summary": summarise(runs),
            "runs": sorted(runs, key=lambda result: result["seed"]),
        }
        for result in runs:
            print(name, result["seed"], result.get("failed") or _line(result))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(content, indent=1) + "\n")


def _one(name: str, seed: int, options: argparse.Namespace) -> dict[str, Any] | None:
    """One run; None where it did not end in time, and is to be resumed."""
    left = options.deadline - time.monotonic()
    place = options.folder / f"{name}-{seed}"
    if left <= 0:
        return None
    if (place / "run" / "result.json").exists():
        return one_run(name, seed, options.folder, options.set)
    place.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-c", ONE, name, str(seed), str(place / "run"), *options.set]
    with open(place / "log.txt", "a") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        timer = threading.Timer(left, process.terminate)
        timer.start()
        code = process.wait()
        timer.cancel()
    return None if code < 0 else one_run(name, seed, options.folder, options.set)


def _line(result: dict[str, Any]) -> str:
    found = {name: result["metrics"][name]["value"] for name in METRICS if name in result["metrics"]}
    words = ", ".join(f"{name} {value:.4g}" for name, value in found.items() if value is not None)
    return f"{result['evaluations']:,} evaluations, {result['fit_seconds'] or 0:.0f} s, {words}"


def docs(options: argparse.Namespace) -> None:
    """Write the table of results into the page, between its marks."""
    stored = json.loads(RESULTS.read_text())["presets"] if RESULTS.exists() else {}
    text = PAGE.read_text()
    begin, end = "<!-- begin: table of results -->", "<!-- end: table of results -->"
    before, rest = text.split(begin)
    PAGE.write_text(before + begin + "\n" + table(stored) + "\n" + end + rest.split(end)[1])


def table(stored: dict[str, Any]) -> str:
    """One row a preset: published values beside ours, with floors; what was not run says so."""
    from tempering.lab.catalogue import read

    columns = ("preset", "evaluations", "first step at", "seeds", "energy TVD", "energy MMD", "W2, N = 2,000")
    columns += ("error of log Z", "time of the fit")
    rows = ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    for name, about in read().items():
        if about["method"] not in ("FAB", "DDS", "CMCD", "iDEM", "BNEM", "DiKL"):
            continue
        cells = [
            f"`{name}`",
            f"{about['evaluations']:.2g}",
            f"{about['least_budget']:.2g}",
            *_cells(stored.get(name), published_of(name)),
        ]
        if about["method"] in ("iDEM", "BNEM", "DiKL"):
            cells[-2] = "has none"
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def published_of(name: str) -> tuple[float | None, ...]:
    """TVD, MMD and "W2" of the PTSD paper's Table 1, and the error of log Z; a smaller run has those of the whole."""
    from tempering.lab.reproduce.published import published

    whole = name.removesuffix("-small")
    target, _, method = whole.partition("-")
    row = published("table-quality")["rows"].get(target, {}).get(SAME.get(method, method), (None,) * 3)
    return (*(pair and pair[0] for pair in row), LOG_Z_ERRORS.get(whole))


def _cells(entry: dict[str, Any] | None, published: tuple[float | None, ...]) -> list[str]:
    beside = [f" (published {value:g})" if value is not None else "" for value in published]
    if entry is None:
        return ["–", *(f"not run{words}" for words in beside), "–"]
    summary, runs = entry["summary"], [one for one in entry["runs"] if "failed" not in one]
    cells = [f"{len(runs)}" + (f" of {len(entry['runs'])}" if len(runs) < len(entry["runs"]) else "")]
    for name, words in zip(METRICS, beside, strict=True):
        row = summary.get(name, {"mean": None})
        if row["mean"] is None:
            cells.append(f"none{words}")
            continue
        error = f" ± {row['error']:.2g}" if row["error"] is not None else ""
        floor = f", floor {row['floor']:.3g}" if row["floor"] is not None else ""
        cells.append(f"{row['mean']:.3g}{error}{floor}{words}")
    seconds = summary["fit_seconds"]["mean"]
    return [*cells, "–" if seconds is None else f"{seconds / 60:.1f} min"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(required=True)
    runs = parts.add_parser("run")
    runs.set_defaults(do=run)
    runs.add_argument("presets", nargs="+")
    runs.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    runs.add_argument("--set", nargs="*", default=[], help="changes of settings, as in `tempering run`")
    runs.add_argument("--workers", type=int, default=1)
    runs.add_argument("--seconds", type=float, default=1e9, help="stop what is still running after so long")
    runs.add_argument("--folder", type=Path, default=Path("runs/baselines"))
    runs.add_argument("--commit", default=None, help="where the tree is not a git checkout")
    runs.add_argument("--out", type=Path, default=RESULTS)
    parts.add_parser("docs").set_defaults(do=docs)
    options = parser.parse_args()
    options.deadline = time.monotonic() + getattr(options, "seconds", 0.0)
    options.do(options)


if __name__ == "__main__":
    main()
