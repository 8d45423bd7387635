"""The account of points on the host: its words, and its sums."""

from collections import Counter

from tempering.host.use import HostUse, forecast_words


def test_a_forecast_is_said_as_people_say_it():
    assert forecast_words(20_000, 8, 30.0) == "20,000 points on 8 workers at 30.0 s: 20 h 50 min"
    assert forecast_words(10, 1, 0.02) == "10 points on 1 worker at 20 ms: 0.2 s"
    use = HostUse(points=10, busy=5.0, available=10.0, workers=2)
    assert HostUse.from_dict(use.as_dict()) == use and use.utilisation == 0.5 and use.seconds_per_point == 0.5


def test_batches_that_are_small_for_the_workers_are_told_with_what_to_do():
    few = HostUse(points=320, batches=10, busy=10.0, available=40.0, workers=64)
    assert "a batch had 32 points for 64 workers" in few.lines()[1] and "'initial.num_chains': 256" in few.lines()[1]
    for other in ({"busy": 39.0}, {"points": 32_000}, {"workers": 1}, {"batches": 0}):
        assert not HostUse(**{**vars(few), **other}).is_short_of_points


def test_accounts_are_added_and_taken_apart():
    first = HostUse(points=10, replayed=2, retried=1, failed=Counter(nan=1), busy=5.0, available=8.0, workers=2)
    later = HostUse(points=30, replayed=2, retried=3, failed=Counter(nan=1, died=2), busy=9.0, available=9.0, workers=3)
    since = later.since(first)
    assert since.failed == {"died": 2} and since.points == 20 and since.busy == 4.0
    assert since.plus(first) == later and first.plus(None) is first
    copy = first.copy()
    first.failed["nan"] += 1
    assert copy.failed == {"nan": 1}
