"""What the site takes from outside docs/: the README as its home, the changelog, and every file that a page links to.

A page links to a file of the repository as it lies there, `../results/curves.json`, so that the link works where
Markdown is read as it is. On the site such a file lies under `repository/`, and links to it are rewritten.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent.parent
PLACE = "repository"
PAGES = {"README.md": "index.md"} | {name: f"{PLACE}/{name}" for name in ("CONTRIBUTING.md", "CHANGELOG.md")}
"""Pages that lie outside docs/, and where the site has them."""

LINK = re.compile(r"(\]\()([^)\s]+)(\))")
FROM_ELSEWHERE = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=.?https?:[^>]*>|<link\b[^>]*stylesheet[^>]*https?:[^>]*>"
)


def repository_path(page: str, link: str) -> str:
    """The path, from the repository's root, of what a link on a page leads to; without its anchor."""
    own = {place: source for source, place in PAGES.items()}.get(page, f"docs/{page}")
    return posixpath.normpath(posixpath.join(posixpath.dirname(own), link.partition("#")[0]))


def site_path(path: str) -> str:
    """Where the site has a file of the repository."""
    if path in PAGES:
        return PAGES[path]
    return path.removeprefix("docs/") if path.startswith("docs/") else f"{PLACE}/{path}"


def is_external(link: str) -> bool:
    """Whether a link leaves the repository, or stays on its page."""
    return link.startswith("#") or bool(re.match(r"[a-z]+:", link))


def rewritten(page: str, text: str) -> str:
    """A page's text with links as the site needs them."""

    def replace(match: re.Match) -> str:
        link = match.group(2)
        if is_external(link):
            return match.group(0)
        place = site_path(repository_path(page, link))
        anchor = "#" + link.partition("#")[2] if "#" in link else ""
        return match.group(1) + posixpath.relpath(place, posixpath.dirname(page) or ".") + anchor + match.group(3)

    return LINK.sub(replace, text)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages and files that lie outside docs/."""
    for source, place in PAGES.items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / source)))
    linked = set()
    for file in files.documentation_pages():
        for match in LINK.finditer(Path(file.abs_src_path).read_text(encoding="utf-8")):
            if not is_external(match.group(2)):
                linked.add(repository_path(file.src_uri, match.group(2)))
    for path in sorted(linked):
        place = site_path(path)
        if place.startswith(f"{PLACE}/") and path not in PAGES and (ROOT / path).is_file():
            files.append(File.generated(config, place, abs_src_path=str(ROOT / path)))
    return files


_WHOLE = "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}"


def whole_numbers(text: str) -> str:
    """A number of a table stays on one line with its error."""
    return re.sub(r"^\|.*", lambda row: row.group(0).replace(" ± ", _WHOLE), text, flags=re.MULTILINE)


def on_page_markdown(markdown: str, page: Page, **_) -> str:
    """Rewrite a page's links, and keep numbers of tables whole."""
    return whole_numbers(rewritten(page.file.src_uri, markdown))


def on_post_page(output: str, page: Page, **_) -> str:
    """Refuse a page that would load a script, style, picture or frame from elsewhere: the site works offline."""
    found = FROM_ELSEWHERE.findall(output)
    if found:
        raise PluginError(f"{page.file.src_uri} loads from elsewhere: {found[0]}")
    return output
