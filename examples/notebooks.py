"""Run the notebooks of examples/notebooks/ and write their pages: `make notebooks`, or one of them by name.

    python examples/notebooks.py two_modes mog40

A notebook is a Python file of cells that begin with `# %%`; a cell that begins with `# %% [markdown]` is text. Jupyter
(with jupytext), VS Code and Spyder open such files as notebooks. Here each cell is executed as in a notebook: what it
prints and the Matplotlib figures that it leaves open follow its code on the page, `docs/examples/NAME.md`. The last
line of a page says how long the notebook took and with which versions.
"""

import argparse
import ast
import contextlib
import io
import os
import platform
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Cell", "cells_of", "code_of_page", "execute", "page_of"]

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS, PAGES = ROOT / "examples" / "notebooks", ROOT / "docs" / "examples"
MARK = re.compile(r"^# %%( \[markdown\])?\s*$", re.MULTILINE)
CODE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Cell:
    """A cell of a notebook: text or code, without its mark."""

    source: str
    is_text: bool


def cells_of(source: str) -> list[Cell]:
    """The cells of a notebook; what stands before the first mark, its docstring, is left out."""
    marks = list(MARK.finditer(source))
    ends = [mark.start() for mark in marks[1:]] + [len(source)]
    cells = []
    for mark, end in zip(marks, ends, strict=True):
        body, is_text = source[mark.end() : end].strip("\n"), mark.group(1) is not None
        if is_text:
            body = "\n".join(re.sub(r"^# ?", "", line) for line in body.splitlines())
        cells.append(Cell(body, is_text))
    return cells


def code_of_page(page: str) -> list[str]:
    """The Python blocks of a page."""
    return [block.rstrip("\n") for block in CODE.findall(page)]


def _is_drawing(value) -> bool:
    """Whether a value is what Matplotlib's functions return, which a page shows as a picture or not at all."""
    parts = value if isinstance(value, list | tuple) else [value]
    return any("matplotlib" in type(part).__module__ for part in parts)


def execute(cells: list[Cell], save_figure) -> list[str]:
    """Run the cells one after another, in one namespace.

    Args:
        save_figure: called with every figure that a cell leaves open, in order; gives the Markdown that shows it.

    Returns:
        What follows each cell on the page; nothing for text.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.figure import Figure

    names: dict = {"__name__": "__notebook__"}
    results = []
    for cell in cells:
        if cell.is_text:
            results.append("")
            continue
        printed, value = io.StringIO(), None
        tree = ast.parse(cell.source)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        with contextlib.redirect_stdout(printed):
            exec(compile(tree, "<cell>", "exec"), names)
            if isinstance(last, ast.Expr):  # shown as a notebook shows it
                value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
                if value is not None and not _is_drawing(value):
                    print(value)
        shown, figures = [], [plt.figure(number) for number in plt.get_fignums()]
        if isinstance(value, Figure) and value not in figures:
            figures.append(value)
        if printed.getvalue().strip():
            shown.append("```text\n" + printed.getvalue().rstrip() + "\n```")
        shown += [save_figure(figure) for figure in figures]
        plt.close("all")
        results.append("\n\n".join(shown))
    return results


def page_of(cells: list[Cell], results: list[str], footer: str) -> str:
    """The page of a notebook that was executed."""
    parts = []
    for cell, result in zip(cells, results, strict=True):
        parts.append(cell.source if cell.is_text else f"```python\n{cell.source}\n```")
        if result:
            parts.append(result)
    return "\n\n".join(parts) + f"\n\n---\n\n{footer}\n"


def run(name: str) -> float:
    """Execute a notebook and write its page and figures; gives the seconds that it took."""
    cells = cells_of((NOTEBOOKS / f"{name}.py").read_text(encoding="utf-8"))
    PAGES.mkdir(parents=True, exist_ok=True)
    figures = []

    def save_figure(figure) -> str:
        path = PAGES / f"{name}-{len(figures) + 1}.png"
        figure.savefig(path, dpi=110, bbox_inches="tight", metadata={"Software": None})
        figures.append(path)
        return f"![{figure.get_label() or name}]({path.name})"

    start = time.perf_counter()
    results = execute(cells, save_figure)
    seconds = time.perf_counter() - start
    for old in PAGES.glob(f"{name}-*.png"):
        if old not in figures:
            old.unlink()
    import jax

    import tempering

    where = "a CPU" if jax.default_backend() == "cpu" else jax.devices()[0].device_kind
    footer = (
        f"*This page was made by `make notebooks NAMES={name}` from "
        f"[`examples/notebooks/{name}.py`](../../examples/notebooks/{name}.py). "
        f"It took {seconds:.0f} s on {where} ({os.cpu_count()} cores, shared with other work), with tempering "
        f"{tempering.__version__}, JAX {jax.__version__} and Python {platform.python_version()}.*"
    )
    (PAGES / f"{name}.md").write_text(page_of(cells, results, footer), encoding="utf-8")
    return seconds


def main(arguments: list[str]) -> int:
    """Run the notebooks that are named, or all."""
    known = sorted(path.stem for path in NOTEBOOKS.glob("*.py"))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(known)}; all without one")
    names = parser.parse_args(arguments).names or known
    unknown = [name for name in names if name not in known]
    if unknown:
        parser.error(f"there is no notebook {', '.join(unknown)}; there are {', '.join(known)}")
    for name in names:
        print(f"{name} ...", flush=True)
        print(f"{name}: {run(name):.0f} s, docs/examples/{name}.md", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
