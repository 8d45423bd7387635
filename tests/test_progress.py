"""The displays of progress: what they say, that they never disturb the computation, and that estimates are honest."""

import dataclasses
import io
import math
import re
import time

import pytest
from rich.console import Console

from tempering.runs.display import Pace, choose_display, duration_text, live_display, plain_lines, quiet
from tempering.types import Event

SHOW_CURSOR, HIDE_CURSOR = "\x1b[?25h", "\x1b[?25l"


class _Clock:
    """Time that passes when told to."""

    def __init__(self):
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _event(stage: str = "refinement", level: int = 3, done: int = 40, total: int = 200, **more) -> Event:
    return Event(stage, level, more.pop("num_levels", 10), done, total, 120_000, more.pop("planned", 1_230_000), **more)


def _follow(pace: Pace, clock: _Clock, stages: list[tuple[str, int, float]]) -> None:
    """Each stage (name, level, seconds) as three events: at its start, halfway and at its end."""
    for stage, level, seconds in stages:
        for done in (0, 50, 100):
            pace.observe(_event(stage, level, done, 100, num_levels=6))
            clock.now += seconds / 2 if done < 100 else 0.0


def _plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


def test_plain_lines_tell_new_stages_at_once_and_the_rest_now_and_then():
    stream, clock = io.StringIO(), _Clock()
    on_event = plain_lines(stream, interval=5.0, clock=clock)
    for done in range(100):
        on_event(_event(done=done))
        clock.now += 0.125
    assert [re.search(r"refinement (\d+)/200", line).group(1) for line in stream.getvalue().splitlines()] == [
        "0",
        "40",
        "80",
    ]
    on_event(_event("training", done=1))
    on_event(_event("training", level=4, done=1))
    assert len(stream.getvalue().splitlines()) == 5


def test_a_plain_line_says_what_is_known_and_no_more():
    stream = io.StringIO()
    on_event = plain_lines(stream, clock=_Clock())
    on_event(_event(temperature=12.5, ess_fraction=0.431, acceptance=0.574, loss=0.5))
    on_event(_event("pilot", 0, 1, 8, num_levels=0, planned=0))
    full, bare = stream.getvalue().splitlines()
    assert full == (
        "[0.0 s]  level 4 of 10  T = 12.5  refinement 40/200  120,000 of 1,230,000 evaluations  "
        "ESS 0.431  acceptance 0.57  loss 0.5000"
    )
    assert bare == "[0.0 s]  pilot 1/8  120,000 evaluations"


@pytest.mark.parametrize("error", [OSError("no space"), ValueError("closed"), BrokenPipeError()])
def test_a_stream_that_fails_does_not_stop_the_run(error, monkeypatch):
    class Broken(_Terminal):
        def write(self, text):
            raise error

    plain_lines(Broken())(_event())
    monkeypatch.setenv("TERM", "xterm-256color")
    with choose_display(False, Broken()) as on_event:
        on_event(_event())
        time.sleep(0.4)  # longer than a frame, so that the display's own thread fails too


def test_the_live_display_shows_the_run():
    console = Console(file=_Terminal(), force_terminal=True, width=100)
    with live_display("[b]mog40", console) as on_event:
        on_event(_event("guided sampling", temperature=12.5, ess_fraction=0.431))
        on_event(_event("training", done=7, loss=0.25))
    text = console.file.getvalue()
    shown = _plain(text)
    for words in ("[b]mog40", "level 4 of 10", "T = 12.5", "120,000 of 1,230,000", "training", "7 of 200", "left –"):
        assert words in shown
    # Readings of the level stay while it lasts; what nobody told is a dash.
    assert "ESS 0.431   acceptance –   loss 0.2500" in shown
    assert text.count(HIDE_CURSOR) == 1 and text.rindex(SHOW_CURSOR) > text.rindex(HIDE_CURSOR)


def test_the_live_display_forgets_the_readings_of_another_level():
    console = Console(file=_Terminal(), force_terminal=True, width=100)
    with live_display("run", console) as on_event:
        on_event(_event(level=3, ess_fraction=0.431))
        on_event(_event(level=4))
    assert "ESS –" in _plain(console.file.getvalue()) and "0.431" not in _plain(console.file.getvalue())


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_the_cursor_comes_back_when_the_run_fails(error):
    console = Console(file=_Terminal(), force_terminal=True, width=100)
    with pytest.raises(error):
        with live_display("run", console) as on_event:
            on_event(_event())
            raise error
    text = console.file.getvalue()
    assert HIDE_CURSOR in text and text.rindex(SHOW_CURSOR) > text.rindex(HIDE_CURSOR)


@pytest.mark.parametrize(
    "event",
    [
        _event(done=0, total=0, planned=0, num_levels=0),
        _event(done=300, total=200),
        _event(level=12, loss=math.nan, ess_fraction=math.inf),
    ],
)
def test_strange_events_are_shown_too(event):
    console = Console(file=_Terminal(), force_terminal=True, width=60)
    with live_display("run", console) as on_event:
        on_event(event)
    assert "no display" not in _plain(console.file.getvalue())
    assert event.stage in _plain(console.file.getvalue())
    stream = io.StringIO()
    plain_lines(stream)(event)
    assert stream.getvalue().count("\n") == 1


def test_the_display_suits_the_stream(monkeypatch):
    with choose_display(True, stream := _Terminal()) as on_event:
        on_event(_event())
    assert stream.getvalue() == "" and quiet(_event()) is None

    with choose_display(False, stream := io.StringIO()) as on_event:
        on_event(_event())
    assert stream.getvalue().startswith("[0.0 s]") and "\x1b" not in stream.getvalue()

    monkeypatch.setenv("TERM", "xterm-256color")
    with choose_display(False, stream := _Terminal(), "mog40") as on_event:
        on_event(_event())
    assert "mog40" in stream.getvalue() and SHOW_CURSOR in stream.getvalue()

    monkeypatch.setenv("TERM", "dumb")
    with choose_display(False, stream := _Terminal()) as on_event:
        on_event(_event())
    assert "\x1b" not in stream.getvalue() and "refinement 40/200" in stream.getvalue()

    closed = io.StringIO()
    closed.close()
    with choose_display(False, closed) as on_event:
        on_event(_event())


def test_no_estimate_before_there_is_ground_for_one():
    clock = _Clock()
    pace = Pace(clock)
    assert pace.stage_left() is None and pace.run_left() is None
    pace.observe(_event(done=0, total=100))
    clock.now += 30.0  # compiling
    assert pace.stage_left() is None
    pace.observe(_event(done=25, total=100))
    clock.now += 10.0
    pace.observe(_event(done=50, total=100))
    assert pace.elapsed() == pytest.approx(40.0)
    assert pace.stage_left() == pytest.approx(40.0)
    clock.now += 15.0
    assert pace.stage_left() == pytest.approx(25.0)
    clock.now += 50.0
    assert pace.stage_left() is None  # the estimate has run out
    assert pace.run_left() is None


def test_the_rest_of_the_run_is_known_after_a_whole_level_of_the_same_stages():
    clock = _Clock()
    pace = Pace(clock)
    _follow(pace, clock, [("initial PT", 0, 7.0), ("training", 1, 50.0)])
    assert pace.run_left() is None
    _follow(pace, clock, [("guided sampling", 2, 4.0)])
    assert pace.run_left() is None  # level 1 did not sample, so it says nothing of the levels to come
    _follow(pace, clock, [("training", 2, 16.0), ("guided sampling", 3, 4.0)])
    # Level 2 took 20 s; 4 s of level 3 are over, levels 4 and 5 are to come.
    assert pace.run_left() == pytest.approx(16.0 + 2 * 20.0)
    _follow(pace, clock, [("training", 3, 6.0), ("guided sampling", 4, 4.0)])
    assert pace.run_left() == pytest.approx(6.0 + 10.0)
    _follow(pace, clock, [("training", 4, 6.0), ("guided sampling", 5, 4.0), ("training", 5, 6.0)])
    assert pace.run_left() is None
    _follow(pace, clock, [("final weights", 5, 3.0)])
    assert pace.run_left() is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min 00 s"),
        (187, "3 min 07 s"),
        (3599.7, "1 h 00 min"),
        (7500, "2 h 05 min"),
    ],
)
def test_durations_are_said_as_people_say_them(seconds, text):
    assert duration_text(seconds) == text


def test_an_event_is_not_changed():
    event = _event(temperature=2.0)
    before = dataclasses.asdict(event)
    Pace().observe(event)
    assert dataclasses.asdict(event) == before
