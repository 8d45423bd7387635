"""The pages of the documentation: their text, links, anchors and Python blocks, and a way to run them as pasted."""

import inspect
import pkgutil
import re
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jax

from support.tiny import quick_compilation
from support.unchecked import unchecked

__all__ = ["DOCS", "ROOT", "as_users_run_it", "anchors", "blocks", "links", "name_of", "pages", "run_blocks", "scripts"]

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SCRIPT = re.compile(r'^```py title="([\w.]+)"\n(.*?)^```', re.MULTILINE | re.DOTALL)
_FENCED = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_REFERENCE = re.compile(r"^::: ([\w.]+)$", re.MULTILINE)


def pages() -> list[Path]:
    """Every page of the site: those under docs/, and the three beside it that the site takes."""
    outside = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    return outside + sorted(DOCS.rglob("*.md"))


def name_of(page: Path) -> str:
    """A page by its path in the repository."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[str]:
    """The Python blocks of a page, in order."""
    return _BLOCK.findall(page.read_text(encoding="utf-8"))


def scripts(page: Path) -> list[str]:
    """The blocks of a page that are files of their own, in order: workers import them, so they cannot be pasted."""
    return [code for _, code in _SCRIPT.findall(page.read_text(encoding="utf-8"))]


def links(text: str) -> list[str]:
    """Where the links and pictures of a text lead, code left out."""
    prose = re.sub(r"`[^`\n]*`", "``", _FENCED.sub("", text))
    return _LINK.findall(prose)


def anchors(text: str) -> set[str]:
    """The anchors of a page: of its headings, as MkDocs makes them, and of the names that its reference documents."""
    found: set[str] = set()
    for heading in re.findall(r"^#{1,6} +(.*)$", _FENCED.sub("", text), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        plain = unicodedata.normalize("NFKD", plain).encode("ascii", "ignore").decode()
        slug = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())
        unique, number = slug, 0
        while unique in found:
            number += 1
            unique = f"{slug}_{number}"
        found.add(unique)
    return found.union(*map(_documented, _REFERENCE.findall(text)))


def _documented(name: str) -> set[str]:
    """A name of the reference, and the public members of a class, inherited ones too."""
    value = pkgutil.resolve_name(name)
    members = dir(value) if inspect.isclass(value) else ()
    return {name, *(f"{name}.{member}" for member in members if not member.startswith("_"))}


@contextmanager
def as_users_run_it() -> Iterator[None]:
    """Without the checks of types and promotion that tests add, and compiled quickly."""
    promotion = jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard")
    with unchecked(), quick_compilation(), promotion[0], promotion[1]:
        yield


def run_blocks(page: Path, code: list[str]) -> dict:
    """Run blocks of a page one after another, as pasted, and give the names that they define."""
    names: dict = {"__name__": "__page__"}
    with as_users_run_it():
        for number, block in enumerate(code):
            exec(compile(block, f"{name_of(page)}, block {number}", "exec"), names)
    return names
