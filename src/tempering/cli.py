"""The command line: list, run, resume, sample, evaluate, report, reference. Holds no algorithm.

Refusals exit with code 2 and one line; an interrupted run says how to resume.
"""

import contextlib
import dataclasses
import functools
import io
import itertools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import tyro

import tempering
from tempering.errors import RunFolderError, SettingsError, TemperingError
from tempering.lab.compilation import enable_compilation_cache
from tempering.settings import require_count

__all__ = ["main"]


def _list() -> None:
    """Show the presets with what each will cost."""
    from rich.console import Console
    from rich.table import Table

    from tempering.lab.presets import PRESETS
    from tempering.methods.budget import forecast
    from tempering.methods.registry import title_of
    from tempering.registry import target_of

    table = Table(title="Presets")
    for title in ("name", "method", "target", "evaluations", "what it is"):
        # Only the description may be folded: a name cut short cannot be typed.
        table.add_column(title, justify="right" if title == "evaluations" else "left", no_wrap=title != "what it is")
    for name, config in PRESETS.items():
        target = target_of(config)
        cost = sum(forecast(config.settings, target.dim, config.budget).values())
        where = f"{config.target.name} ({target.dim}-D)"
        table.add_row(name, title_of(config.method, config.settings), where, f"{cost:,}", config.description)
    Console().print(table)


def _run(
    preset: str,
    out: Path | None = None,
    seed: int | None = None,
    budget: int | None = None,
    set: tuple[str, ...] = (),
    dry_run: bool = False,
    quiet: bool = False,
) -> None:
    """Fit a preset, judge it and write its report.

    Args:
        preset: a name of `tempering list`.
        out: a new folder for the run; needed unless --dry-run.
        seed: everything random follows from it.
        budget: the most evaluations to spend.
        set: changes of single settings, such as training.num_steps=500; may hold several.
        dry_run: print the expanded configuration and the planned evaluations, and stop.
        quiet: show nothing but the result.
    """
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


def _resume(folder: Path, quiet: bool = False) -> None:
    """Go on with a run that was stopped.

    Args:
        folder: the run's folder.
        quiet: show nothing but the result.
    """
    from tempering.lab.run import resume
    from tempering.runs.display import choose_display

    try:
        with choose_display(quiet=quiet) as on_event:
            result = resume(folder, on_event)
    except KeyboardInterrupt:
        _say_how_to_resume(folder)
        raise
    _finish(folder, result)


def _sample(
    folder: Path,
    num: Annotated[int, tyro.conf.arg(aliases=["-n"])] = 10_000,
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("draws.npz"),
    seed: int = 0,
    weighted: bool = False,
    quasi_random: bool = False,
    even: bool = False,
) -> None:
    """Draw from a trained sampler into a file: .npz, .parquet or .nc (NetCDF).

    Args:
        folder: a run's folder, or one that `sampler.save` wrote.
        num: how many draws.
        out: the file to write, in the format of its suffix; it must not exist.
        seed: the same seed gives the same draws.
        weighted: add log weights that make expectations exact; costs one evaluation a draw.
        quasi_random: weighted draws that cover the target evenly: in few dimensions means over all may be much closer.
        even: equally weighted points made of such draws instead; costs two evaluations a point.
    """
    from tempering.runs.exports import check_place

    require_count("-n", num)
    check_place(out)
    sampler = tempering.load(folder)
    sampler.save_draws(out, num, seed=seed, weighted=weighted, is_quasi_random=quasi_random, is_even=even)
    print(f"wrote {num:,} draws of {sampler.dim} dimensions to {out}")


def _evaluate(
    folder: Path, num_samples: int | None = None, num_transport: int | None = None, quiet: bool = False
) -> None:
    """Judge a trained sampler again, for example with more samples in the transport distances.

    Args:
        folder: the run's folder.
        num_samples: draws compared with as many exact ones.
        num_transport: of these, how many enter the exact optimal transport.
        quiet: show nothing but the result.
    """
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
    """Write the figures and the HTML page of a run's folder.

    Args:
        folder: the run's folder.
    """
    from tempering.lab.report import make_report

    print(f"report  {make_report(folder)}")


def _reference(
    name: str,
    num: Annotated[int, tyro.conf.arg(name="n", aliases=["-n"])] = 10_000,
    out: Path | None = None,
    seed: int | None = None,
    chains: int | None = None,
    steps: int | None = None,
    force: bool = False,
    quiet: bool = False,
) -> int:
    """Make reference samples of particles or a molecule by long parallel tempering, with evidence that it converged.

    A set that was made before is found again. The exit code is 1 if the evidence is not good enough.

    Args:
        name: dw4, lj13, lj55, aldp, or any other preset of `tempering list` that is about particles.
        num: how many samples.
        out: a folder for reference.npz and reference.json; the cache if not given.
        seed: everything random follows from it; 0 if not given.
        chains: independent ladders of chains.
        steps: HMC steps of every chain, the first quarter of which is thrown away.
        force: make it anew, whatever lies in the folder.
        quiet: show nothing but the result.
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

    page = make_report(folder)
    print("\n".join(quality_lines(result)))
    print(f"\nfigures  {folder / 'figures'}\nreport   {page}")


def _say_how_to_resume(folder: Path) -> None:
    if (Path(folder) / "config.json").exists():
        print(f"\nstopped; `tempering resume {folder}` goes on from the last finished part", file=sys.stderr)


def _join_repeated(arguments: list[str], option: str) -> list[str]:
    """`--set a=1 --set b=2` as `--set a=1 b=2`: otherwise the last one would silently win."""
    values: list[str] = []
    rest: list[str] = []
    index = 0
    while index < len(arguments):
        if arguments[index] == option:
            index += 1
            while index < len(arguments) and not arguments[index].startswith("-"):
                values.append(arguments[index])
                index += 1
        elif arguments[index].startswith(option + "="):
            values.append(arguments[index].removeprefix(option + "="))
            index += 1
        else:
            rest.append(arguments[index])
            index += 1
    return [*rest, option, *values] if values else rest


def _parsed(commands: dict[str, Callable], arguments: list[str]) -> Callable[[], int | None]:
    """The command with its arguments, not yet carried out.

    Raises:
        SettingsError: in one line, in place of the parser's box.
    """
    later = {name: functools.wraps(command)(functools.partial(_later, command)) for name, command in commands.items()}
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return tyro.extras.subcommand_cli_from_dict(
                later,
                prog="tempering",
                description="Turn an unnormalised density into a sampler: progressive tempering with diffusion.",
                args=arguments,
                config=(tyro.conf.PositionalRequiredArgs, tyro.conf.FlagCreatePairsOff),
            )
    except SystemExit as stop:
        if not stop.code:  # help was asked for
            raise
        raise SettingsError(_first_part(said.getvalue())) from None


def _later(command: Callable, *arguments, **named) -> Callable[[], int | None]:
    return functools.partial(command, *arguments, **named)


def _first_part(box: str) -> str:
    """What the parser complains of, without the frame, the options it guesses at and the advice."""
    lines = [line.strip("│╭╮╰╯ \t") for line in box.splitlines()]
    kept = list(itertools.takewhile(lambda line: not line.startswith(("──", "Got errors")), lines[1:]))
    text = " ".join(line for line in kept if line) or "the command line cannot be read"
    return f"{text.rstrip('.')}; `tempering --help` and `tempering COMMAND --help` show what is allowed"


def main(arguments: list[str] | None = None) -> int:
    """Run a command; the exit code is 0, 1 where a reference did not converge, 2 for a refusal, 130 if interrupted."""
    commands = {
        "list": _list,
        "run": _run,
        "resume": _resume,
        "sample": _sample,
        "evaluate": _evaluate,
        "report": _report,
        "reference": _reference,
    }
    given = _join_repeated(sys.argv[1:] if arguments is None else list(arguments), "--set")
    try:
        command = _parsed(commands, given)
        enable_compilation_cache()
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
