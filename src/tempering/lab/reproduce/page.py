"""The page of the docs: between marks, every table and figure from the records under results/, ours beside the paper's.

What stands outside the marks is written by hand, and kept. `python benchmarks/results_table.py` writes the page again.
"""

from pathlib import Path

from tempering.lab.reproduce.names import NAMES, where
from tempering.lab.reproduce.published import published
from tempering.lab.reproduce.records import find_records
from tempering.lab.reproduce.registry import REPRODUCTIONS
from tempering.lab.reproduce.view import View
from tempering.lab.reproduce.work import Work, view_of

__all__ = ["BEGIN", "END", "drawn", "rewritten", "section"]

BEGIN, END = "<!-- reproduce {}: begin -->", "<!-- reproduce {}: end -->"


def section(name: str, root: Path) -> str:
    """What the page shows of one reproduction: the paper's claim, its table, its figure, and the command."""
    parts = [f"{where(name)}. `tempering reproduce {name}`"]
    claim = published(name).get("claim")
    if claim is not None:
        parts.append(f"The paper: {claim}.")
    is_quick = _is_quick_alone(name, root)
    view = _view(name, root, is_quick)
    if is_quick:
        view.note("**Quick: not the paper's settings.** The full version was not run yet.")
    parts.append(REPRODUCTIONS[name].table(view).markdown())
    if REPRODUCTIONS[name].figure is not None and _has_records(name, root, is_quick):
        parts.append(f"![{NAMES[name]}](figures/reproduce/{name}.png)")
    return "\n\n".join(parts)


def _view(name: str, root: Path, is_quick: bool) -> View:
    return view_of(
        Work(name, is_quick=is_quick, out=root / "results" / "reproduce", results=root / "results", root=root)
    )


def _has_records(name: str, root: Path, is_quick: bool) -> bool:
    """Whether there are new records of the reproduction's cells: older files have no data for figures."""
    keys = {cell.key for cell in REPRODUCTIONS[name].cells(None, is_quick)}
    return any(key in keys for key in find_records(root / "results"))


def _is_quick_alone(name: str, root: Path) -> bool:
    """Whether there is only a quick version; older results count as more than that."""
    if _has_records(name, root, False):
        return False
    view = _view(name, root, False)
    cells = {(cell.name, cell.kind, cell.budget) for cell in REPRODUCTIONS[name].cells(None, False)}
    has_older = any(view.of(each, kind, budget).good for each, kind, budget in cells)
    return not has_older and _has_records(name, root, True)


def rewritten(text: str, root: Path) -> str:
    """A page's text with fresh sections, where it has marks for them."""
    for name in NAMES:
        begin, end = BEGIN.format(name), END.format(name)
        if begin in text:
            before, rest = text.split(begin)
            text = f"{before}{begin}\n{section(name, root)}\n{end}{rest.split(end)[1]}"
    return text


def drawn(root: Path) -> dict[str, bytes]:
    """The figures of the page as PNG, by name: those that have records to draw."""
    from tempering.plots.style import png_of

    found = {}
    for name, one in REPRODUCTIONS.items():
        is_quick = _is_quick_alone(name, root)
        if one.figure is not None and _has_records(name, root, is_quick):
            found[name] = png_of(one.figure(_view(name, root, is_quick)))
    return found
