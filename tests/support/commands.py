"""Commands of the command line: in this process, as one that is refused, and as a process of its own."""

import contextlib
import io
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import jax
import pytest

from support.tiny import (
    COMMAND,
    quick_compilation,
    subprocess_environment,
)
from support.unchecked import unchecked
from tempering.cli import main
from tempering.lab.presets import PRESETS
from tempering.plots.style import FILE_STYLE

__all__ = ["PTSD", "PT_DM", "as_users_run_it", "command", "process", "refused", "without_report"]

PTSD = next(name for name, config in PRESETS.items() if config.method == "ptsd")
PT_DM = next(name for name, config in PRESETS.items() if config.method == "pt_dm")


@contextlib.contextmanager
def as_users_run_it() -> Iterator[None]:
    """`main` sets the compilation cache of the process: it gets the suite's own, and the suite's settings come back."""
    cache = jax.config.jax_compilation_cache_dir
    least = jax.config.jax_persistent_cache_min_compile_time_secs
    with pytest.MonkeyPatch.context() as patched, quick_compilation(), unchecked():
        patched.setenv("TEMPERING_CACHE", cache)
        patched.setenv("COLUMNS", "80")
        patched.setitem(FILE_STYLE, "pdf.fonttype", 3)  # half of the time of a report; tests/report has users' fonts
        yield
    jax.config.update("jax_compilation_cache_dir", cache)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", least)


@contextlib.contextmanager
def without_report() -> Iterator[None]:
    """Runs end without their page, for tests of something else: drawing it takes longer than a tiny run."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("tempering.lab.report.make_report", lambda folder: folder / "report.html")
        yield


def command(*arguments) -> tuple[int, str, str]:
    """The exit code, the output and the errors of a command."""
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as stop:  # the parser's own refusals
            code = stop.code
    return code, out.getvalue(), errors.getvalue()


def refused(*arguments) -> str:
    """The one line that a refusal writes."""
    code, out, errors = command(*arguments)
    assert code == 2, f"exit code {code}, output {out!r}"
    assert out == "" and errors.startswith("tempering: ") and errors.count("\n") == 1, errors
    return errors


def process(*arguments, cwd: Path) -> subprocess.CompletedProcess:
    """The same as a process of its own."""
    environment = subprocess_environment(os.environ["TEMPERING_CACHE"])
    arguments = [str(argument) for argument in arguments]
    return subprocess.run([*COMMAND, *arguments], env=environment, cwd=cwd, capture_output=True, text=True, timeout=120)
