"""Long lines of words in a terminal: broken between words, and indented so that a finding still reads as one."""

import re
import shutil
import sys
import textwrap
from pathlib import Path

__all__ = ["print_verdict", "print_words", "wrapped"]

_LEAD = re.compile(r" *(\[..\] )?")
"""What further lines leave blank: the spaces that a line begins with, and the mark of a finding."""
_WIDEST = 110


def wrapped(text: str, width: int) -> str:
    """The text with its long lines broken; tables should be narrower than `width`, or they are broken too."""
    lines = []
    for line in text.splitlines():
        found = _LEAD.match(line)
        lead = " " * max(2, 0 if found is None else found.end())
        lines += textwrap.wrap(line, width, subsequent_indent=lead, break_long_words=False, break_on_hyphens=False) or [
            ""
        ]
    return "\n".join(lines)


def print_words(text: str) -> None:
    """Print; lines are broken for a person at a terminal, and left whole for a file or a program."""
    if sys.stdout.isatty():
        text = wrapped(text, min(shutil.get_terminal_size().columns, _WIDEST) - 1)
    print(text)


def print_verdict(text: str, folder: Path) -> None:
    """Print what a verdict says. Its advice is for Python; a last line says the same for the command line."""
    print_words(text)
    if "`improve(" in text:
        print_words(f"Here `improve(budget=…)` is `tempering resume {folder} --budget N`: N evaluations more.")
