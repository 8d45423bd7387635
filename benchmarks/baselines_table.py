"""The baselines' presets over seeds, merged into one JSON; and the tables of docs/baselines.md from it.

    python benchmarks/baselines_table.py run mog40-fab mw32-fab --seeds 0 1 --workers 4 --out results/baselines.json
    python benchmarks/baselines_table.py docs

Each run is a process of its own (`seeds.py`), `--workers` at a time, and its folder stays under `--folder`: the same
command goes on where it was stopped, bit for bit. A run joins the results when it ends.

`--seconds` is for machines that are lent for minutes. Fits that are still going on `--judging` seconds before its end
stop there and are judged as they are; the table says how far they came. What has not ended after `--seconds` is
stopped, and is not in the results. `merge` joins files of results that were made side by side.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from measure import commit
from seeds import one_run, summarise

ROOT = Path(__file__).parent.parent
RESULTS, PAGE = ROOT / "results" / "baselines.json", ROOT / "docs" / "baselines.md"

SAME = {"fab-torch": "fab", "bnem-factorised": "bnem"}
"""Presets whose code the paper ran, by the row of its table: fab-torch, and BNEM with a log-mean-exp a particle."""
LOG_Z_ERRORS = {"mw32-fab": 0.0316}
"""Of fab-jax's README, by preset."""

METRICS = ("energy_tvd", "energy_mmd", "w2", "log_z_error")
"""Ours, in the columns of the published ones."""
_WHOLE = 0.995
"""Of the planned evaluations: a run with fewer was ended by its time."""


def run(options: argparse.Namespace) -> None:
    """Run presets over seeds, and put each that is finished into the results."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # several processes share one device
    jobs = [(name, seed) for seed in options.seeds for name in options.presets]
    about = {"command": _command(sys.argv), "commit": options.commit or commit(), "changes": options.set}
    writing = threading.Lock()

    def carry_out(job: tuple[str, int]) -> None:
        name, seed = job
        result = _one(name, seed, options)
        if result is None:
            print(f"{name} {seed}: not finished; the same command goes on", flush=True)
            return
        with writing:
            _keep(options.out, {name: {**about, "runs": [result]}})
        print(name, seed, result.get("failed") or _line(result), flush=True)

    with ThreadPoolExecutor(options.workers) as pool:
        list(pool.map(carry_out, jobs))


def _command(words: list[str]) -> str:
    """The command as it is to be repeated: places of this machine are no part of it."""
    kept = [word for before, word in zip(["", *words], words, strict=False) if _is_portable(before, word)]
    return " ".join(["python", *kept])


def _is_portable(before: str, word: str) -> bool:
    return not {before, word} & {"--folder", "--out"}


def merge(options: argparse.Namespace) -> None:
    """Put the runs of other files into the results; a run of the same preset and seed is replaced."""
    for file in options.files:
        _keep(options.out, json.loads(file.read_text())["presets"])


def _keep(out: Path, presets: dict[str, Any]) -> None:
    """Join runs to those of the file, preset by preset."""
    content = json.loads(out.read_text()) if out.exists() else {"presets": {}}
    for name, new in presets.items():
        seeds = {one["seed"] for one in new["runs"]}
        old = [one for one in content["presets"].get(name, {}).get("runs", []) if one["seed"] not in seeds]
        runs = sorted([*old, *new["runs"]], key=lambda one: one["seed"])
        about = {key: new[key] for key in ("command", "commit", "changes")}
        content["presets"][name] = {**about, "summary": summarise(runs), "runs": runs}
    parts = content["presets"].values()
    content = {
        "command": "python benchmarks/baselines_table.py run PRESET --seeds 0; every preset has its own",
        "commits": sorted({part["commit"] for part in parts}),
        "presets": content["presets"],
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    beside = out.with_suffix(".new")
    beside.write_text(json.dumps(content, indent=1) + "\n")
    beside.replace(out)


def _one(name: str, seed: int, options: argparse.Namespace) -> dict[str, Any] | None:
    """One run; None where it did not end in time, and is to be resumed, or where too little time was left."""
    left = options.began + options.seconds - time.monotonic()
    if not math.isfinite(left):
        return one_run(name, seed, options.folder, options.set)
    limit = left - options.judging
    if limit < options.least and not (options.folder / f"{name}-{seed}" / "run" / "result.json").exists():
        return None
    try:
        return one_run(name, seed, options.folder, options.set, limit, left)
    except subprocess.TimeoutExpired:
        return None


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
            *_cells(stored.get(name), published_of(name), about["evaluations"]),
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


def _cells(entry: dict[str, Any] | None, published: tuple[float | None, ...], planned: float) -> list[str]:
    beside = [f" (published {value:g})" if value is not None else "" for value in published]
    if entry is None:
        return ["–", *(f"not run{words}" for words in beside), "–"]
    failed = [one for one in entry["runs"] if "failed" in one]
    ended = [one for one in entry["runs"] if "failed" not in one]
    is_whole = {one["seed"]: one["evaluations"] >= _WHOLE * planned for one in ended}
    # A run that was stopped would spoil the mean of those that were not.
    runs = [one for one in ended if is_whole[one["seed"]]] or ended
    summary = summarise(runs)
    cells = [f"{len(runs)}" + (f" of {len(runs) + len(failed)}" if failed else "")]
    if runs and not any(is_whole.values()):
        cells[0] += f", stopped at {100 * min(one['evaluations'] for one in runs) / planned:.0f} %"
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
    runs.add_argument("--seconds", type=float, default=math.inf, help="stop what is still running after so long")
    runs.add_argument("--judging", type=float, default=75.0, help="of these, kept for what comes after the fits")
    runs.add_argument("--least", type=float, default=60.0, help="a fit that has less time is not begun")
    runs.add_argument("--folder", type=Path, default=Path("runs/baselines"))
    runs.add_argument("--commit", default=None, help="where the tree is not a git checkout")
    runs.add_argument("--out", type=Path, default=RESULTS)
    merging = parts.add_parser("merge")
    merging.set_defaults(do=merge)
    merging.add_argument("files", type=Path, nargs="+")
    merging.add_argument("--out", type=Path, default=RESULTS)
    parts.add_parser("docs").set_defaults(do=docs)
    options = parser.parse_args()
    options.began = time.monotonic()
    options.do(options)


if __name__ == "__main__":
    main()
