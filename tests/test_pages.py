"""The examples of the pages on trust, crash safety, looking at a sampler and evidence run as printed, in small."""

import re
from dataclasses import replace
from pathlib import Path

import jax
import pytest

from support.tiny import quick_compilation, tiny_ptsd
from support.unchecked import unchecked
from tempering.methods.registry import METHODS
from tempering.settings import Ladder

DOCS = Path(__file__).parent.parent / "docs"
PAGES = ("trust", "crash-safety", "looking-at-a-sampler", "evidence", "going-on")


@pytest.fixture
def run_page(monkeypatch, tmp_path):
    """A function that runs a page's examples, one after another, in an empty folder, and gives their names."""
    tiny = tiny_ptsd(ladder=Ladder(hottest=2.0, num_levels=2))
    monkeypatch.setitem(METHODS, "ptsd", replace(METHODS["ptsd"], default=lambda **_: tiny))
    monkeypatch.chdir(tmp_path)

    def run(name: str) -> dict:
        page, names = DOCS / f"{name}.md", {}
        promotion = jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard")
        with unchecked(), quick_compilation(), promotion[0], promotion[1]:
            for example in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
                exec(compile(example, str(page), "exec"), names)
        return names

    return run


@pytest.mark.parametrize("name", PAGES)
def test_examples_are_python(name):
    blocks = re.findall(r"^```python\n(.*?)^```", (DOCS / f"{name}.md").read_text(), re.MULTILINE | re.DOTALL)
    assert blocks and all(compile(block, name, "exec") for block in blocks)


@pytest.mark.slow
def test_the_page_on_trust(run_page, capsys):
    assert run_page("trust")["verdict"].status in ("trustworthy", "unknown", "doubtful", "wrong")
    assert "two fits" in capsys.readouterr().out


@pytest.mark.slow
def test_the_page_on_crash_safety(run_page):
    assert run_page("crash-safety")["sampler"].sample(3).shape == (3, 2)


@pytest.mark.slow
def test_the_page_on_evidence(run_page, capsys):
    names = run_page("evidence")
    assert names["error"] > 0 and set(names["curve"].sample(3)) == {"a", "b", "c"}
    assert "log Bayes factor of the curve over the line" in capsys.readouterr().out


@pytest.mark.slow
def test_the_page_on_looking(run_page, tmp_path):
    names = run_page("looking-at-a-sampler")
    assert len(list((tmp_path / "figures").glob("*.png"))) == len(names["figures"]) > 3
    assert (tmp_path / "draws.parquet").exists()


@pytest.mark.slow
def test_the_page_on_going_on(run_page, tmp_path):
    names = run_page("going-on")
    assert names["better"].evaluations > names["sampler"].evaluations and len(names["samplers"]) == 3
    assert len(names["log_weights"]) == 9_000 and (tmp_path / "runs" / "better" / "samples.npz").exists()
