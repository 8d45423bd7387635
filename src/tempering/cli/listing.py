"""`tempering list`: the presets from the catalogue, in 80 columns."""

import textwrap

from tempering.lab.catalogue import read

__all__ = ["show_presets"]

_COLUMNS = 80


def show_presets(all: bool) -> None:
    """Print the presets, ablations only if asked for."""
    known = read()
    shown = {name: about for name, about in known.items() if all or not about["is_ablation"]}
    rows = [("name", "method", "evaluations")]
    rows += [(name, about["method"], f"{about['evaluations']:,}") for name, about in shown.items()]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    words = [f"{about['target']} ({about['dim']}-D): {about['description']}" for about in shown.values()]
    for (name, method, cost), description in zip(rows, ["", *words], strict=True):
        print(f"{name:<{widths[0]}} {method:<{widths[1]}} {cost:>{widths[2]}}")
        if description:
            print(textwrap.fill(description, _COLUMNS, initial_indent="    ", subsequent_indent="    "))
    if not all:
        hidden = len(known) - len(shown)
        print(f"\n`tempering list --all` shows {hidden} more: presets with one piece taken away or replaced.")
