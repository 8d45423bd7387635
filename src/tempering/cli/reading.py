"""Commands on what runs left behind: sample, points, diagnose, report, compare; and reference, which makes samples."""

import sys
from pathlib import Path

from tempering.cli.wrapping import print_verdict
from tempering.settings import require_count

__all__ = ["compare", "diagnose", "points", "reference", "report", "sample"]


def sample(
    folder: Path,
    num: int,
    out: Path,
    seed: int,
    solver: str | None,
    steps: int | None,
    weighted: bool,
    quasi_random: bool,
    even: bool,
) -> None:
    """Draw from a trained sampler into a file: .npz, .csv, .parquet, .nc (NetCDF) or .txt (GetDist)."""
    from tempering import compilation
    from tempering.lab.run import load_run
    from tempering.runs.exports import check_place

    require_count("-n", num)
    check_place(out)
    compilation.keep_programs()
    sampler = load_run(folder, evaluates=weighted or quasi_random or even)
    how = {"solver": solver, "num_steps": steps}
    sampler.save_draws(out, num, seed=seed, weighted=weighted, is_quasi_random=quasi_random, is_even=even, **how)
    print(f"wrote {num:,} draws of {sampler.dim} dimensions to {out}")


def points(folder: Path, out: Path | None) -> None:
    """Print what a store of points holds; with --out, write every point to a file."""
    from tempering.runs.point_tables import point_lines, write_points
    from tempering.runs.points import read_points

    stored = read_points(folder)
    if out is None:
        print("\n".join(point_lines(stored)))
        return
    write_points(stored, out)
    print(f"wrote {len(stored.records):,} points of {stored.dim} dimensions to {out}")


def diagnose(folder: Path) -> None:
    """Print the verdict, finding by finding."""
    from tempering import compilation
    from tempering.lab.run import load_run

    compilation.keep_programs()
    print_verdict(str(load_run(folder, evaluates=False).diagnose()), folder)


def report(folder: Path) -> None:
    """Write the figures and the HTML page of a run's folder."""
    from tempering.lab.report import make_report

    print(f"report  {make_report(folder)}")


def compare(folders: list[Path], out: Path) -> None:
    """Put runs side by side: a table, and an HTML page."""
    from tempering.lab.report import compare_lines, compare_page, compare_runs

    comparison = compare_runs(folders)
    print("\n".join(compare_lines(comparison)))
    print(f"\npage  {compare_page(comparison, out)}")


def reference(
    name: str,
    num: int,
    out: Path | None,
    seed: int | None,
    chains: int | None,
    steps: int | None,
    force: bool,
    quiet: bool,
) -> int:
    """Make reference samples of particles or a molecule by long parallel tempering, with evidence that it converged.

    A set that was made before is found again. The exit code is 1 if the evidence is not good enough.
    """
    from tempering import compilation
    from tempering.lab.reference import cached_reference
    from tempering.lab.reference_evidence import evidence_lines
    from tempering.runs.display import choose_display

    compilation.keep_programs()
    with choose_display(quiet=quiet, name=f"reference {name}") as on_event:
        made, folder, is_found = cached_reference(
            name, num, out=out, seed=seed, num_chains=chains, num_steps=steps, force=force, on_event=on_event
        )
    where = f"{'found in' if is_found else 'written to':<13}{folder}"
    cost = f"cost         {made.evaluations:,} evaluations"
    print("\n".join([*evidence_lines(made.evidence), cost, where]))
    if made.is_converged:
        return 0
    print("tempering: these samples are not converged; use --force with more --steps", file=sys.stderr)
    return 1
