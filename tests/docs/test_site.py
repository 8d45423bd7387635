"""`make docs` fails where a page has a fault: MkDocs is run here as the Makefile runs it, on pages of a few words."""

import importlib.util
import re
import subprocess
import sys

import pytest

from support.pages import ROOT

FAULTS = {
    "a broken link": "[a](gone.md)",
    "a missing anchor": "[a](other.md#nowhere)",
    "a missing picture": "![a](gone.png)",
}


def options() -> list[str]:
    """What the Makefile gives to `mkdocs build`."""
    (found,) = re.findall(r"mkdocs build (.*)", (ROOT / "Makefile").read_text(encoding="utf-8"))
    return found.split("#")[0].split()


def configuration() -> str:
    """What mkdocs.yml says of strictness, for two pages."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    (strict,) = re.findall(r"^strict: .*$", text, re.MULTILINE)
    (checks,) = re.findall(r"^validation:\n(?:  .*\n)+", text, re.MULTILINE)
    return f"site_name: few words\n{strict}\n{checks}nav: [index.md, other.md]\n"


def build(folder, words: str, more: list[str]) -> int:
    """The exit code of MkDocs for a page with these words."""
    (folder / "docs").mkdir(exist_ok=True)
    (folder / "mkdocs.yml").write_text(configuration())
    (folder / "docs" / "index.md").write_text(f"# A page\n\n{words}\n")
    (folder / "docs" / "other.md").write_text("# Another\n\n## Somewhere\n")
    command = [sys.executable, "-m", "mkdocs", "build", *more]
    return subprocess.run(command, cwd=folder, capture_output=True, timeout=120).returncode


def test_warnings_are_not_hidden_from_the_check():
    """`strict` counts what MkDocs logs: with --quiet there is nothing to count, and a broken link passes."""
    assert not {"-q", "--quiet", "--no-strict"} & set(options())
    assert "strict: true" in configuration() and "anchors: warn" in configuration()


@pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="MkDocs is installed by `make docs`")
@pytest.mark.parametrize(
    "fault", [fault if fault == "a missing anchor" else pytest.param(fault, marks=pytest.mark.slow) for fault in FAULTS]
)
def test_a_fault_fails_the_build(fault, tmp_path):
    assert build(tmp_path, "[a](other.md#somewhere)", options()) == 0
    assert build(tmp_path, FAULTS[fault], options()) != 0
    assert build(tmp_path, FAULTS[fault], [*options(), "--quiet"]) == 0, "the saboteur: nothing is counted"


def test_methods_of_the_reference_show_their_arguments():
    """Where a class has dozens of arguments its own line is hidden by a rule of style, and its methods keep theirs."""
    pages = {page: page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "api").glob("*.md")}
    assert not [page.name for page, text in pages.items() if "show_signature: false" in text]
    hidden = re.findall(r'\[id="([\w.]+)"\]', (ROOT / "docs" / "assets" / "site.css").read_text(encoding="utf-8"))
    assert "tempering.Sampler" in hidden and set(hidden) <= set(
        re.findall(r"^::: (.+)$", "\n".join(pages.values()), re.M)
    )
