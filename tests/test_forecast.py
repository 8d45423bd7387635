"""Tests of `tempering.runs.forecast`: seconds come from like fits of the past, or are not known."""

import dataclasses

import pytest

from tempering.compilation import SWITCH
from tempering.runs.forecast import Kind, expected_seconds, remember, with_time_left
from tempering.types import Event

KIND = Kind("ptsd", 8, 100_000, "residual", 128)
SECONDS = {"searching for modes": 4.0, "training": 10.0, "final weights": 2.0}


@pytest.fixture
def place(monkeypatch, tmp_path):
    monkeypatch.setenv(SWITCH, str(tmp_path))
    return tmp_path


def test_a_like_fit_says_how_long_it_will_take(place):
    assert expected_seconds(KIND) is None
    remember(KIND, SECONDS)
    remember(dataclasses.replace(KIND, dim=12), {"training": 30.0})
    assert expected_seconds(KIND) == SECONDS
    assert expected_seconds(dataclasses.replace(KIND, dim=11)) == {"training": 30.0}
    remember(KIND, {"training": 11.0})
    assert expected_seconds(KIND) == {"training": 11.0}
    for took in (400.0, 12.0, 13.0, 14.0):
        remember(KIND, {"training": took})
    assert expected_seconds(KIND) == {"training": 13.0}, "one slow fit does not decide"
    for took in (20.0, 21.0, 22.0, 23.0):
        remember(KIND, {"training": took})
    assert expected_seconds(KIND) == {"training": 21.0}, "older ones are forgotten"


@pytest.mark.parametrize(
    "changes", [{"dim": 17}, {"budget": 300_000}, {"method": "pt_dm"}, {"network": "egnn"}, {"width": 256}]
)
def test_an_unlike_fit_says_nothing(place, changes):
    remember(KIND, SECONDS)
    assert expected_seconds(dataclasses.replace(KIND, **changes)) is None


def test_another_device_says_nothing(place, monkeypatch):
    remember(KIND, SECONDS)
    monkeypatch.setattr("jax.default_backend", lambda: "gpu")
    assert expected_seconds(KIND) is None


def test_a_damaged_file_is_no_harm(place):
    remember(KIND, SECONDS)
    path = place / "seconds.jsonl"
    whole = path.read_text().strip()
    lines = ["not json", "[1]", '{"method": 1}', whole, whole.replace('"dim": 8', '"dim": "x"')]
    path.write_text("\n".join(lines))
    assert expected_seconds(KIND) == SECONDS
    path.write_bytes(b"\xff\xfe\x00")
    assert expected_seconds(KIND) is None


def test_what_cannot_be_kept_is_not(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    for place in (str(tmp_path / "file" / "folder"), "off"):
        monkeypatch.setenv(SWITCH, place)
        remember(KIND, SECONDS)
        assert expected_seconds(KIND) is None


def test_few_lines_are_kept(place):
    for _ in range(205):
        remember(KIND, SECONDS)
    assert len((place / "seconds.jsonl").read_text().splitlines()) == 200


def test_events_tell_the_time_left():
    seen: list[Event] = []
    so_far = {"searching for modes": 5.0, "training": 4.0}
    observe = with_time_left(SECONDS, lambda: so_far, seen.append)
    observe(Event("training", 0, 1, 5, 10, 0, 0))
    assert seen[-1].seconds_left == 6.0 + 2.0  # what took longer than expected owes nothing to the rest
    so_far |= {"training": 20.0, "final weights": 2.0}
    observe(Event("final weights", 0, 1, 1, 1, 0, 0))
    assert seen[-1].seconds_left is None
    assert with_time_left(None, dict, seen.append) == seen.append
