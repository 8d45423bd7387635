"""The figures of the pages are those of results/, and no result carries a machine's own path."""

import json
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
RESULTS = sorted((ROOT / "results").glob("*.json"))


def test_the_results_table_is_current():
    rewritten = runpy.run_path(str(ROOT / "benchmarks" / "results_table.py"))["rewritten"]
    for page, figure in (("docs/results.md", "1,080,200"), ("README.md", "300,000")):
        text = (ROOT / page).read_text()
        assert text == rewritten(text), "run `python benchmarks/results_table.py`"
        altered = text.replace(figure, "1,080,201")
        assert altered != rewritten(altered), "the comparison would not notice a changed figure"


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
