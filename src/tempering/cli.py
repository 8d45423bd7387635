"""The command line: list, run, resume, sample, evaluate, report, reference. Holds no algorithm.

Refusals exit with code 2 and one line; an interrupted run says how to resume.
"""

import argparse
import dataclasses
import difflib
import functools
import json
import sys
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NoReturn

import tempering
from tempering.compilation import keep_programs
from tempering.errors import RunFolderError, SettingsError, TemperingError
from tempering.settings import require_count

__all__ = ["main"]

_COLUMNS = 80


def _list(all: bool) -> None:
    """Show the presets with the method that fits each and what it will cost."""
    from tempering.lab.presets import ABLATIONS, PRESETS
    from tempering.methods.budget import forecast
    from tempering.methods.registry import title_of
    from tempering.registry import target_of

    shown = {name: config for name, config in PRESETS.items() if all or name not in ABLATIONS}
    rows = [("name", "method", "target", "evaluations")]
    for name, config in shown.items():
        target = target_of(config)
        cost = sum(forecast(config.settings, target.dim, config.budget).values())
        rows.append(
            (name, title_of(config.method, config.settings), f"{config.target.name} ({target.dim}-D)", f"{cost:,}")
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    about = ["", *(config.description for config in shown.values())]
    for (name, method, target, cost), words in zip(rows, about, strict=True):
        print(f"{name:<{widths[0]}}  {method:<{widths[1]}}  {target:<{widths[2]}}  {cost:>{widths[3]}}")
        if words:
            print(textwrap.fill(words, _COLUMNS, initial_indent="    ", subsequent_indent="    "))
    if not all:
        print(f"\n`tempering list --all` shows {len(ABLATIONS)} more: presets with one piece taken away or replaced.")


def _run(
    preset: str, out: Path | None, seed: int | None, budget: int | None, set: list[str], dry_run: bool, quiet: bool
) -> None:
    """Fit a preset, judge it and write its report."""
    from tempering.lab.presets import preset as preset_of
    from tempering.lab.run import run
    from tempering.methods.budget import check_budget, forecast
    from tempering.registry import target_of
    from tempering.runs.config import config_to_dict, with_changes
    from tempering.runs.display import choose_display

    given = [f"{name}={value}" for name, value in (("seed", seed), ("budget", budget)) if value is not None]
    config = with_changes(preset_of(preset), [*given, *set])
    target = target_of(config)
    if dry_run:
        plan = forecast(config.settings, target.dim, config.budget)
        print(
            json.dumps(
                {"config": config_to_dict(config), "planned": plan, "planned_total": sum(plan.values())}, indent=2
            )
        )
        return
    check_budget(config.settings, target, config.budget)
    if out is None:
        raise RunFolderError("--out is missing: give a new folder for the run, such as --out runs/first")
    try:
        with choose_display(quiet=quiet, name=config.name) as on_event:
            result = run(config, out, on_event)
    except KeyboardInterrupt:
        _say_how_to_resume(out)
        raise
    _finish(out, result)


def _resume(folder: Path, budget: int | None, quiet: bool) -> None:
    """Go on with a run that was stopped; with --budget, also spend so many evaluations more on a finished one."""
    from tempering.lab.run import improve_folder, resume
    from tempering.runs.display import choose_display

    if budget is not None:
        require_count("--budget", budget)
    try:
        with choose_display(quiet=quiet) as on_event:
            result = resume(folder, on_event)
            result = result if budget is None else improve_folder(folder, budget, on_event)
    except KeyboardInterrupt:
        _say_how_to_resume(folder)
        raise
    _finish(folder, result)


def _sample(folder: Path, num: int, out: Path, seed: int, weighted: bool, quasi_random: bool, even: bool) -> None:
    """Draw from a trained sampler into a file: .npz, .parquet or .nc (NetCDF)."""
    from tempering.runs.exports import check_place

    require_count("-n", num)
    check_place(out)
    sampler = tempering.load(folder)
    sampler.save_draws(out, num, seed=seed, weighted=weighted, is_quasi_random=quasi_random, is_even=even)
    print(f"wrote {num:,} draws of {sampler.dim} dimensions to {out}")


def _evaluate(folder: Path, num_samples: int | None, num_transport: int | None, quiet: bool) -> None:
    """Judge a trained sampler again, for example with more samples in the transport distances."""
    from tempering.lab.run import evaluate_folder
    from tempering.runs.display import choose_display
    from tempering.runs.folder import RunFolder

    config = RunFolder.read_config(folder)
    given = {"num_samples": num_samples, "num_transport": num_transport}
    metrics = dataclasses.replace(config.metrics, **{name: n for name, n in given.items() if n is not None})
    with choose_display(quiet=quiet) as on_event:
        result = evaluate_folder(folder, dataclasses.replace(config, metrics=metrics), on_event)
    _finish(folder, result)


def _report(folder: Path) -> None:
    """Write the figures and the HTML page of a run's folder."""
    from tempering.lab.report import make_report

    print(f"report  {make_report(folder)}")


def _reference(
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
    from tempering.lab.reference import cached_reference
    from tempering.lab.reference_evidence import evidence_lines
    from tempering.runs.display import choose_display

    with choose_display(quiet=quiet, name=f"reference {name}") as on_event:
        reference, folder, is_found = cached_reference(
            name, num, out=out, seed=seed, num_chains=chains, num_steps=steps, force=force, on_event=on_event
        )
    where = f"{'found in' if is_found else 'written to':<13}{folder}"
    cost = f"cost         {reference.evaluations:,} evaluations"
    print("\n".join([*evidence_lines(reference.evidence), cost, where]))
    if reference.is_converged:
        return 0
    print("tempering: these samples are not converged; use --force with more --steps", file=sys.stderr)
    return 1


def _finish(folder: Path, result: dict) -> None:
    """The end of a run: quality against floor, cost, and where the pictures are."""
    from tempering.lab.report import make_report, quality_lines

    print("\n".join(quality_lines(result)))
    try:
        page = make_report(folder)
    except SettingsError as error:  # a package is missing; the run stands
        print(f"\nno report: {error}; then `tempering report {folder}`")
        return
    print(f"\nfigures  {folder / 'figures'}\nreport   {page}")


def _say_how_to_resume(folder: Path) -> None:
    if (Path(folder) / "config.json").exists():
        print(f"\nstopped; `tempering resume {folder}` goes on from the last finished part", file=sys.stderr)


def _option(*names: str, **how: Any) -> tuple[tuple[str, ...], dict[str, Any]]:
    return names, how


_flag = functools.partial(_option, action="store_true")
_path = functools.partial(_option, type=Path)
_whole = functools.partial(_option, type=int, metavar="N")
_FOLDER, _QUIET = _path("folder", help="the run's folder"), _flag("--quiet", help="show nothing but the result")

_OPTIONS: dict[Callable[..., int | None], tuple] = {
    _list: (_flag("--all", help="the ablations as well"),),
    _run: (
        _option("preset", help="a name of `tempering list`"),
        _path("--out", help="a new folder for the run; needed unless --dry-run"),
        _whole("--seed", help="everything random follows from it"),
        _whole("--budget", help="the most evaluations to spend"),
        _option(
            "--set",
            action="extend",
            nargs="+",
            default=[],
            metavar="NAME=VALUE",
            help="change single settings, such as training.num_steps=500; takes several, and may be repeated",
        ),
        _flag("--dry-run", help="print the expanded configuration and the planned evaluations, and stop"),
        _QUIET,
    ),
    _resume: (_FOLDER, _whole("--budget", help="evaluations to spend on top of a finished run"), _QUIET),
    _sample: (
        _path("folder", help="a run's folder, or one that `sampler.save` wrote"),
        _whole("-n", "--num", default=10_000, help="how many draws (default: 10,000)"),
        _path(
            "-o",
            "--out",
            default=Path("draws.npz"),
            help="the file to write, in the format of its suffix; it must not exist (default: draws.npz)",
        ),
        _whole("--seed", default=0, help="the same seed gives the same draws (default: 0)"),
        _flag("--weighted", help="add log weights that make expectations exact; costs one evaluation per draw"),
        _flag("--quasi-random", help="weighted draws that cover the target evenly: means may be much closer"),
        _flag("--even", help="equally weighted points made of such draws instead; costs two evaluations per point"),
    ),
    _evaluate: (
        _FOLDER,
        _whole("--num-samples", help="draws compared with as many exact ones"),
        _whole("--num-transport", help="of these, how many enter the exact optimal transport"),
        _QUIET,
    ),
    _report: (_FOLDER,),
    _reference: (
        _option("name", help="dw4, lj13, lj55, aldp, or any other preset that is about particles"),
        _whole("-n", "--n", dest="num", default=10_000, help="how many samples (default: 10,000)"),
        _path("--out", help="a folder for reference.npz and reference.json; the cache if not given"),
        _whole("--seed", help="everything random follows from it (default: 0)"),
        _whole("--chains", help="independent ladders of chains"),
        _whole("--steps", help="HMC steps of every chain, the first quarter of which is thrown away"),
        _flag("--force", help="make it anew, whatever lies in the folder"),
        _QUIET,
    ),
}
"""What each command takes; its name is that of its function."""


class _Parser(argparse.ArgumentParser):
    """A parser that refuses in one line, as everything else here does."""

    def error(self, message: str) -> NoReturn:
        raise SettingsError(f"{message}; `{self.prog} --help` shows what is allowed")


def _parsed(arguments: list[str]) -> Callable[[], int | None]:
    """The command with its arguments, not yet carried out.

    Raises:
        SettingsError: for what cannot be read, with the nearest name where one is close.
    """
    parser = _Parser(
        prog="tempering",
        description="Turn an unnormalised density into a sampler: progressive tempering with diffusion.",
        allow_abbrev=False,
    )
    version = f"tempering {tempering.__version__}"
    parser.add_argument("--version", action="version", version=version, help="show the version and exit")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    allowed: dict[str, list[str]] = {}
    for function, options in _OPTIONS.items():
        name, about = function.__name__.removeprefix("_"), function.__doc__ or ""
        command = commands.add_parser(name, help=about.split("\n")[0], description=about, allow_abbrev=False)
        command.set_defaults(command=function)
        allowed[name] = [word for names, how in options for word in command.add_argument(*names, **how).option_strings]
    if arguments and not arguments[0].startswith("-") and arguments[0] not in allowed:
        parser.error(f"unknown command {arguments[0]!r}{_nearest(arguments[0], allowed)}")
    given, unknown = parser.parse_known_args(arguments)
    if unknown:
        name = given.command.__name__.removeprefix("_")
        parser.prog = f"tempering {name}"
        parser.error(f"unknown argument {unknown[0]!r}{_nearest(unknown[0].split('=')[0], allowed[name])}")
    named = vars(given)
    return functools.partial(named.pop("command"), **named)


def _nearest(word: str, known: Iterable[str]) -> str:
    """`(did you mean …?)`, or nothing where no known word is like it."""
    near = difflib.get_close_matches(word, known, n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def main(arguments: list[str] | None = None) -> int:
    """Run a command; the exit code is 0, 1 where a reference did not converge, 2 for a refusal, 130 if interrupted."""
    try:
        command = _parsed(sys.argv[1:] if arguments is None else list(arguments))
        keep_programs()
        code = command()
        sys.stdout.flush()  # here, where a full disk behind it can still be told
    except TemperingError as error:
        print("tempering:", " ".join(str(error).split()), file=sys.stderr)
        return 2
    except OSError as error:
        print(f"tempering: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return code or 0
