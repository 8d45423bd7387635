"""Is the standard error of log Z honest? z = (log Z - exact) / error of every seed, and the share within three.

    python benchmarks/log_z_coverage.py mog40 --seeds 0 1 2 3 --out results/log-z-coverage.json
    python benchmarks/log_z_coverage.py --from results/mog40.json --out results/log-z-coverage.json
    python benchmarks/log_z_coverage.py --again runs/seeds/mw32-* --rounds 10 --out results/log-z-again.json

The first runs presets as `seeds.py` does and takes its options; the second reads what that wrote. Seeds that failed, or
have no log Z, or no error of it, count as outside. The third asks finished samplers again, with `--draws` new weighted
draws in every round: whether errors are honest for a given sampler, from many estimates.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path


def score(run: dict) -> float | None:
    """z of one run, or None where it has none; an error of 0 with the exact value is z = 0."""
    log_z, exact, error = (run.get(name) for name in ("log_z", "log_z_exact", "log_z_error"))
    if "failed" in run or log_z is None or exact is None or error is None:
        return None
    if error == 0.0:
        return 0.0 if log_z == exact else None
    return (log_z - exact) / error


def coverage(runs: list[dict]) -> dict:
    """Scores by seed, the share of all seeds within three standard errors, and the root mean square of the scores."""
    names = ("seed", "round", "log_z", "log_z_error", "log_z_exact", "ess_fraction", "pareto_k", "failed")
    rows = [{name: run[name] for name in names if name in run} | {"z": score(run)} for run in runs]
    scores = [row["z"] for row in rows if row["z"] is not None]
    return {
        "share_within_3": sum(abs(z) < 3 for z in scores) / len(rows),
        "root_mean_square_z": (sum(z * z for z in scores) / len(scores)) ** 0.5 if scores else None,
        "num_seeds": len({row["seed"] for row in rows}),
        "num_estimates": len(rows),
        "num_without_z": len(rows) - len(scores),
        "runs": rows,
    }


def again(folders: list[Path], num_rounds: int, num_draws: int) -> list[dict]:
    """Rows as those of `seeds.py`, one for every round of every finished run."""
    import tempering as tp
    from tempering.compilation import keep_programs
    from tempering.weights.log_z import log_z_with_tail

    keep_programs()
    rows = []
    for folder in folders:
        place = folder / "run"
        known, sampler = json.loads((place / "result.json").read_text()), tp.load(place)
        for index in range(num_rounds):
            _, log_weights = sampler.sample_weighted(num_draws, seed=1_000 + index)
            log_z, error = log_z_with_tail(log_weights)
            row = {"seed": known["seed"], "round": index, "log_z": float(log_z), "log_z_error": float(error)}
            rows.append({**row, "log_z_exact": known["log_z_exact"]})
    return rows


def write(out: Path, source: str, commit: str, presets: dict[str, dict]) -> None:
    """The scores on the screen and in a file."""
    result = {"command": " ".join(["python", *sys.argv]), "source": source, "commit": commit, "presets": {}}
    for name, preset in presets.items():
        result["presets"][name] = table = coverage(preset["runs"])
        for row in table["runs"]:
            z, k = ("none" if row.get(key) is None else f"{row[key]:+.2f}" for key in ("z", "pareto_k"))
            print(f"{name:20s} seed {row['seed']:3d}  z {z}  k {k}  {row.get('failed', '')}")
        print(f"{name:20s} within 3: {table['share_within_3']:.2f} of {table['num_estimates']}")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(result, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("presets", nargs="*", help="run these by seeds.py first; further options are passed on to it")
    parser.add_argument("--from", dest="source", type=Path, help="a JSON of seeds.py")
    parser.add_argument("--again", type=Path, nargs="+", help="folders that seeds.py left, each with a finished run")
    parser.add_argument("--rounds", type=int, default=10, help="of --again")
    parser.add_argument("--draws", type=int, default=2_000, help="of a round")
    parser.add_argument(
        "--commit", default=None, help="where the tree is not a git checkout; of the runs asked --again"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(20)))
    parser.add_argument("--out", type=Path, required=True)
    options, passed_on = parser.parse_known_args()
    if sum(map(bool, (options.presets, options.source, options.again))) != 1:
        parser.error("give presets to run, or --from a JSON of seeds.py, or folders --again, and one of them only")
    if passed_on and not options.presets:
        parser.error(f"unknown options {passed_on}")
    if options.again:
        names = {folder: folder.name.rpartition("-")[0] for folder in options.again}
        tables = {
            name: {"runs": again([f for f in names if names[f] == name], options.rounds, options.draws)}
            for name in sorted(set(names.values()))
        }
        write(options.out, "new draws", options.commit or "unknown", tables)
        return
    source = options.source or options.out.with_name(options.out.stem + "-runs.json")
    if options.presets:
        seeds = [str(seed) for seed in options.seeds]
        program = str(Path(__file__).with_name("seeds.py"))
        passed_on += ["--commit", options.commit] if options.commit else []
        subprocess.run(
            [sys.executable, program, *options.presets, "--seeds", *seeds, *passed_on, "--out", str(source)], check=True
        )
    content = json.loads(source.read_text())
    write(options.out, source.name, content["commit"], content["presets"])


if __name__ == "__main__":
    main()
