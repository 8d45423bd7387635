"""Reports of one's own density: finished, still going, stopped, saved without a run, of an older version; compared."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock

import tempering as tp
from tempering.cli import main
from tempering.errors import RunFolderError, SettingsError
from tempering.lab.report import compare_lines, compare_page, compare_runs, make_report
from tempering.lab.report.contents import read_contents
from tempering.runs.storage import read_arrays, read_json, write_arrays, write_json


@pytest.fixture(scope="module")
def own(own_run) -> Path:
    return own_run


@pytest.fixture
def a_copy(own, tmp_path):
    def copy(*without: str) -> Path:
        return shutil.copytree(own, tmp_path / "copy", ignore=shutil.ignore_patterns(*without, ".lock"))

    return copy


def test_a_fit_of_ones_own_has_an_answer_by_name(own):
    text = make_report(own).read_text(encoding="utf-8")
    assert "<h1>my-fit</h1>" in text and "Fit of a density of your own" in text
    for words in ("gain", "noise", "positive", "your log density", "like=..., support=...", "seed=0", "initial PT"):
        assert words in text
    asked = text[text.index('id="asked"') : text.index('id="answer"')]
    identity = read_json(own / "config.json")["config"]["target"]["arguments"]
    assert str(identity["density"]) not in asked, "a hash is no name"
    assert "not judged" not in text and "tempering resume" not in text, "nothing is missing, and nothing to resume"
    story = read_contents(own)
    assert story.answer is not None and story.answer.names == ("gain", "noise", "shift[0]", "shift[1]")
    assert np.all(story.answer.values[:, 1] > 0), "in the user's coordinates"
    samples = story.samples[max(story.samples)].position
    assert np.all(samples[:, 1] > 0), "levels too"
    assert sum(story.seconds.values()) > 0 and "of the fit, compilation included" in text


def test_the_answer_is_that_of_the_sampler(own):
    loaded, story = tp.load(own), read_contents(own)
    assert story.answer is not None
    for ours, theirs in zip(story.answer.estimates(), loaded.estimates(), strict=True):
        assert ours.name == theirs.name and ours.mean == pytest.approx(theirs.mean, rel=1e-5)


def test_a_run_that_is_still_going_says_so_and_reloads(a_copy):
    folder = a_copy("sampler.json", "sampler.npz", "samples.npz")
    event = {"stage": "training", "level": 1, "num_levels": 4, "evaluations": 1234, "planned": 4000, "seconds": 65.0}
    (folder / "progress.json").write_text(json.dumps(event))
    with FileLock(folder / ".lock"):
        text = make_report(folder).read_text(encoding="utf-8")
    assert 'http-equiv="refresh"' in text and "This run is still going" in text and "Still running" in text
    assert "<dd>1,234<small>" in text, "the card has them too"
    assert "1,234 of 4,000 evaluations; now training at level 2 of 4; 1 min 05 s so far" in text and "--report" in text
    text = make_report(folder).read_text(encoding="utf-8")  # the lock is free: its process is gone
    assert 'http-equiv="refresh"' not in text and "this run is not finished" in text
    assert "the same call of <code>tp.fit</code> goes on with it" in text


def test_a_folder_that_lacks_something_says_what_to_do(a_copy):
    folder = a_copy("samples.npz", "levels", "stats.jsonl")
    text = make_report(folder).read_text(encoding="utf-8")
    for words in ("There are no draws in this folder that can be shown", "Samples by level are not in this folder"):
        assert words in text
    assert "not recorded" in text and "no times by stage" in text and "There are no draws to show" in text


@pytest.mark.slow
def test_an_older_folder_still_shows_what_can_be_read(a_copy):
    folder = a_copy()
    kept = {name: array for name, array in read_arrays(folder / "samples.npz").items() if not name.startswith("shown/")}
    write_arrays(folder / "samples.npz", kept)
    assert read_contents(folder).answer is None  # in coordinates that the page does not guess
    facts = read_json(folder / "sampler.json")
    write_json(folder / "sampler.json", {**facts, "chart": None, "structure": None})
    answer = read_contents(folder).answer
    assert answer is not None and answer.names == ("x[0]", "x[1]", "x[2]", "x[3]") and answer.log_weights is not None


def test_a_saved_sampler_has_a_report_without_a_run(own, tmp_path):
    tp.load(own).save(tmp_path / "saved")
    text = make_report(tmp_path / "saved").read_text(encoding="utf-8")
    assert "<h1>saved</h1>" in text and "gain" in text and "initial PT" in text


@pytest.mark.slow
def test_a_sampler_writes_its_report_to_a_file(own, tmp_path):
    sampler = tp.load(own)
    before = sorted(path.name for path in own.iterdir())
    page = sampler.report(tmp_path / "pages" / "mine.html")
    text = page.read_text(encoding="utf-8")
    assert page == tmp_path / "pages" / "mine.html" and [p.name for p in page.parent.iterdir()] == ["mine.html"]
    assert "<h1>my-fit</h1>" in text and "gain" in text and "figure-marginals" in text and "seed=0" in text
    assert sampler.folder == own and sorted(path.name for path in own.iterdir()) == before, "its folder stays as it is"
    sampler.folder = None
    again = sampler.report(page).read_text(encoding="utf-8")
    assert "<h1>mine</h1>" in again and sampler.folder is None, "an older page is replaced"
    for file, words in (("mine.pdf", "give .html"), ("mine", "without an ending; give .html")):
        with pytest.raises(SettingsError, match=words):
            sampler.report(tmp_path / file)


def test_runs_are_compared(own, a_copy, tmp_path):
    other = a_copy()
    facts = read_json(other / "sampler.json")
    write_json(other / "sampler.json", {**facts, "log_z": facts["log_z"] + 50.0, "log_z_error": 0.1})
    comparison = compare_runs([own, other])
    lines = compare_lines(comparison)
    assert lines[0].split() == ["my-fit", "copy"] and any(line.startswith("log Z") for line in lines)
    (gain,) = (line for line in lines if line.startswith("gain"))
    assert gain.endswith("0.0 errors")
    assert any("more than 4 standard errors in log Z" in line for line in lines)
    text = compare_page(comparison, tmp_path / "a.html").read_text(encoding="utf-8")
    assert "my-fit and copy" in text and text.count("<svg") >= 4
    compare_page(comparison, tmp_path / "a.html")  # its own page may be replaced
    (tmp_path / "mine.html").write_text("mine")
    with pytest.raises(RunFolderError, match="is not a page of"):
        compare_page(comparison, tmp_path / "mine.html")
    with pytest.raises(SettingsError, match="two folders or more"):
        compare_runs([own])
    with pytest.raises(SettingsError, match="given twice"):
        compare_runs([own, own])


@pytest.mark.slow
def test_a_run_without_draws_leaves_the_others_comparable(own, a_copy, tmp_path):
    unfinished = a_copy("sampler.json", "sampler.npz", "samples.npz").rename(tmp_path / "unfinished")
    other = a_copy()
    facts = read_json(other / "sampler.json")
    write_json(other / "sampler.json", {**facts, "log_z": facts["log_z"] + 50.0, "log_z_error": 0.1})
    comparison = compare_runs([own, unfinished, other])
    lines = "\n".join(compare_lines(comparison))
    assert dict(comparison.rows)["method"] == ("PTSD", "PTSD", "PTSD"), "by its title"
    again = make_report(unfinished).read_text(encoding="utf-8")
    assert "with the arguments of the first call it goes on" in again and "tp.load(" not in again, "nothing to load yet"
    assert "unfinished has no draws to compare" in lines and "more than 4 standard errors in log Z" in lines
    assert all(values[1] == "–" for _, values, _ in comparison.parameters) and len(comparison.parameters) == 4
    page = compare_page(comparison, tmp_path / "a.html").read_text(encoding="utf-8")
    assert page.count('class="picture"') == 12 and page.count('viewBox="0 0 170 40"') == 8


def test_the_command_compares(own, a_copy, tmp_path, capsys):
    page = tmp_path / "both.html"
    assert main(["compare", str(own), str(a_copy()), "-o", str(page)]) == 0
    out = capsys.readouterr().out
    assert "verdict" in out and "gain" in out and str(page) in out and page.exists()
    assert main(["compare", str(own)]) == 2 and "two folders or more" in capsys.readouterr().err


@pytest.mark.slow
def test_unlike_runs_are_compared_as_far_as_they_go(own, plane_run):
    comparison = compare_runs([own, plane_run])
    assert not comparison.parameters and "different parameters" in comparison.notes[0] and len(comparison.notes) == 1


def test_stage_times_are_lines_of_the_statistics(own):
    stages = [json.loads(line) for line in (own / "stats.jsonl").read_text().splitlines()]
    assert {entry["stage"] for entry in stages if entry["event"] == "stage"} >= {"initial PT", "training"}
    assert "seconds" not in read_json(own / "sampler.json"), "what must be the same to the last bit has no times"
