"""`tempering reproduce`: a table or figure of the paper, ours beside its own. `lab.reproduce` does the work."""

import sys
import textwrap
from pathlib import Path

from tempering.errors import SettingsError
from tempering.lab.reproduce.names import NAMES, require_name, where
from tempering.settings import require_positive, require_seed

__all__ = ["reproduce"]

_COLUMNS = 80


def reproduce(
    name: str | None,
    list: bool,
    quick: bool,
    seeds: list[int] | None,
    only: list[str] | None,
    out: Path,
    folder: Path,
    most_minutes: float | None,
    dry_run: bool,
    only_show: bool,
    fresh: bool,
    commit: str | None,
    quiet: bool,
) -> int | None:
    """Make or show one table or figure; the exit code is 1 where cells are left for another call."""
    if list or name is None:
        if name is None and not list:
            raise SettingsError(
                f"no name was given; known: {', '.join(NAMES)}; `tempering reproduce --list` says what each is"
            )
        _list()
        return None
    require_name(name)
    for seed in seeds or ():
        require_seed("--seeds", seed)
    if most_minutes is not None:
        require_positive("--most-minutes", most_minutes)
    from tempering.compilation import keep_programs
    from tempering.lab.reproduce.work import Work, planned, show, work_off, write
    from tempering.runs.display import choose_display

    keep_programs()
    command = " ".join(["tempering", "reproduce", *_told(name, quick, seeds, only)])
    work = Work(name, seeds, quick, only, folder, out, fresh=fresh, told_commit=commit, command=command)
    plans = planned(work)
    if not plans:
        raise SettingsError(f"--only {' '.join(only or ())} leaves no cell of {name}; leave it out to see all")
    print(_plan_text(name, quick, plans, work.file))
    if dry_run:
        return None
    is_done = True
    if only_show:
        write(work)
    else:
        limit = None if most_minutes is None else 60 * most_minutes
        with choose_display(quiet=quiet, name=name) as on_event:
            is_done = work_off(work, limit, lambda text: print(text, flush=True), on_event)
    written = f"written: {work.file}" if work.file.exists() else "nothing was written: no cell is finished yet"
    print(f"\n{show(work)}\n\n{written}")
    if not is_done:
        print("\ncells are left: the same command goes on with them", file=sys.stderr)
    return 0 if is_done else 1


def _told(name: str, quick: bool, seeds: list[int] | None, only: list[str] | None) -> list[str]:
    words = [name, *(["--quick"] if quick else [])]
    words += ["--seeds", *map(str, seeds)] if seeds else []
    return words + (["--only", *only] if only else [])


def _list() -> None:
    width = max(map(len, NAMES))
    for name, about in NAMES.items():
        text = f"{where(name)}: {about}"
        print(textwrap.fill(text, _COLUMNS, initial_indent=f"{name:<{width}}  ", subsequent_indent=" " * (width + 2)))
    print("\n`tempering reproduce NAME --dry-run` says what it will run, how long, and what is there already.")


def _plan_text(name: str, quick: bool, plans: list, file: Path) -> str:
    """What is going to be run, how long that takes, and what is there."""
    from tempering.runs.progress import duration_text

    lines = [f"{name} ({where(name)}): {NAMES[name]}"]
    if quick:
        lines.append("quick: not the paper's settings, and figures of it are labelled so")
    width = max(len(plan.cell.key) for plan in plans)
    for plan in plans:
        seconds, source = plan.time
        told = f"about {duration_text(seconds)}, {source}" if seconds is not None else source
        words = plan.why if plan.state == "refused" else (told if plan.is_to_do else "")
        lines.append(f"  {plan.cell.key:<{width}}  {plan.state}{f': {words}' if words else ''}")
    to_do = [plan for plan in plans if plan.is_to_do]
    known = [plan.time[0] for plan in to_do if plan.time[0] is not None]
    whole = f"{len(plans) - len(to_do)} of {len(plans)} cells are there; {len(to_do)} to make"
    if known:
        unknown = len(to_do) - len(known)
        whole += f", about {duration_text(sum(known))}" + (f" and {unknown} of unknown length" if unknown else "")
    return "\n".join([*lines, whole, f"the result goes to {file}"])
