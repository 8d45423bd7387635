"""Is the standard error of log Z honest? z = (log Z - exact) / error of every seed, and the share within three.

    python benchmarks/log_z_coverage.py mog40 --seeds 0 1 2 3 --out results/log-z-coverage.json
    python benchmarks/log_z_coverage.py --from results/mog40.json --out results/log-z-coverage.json

The first runs presets as `seeds.py` does and takes its options; the second reads what that wrote. Seeds that failed, or
have no log Z, or no error of it, count as outside.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path


def score(run: dict) -> float | None:
    """z of one run, or None where it has none; an error of 0 with the exact value is z = 0."""
    values = [run.get(name) for name in ("log_z", "log_z_exact", "log_z_error")]
    if "failed" in run or any(value is None for value in values):
        return None
    log_z, exact, error = values
    if error == 0.0:
        return 0.0 if log_z == exact else None
    return (log_z - exact) / error


def coverage(runs: list[dict]) -> dict:
    """Scores by seed, the share of all seeds within three standard errors, and the root mean square of the scores."""
    names = ("seed", "log_z", "log_z_error", "log_z_exact", "ess_fraction", "pareto_k", "failed")
    rows = [{name: run[name] for name in names if name in run} | {"z": score(run)} for run in runs]
    scores = [row["z"] for row in rows if row["z"] is not None]
    return {
        "share_within_3": sum(abs(z) < 3 for z in scores) / len(rows),
        "root_mean_square_z": (sum(z * z for z in scores) / len(scores)) ** 0.5 if scores else None,
        "num_seeds": len(rows),
        "num_without_z": len(rows) - len(scores),
        "runs": rows,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("presets", nargs="*", help="run these by seeds.py first; further options are passed on to it")
    parser.add_argument("--from", dest="source", type=Path, help="a JSON of seeds.py")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(20)))
    parser.add_argument("--out", type=Path, required=True)
    options, passed_on = parser.parse_known_args()
    if bool(options.presets) == bool(options.source):
        parser.error("give presets to run, or --from a JSON of seeds.py, and not both")
    source = options.source or options.out.with_name(options.out.stem + "-runs.json")
    if options.presets:
        seeds = [str(seed) for seed in options.seeds]
        program = str(Path(__file__).with_name("seeds.py"))
        subprocess.run(
            [sys.executable, program, *options.presets, "--seeds", *seeds, *passed_on, "--out", str(source)], check=True
        )
    elif passed_on:
        parser.error(f"unknown options {passed_on}")
    content = json.loads(source.read_text())
    command = " ".join(["python", *sys.argv])
    result = {"command": command, "source": source.name, "commit": content["commit"], "presets": {}}
    for name, preset in content["presets"].items():
        result["presets"][name] = table = coverage(preset["runs"])
        for row in table["runs"]:
            z, k = ("none" if row.get(key) is None else f"{row[key]:+.2f}" for key in ("z", "pareto_k"))
            print(f"{name:20s} seed {row['seed']:3d}  z {z}  k {k}  {row.get('failed', '')}")
        print(f"{name:20s} within 3: {table['share_within_3']:.2f} of {table['num_seeds']}")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
