"""What a second try may not change: the bits of a vectorised function, the time of a point, and the account of it."""

import multiprocessing
import sys
import threading
import time
import types
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor

import numpy as np
import pytest

from support.host_functions import BAD, POINTS, Bulk, density
from tempering.adapters.black_box import BlackBox, Faults
from tempering.errors import DensityError, RunFolderError, SettingsError
from tempering.host import work
from tempering.runs.points import PointStore, read_points

RIGHT = np.asarray([density(x) for x in POINTS], np.float32)


def _bulk(tmp_path, trouble, **options):
    box = BlackBox(Bulk(tmp_path, trouble), 2, batched=True, chunk_size=6, **options)
    values = box.values(POINTS[:21])
    box.close()
    return box, values


@pytest.mark.parametrize(
    "trouble", ["kills", *(pytest.param(word, marks=pytest.mark.slow) for word in ("raises", "hangs"))]
)
def test_a_piece_of_a_vectorised_function_is_tried_again_as_it_was(trouble, tmp_path):
    _, undisturbed = _bulk(tmp_path, "none", pool=2)
    box, values = _bulk(tmp_path, trouble, pool=2, faults=Faults(timeout=0.3 if trouble == "hangs" else 20.0))
    assert (tmp_path / "happened").exists() and box.use.retried == 6 and not box.use.failed
    np.testing.assert_array_equal(values, undisturbed)


class Breaking(ThreadPoolExecutor):
    """Breaks once, with all that is in flight, when it has two tasks with points."""

    broke = False

    def __init__(self):
        super().__init__(2)
        self.held = []

    def submit(self, fn, /, *args):
        if Breaking.broke or len(args[3]) == 0:  # the greeting
            return super().submit(fn, *args)
        self.held.append(Future())
        if len(self.held) == 2:
            Breaking.broke = True
            for future in self.held:
                future.set_exception(BrokenExecutor("a worker died"))
        return self.held[-1]


@pytest.fixture
def breaking():
    Breaking.broke = False
    return Breaking


def test_so_it_is_where_the_pool_breaks_as_a_whole(breaking, tmp_path):
    with ThreadPoolExecutor(2) as pool:
        _, undisturbed = _bulk(tmp_path, "none", pool=pool)
    box, values = _bulk(tmp_path, "none", pool=breaking)
    assert Breaking.broke and box.use.retried == 12
    np.testing.assert_array_equal(values, undisturbed)


class Always(ThreadPoolExecutor):
    """Breaks whenever it has the bad point."""

    def __init__(self):
        super().__init__(2)

    def submit(self, fn, /, *args):
        if not np.any(np.all(args[3] == POINTS[BAD], axis=1)):
            return super().submit(fn, *args)
        future = Future()
        future.set_exception(BrokenExecutor("a worker died"))
        return future


def test_a_row_that_always_breaks_the_pool_is_found_within_its_piece(tmp_path):
    box, values = _bulk(tmp_path, "none", pool=Always, faults=Faults("reject"))
    assert box.use.failed == {"died": 1} and np.isneginf(values[BAD])
    assert np.all(np.isfinite(np.delete(values, BAD)))


def test_a_pool_that_broke_is_no_try_of_the_points_it_had(breaking):
    tries = []

    def raises_once(x):
        tries.append(x.tobytes())
        if np.array_equal(x, POINTS[0]) and tries.count(x.tobytes()) == 1:
            raise LookupError("no table for this point")
        return density(x)

    box = BlackBox(raises_once, 2, pool=breaking, faults=Faults("reject"), chunk_size=1)
    np.testing.assert_array_equal(box.values(POINTS), RIGHT)
    assert Breaking.broke and not box.use.failed and box.use.retried == 3
    box.close()


def test_a_second_try_has_all_the_time_that_a_point_may_take():
    tries = []

    def fn(x):
        if np.array_equal(x, POINTS[BAD]):
            tries.append(1)
            time.sleep(0.7)
            if len(tries) == 1:
                raise LookupError("no table for this point")
        return density(x)

    with ThreadPoolExecutor(2) as pool:
        box = BlackBox(fn, 2, pool=pool, faults=Faults("reject", timeout=1.2), chunk_size=1)
        np.testing.assert_array_equal(box.values(POINTS), RIGHT)
    assert len(tries) == 2 and not box.use.failed


def test_the_seconds_of_a_late_answer_are_counted_once():
    over, tries = threading.Event(), []

    def fn(x):
        if np.array_equal(x, POINTS[BAD]):
            tries.append(1)
            over.wait(0.9 if len(tries) == 1 else 60)
        return density(x)

    with ThreadPoolExecutor(2) as pool:
        box = BlackBox(fn, 2, pool=pool, faults=Faults("reject", timeout=0.6), chunk_size=1)
        np.testing.assert_array_equal(box.values(POINTS), RIGHT)
        over.set()
    assert len(tries) == 2 and 0.85 < box.use.busy < 1.4


def test_what_came_in_the_same_reply_as_the_point_that_ends_a_fit_is_kept(tmp_path):
    fn = lambda x: np.zeros(2) if np.array_equal(x, POINTS[BAD]) else density(x)  # noqa: E731
    with ThreadPoolExecutor(1) as pool:
        box = BlackBox(fn, 2, pool=pool, store=tmp_path, chunk_size=12)
        with pytest.raises(DensityError, match="it must be a value of shape"):
            box.values(POINTS[:12])
        box.close()
    paid = {bytes(record["x"].tobytes()) for record in read_points(tmp_path).records}
    assert paid == {x.tobytes() for number, x in enumerate(POINTS[:12]) if number != BAD}


@pytest.mark.parametrize("pool", [2, ThreadPoolExecutor], ids=["processes", "threads"])
def test_an_observer_may_ask_for_points_while_others_are_on_their_way(pool):
    box, asked, ended = BlackBox(density, 2, pool=pool, chunk_size=1), [], []

    def observe():
        if not asked:
            asked.append(1)
            asked.append(box.values(POINTS[20:]))

    def ask():
        box.on_tick(observe)
        ended.append(box.values(POINTS[:20]))

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(30.0)
    assert ended, "waits for answers that the observer was given"
    np.testing.assert_array_equal(ended[0], RIGHT[:20])
    np.testing.assert_array_equal(asked[1], RIGHT[20:])
    box.close()


def test_workers_forget_the_functions_of_fits_long_past_and_this_process_holds_none():
    work._held.clear()
    BlackBox(density, 2).values(POINTS)
    assert not work._held
    with ThreadPoolExecutor(1) as pool:
        boxes = [BlackBox(density, 2, pool=pool, chunk_size=1) for _ in range(work._MOST_HELD + 3)]
        for box in (*boxes, *boxes):  # those that were forgotten are sent again
            np.testing.assert_array_equal(box.values(POINTS[:3]), RIGHT[:3])
    assert len(work._held) == work._MOST_HELD
    assert all(box.use.points == 6 for box in boxes)
    work._held.clear()


class Filling:
    """A file on a disk that takes only some bytes more, and then a part of what it is given."""

    def __init__(self, file, room):
        self.file, self.room = file, room

    def write(self, content):
        size = min(len(content), self.room)
        if not size:
            raise OSError(28, "No space left on device")
        self.room -= size
        return self.file.write(content[:size])

    def __getattr__(self, name):
        return getattr(self.file, name)


def test_a_disk_that_fills_up_within_a_record_leaves_no_part_of_it(tmp_path):
    store = PointStore(tmp_path, 2, "a density", False)
    write = lambda rows: store.add("value", POINTS[rows], RIGHT[rows], seconds=0.1, worker="a")  # noqa: E731
    write(slice(0, 2))
    store._file = Filling(store._file, 100)  # one record has 88 bytes
    with pytest.raises(RunFolderError, match="No space left on device; free space"):
        write(slice(2, 4))
    store._file.room = 10_000
    write(slice(4, 6))
    store.close()
    found = read_points(tmp_path)
    np.testing.assert_array_equal(found.records["x"], POINTS[[0, 1, 4, 5]])
    assert found.num_damaged == found.num_torn == 0


class ClosedMap:
    """A pool of one's own that has been closed."""

    def map(self, function, tasks):
        raise ValueError("Pool not running")


def test_a_closed_pool_with_map_alone_is_refused_in_words():
    with pytest.raises(SettingsError, match=r"takes no work .Pool not running.: it is closed"):
        BlackBox(density, 2, pool=ClosedMap()).values(POINTS)


@pytest.mark.slow
@pytest.mark.parametrize("is_made", [False, True])
def test_a_pool_whose_workers_cannot_find_the_function_is_told_and_not_waited_for(is_made, monkeypatch):
    """They end when they unpickle it, and `multiprocessing.Pool` starts others for ever."""
    module = types.ModuleType("not_in_workers")
    module.typed = lambda x: 0.0
    module.typed.__module__, module.typed.__qualname__ = "not_in_workers", "typed"
    monkeypatch.setitem(sys.modules, "not_in_workers", module)
    made = []

    def make():
        made.append(multiprocessing.get_context("spawn").Pool(1))
        return made[-1]

    box = BlackBox(module.typed, 2, pool=make if is_made else make())
    begin = time.monotonic()
    with pytest.raises(RuntimeError, match="broke before it evaluated a point .*exit code 1.*written in a notebook"):
        box.values(POINTS)
    assert time.monotonic() - begin < 60 and len(made) == 1
    box.close()
    for pool in made:
        pool.terminate()
