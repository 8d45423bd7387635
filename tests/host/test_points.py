"""The store of points: what was paid for is found again, whatever a crash left, and nothing in it is executed."""

import csv
import json

import numpy as np
import pytest

import tempering as tp
from support.host_functions import BAD, POINTS, Noted, density
from tempering.adapters.black_box import BlackBox, Faults
from tempering.adapters.callback import from_callable
from tempering.adapters.hosting import hosted
from tempering.cli import main
from tempering.errors import RunFolderError, SettingsError
from tempering.runs.point_tables import point_lines, write_points
from tempering.runs.points import POINTS as FILE
from tempering.runs.points import PointStore, read_points

RIGHT = np.asarray([density(x) for x in POINTS], np.float32)


def filled(folder, num=6, has_gradient=False):
    store = PointStore(folder, 2, "a density", has_gradient)
    for number, x in enumerate(POINTS[:num]):
        store.add("value", x[None], np.array([density(x)]), seconds=0.25, worker=f"host:{number % 2}")
    store.close()
    return folder


def test_points_are_found_again_to_the_last_bit(tmp_path):
    store = PointStore(filled(tmp_path), 2, "a density", False)
    assert store.num_before == 6 and store.num_dropped == 0 and store.mean_seconds == 0.25
    for number, x in enumerate(POINTS):
        assert store.find("value", x) == ((density(x), None) if number < 6 else None)
        assert store.find("gradient", x) is None
    store.close()


def test_gradients_are_kept_beside_values_and_kinds_are_not_mixed(tmp_path):
    store = PointStore(tmp_path, 2, "a density", True)
    store.add("both", POINTS[:3], np.array([1.0, 2.0, 3.0]), 10.0 * POINTS[:3], seconds=0.1, worker="a")
    store.add("gradient", POINTS[3:4], np.nan, -POINTS[3:4], seconds=0.1, worker="a")
    store.close()
    store = PointStore(tmp_path, 2, "a density", True)
    value, gradient = store.find("both", POINTS[1])
    assert value == 2.0 and np.array_equal(gradient, 10.0 * POINTS[1])
    assert np.array_equal(store.find("gradient", POINTS[3])[1], -POINTS[3])
    assert store.find("value", POINTS[1]) is None and store.find("both", POINTS[3]) is None
    store.close()


@pytest.mark.parametrize("cut", [1, 4, 50, 87])
def test_a_record_that_a_kill_cut_short_is_dropped_and_written_over(tmp_path, cut):
    place = filled(tmp_path) / FILE
    place.write_bytes(place.read_bytes()[:-cut])
    assert len(read_points(tmp_path).records) == 5 and read_points(tmp_path).num_torn == 88 - cut
    store = PointStore(tmp_path, 2, "a density", False)
    assert store.num_before == 5 and store.num_dropped == 1 and store.find("value", POINTS[5]) is None
    store.add("value", POINTS[5:7], np.array([5.0, 6.0]), seconds=0.1, worker="b")
    store.close()
    found = read_points(tmp_path)
    assert list(found.records["value"][5:]) == [5.0, 6.0] and found.num_torn == found.num_damaged == 0


def test_a_header_that_a_kill_cut_short_is_written_anew(tmp_path):
    (tmp_path / FILE).write_bytes(b'{"format": "tem')
    filled(tmp_path)
    assert len(read_points(tmp_path).records) == 6


def test_a_damaged_record_is_left_out_and_the_others_are_found(tmp_path):
    place = filled(tmp_path) / FILE
    content = bytearray(place.read_bytes())
    content[512 + 88 * 2 + 75] ^= 1  # one bit of a coordinate
    place.write_bytes(content)
    store = PointStore(tmp_path, 2, "a density", False)
    assert store.num_before == 5 and store.find("value", POINTS[2]) is None and store.find("value", POINTS[3])
    store.close()
    assert "1 records" in "\n".join(point_lines(read_points(tmp_path)))


def test_another_density_version_or_run_is_refused_in_words(tmp_path):
    filled(tmp_path)
    for other in ((2, "another density", False), (3, "a density", False), (2, "a density", True)):
        with pytest.raises(RunFolderError, match="points of another density.*choose another `store=`"):
            PointStore(tmp_path, *other)
    store = PointStore(tmp_path, 2, "a density", False)
    with pytest.raises(RunFolderError, match="the store of points in .* is in use by another"):
        PointStore(tmp_path, 2, "a density", False)
    store.close()
    place = tmp_path / FILE
    head = json.loads(place.read_bytes()[:512]) | {"format": "tempering points 9"}
    place.write_bytes(json.dumps(head).ljust(511).encode() + b"\n" + place.read_bytes()[512:])
    with pytest.raises(RunFolderError, match="another version: it has format 'tempering points 9'"):
        PointStore(tmp_path, 2, "a density", False)
    place.write_bytes(b"x" * 600)
    with pytest.raises(RunFolderError, match="is not a store of points"):
        read_points(tmp_path)


def test_a_refusal_leaves_the_store_free_for_others(tmp_path):
    filled(tmp_path)
    with pytest.raises(RunFolderError):
        PointStore(tmp_path, 2, "another", False)
    PointStore(tmp_path, 2, "a density", False).close()


def test_points_that_were_paid_for_are_not_paid_again(tmp_path):
    noted = Noted(tmp_path)
    first = BlackBox(noted, 2, store=tmp_path / "store")
    first.values(POINTS[:10])
    with pytest.raises(RunFolderError, match=r"in use by another target of this program.*target\.close"):
        BlackBox(noted, 2, store=tmp_path / "store").values(POINTS)
    first.close()
    again = BlackBox(noted, 2, store=str(tmp_path / "store"))
    np.testing.assert_array_equal(again.values(POINTS), RIGHT)
    again.close()
    assert noted.calls() == [x.tobytes() for x in POINTS] and (again.use.points, again.use.replayed) == (14, 10)
    with pytest.raises(RunFolderError, match="another density"):
        BlackBox(density, 2, store=tmp_path / "store").values(POINTS)


def test_what_was_paid_for_before_an_error_is_kept_and_the_failed_point_is_tried_anew(tmp_path):
    noted = Noted(tmp_path, "raises")
    box = BlackBox(noted, 2, store=tmp_path / "store")
    with pytest.raises(LookupError):
        box.values(POINTS)
    box.close()
    stored = read_points(tmp_path / "store")
    assert len(stored.records) == BAD + 1 and stored.records["outcome"][-1] == 1 and not stored.is_answered[-1]
    again = BlackBox(noted, 2, store=tmp_path / "store")
    np.testing.assert_array_equal(again.values(POINTS), RIGHT)
    assert again.use.replayed == BAD
    again.close()


@pytest.mark.slow
def test_what_is_in_flight_when_a_fit_stops_is_let_in(tmp_path):
    noted = Noted(tmp_path, "raises", once=False, seconds=0.2)
    box = BlackBox(noted, 2, pool=2, store=tmp_path / "store", chunk_size=1)
    with pytest.raises(LookupError):
        box.values(POINTS)
    box.close()
    stored = read_points(tmp_path / "store")
    good = {x.tobytes() for x in noted_points(noted)} - {POINTS[BAD].tobytes()}
    assert {record["x"].tobytes() for record in stored.records[stored.is_answered]} == good


def noted_points(noted):
    return [np.frombuffer(call) for call in noted.calls()]


def test_a_rejected_point_stays_rejected(tmp_path):
    noted = Noted(tmp_path, "raises", once=False)
    for _ in range(2):
        box = BlackBox(noted, 2, faults=Faults("reject"), store=tmp_path / "store")
        assert np.isneginf(box.values(POINTS)[BAD])
        box.close()
    assert len(noted.calls()) == len(POINTS) + 1, "two tries, and none in the second run"


def test_a_run_that_stops_at_failures_tries_rejected_points_anew(tmp_path):
    noted = Noted(tmp_path, "raises", once=False)
    first = BlackBox(noted, 2, faults=Faults("reject"), store=tmp_path / "store")
    first.values(POINTS)
    first.close()
    box = BlackBox(noted, 2, store=tmp_path / "store")
    with pytest.raises(LookupError):
        box.values(POINTS)
    box.close()


def test_a_run_that_rejects_failures_does_not_take_nan_for_an_answer(tmp_path):
    noted = Noted(tmp_path, "nan", once=False)
    for on_failure, num_paid in (("stop", 24), ("stop", 0), ("reject", 2), ("reject", 0)):
        before = len(noted.calls())
        box = BlackBox(noted, 2, faults=Faults(on_failure), store=tmp_path / "store")
        value = box.values(POINTS)[BAD]
        assert np.isnan(value) if on_failure == "stop" else np.isneginf(value)
        assert len(noted.calls()) - before == num_paid
        box.close()


def rejecting(tmp_path):
    return from_callable(Noted(tmp_path, "raises", once=False), 2, on_failure="reject", store=tmp_path / "store")


def test_failures_of_earlier_processes_stay_in_the_account(tmp_path):
    with rejecting(tmp_path) as target, hosted(target, None) as hosts:
        target.box.values(POINTS)
        assert hosts.use().failed == {"raised": 1}
    with rejecting(tmp_path) as target:
        with hosted(target, tmp_path, is_resumed=True) as hosts:  # a level that is finished is not asked for again
            target.box.values(POINTS[BAD + 1 :])
            resumed = hosts.use()
            assert resumed.failed == {"raised": 1} and resumed.points == 0
            target.box.values(POINTS)
            assert hosts.use().failed == {"raised": 1}, "asked for again, and still one"
        with hosted(target, None) as hosts:
            target.box.values(POINTS)
            again = hosts.use()
            assert again.failed == {"raised": 1} and again.replayed == len(POINTS), "of this run alone"
            assert hosts.joined(resumed).failed == {"raised": 2} and hosts.joined(None) == again


@pytest.mark.parametrize("kind", ["cut", "flipped"])
def test_whatever_a_crash_leaves_no_wrong_value_is_found(kind, tmp_path):
    place = filled(tmp_path, num=20) / FILE
    whole, draw = place.read_bytes(), np.random.default_rng(0)
    refused = found = 0
    for where in draw.integers(0, len(whole), 60):
        damaged = bytearray(whole if kind == "flipped" else whole[:where])
        if kind == "flipped":
            damaged[where] ^= int(draw.integers(1, 256))
        place.write_bytes(damaged)
        try:
            store = PointStore(tmp_path, 2, "a density", False)
        except RunFolderError:
            refused += 1
            continue
        values = [store.find("value", x) for x in POINTS[:20]]
        assert all(value is None or value == (density(x), None) for x, value in zip(POINTS, values, strict=False))
        lost = sum(value is None for value in values)
        assert lost <= 1 if kind == "flipped" else lost == 20 - max(0, where - 512) // 88
        found += 20 - lost
        store.close()
    assert found > 300 and (refused > 0) == (kind == "flipped"), "a header that is damaged is refused, one cut is not"


def test_a_short_file_of_somebody_else_is_not_written_over(tmp_path):
    (tmp_path / FILE).write_bytes(b"my own points\n")
    with pytest.raises(RunFolderError, match="is not a store of points"):
        PointStore(tmp_path, 2, "a density", False)
    assert (tmp_path / FILE).read_bytes() == b"my own points\n"


def test_quick_points_of_this_process_are_kept_only_where_it_was_asked_for(tmp_path):
    quick, slow = BlackBox(density, 2), BlackBox(Noted(tmp_path, seconds=2e-3), 2)
    for box, name in ((quick, "quick"), (slow, "slow")):
        box.open_store(tmp_path / name)
        box.values(POINTS[:3])
        box.close()
    assert len(read_points(tmp_path / "quick").records) == 0 and len(read_points(tmp_path / "slow").records) == 3
    never = BlackBox(density, 2, store=False)
    never.open_store(tmp_path / "never")
    assert never.store is None and not (tmp_path / "never").exists()


def test_a_callable_that_writes_into_its_argument_is_stored_as_it_was_asked(tmp_path):
    def spoiling(x):
        value = density(x)
        x[:] = np.nan
        return value

    box = BlackBox(spoiling, 2, store=tmp_path)
    box.values(POINTS)
    box.close()
    np.testing.assert_array_equal(read_points(tmp_path).records["x"], POINTS)


def test_the_command_shows_and_exports_points(tmp_path, capsys):
    folder = filled(tmp_path / "run")
    assert main(["points", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert "6 of 2 dimensions" in shown and "workers  2" in shown and "1.5 s of workers" in shown
    for suffix in (".npz", ".csv", ".parquet"):
        assert main(["points", str(folder), "--out", str(tmp_path / f"points{suffix}")]) == 0
    with np.load(tmp_path / "points.npz", allow_pickle=False) as arrays:
        np.testing.assert_array_equal(arrays["x[1]"], POINTS[:6, 1])
        assert list(arrays["outcome"]) == ["answered"] * 6
    rows = list(csv.DictReader((tmp_path / "points.csv").open()))
    assert float(rows[3]["log_density"]) == density(POINTS[3]) and rows[3]["worker"] == "host:1"
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(tmp_path / "points.parquet").to_pydict()
    assert table["seconds"] == [0.25] * 6 and table["x[0]"] == list(POINTS[:6, 0])
    assert main(["points", str(folder), "--out", str(tmp_path / "points.csv")]) == 2, "nothing is overwritten"
    with pytest.raises(SettingsError, match="must be .parquet, .csv or .npz"):
        write_points(read_points(folder), tmp_path / "points.txt")
    assert main(["points", str(tmp_path)]) == 2
    assert "holds no points.bin" in capsys.readouterr().err


def test_the_front_door_opens_no_store_for_a_refused_density(tmp_path):
    with pytest.raises(tp.SettingsError):
        tp.from_callable(density, 2, store=True)
    assert not any(tmp_path.iterdir())
