"""Pages, public docstrings and the help of the command: no word of our own dialect, no sentence that is too long."""

import inspect
import re

import pytest

import tempering as tp
import tempering.settings
from support.pages import DOCS, ROOT, name_of, pages
from tempering.cli.options import COMMANDS

HISTORY = ("docs/decisions/", "docs/log.md", "CHANGELOG.md")
"""Kept as they were written."""
DIALECT = re.compile(
    r"\b(so many|told|dear|dearer|as few|polish|scouted|thereof|gone on with|mend|anew|foretold)\b", re.IGNORECASE
)
MOST_WORDS = 45


def strange_words(text: str) -> list[str]:
    """Words of a text that only this project uses so."""
    return [found.group(0) for found in DIALECT.finditer(text)]


def prose(text: str) -> str:
    """A page without code, tables, headings, generated blocks and addresses of links."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"<!--.*?begin -->.*?end -->", "", text, flags=re.DOTALL)
    text = "\n".join(line for line in text.splitlines() if not line.startswith(("|", "#", ":::", "![")))
    return re.sub(r"\]\([^)]*\)", "]", text)


def long_sentences(text: str) -> list[str]:
    """Sentences with more words than a reader should have to hold."""
    found = []
    for paragraph in re.split(r"\n\s*\n|\n *- ", prose(text)):
        sentences = re.split(r"(?<=[.!?:;])\s+(?=[A-Z`*(\[])", " ".join(paragraph.split()))
        found += [sentence for sentence in sentences if len(sentence.split()) > MOST_WORDS]
    return found


PAGES = [page for page in pages() if not name_of(page).startswith(HISTORY)]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_is_plain(page):
    text = page.read_text(encoding="utf-8")
    assert not strange_words(prose(text))
    assert not long_sentences(text)


def documented() -> dict[str, str]:
    """Docstrings of public names, of their public members, and of the groups of settings."""
    found = {}
    for room, names in ((tp, tp.__all__), (tempering.settings, tempering.settings.__all__)):
        for name in names:
            value = getattr(room, name)
            found[name] = inspect.getdoc(value) or ""
            for member in dir(value) if inspect.isclass(value) else ():
                if not member.startswith("_"):
                    found[f"{name}.{member}"] = inspect.getdoc(getattr(value, member, None)) or ""
    return found


def test_docstrings_are_plain():
    strange = {name: strange_words(text) for name, text in documented().items()}
    assert not {name: words for name, words in strange.items() if words}


def test_the_help_of_the_command_is_plain():
    for name, command in COMMANDS.items():
        words = [command.about, command.more, *(str(option.how.get("help")) for option in command.options)]
        assert not strange_words(" ".join(words)), name


def test_dialect_and_long_sentences_would_be_found():
    assert strange_words("It takes so many draws as it was told.") == ["so many", "told"]
    assert long_sentences("A first. " + "Word " + "word " * 50 + "end.") and not long_sentences("Short. " * 60)


def test_the_pages_are_there():
    assert {DOCS / "faq.md", ROOT / "README.md"} <= set(PAGES)
