"""`tempering watch` and what it reads: a run that goes on, one that ended, one that was killed, and no run at all."""

import json
import os
import subprocess
import sys
import threading
import time

import pytest

from support.commands import command, refused
from support.tiny import subprocess_environment
from tempering.lab.presets import PRESETS
from tempering.runs.folder import RunFolder
from tempering.runs.progress import PROGRESS, noted, read_state
from tempering.runs.storage import write_json
from tempering.types import Event


def _event(**changes):
    numbers = {"stage": "training", "level": 1, "num_levels": 3, "done": 40, "total": 100, "evaluations": 500}
    return Event(**{**numbers, "planned": 2000, "temperature": 2.0, **changes})


RECORD = {"level": 0, "temperature": 4.0, "ess_fraction": 0.25, "pareto_k": None, "evaluations": {"initial_pt": 300}}


@pytest.fixture
def run(tmp_path):
    """A folder whose run goes on, and the folder object that holds its lock."""
    folder = RunFolder.create(tmp_path / "run", PRESETS["mog40"])
    folder.log({"event": "part", "level": 0, "part": "buffer", "record": RECORD})
    yield folder
    folder.close()


def test_events_are_kept_for_a_watcher_and_taken_away_at_the_end(run):
    seen, now = [], [0.0]
    with noted(run.path, seen.append, clock=lambda: now[0]) as observe:
        observe(_event(done=10))
        now[0] = 0.5
        observe(_event(done=20))  # too soon to be written
        assert json.loads((run.path / PROGRESS).read_text())["done"] == 10
        now[0] = 4.0
        observe(_event(done=40))
        kept = json.loads((run.path / PROGRESS).read_text())
        assert (kept["done"], kept["seconds"], kept["stage_seconds"]) == (40, 4.0, 4.0)
        state = read_state(run.path)
        assert (state.status, state.evaluations, state.num_parts) == ("running", 500, 1) and state.seconds >= 4.0
        observe(_event(stage="guided sampling"))  # another stage is written at once
        assert json.loads((run.path / PROGRESS).read_text())["stage_seconds"] == 0.0
    assert [event.done for event in seen] == [10, 20, 40, 40] and not (run.path / PROGRESS).exists()


def test_a_folder_that_cannot_be_written_does_not_end_the_run(tmp_path):
    seen = []
    with noted(tmp_path / "nowhere", seen.append) as observe:
        observe(_event())
    assert len(seen) == 1


def test_once_shows_stage_evaluations_levels_and_what_is_left(run):
    with noted(run.path, lambda event: None) as observe:
        observe(_event(done=1))
        time.sleep(1.05)
        observe(_event(done=40))
        code, out, errors = command("watch", run.path, "--once")
    assert (code, errors) == (0, "")
    words = " ".join(out.split())
    assert "mog40 running" in words and "500 of 2,000" in words and "training" in words and "40 of 100" in words
    assert "left in this stage" in words and "4 0.250 – 300" in words


def test_a_silent_run_is_said_to_be_silent_and_its_clock_goes_on(run):
    with noted(run.path, lambda event: None) as observe:
        observe(_event(done=100))
        before = read_state(run.path)
        os.utime(run.path / PROGRESS, (time.time() - 50, time.time() - 50))
        after = read_state(run.path)
        _, out, _ = command("watch", run.path, "--once")
    assert 49 < after.silence < 60 and after.seconds - before.seconds == pytest.approx(50, abs=5)
    assert "no news for 5" in out


def test_a_run_without_an_event_yet_is_said_to_start(run):
    code, out, _ = command("watch", run.path, "--once")
    assert code == 0 and "it has reported nothing yet" in out


def test_a_killed_run_says_how_to_go_on(run):
    (run.path / PROGRESS).write_text(json.dumps({"stage": "training", "done": 1, "total": 2, "evaluations": 777}))
    assert command("watch", run.path, "--once")[0] == 0, "somebody holds the lock: it goes on"
    run.close()
    code, out, errors = command("watch", run.path)
    assert code == 1 and "stopped" in out and "777" in out and "in finished parts" not in out
    assert "process of this run has ended" in errors and f"`tempering resume {run.path}`" in errors
    (run.path / PROGRESS).unlink()  # as Ctrl-C leaves it
    entry = {"event": "part", "level": 0, "part": "atlas", "evaluations": 654}
    with (run.path / "stats.jsonl").open("a") as lines:
        lines.write(json.dumps({"seconds": 1.0, **entry}) + "\n")
    assert "654 of 20,000, in finished parts" in " ".join(command("watch", run.path)[1].split())


def test_a_finished_run_is_shown_with_its_verdict_and_ends_at_once(run):
    result = {"evaluations": 1234, "levels": [RECORD], "verdict": {"status": "doubtful"}}
    write_json(run.path / "result.json", result)
    run.close()
    code, out, errors = command("watch", run.path)
    assert (code, errors) == (0, "") and "ended" in out and "1,234" in out and "verdict: doubtful" in out


def test_a_watcher_ends_when_the_run_does(run):
    def end():
        time.sleep(0.3)
        write_json(run.path / "result.json", {"evaluations": 9, "levels": [], "verdict": {"status": "trustworthy"}})
        run.close()

    ending = threading.Thread(target=end)
    ending.start()
    code, out, _ = command("watch", run.path, "--every", "0.05")
    ending.join()
    assert code == 0 and "verdict: trustworthy" in out


def test_a_watcher_does_not_disturb_a_run_in_another_process(tmp_path):
    program = (
        "import sys, time; from tempering.runs.folder import RunFolder; from tempering.lab.presets import PRESETS\n"
        "folder = RunFolder.create(sys.argv[1], PRESETS['mog40']); print('ready', flush=True); sys.stdin.readline()\n"
        "folder.log({'event': 'still mine'}); print('logged', flush=True)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "run")],
        env=subprocess_environment("."), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as worker:  # fmt: skip
        assert worker.stdout.readline() == "ready\n"
        code, out, _ = command("watch", tmp_path / "run", "--once")
        assert code == 0 and "running" in out
        worker.stdin.write("\n")
        worker.stdin.flush()
        assert worker.stdout.readline() == "logged\n"
    assert command("watch", tmp_path / "run", "--once")[0] == 1, "its process is gone"


def test_what_is_no_run_is_refused(tmp_path):
    assert "is not a folder" in refused("watch", tmp_path / "nowhere")
    assert "holds no config.json of a run" in refused("watch", tmp_path)
    (tmp_path / "config.json").write_text("{}")
    assert "holds no config.json of a run" in refused("watch", tmp_path)
    assert "--every = 0.0 is not allowed" in refused("watch", tmp_path, "--every", 0)
