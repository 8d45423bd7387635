"""Every relative link of every page leads to a file, every anchor to a heading, and the navigation names every page.

`make docs` checks the same with MkDocs; this needs nothing but the pages.
"""

import re
from pathlib import Path

import pytest

import tempering as tp
from support.pages import DOCS, ROOT, anchors, links, name_of, pages

OUTSIDE = {"index.md": "README.md"} | {f"repository/{name}": name for name in ("CONTRIBUTING.md", "CHANGELOG.md")}
"""Pages of the site that lie outside docs/; docs/hooks/repository.py puts them there."""


def broken_links(page: Path, text: str) -> list[str]:
    """Links of a page's text that lead nowhere."""
    found = []
    for link in links(text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        place = (page.parent / path).resolve() if path else page
        if not place.is_file():
            found.append(f"{link}: no such file")
        elif anchor and place.suffix == ".md" and anchor not in anchors(place.read_text(encoding="utf-8")):
            found.append(f"{link}: no such heading")
    return found


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_links_lead_somewhere(page):
    assert not broken_links(page, page.read_text(encoding="utf-8"))


def test_a_broken_link_would_be_found():
    page = DOCS / "trust.md"
    good = "[a](going-on.md#several-seeds) [b](../results/curves.json) [c](#scouts) [d](https://example.org)"
    assert not broken_links(page, good)
    for bad in (
        "[a](gone.md)",
        "[a](going-on.md#nowhere)",
        "![a](figures/gone.png)",
        "[a](#nowhere)",
        "[a](../results)",
    ):
        assert len(broken_links(page, bad)) == 1, bad


def named_pages() -> list[str]:
    """Pages that the navigation of mkdocs.yml names, as paths in the repository."""
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:\n")[1]
    names = re.findall(r"([\w./-]+\.md)\s*$", navigation, re.MULTILINE)
    return [OUTSIDE.get(name, f"docs/{name}") for name in names]


def test_the_navigation_names_every_page_once():
    assert sorted(named_pages()) == sorted(name_of(page) for page in pages())


def test_the_reference_has_every_public_name():
    text = "\n".join(page.read_text(encoding="utf-8") for page in (DOCS / "api").glob("*.md"))
    documented = set(re.findall(r"^::: tempering\.(\w+)$", text, re.MULTILINE))
    values = {"real", "positive", "simplex", "ordered"}  # values have no docstring of their own; the page has a table
    assert documented == set(tp.__all__) - values
    assert all(f"`tp.{name}`" in text for name in values)


def test_the_reference_shows_what_a_sampler_inherits():
    """`summary` and `plot` come from a base class, whose members are shown on request only."""
    page = (DOCS / "api" / "sampler.md").read_text(encoding="utf-8")
    own = page.split("::: tempering.Sampler\n")[1].split("\n:::")[0]
    inherited = {name for base in tp.Sampler.__mro__[1:-1] for name in vars(base) if not name.startswith("_")}
    assert inherited and "inherited_members: true" in own
