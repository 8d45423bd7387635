"""Tables and figures of the paper by name: every one has a plan, work stops and goes on, records are shown as they are.

The reproduction that is carried out here is a fit of seconds in place of the preset's; all else is what users run.
"""

import dataclasses
import functools
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import jax
import pytest

from support.commands import command
from support.tiny import tiny_ptsd
from tempering.errors import RunFolderError
from tempering.lab.metrics.comparisons import ABOUT
from tempering.lab.presets import preset
from tempering.lab.reproduce import seconds, tables, tasks, work
from tempering.lab.reproduce.age import age, made_at, without_marks
from tempering.lab.reproduce.cells import Cell, cell_of, digest
from tempering.lab.reproduce.names import NAMES
from tempering.lab.reproduce.older import all_older
from tempering.lab.reproduce.published import published
from tempering.lab.reproduce.records import find_records, summarise
from tempering.lab.reproduce.registry import REPRODUCTIONS, plan_of
from tempering.lab.reproduce.variants import config_of, exists
from tempering.lab.reproduce.view import View
from tempering.lab.reproduce.work import Work, planned, show, work_off
from tempering.runs.config import MetricsConfig
from tempering.runs.progress import read_entries
from tempering.settings import PTSDSettings, Training

# Names and plans


def test_every_name_has_a_reproduction_and_what_the_paper_has():
    assert list(NAMES) == list(REPRODUCTIONS)
    for name in NAMES:
        known = published(name)
        assert known["where"] and ("claim" in known or known["rows"]), name


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("is_quick", [False, True], ids=["full", "quick"])
def test_every_name_has_a_plan(name, is_quick):
    cells = plan_of(name, None, is_quick)
    assert cells and len({cell.key for cell in cells}) == len(cells)
    assert all(cell.is_quick == is_quick for cell in cells)
    assert all(exists(cell.name) for cell in cells if cell.kind in ("fit", "refit"))
    first = cells[0]
    assert plan_of(name, [7], is_quick)[0] == dataclasses.replace(first, seed=7)
    assert len(tasks.settings_digest(first)) == 12


def test_a_quick_cell_has_other_settings_and_another_key():
    for name in ("mog40-paper", "mw32-paper-tau-80", "lj55-paper", "aldp-paper", "mw32"):
        full, quick = (Cell("fit", name, 0, None, is_quick) for is_quick in (False, True))
        assert full.key != quick.key and tasks.settings_digest(full) != tasks.settings_digest(quick)
        assert config_of(quick).settings.training.num_steps < config_of(full).settings.training.num_steps
    small = config_of(Cell("fit", "lj55-paper", 0, None, True))
    assert small.target.arguments == {"num_particles": 13, "smoothing": "spline"}


def test_variants_change_what_they_say():
    whole, changed = preset("mw32-paper").settings, config_of(Cell("fit", "mw32-paper-no-guidance", 3))
    assert isinstance(whole, PTSDSettings) and isinstance(changed.settings, PTSDSettings)
    assert changed.settings.guidance.kind == "none" and changed.seed == 3
    assert dataclasses.replace(changed.settings, guidance=whole.guidance) == whole
    without = config_of(Cell("fit", "mw32-paper-no-weights", 0)).settings
    assert isinstance(without, PTSDSettings) and without.resampling.levels == "none"
    ten = config_of(Cell("fit", "mog40-paper-pt-dm-10-levels", 0)).settings
    assert ten.ladder.num_levels == 10 and ten.network == preset("mog40-paper").settings.network
    ours = config_of(Cell("fit", "mw32-paper-pt-dm-our-network", 0)).settings
    assert ours.network.width == preset("mw32").settings.network.width
    assert ours.ladder == preset("mw32-paper-pt-dm").settings.ladder


def test_the_illustration_has_the_papers_column():
    """Its fourth column differs from that of LJ-55 by the temperatures alone: 2, 1.5, 1."""
    for base in ("lj55-paper", "lj55-paper-pt-dm"):
        whole, own = preset(base), config_of(Cell("fit", f"{base}-illustrative", 0))
        assert own.settings.ladder.temperatures == (2.0, 1.5, 1.0) and own.target == whole.target
        assert dataclasses.replace(own.settings, ladder=whole.settings.ladder) == whole.settings
    ours, papers = (Cell("illustration", name, 0) for name in ("lj55", "lj55-paper"))
    assert tasks.settings_digest(ours) != tasks.settings_digest(papers)
    assert [cell.name for cell in plan_of("figure-lj55-extrapolation", None, False)] == ["lj55", "lj55-paper"]


def test_tables_ask_for_metrics_that_there_are():
    """A wrong name would show a dash, or another metric, for ever."""
    asked = {*tables.W_POINTS, *tables.W_PARTICLES, tables.TVD, tables.MMD, "region_max_error", "second_moment_error"}
    assert asked <= set(ABOUT), asked - set(ABOUT)
    assert tables.W_PARTICLES[0] == "paper_aligned_w2" and tables.W_POINTS[0] == "paper_w2"


def test_the_number_of_draws_behind_the_papers_kl_is_part_of_a_cell(monkeypatch):
    before, other = (tasks.settings_digest(Cell("fit", name, 0)) for name in ("aldp-paper", "mog40-paper"))
    monkeypatch.setattr(tasks, "_MANY", 10)
    assert tasks.settings_digest(Cell("fit", "aldp-paper", 0)) != before
    assert tasks.settings_digest(Cell("fit", "mog40-paper", 0)) == other


def test_times_of_small_fits_say_nothing_of_large_ones(monkeypatch):
    """mog40 takes 150 s here and 30 s on a GPU: no reason to promise mw32-paper in five times the GPU's 246 s."""
    monkeypatch.setattr(seconds, "expected_seconds", lambda kind: None)
    here = jax.devices()[0].device_kind
    times = {"mog40": {here: 150.0, "GPU": 30.0}, "mw32-paper": {"GPU": 246.0}, "mog40-paper": {"GPU": 100.0}}
    took, words = seconds.expected(Cell("fit", "mw32-paper", 0), times)
    assert took is None and words == "not known here; 246 s on GPU with the preset's own sizes"
    took, words = seconds.expected(Cell("fit", "mog40-paper", 0, None, True), times)
    assert took is not None and "times 5.0 between the devices" in words
    assert seconds.expected(Cell("fit", "mog40", 0), times)[0] == 150.0
    times["mw32-paper"][here] = 9_000.0
    assert seconds.expected(Cell("fit", "mog40-paper", 0), times)[0] == pytest.approx(100.0 * 9_000.0 / 246.0)


def test_an_unknown_name_is_refused_with_the_nearest():
    code, _, error = command("reproduce", "table-qualty")
    assert code == 2 and "did you mean table-quality" in error and "panels-mw32" in error
    code, _, error = command("reproduce")
    assert code == 2 and "table-calls" in error
    code, _, error = command("reproduce", "table-calls", "--only", "nothing")
    assert code == 2 and "leaves no cell" in error


def test_the_list_needs_no_jax_and_has_all():
    code, text, _ = command("reproduce", "--list")
    assert code == 0 and all(name in text for name in NAMES)


def test_the_digest_forgets_defaults_and_nothing_else():
    @dataclasses.dataclass(frozen=True)
    class Later(Training):
        added: int = 3

    given = Training(num_steps=77)
    assert digest(given) == digest(Later(num_steps=77))
    assert digest(given) != digest(Training(num_steps=78)) != digest(Later(num_steps=78, added=4))


# Work: a reproduction from beginning to end, stopped and gone on with


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """A work whose cells are fits of seconds, in a folder of its own."""

    def config(cell):
        metrics = MetricsConfig(num_samples=40, num_transport=10, num_weighted=10, num_likelihood=10)
        base = preset("mog40-paper")
        return dataclasses.replace(base, name=cell.name, seed=cell.seed, settings=tiny_ptsd(), metrics=metrics)

    monkeypatch.setattr(tasks, "config_of", config)
    # Asked thousands of times for the same few cells; with the suite's checks of types that takes longer than the fits.
    monkeypatch.setattr(work, "settings_digest", functools.cache(work.settings_digest))
    monkeypatch.setattr(work, "expected", lambda cell, times: (1.0, "as a test says"))
    monkeypatch.setattr(work, "commit", lambda root, told: "abcdef0")
    monkeypatch.setattr(work, "age", lambda root, made: 0)
    return Work(
        "table-calls",
        seeds=[0, 1],
        only=["mog40-paper"],
        folder=tmp_path / "runs",
        out=tmp_path / "results" / "reproduce",
        results=tmp_path / "results",
        command="tempering reproduce table-calls",
        root=tmp_path,
    )


class Stop(BaseException):
    """What Ctrl-C does."""


def stopping_after(number: int):
    seen = []

    def observe(event):
        seen.append(event)
        if len(seen) == number:
            raise Stop

    return observe


@pytest.mark.slow
def test_an_interrupted_reproduction_goes_on(tiny, tmp_path, capsys):
    undisturbed = dataclasses.replace(tiny, folder=tmp_path / "other", out=tmp_path / "elsewhere" / "reproduce")
    undisturbed = dataclasses.replace(undisturbed, results=tmp_path / "elsewhere", seeds=[0])
    assert work_off(undisturbed)
    with pytest.raises(Stop):
        work_off(tiny, on_event=stopping_after(12))
    assert [plan.state for plan in planned(tiny)] == ["begun", "missing"] and not tiny.file.exists()
    assert work_off(tiny)
    capsys.readouterr()
    assert [plan.state for plan in planned(tiny)] == ["done", "done"]
    (stats,) = tiny.folder.glob("full/fit-mog40-paper-0-*/run")
    assert [entry["event"] for entry in read_entries(stats) if entry.get("event") in ("start", "resume")] == [
        "start",
        "resume",
    ]
    ours, theirs = find_records(tmp_path / "results"), find_records(tmp_path / "elsewhere")
    assert ours["fit:mog40-paper/0"]["metrics"] == theirs["fit:mog40-paper/0"]["metrics"]
    assert ours["fit:mog40-paper/0"]["metrics"] != ours["fit:mog40-paper/1"]["metrics"]
    content = json.loads(tiny.file.read_text())
    assert (
        content["seeds"] == [0, 1] and content["commits"] == ["abcdef0"] and content["command"] and content["devices"]
    )
    assert "counted" in show(tiny) and "other settings" not in show(tiny)
    assert all(cell_of(cell.key) == cell for cell in plan_of("figure-pareto", None, True))
    # A second call makes nothing, nor does a machine that has the JSON alone; other settings are another cell.
    elsewhere = dataclasses.replace(tiny, folder=tmp_path / "bare")
    for again in (tiny, elsewhere):
        assert work_off(again, say=pytest.fail)
    content["records"][0]["settings_hash"] = "0" * 12
    tiny.file.write_text(json.dumps(content))
    assert "other settings" in REPRODUCTIONS["table-quality"].table(work.view_of(elsewhere)).text()
    assert [plan.state for plan in planned(elsewhere)] == ["missing", "done"]


def test_no_time_makes_nothing_and_says_what_is_left(tiny):
    assert not work_off(tiny, most_seconds=0.0, say=lambda text: None)
    assert [plan.state for plan in planned(tiny)] == ["missing", "missing"]


def test_what_is_older_than_the_code_is_made_again_if_asked(tiny, monkeypatch):
    about = {"key": "fit:mog40-paper/0", "name": "mog40-paper", "seed": 0, "commit": "old", "at": "2000", "metrics": {}}
    record = {**about, "device": "cpu", "settings_hash": tasks.settings_digest(Cell("fit", "mog40-paper", 0))}
    tiny.out.mkdir(parents=True)
    tiny.file.write_text(json.dumps({"records": [record]}))
    monkeypatch.setattr(work, "age", lambda root, made: 5 if made == "old" else 0)
    one = dataclasses.replace(tiny, seeds=[0])
    assert [plan.state for plan in planned(one)] == ["done, older than the code"]
    (plan,) = planned(dataclasses.replace(one, fresh=True))
    assert plan.state == "missing" and plan.is_to_do


def test_a_failure_is_kept_shown_and_tried_again(tiny, monkeypatch):
    def fail(cell, place, on_event, fit_place=None):
        raise FloatingPointError("it fell apart")

    monkeypatch.setattr(work, "carry_out", fail)
    said = []
    assert work_off(tiny, say=said.append)
    assert any("FAILED" in line and "fell apart" in line for line in said)
    assert [record["failed"][:13] for record in json.loads(tiny.file.read_text())["records"]] == ["FloatingPoint"] * 2
    assert all(plan.is_to_do for plan in planned(tiny))
    assert "2, 2 failed" in REPRODUCTIONS["table-quality"].table(work.view_of(tiny)).text()


def test_a_file_that_is_none_of_ours_is_refused(tiny):
    tiny.out.mkdir(parents=True)
    tiny.file.write_text('{"something": 1}')
    with pytest.raises(RunFolderError, match="not a file of `tempering reproduce`"):
        planned(tiny)


# Tables from records


def fake(name: str, seed: int, is_quick: bool = False, **metrics: float) -> dict:
    key = Cell("fit", name, seed, None, is_quick).key
    values = {metric: {"value": value, "floor": 0.05} for metric, value in metrics.items()}
    return {"key": key, "name": name, "seed": seed, "commit": "abcdef0", "evaluations": 123_456, "metrics": values}


def view(*records: dict, is_quick: bool = False, older: dict | None = None, root=Path()) -> View:
    return View({record["key"]: record for record in records}, older or {}, is_quick, root)


def row_of(name: str, of: View, *words: str) -> list[str]:
    rows = REPRODUCTIONS[name].table(of).rows
    (row,) = [row for row in rows if row[: len(words)] == list(words)]
    return row


def test_a_table_has_ours_beside_the_papers(tmp_path):
    of = view(
        fake("mog40-paper", 0, energy_tvd=0.1, paper_w2=2.0), fake("mog40-paper", 1, energy_tvd=0.3), root=tmp_path
    )
    row = row_of("table-quality", of, "MoG-40", "PTSD")
    assert row[2:5] == ["123,456", "0.200 ± 0.100 (0.050)", "0.08 ± 0.02"] and row[7:9] == [
        "2.00 (0.05)",
        "1.93 ± 0.41",
    ]
    assert row[9] == "2"
    missing = row_of("table-quality", of, "MW-32", "PTSD")
    assert missing[3:5] == ["–", "0.14 ± 0.05"] and missing[9] == "not run"
    assert row_of("table-quality", of, "LJ-55", "BNEM")[4] == "0.18 ± 0.01"
    calls = row_of("table-calls", of, "PTSD")
    assert calls[1:4] == ["123,456 counted", "1e6", "5,696,040 planned"]


def test_quick_and_full_records_never_meet(tmp_path):
    quick = fake("mw32-paper", 0, True, energy_tvd=0.9)
    assert row_of("table-ablation", view(quick, root=tmp_path), "`mw32-paper`")[-2] == "not run"
    shown = row_of("table-ablation", view(quick, is_quick=True, root=tmp_path), "`mw32-paper`")
    assert shown[2].startswith("0.900") and shown[-2] == "1"
    older = {"fit:mw32-paper/0": fake("mw32-paper", 0, energy_tvd=0.2)}
    assert row_of("table-ablation", view(is_quick=True, older=older, root=tmp_path), "`mw32-paper`")[-2] == "not run"


def test_older_results_stand_in_and_say_when_they_were_cut(tmp_path):
    run = {"seed": 0, "evaluations": 5, "device": "cpu", "metrics": {"energy_tvd": {"value": 0.5, "floor": 0.1}}}
    content: dict[str, Any] = {
        "command": "python benchmarks/seeds.py lj55-paper --set a=1 b=2 --out x",
        "commit": "13bd5e1",
    }
    content["presets"] = {"lj55-paper": {"runs": [run]}, "lj55-paper, twice": {"runs": [run]}}
    (tmp_path / "cut.json").write_text(json.dumps(content))
    (tmp_path / "odd.json").write_text('{"command": "x", "presets": 3}')
    older = all_older(tmp_path)
    assert list(older) == ["fit:lj55-paper/0"] and older["fit:lj55-paper/0"]["changed"] == "a=1 b=2"
    table = REPRODUCTIONS["table-quality"].table(view(older=older, root=tmp_path))
    (row,) = [row for row in table.rows if row[:2] == ["LJ-55", "PTSD"]]
    assert (
        row[3] == "0.500 (0.100)" and row[9] == "1, other settings" and any("a=1 b=2" in note for note in table.notes)
    )
    own = view(fake("lj55-paper", 0, energy_tvd=0.7), older=older, root=tmp_path)
    assert row_of("table-quality", own, "LJ-55", "PTSD")[3] == "0.700 (0.050)"


def test_a_mean_counts_runs_without_a_value():
    table = summarise([fake("x", 0, a=1.0), fake("x", 1, a=3.0), {"seed": 2, "failed": "why"}])
    assert table["a"] == {"mean": 2.0, "error": 1.0, "floor": 0.05, "num_without_value": 1}


# Age


def git(folder, *words):
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def head(folder) -> str:
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_age_is_counted_in_commits_that_touch_the_algorithm(tmp_path):
    git(tmp_path, "init", "-q")

    def commit_to(place: str, text: str) -> str:
        file = tmp_path / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        git(tmp_path, "add", "-A")
        git(tmp_path, "commit", "-qm", "x")
        return head(tmp_path)

    first = commit_to("src/tempering/diffusion/a.py", "1")
    second = commit_to("docs/a.md", "1")
    age.cache_clear()
    assert age(tmp_path, first) == 0 and "†" not in made_at(tmp_path, [first])
    third = commit_to("src/tempering/diffusion/a.py", "2")
    age.cache_clear()
    assert age(tmp_path, first) == age(tmp_path, second) == 1 and age(tmp_path, third) == 0
    assert made_at(tmp_path, [third, first]) == f"{first[:7]} †1, 1 later"
    assert made_at(tmp_path, ["0123456789"]) == "0123456 †?" and made_at(tmp_path, []) == "–"
    assert without_marks("a51616e †136 and 0123456 †?") == "a51616e and 0123456"
    age.cache_clear()


def test_the_counts_of_coverage_are_those_of_its_rows():
    lines = (Path(__file__).parent.parent / "docs" / "coverage.md").read_text().splitlines()
    rows = [
        [cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines if line[:3].strip("| ").isdigit()
    ]
    rows = [(row[0].split(", "), row[2], row[3].strip("*")) for row in rows]
    found = {(was, now): sum(len(own) for own, *states in rows if tuple(states) == (was, now)) for _, was, now in rows}
    was = {state: sum(num for (before, _), num in found.items() if before == state) for state in ("part", "no")}
    now = {state: sum(num for (_, after), num in found.items() if after == state) for state in ("yes", "part", "no")}
    assert was == {"part": 33, "no": 14}
    assert f"| now | {30 + now['yes']} | {now['part']} | {now['no']} |" in lines
    named = {word for line in lines for word in re.findall(r"`reproduce ([a-z0-9-]+)", line)}
    assert named <= set(NAMES), named - set(NAMES)
