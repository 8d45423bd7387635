"""Every finding of a verdict has a heading in the documentation, and says where it is."""

import ast
import re
from importlib import metadata
from pathlib import Path

import pytest

from tempering.sampler.diagnosis import Finding, Verdict
from tempering.sampler.diagnosis.pages import EXPLAINED, address_of, page_of

ROOT = Path(__file__).parents[2]


def _names_in(text: str) -> set[str]:
    """Names of findings in a source: the first argument of what makes one, and what `name` or `search` is set to."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and node.args and getattr(node.func, "id", "") in ("Finding", "log_z_agreement"):
            found |= {node.args[0].value} if isinstance(node.args[0], ast.Constant) else set()
        if isinstance(node, ast.Assign):
            target, value = node.targets[0], node.value
            targets = target.elts if isinstance(target, ast.Tuple) else [target]
            values = value.elts if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) else [value]
            pairs = zip(targets, values, strict=False)
            found |= {
                v.value for t, v in pairs if getattr(t, "id", "") in ("name", "search") and isinstance(v, ast.Constant)
            }
    return {name for name in found if isinstance(name, str)}


def _names_made() -> set[str]:
    package = ROOT / "src" / "tempering"
    more = (package / "sampler" / "several.py", package / "baselines" / "findings.py")
    sources = [*(package / "sampler" / "diagnosis").glob("*.py"), *more]
    return set().union(*(_names_in(path.read_text(encoding="utf-8")) for path in sources))


def test_the_names_are_found_in_a_source():
    text = 'name, x = "one", 2\nFinding("two", "good")\nlog_z_agreement("three", a, b)\nFinding(name, "good")\n'
    assert _names_in(text) == {"one", "two", "three"}


def test_every_finding_that_the_code_makes_is_explained():
    assert _names_made() == set(EXPLAINED)


def test_the_page_has_a_heading_for_each():
    page = (ROOT / "docs/doubtful.md").read_text(encoding="utf-8")
    assert re.findall(r"^### (.+)$", page, re.MULTILINE) == list(EXPLAINED)


def test_a_finding_says_where_it_is_explained():
    finding = Finding("the referee's chains", "doubtful", "2 %", "mass is missing", "more budget")
    assert finding.page == "docs/doubtful.md#the-referees-chains"
    assert "More: docs/doubtful.md#the-referees-chains" in str(Verdict((finding,)))
    assert "More:" not in str(Finding("final weights", "good", "0.9", "fine"))
    assert page_of("something else") is None and address_of("something else") is None


@pytest.mark.parametrize(
    ("urls", "address"),
    [
        ([], None),
        (["Source, https://example.org/code"], None),
        (["Documentation, https://example.org/docs/"], "https://example.org/docs/doubtful.html#final-weights"),
    ],
)
def test_a_version_with_a_site_links_to_it(monkeypatch, urls, address):
    class _Metadata:
        def get_all(self, name):
            assert name == "Project-URL"
            return urls or None

    monkeypatch.setattr(metadata, "metadata", lambda name: _Metadata())
    assert address_of("final weights") == address
