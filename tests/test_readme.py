"""The figures of the pages are those of results/, and no result carries a machine's own path."""

import functools
import json
import runpy
from pathlib import Path

import pytest

from support.unchecked import unchecked
from tempering.lab.reproduce import page as paper
from tempering.lab.reproduce import work
from tempering.lab.reproduce.age import without_marks

ROOT = Path(__file__).parent.parent
RESULTS = sorted((ROOT / "results").glob("*.json")) + sorted((ROOT / "results" / "reproduce").glob("*.json"))


def test_the_results_table_is_current():
    rewritten = runpy.run_path(str(ROOT / "benchmarks" / "results_table.py"))["rewritten"]
    for page, figure in (("docs/results.md", "1,080,200"), ("README.md", "2,600,000")):
        text = (ROOT / page).read_text()
        # Marks of age change with every commit that touches the algorithm; the figures must not.
        assert without_marks(text) == without_marks(rewritten(text)), "run `python benchmarks/results_table.py`"
        altered = text.replace(figure, "1,080,201")
        assert without_marks(altered) != without_marks(rewritten(altered)), (
            "the comparison would not notice a changed figure"
        )


def test_the_page_of_the_paper_is_current(monkeypatch):
    monkeypatch.setattr(work, "settings_digest", functools.cache(work.settings_digest))
    text = (ROOT / "docs" / "reproduction.md").read_text()
    assert all(paper.BEGIN.format(name) in text for name in paper.NAMES)
    with unchecked():
        rewritten = paper.rewritten(text, ROOT)
    assert without_marks(text) == without_marks(rewritten), "run `python benchmarks/results_table.py`"
    altered = text.replace("1,080,200", "1,080,201")
    with unchecked():
        assert altered != text and without_marks(altered) != without_marks(paper.rewritten(altered, ROOT))


def test_the_ablation_tables_are_current():
    script = runpy.run_path(str(ROOT / "benchmarks" / "ablation_table.py"))
    text = (ROOT / "docs" / "ablations.md").read_text()
    assert text == script["rewritten"](text), "run `python benchmarks/ablation_table.py`"
    altered = text.replace("0.064 ± 0.002", "0.063 ± 0.002")
    assert altered != text and altered != script["rewritten"](altered)


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.name)
def test_a_result_says_where_it_comes_from(path):
    content = json.loads(path.read_text())
    commits = content.get("commits") or [content["commit"]]  # results that grow over days were made at several
    assert content["command"].startswith(("python benchmarks/", "tempering "))
    assert all(len(commit) >= 7 for commit in commits)
    assert not any(root in path.read_text() for root in ("/home/", "/root/", "/tmp/", "/work/"))
