"""Who follows a run: the clock by stage, the logger, a callback, and how numbers are written."""

import json
import logging

import pytest

from support.tiny_fits import fit
from support.unchecked import unchecked
from tempering.errors import SettingsError
from tempering.runs.watching import Stopwatch, evaluations_of, logged, read_seconds, watching, write_seconds
from tempering.runs.words import error_text, number_text, with_error
from tempering.types import Event


class Clock:
    now = 10.0

    def __call__(self) -> float:
        return self.now


class Lines:
    def __init__(self):
        self.lines = []

    def log(self, entry):
        self.lines.append(entry)


def _event(stage: str, done: int, total: int, level: int = 0) -> Event:
    return Event(stage, level, 3, done, total, 100, 1000)


def test_time_counts_for_the_stage_that_is_at_work():
    clock, store = Clock(), Lines()
    watch = Stopwatch(store, clock)
    for at, event in [
        (12.0, _event("pilot", 0, 4)),  # two seconds of starting
        (15.0, _event("pilot", 2, 4)),
        (16.0, _event("training", 0, 9)),  # begins: the second before it is the pilot's
        (20.0, _event("training", 5, 9)),
        (27.0, _event("guided sampling", 8, 8)),  # says so only now that it is over: the seven seconds are its own
        (28.0, _event("training", 1, 9)),
    ]:
        clock.now = at
        watch.observe(event)
    clock.now = 30.0
    expected = {"starting": 2.0, "pilot": 4.0, "training": 4.0 + 2.0, "guided sampling": 8.0}
    assert watch.stop() == expected and sum(expected.values()) == 20.0
    assert sum(line["took"] for line in store.lines) == 20.0 and store.lines[0]["stage"] == "starting"


def test_seconds_are_read_over_all_processes_and_damaged_lines_are_skipped(tmp_path):
    assert read_seconds(tmp_path) == {}
    write_seconds(tmp_path, {"pilot": 1.5, "training": 2.0})
    assert read_seconds(tmp_path) == {"pilot": 1.5, "training": 2.0}
    write_seconds(tmp_path, {"pilot": 99.0})  # a run's own statistics stay
    with open(tmp_path / "stats.jsonl", "a") as file:
        lines = [{"seconds": 9.0, "stage": "pilot", "took": 0.5}, {"seconds": 9.0, "stage": "pilot", "took": "x"}]
        file.write("".join(json.dumps(line) + "\n" for line in lines) + '{"seconds": 9.0, "stage": "tr')
    assert read_seconds(tmp_path) == {"pilot": 2.0, "training": 2.0}


def test_a_stage_of_an_older_folder_keeps_its_place_in_the_account():
    assert evaluations_of("drawing from modes") == "atlas"
    assert evaluations_of("fitting the modes") == "reference"
    assert evaluations_of("training") is None


def test_new_stages_are_logged(caplog):
    with caplog.at_level(logging.DEBUG, logger="tempering"):
        on_event = watching(logged(), lambda event: None)
        for done in (0, 1):
            on_event(_event("pilot", done, 4))
        on_event(_event("training", 0, 9, level=1))
    assert [record.levelname for record in caplog.records] == ["INFO", "DEBUG", "INFO"]
    assert "training 0/9" in caplog.records[-1].message and caplog.records[-1].event.level == 1


def test_a_callback_follows_a_fit_and_may_end_it(tmp_path, caplog):
    events = []
    with caplog.at_level(logging.INFO, logger="tempering"):
        sampler = fit(callback=events.append, out=tmp_path / "run")
    assert {event.stage for event in events} >= {"initial PT", "training", "final weights"}
    assert {record.event.stage for record in caplog.records} == {event.stage for event in events}
    assert set(sampler.seconds) >= {"initial PT", "training"} and read_seconds(tmp_path / "run") == sampler.seconds
    assert fit(out=tmp_path / "run").summary() == sampler.summary()

    def stop(event):
        raise InterruptedError("enough")

    with pytest.raises(InterruptedError, match="enough"):
        fit(callback=stop)
    with unchecked(), pytest.raises(SettingsError, match="callback is an int; give a function"):
        fit(callback=3)


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        (3.15123, 0.00042, "3.15123 ± 0.00042"),
        (3.151, 0.0000004, "(3.15100000 ± 0.00000040)e+00"),
        (1234.5, 31.0, "1,234 ± 31"),
        (0.5, 0.0996, "0.50 ± 0.10"),
        (-2.0, 0.0, "-2 ± 0"),
        (1.5, None, "1.500"),
        (None, 0.1, "–"),
        (float("nan"), 0.1, "–"),
        (1.5, float("nan"), "1.500"),
        (2.0e-9, 3.0e-11, "(2.000 ± 0.030)e-09"),
        (123456.7, 2345.0, "123,457 ± 2,345"),
    ],
)
def test_errors_have_two_digits(value, error, words):
    assert with_error(value, error) == words


def test_numbers_and_errors_alone():
    assert number_text(None) == "–" and number_text(12345.6) == "12,346" and number_text(0.5) == "0.5000"
    assert error_text(0.0123) == "0.012" and error_text(1e-9) == "1.0e-09" and error_text(0.0) == "0"
    assert error_text(None) == "–"
