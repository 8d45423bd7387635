"""The report as a whole: its files, that nothing in it is fetched or executed, and that the folder alone decides it."""

import base64
import hashlib
import shutil
import struct
import sys
from html.parser import HTMLParser
from pathlib import Path

import matplotlib
import matplotlib.image
import numpy as np
import pytest

from tempering.errors import RunFolderError
from tempering.lab.report import FIGURES, make_report
from tempering.plots.style import FILE_STYLE, bytes_of, render
from tempering.runs.storage import read_arrays, read_json, write_arrays, write_json

_VOID = {"meta", "img", "br", "hr", "input", "link"}
_LOADING = {"src", "href", "srcset", "action", "data", "poster", "formaction", "background"}


class _Page(HTMLParser):
    """Every tag with its attributes, the text, and whether the tags are balanced."""

    def __init__(self, text: str):
        super().__init__()
        self.tags, self.words, self.open = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.words)


def _page_of(path: Path) -> _Page:
    page = _Page(path.read_text(encoding="utf-8"))
    assert not page.open
    return page


def _foreign_references(page: _Page) -> list[str]:
    """What a browser would fetch or run: anything but data in the page, and its own script."""
    found = [tag for tag, _ in page.tags if tag in ("link", "iframe", "object", "embed", "base", "form")]
    scripts = [attributes for tag, attributes in page.tags if tag == "script"]
    found += ["script"] * sum(attributes.get("type") != "application/json" for attributes in scripts[:-1])
    for _, attributes in page.tags:
        for name, value in attributes.items():
            own = (value or "").startswith(("data:image/png;base64,", "data:application/pdf;base64,", "#"))
            if name.startswith("on") or (name.removeprefix("xlink:") in _LOADING and not own):
                found.append(f"{name}={value}")
            if name == "style" and "url(" in (value or "").replace("url(#", ""):
                found.append(value)
    return found


def _digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_every_figure_is_a_file_of_three_kinds_and_is_in_the_page(plane_report):
    page = _page_of(plane_report / "report.html")
    stored = {path.name: path.read_bytes() for path in (plane_report / "figures").iterdir()}
    names = set(FIGURES) - {"modes"}  # no search is on record
    assert set(stored) == {f"{name}.{form}" for name in names for form in ("png", "svg", "pdf")}
    embedded = {a["href"] for tag, a in page.tags if tag == "a" and "download" in a}
    pdfs = [stored[f"{name}.pdf"] for name in names]
    assert {base64.b64decode(link.split(",")[1]) for link in embedded} == set(pdfs)
    shown = {a["id"] for tag, a in page.tags if tag == "figure"}
    assert shown == {f"figure-{name}" for name in names - {"corner"}}  # which is drawn by the script
    for name in names:
        picture = stored[f"{name}.png"]
        assert picture.startswith(b"\x89PNG\r\n\x1a\n") and stored[f"{name}.pdf"].startswith(b"%PDF")
        width, height = struct.unpack(">II", picture[16:24])
        assert 500 < width < 1300 and 150 < height < 1300, name
        pixels = matplotlib.image.imread(plane_report / "figures" / f"{name}.png")
        assert pixels.shape[:2] == (height, width) and pixels[..., :3].std() > 0.01


def test_letters_of_users_files_are_such_as_journals_take(letters_of_users, monkeypatch):
    figure = render(2.0, 1.0, lambda figure: figure.text(0.5, 0.5, "letters"))
    assert b"/Type3" in bytes_of(figure, "pdf"), "the quick letters of the other tests, which the check must notice"
    monkeypatch.setitem(FILE_STYLE, "pdf.fonttype", letters_of_users)
    assert b"/CIDFontType2" in (content := bytes_of(figure, "pdf")) and b"/Type3" not in content


def test_the_page_needs_nothing_from_outside(plane_report):
    text = (plane_report / "report.html").read_text(encoding="utf-8")
    assert not _foreign_references(_Page(text))
    style = text[text.index("<style>") : text.index("</style>")]
    assert "@import" not in style and "url(" not in style and "http" not in style
    assert "default-src" in text and "prefers-color-scheme: dark" in style
    # The only script that may run is the page's own: its hash is in the policy.
    script = text[text.rindex("<script>") + len("<script>") : text.rindex("</script>")]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in text and "http" not in script.replace("http://www.w3.org/2000/svg", "")


@pytest.mark.parametrize(
    "text",
    [
        '<img src="https://example.org/a.png">',
        '<link href="style.css">',
        "<script>1</script><script>2</script>",
        '<image xlink:href="https://example.org/a.png"/>',
        '<p onclick="x()"></p>',
        '<p style="background: url(a)"></p>',
    ],
)
def test_something_from_outside_would_be_seen(text):
    assert _foreign_references(_Page(text))


def test_the_page_tells_what_matters(plane_report):
    page = _page_of(plane_report / "report.html")
    for words in ("usable values", "3 values not finite", "paper_w2 failed: the solver did not converge", "1,340,000"):
        assert words in page.text
    assert "0.013 ± 0.021" in " ".join(page.text.split()), "the error has an element of its own"
    for words in ("exact: 0", "1.39×", "refinement", "settings.buffer_size", "versions.jax"):
        assert words in page.text
    # What each level was drawn from, what that promised and what the weights were like.
    for words in ("proposal", "log_T, second order", "predicted", "0.417", "Pareto k", "0.46", "x[1]", "5 min 12 s"):
        assert words in page.text
    order = [a["id"] for tag, a in page.tags if tag == "section" and "id" in a]
    assert order == ["asked", "answer", "trust", "cost", "way", "benchmark", "again"]
    assert "Trustworthy" in page.text and "tempering run mog40" in page.text and "@inproceedings" in page.text


@pytest.mark.slow
def test_a_deeper_run_has_pairs_and_no_weights(deep_run):
    page = _page_of(make_report(deep_run))
    names = {path.stem for path in (deep_run / "figures").iterdir()}
    assert names == set(FIGURES) - {"weights", "modes", "levels"}, "marginals show the levels"
    assert "Pairs of coordinates" in page.text and "Weights of the draws" not in page.text


@pytest.mark.slow
def test_the_folder_alone_decides_the_bytes(plane_report, monkeypatch):
    before = _digests(plane_report)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)  # importing it would now raise
    with matplotlib.rc_context({"font.size": 23.0, "axes.facecolor": "red", "savefig.dpi": 30.0}):
        settings = dict(matplotlib.rcParams)
        path = make_report(plane_report)
        assert dict(matplotlib.rcParams) == settings
    assert path == plane_report / "report.html"
    assert _digests(plane_report) == before


@pytest.mark.slow
def test_another_folder_gives_other_bytes(plane_report, a_copy):
    folder = a_copy(plane_report, without=("levels", "evaluation.npz", "figures"))
    before, result = make_report(folder).read_bytes(), read_json(folder / "result.json")
    write_json(folder / "result.json", {**result, "log_z": 1.5})
    assert make_report(folder).read_bytes() != before


def test_a_hostile_name_is_text(plane_run, a_copy):
    hostile = '<script>alert(1)</script>"><img src=x onerror=alert(2)>'
    metric = {"value": 1.0, "floor": 0.5, "description": hostile, "unit": hostile}
    config = {**read_json(plane_run / "config.json")["config"], "description": hostile, hostile: hostile}
    folder = a_copy(
        plane_run,
        without=("levels", "evaluation.npz", "figures"),
        result={
            "name": hostile,
            "method": hostile,
            "device": hostile,
            "seed": hostile,
            "target": {"name": hostile, "arguments": {hostile: hostile}},
            "warnings": [hostile],
            "verdict": {
                "status": hostile,
                "findings": [{"name": hostile, "status": hostile, "measured": hostile}, hostile],
            },
            "metrics": {hostile: metric, "lost": {"value": None, "failure": hostile}},
            "ledger": {"points": {hostile: 3}},
            "levels": [],
        },
        config={"config": config},
        environment={hostile: hostile},
    )
    path = make_report(folder)
    page = _page_of(path)
    assert not _foreign_references(page)
    assert hostile in "".join(page.words)
    assert hostile not in path.read_text(encoding="utf-8")


@pytest.mark.slow
def test_figures_of_an_earlier_report_do_not_stay(plane_report, a_copy):
    folder = a_copy(plane_report, without=("levels",))
    arrays = read_arrays(folder / "evaluation.npz")
    write_arrays(folder / "evaluation.npz", {"draws": arrays["draws"][:50]})
    (folder / "figures" / "mine.png").write_bytes(b"of the user")
    make_report(folder)
    assert {path.stem for path in (folder / "figures").iterdir()} == {
        *("samples", "corner", "marginals", "ladder", "training", "mine"),
    }


def test_a_run_that_is_not_finished_has_a_report(plane_run, a_copy):
    folder = a_copy(plane_run, without=("result.json", "evaluation.npz", "environment.json", "figures"))
    page = _page_of(make_report(folder))
    assert "this run is not finished" in page.text
    assert {path.stem for path in (folder / "figures").iterdir()} == {"ladder", "levels", "level_energies", "training"}
    assert "1,300,000" in page.text  # what the last part's note says was spent


def test_what_is_no_run_is_refused(tmp_path, plane_run, a_copy):
    with pytest.raises(RunFolderError, match="holds no config.json; give the folder of a run"):
        make_report(tmp_path)
    folder = a_copy(plane_run)
    whole = (folder / "evaluation.npz").read_bytes()
    (folder / "evaluation.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(RunFolderError, match="damaged"):
        make_report(folder)


@pytest.mark.slow
def test_draws_that_are_not_finite_are_shown_as_such(deep_run, a_copy):
    folder = a_copy(deep_run, without=("levels", "figures"))
    arrays = read_arrays(folder / "evaluation.npz")
    arrays["draws"][:5] = np.nan
    arrays["draws"][5:7] = np.inf
    arrays["draws_log_density"][:5], arrays["draws_log_density"][5:7] = np.nan, -np.inf
    write_arrays(folder / "evaluation.npz", {**arrays, "log_weights": arrays["draws_log_density"]})
    make_report(folder)
    assert {"samples", "energy", "weights"} <= {path.stem for path in (folder / "figures").iterdir()}


def test_a_folder_of_another_version_is_refused_in_words(plane_run, tmp_path):
    folder = tmp_path / "older"
    shutil.copytree(plane_run, folder)
    write_json(folder / "config.json", {**read_json(folder / "config.json"), "format": "tempering run 1"})
    with pytest.raises(RunFolderError, match=r"another version: it has format 'tempering run 1'.*fit it again"):
        make_report(folder)
