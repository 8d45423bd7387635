"""`tempering list`: the presets from the catalogue, in 80 columns."""

import textwrap
from typing import Any

from tempering.lab.catalogue import GROUPS, read

__all__ = ["show_presets"]

_COLUMNS = 80


_HEADER = ("name", "method", "target", "evaluations")


def show_presets(all: bool) -> None:
    """Print the usual presets; those of all groups, under headings, only if asked for."""
    known = read()
    for group, heading in GROUPS.items() if all else [("usual", "")]:
        if heading:
            print(f"{'' if group == 'usual' else chr(10)}-- {heading} --")
        _show_table({name: about for name, about in known.items() if about["group"] == group})
    if not all:
        hidden = sum(about["group"] != "usual" for about in known.values())
        print(
            f"\n`tempering list --all` shows {hidden} more: the paper's settings, methods of others,\n"
            "and presets with one piece taken away or replaced."
        )


def _show_table(presets: dict[str, dict[str, Any]]) -> None:
    """One table; its columns are as wide as it needs."""
    rows = [_HEADER] + [
        (name, about["method"], f"{about['target']} ({about['dim']}-D)", f"{about['evaluations']:,}")
        for name, about in presets.items()
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    words = ["", *(about["description"] for about in presets.values())]
    for (name, method, target, cost), description in zip(rows, words, strict=True):
        print(f"{name:<{widths[0]}} {method:<{widths[1]}} {target:<{widths[2]}} {cost:>{widths[3]}}")
        if description:
            # A command in a description stays in one piece: no breaks at hyphens.
            print(textwrap.indent(textwrap.fill(description, _COLUMNS - 4, break_on_hyphens=False), 4 * " "))
