"""The displays of progress: what they say, that they never disturb the computation, and that estimates are honest."""

import io
import math
import re
import time

import pytest
from rich.console import Console

from tempering.runs.display import choose_display, duration_text, plain_lines
from tempering.runs.live import Live
from tempering.types import Event

SHOW_CURSOR, HIDE_CURSOR = "\x1b[?25h", "\x1b[?25l"


class _Clock:
    """Time that passes when told to."""

    def __init__(self):
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def _frame(text: str) -> str:
    """The last frame that was drawn."""
    title = re.findall(r"\S+   elapsed", _plain(text))[0]
    return title + _plain(text).split(title)[-1]


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _event(stage: str = "refinement", level: int = 3, done: int = 40, total: int = 200, **more) -> Event:
    return Event(stage, level, more.pop("num_levels", 10), done, total, 120_000, more.pop("planned", 1_230_000), **more)


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
    attempts = []

    class Broken(_Terminal):
        def write(self, text):
            attempts.append(text)
            raise error

    for term in ("dumb", "xterm-256color"):
        monkeypatch.setenv("TERM", term)
        with choose_display(False, Broken()) as on_event:
            on_event(_event())
            time.sleep(0.4)  # longer than a frame, so that the display's own thread fails too
        assert attempts, "nothing was written, so that nothing could fail"
        attempts.clear()


@pytest.fixture
def terminal(monkeypatch) -> _Terminal:
    """A stream that gets the live display."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")
    return _Terminal()


def test_the_live_display_shows_the_run(terminal):
    with choose_display(False, terminal, "[b]mog40") as on_event:
        on_event(_event("guided sampling", temperature=12.5, ess_fraction=0.431))
        on_event(_event("training", done=7, loss=0.25))
    text = terminal.getvalue()
    shown = _frame(text)
    for words in (
        "[b]mog40",
        "level 4 of 10",
        "T = 12.5",
        "120,000 of 1,230,000",
        "training",
        "7 of 200",
        "elapsed 0.",
    ):
        assert words in shown
    assert shown.count("left –") == 2, "of the run and of the stage"
    # Readings of the level stay while it lasts; one that nobody gave is a dash.
    assert "ESS 0.431   acceptance –   loss 0.2500" in shown
    assert text.count(HIDE_CURSOR) == 1 and text.rindex(SHOW_CURSOR) > text.rindex(HIDE_CURSOR)


def test_the_live_display_forgets_the_readings_of_another_level(terminal):
    with choose_display(False, terminal) as on_event:
        on_event(_event(level=3, ess_fraction=0.431))
        on_event(_event(level=4))
    assert "ESS 0.431" in _plain(terminal.getvalue())
    assert "ESS –" in _frame(terminal.getvalue()) and "0.431" not in _frame(terminal.getvalue())


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_the_cursor_comes_back_when_the_run_fails(error, terminal):
    with pytest.raises(error):
        with choose_display(False, terminal) as on_event:
            on_event(_event())
            raise error
    text = terminal.getvalue()
    assert HIDE_CURSOR in text and text.rindex(SHOW_CURSOR) > text.rindex(HIDE_CURSOR)


@pytest.mark.parametrize(
    "event",
    [
        _event(done=0, total=0, planned=0, num_levels=0),
        _event(done=300, total=200),
        _event(level=12, loss=math.nan, ess_fraction=math.inf),
    ],
)
def test_strange_events_are_shown_too(event, terminal, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    with choose_display(False, terminal) as on_event:
        on_event(event)
        on_event(event)
    assert event.stage in _plain(terminal.getvalue()) and f"{event.done:,} of" in _plain(terminal.getvalue())
    stream = io.StringIO()
    plain_lines(stream)(event)
    assert stream.getvalue().count("\n") == 1


def test_the_display_suits_the_stream(monkeypatch):
    with choose_display(True, stream := _Terminal()) as on_event:
        on_event(_event())
    assert stream.getvalue() == ""

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


def test_time_left_is_shown_where_there_is_ground_for_it():
    clock = _Clock()
    display = Live("run", Console(file=io.StringIO(), get_time=clock))

    def left(seconds: float, *events: Event) -> list[str]:
        """The time left of the run and of the stage, after these events and so many seconds after each."""
        for event in events:
            display.observe(event)
            clock.now += seconds
        stream = io.StringIO()
        Console(file=stream, width=100).print(display.get_renderable())
        return re.findall(r"left (–|~[\d.]+ s)", stream.getvalue())

    def stage(name: str, level: int, done: int) -> Event:
        return _event(name, level, done, 100, num_levels=6)

    assert left(30.0, stage("initial PT", 0, 0)) == ["–", "–"]
    # Compiling is not taken for work, and one step is no rate.
    assert left(10.0, stage("initial PT", 0, 25)) == ["–", "–"]
    assert left(0.0, stage("initial PT", 0, 50)) == ["–", "~20.0 s"]
    # A whole level must lie behind; the levels to come are taken to last as long. Another stage has another rate.
    assert left(4.0, stage("training", 2, 0), stage("training", 2, 40)) == ["–", "–"]
    assert left(0.0, stage("sampling", 3, 0)) == ["~24.0 s", "–"]
    assert left(1.0, *(stage("training", 3, done) for done in (10, 30, 50))) == ["~21.0 s", "~3.0 s"]
    # One that begins anew is a new one.
    assert left(20.0, stage("training", 3, 5)) == ["~1.0 s", "–"]
    assert left(20.0, stage("training", 3, 6)) == ["–", "–"], "the estimate has run out"


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
