"""Presets over several seeds: mean and standard error of every metric, with command, commit and device, as one JSON.

    python benchmarks/seeds.py mog40-paper mog40-paper-pt-dm --seeds 0 1 2 --out results/paper.json

Each run is a process of its own, `--workers` at a time; a run that fails counts as failed and is shown, never dropped.
Folders stay under `--folder`, so that an interrupted benchmark goes on where it was.
"""

import argparse
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tempering.lab.reproduce.age import commit
from tempering.lab.reproduce.records import short_result, summarise

ONE = """
import sys, json
from pathlib import Path
from tempering.compilation import keep_programs
from tempering.runs.config import with_changes
from tempering.lab.presets import preset
from tempering.lab.run import resume, run

keep_programs()
name, seed, folder, changes = sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[5:]
limit = None if sys.argv[4] == "none" else float(sys.argv[4])
show = lambda e: None
if (folder / "config.json").exists():
    resume(folder, show, time_limit=limit)
else:
    run(with_changes(preset(name), [f"seed={seed}", *changes]), folder, show, time_limit=limit)
"""


def one_run(
    name: str, seed: int, folder: Path, changes: list[str], limit: float | None = None, most: float | None = None
) -> dict:
    """The result of one preset and seed, or what went wrong.

    Args:
        limit: seconds after which the fit should end; judging comes on top.
        most: seconds after which the process is stopped.

    Raises:
        subprocess.TimeoutExpired: if it was stopped.
    """
    place = folder / f"{name}-{seed}"
    place.mkdir(parents=True, exist_ok=True)
    told = "none" if limit is None else f"{limit:.0f}"
    command = [sys.executable, "-c", ONE, name, str(seed), str(place / "run"), told, *changes]
    is_new, begun = not (place / "run" / "config.json").exists(), time.perf_counter()
    with open(place / "log.txt", "a") as log:
        code = subprocess.run(command, stdout=log, stderr=log, check=False, timeout=most).returncode
    seconds = time.perf_counter() - begun
    result_file = place / "run" / "result.json"
    if code != 0 or not result_file.exists():
        tail = (place / "log.txt").read_text(errors="replace").strip().splitlines()[-1:]
        return {"seed": seed, "failed": f"exit code {code}: {' '.join(tail)}"}
    result = json.loads(result_file.read_text())
    short = short_result(result)
    # From the start of Python to its end; a run that was resumed has more than this process.
    short["process_seconds"] = round(seconds, 2) if is_new else None
    return short


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("presets", nargs="+")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--set", nargs="*", default=[], help="changes of settings, as in `tempering run`")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path("runs/seeds"))
    parser.add_argument("--commit", default=None, help="where the tree is not a git checkout")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    jobs = [(name, seed) for name in options.presets for seed in options.seeds]
    with ThreadPoolExecutor(options.workers) as pool:
        done = list(pool.map(lambda job: one_run(job[0], job[1], options.folder, options.set), jobs))
    content = {
        "command": " ".join(["python", *sys.argv]),
        "commit": commit(Path(__file__).resolve().parent, options.commit),
        "presets": {},
    }
    for name in options.presets:
        runs = [run for (job, _), run in zip(jobs, done, strict=True) if job == name]
        content["presets"][name] = {"summary": summarise(runs), "runs": runs}
        for key, row in content["presets"][name]["summary"].items():
            print(f"{name:20s} {key:28s} {row}")
        for run in runs:
            if "failed" in run:
                print(f"{name} seed {run['seed']} FAILED: {run['failed']}")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
