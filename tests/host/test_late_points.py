"""Pools of others that lose, delay or forget: what was answered is kept, and no point is blamed for another's time."""

import sys
import threading
import time
import types
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor

import numpy as np
import pytest

from support.host_functions import BAD, POINTS, density
from tempering.adapters.black_box import BlackBox, Faults
from tempering.errors import DensityError, SettingsError
from tempering.host import foreign, work
from tempering.runs.points import read_points

RIGHT = np.asarray([density(x) for x in POINTS], np.float32)


class Scripted:
    """A density that does at chosen rows of POINTS, try by try, what it is told; else it answers at once."""

    def __init__(self, **acts):
        self.acts = {int(row[1:]): list(told) for row, told in acts.items()}
        self.over, self.seen = threading.Event(), []

    def __call__(self, x):
        row = int(np.flatnonzero(np.all(POINTS == x, axis=1))[0])
        self.seen.append(row)
        if self.acts.get(row):
            act = self.acts[row].pop(0)
            act() if callable(act) else self.over.wait(act)
        return density(x)


@pytest.fixture
def scripted():
    made = []

    def make(**acts):
        made.append(Scripted(**acts))
        return made[-1]

    yield make
    for function in made:
        function.over.set()  # threads end


def test_workers_that_are_all_stuck_are_told_about_and_not_waited_for(scripted):
    fn = scripted(_2=[60, 60], _3=[60, 60])
    with ThreadPoolExecutor(2) as pool:
        box = BlackBox(fn, 2, pool=pool, faults=Faults("reject", timeout=0.1))
        begin = time.monotonic()
        with pytest.raises(DensityError, match=r"all 2 workers are busy .*timeout = 0.1 s.*give pool=8"):
            box.values(POINTS)
        assert time.monotonic() - begin < 30
        fn.over.set()


def test_a_late_answer_counts_though_the_second_try_hangs(scripted):
    fn = scripted(**{f"_{BAD}": [0.9, 60]})
    with ThreadPoolExecutor(2) as pool:
        box = BlackBox(fn, 2, pool=pool, faults=Faults("reject", timeout=0.6), chunk_size=1)
        np.testing.assert_array_equal(box.values(POINTS), RIGHT)
        assert fn.seen.count(BAD) == 2 and box.use.retried == 1 and not box.use.failed
        assert box.use.points == len(POINTS)
        fn.over.set()


def test_workers_that_hang_since_an_earlier_batch_are_not_taken_for_free_ones(scripted):
    hanging = {f"_{row}": [60, 60] for row in range(3)}
    fn = scripted(**hanging, **{f"_{row}": [0.1] for row in range(10, 18)})
    with ThreadPoolExecutor(7) as pool:
        box = BlackBox(fn, 2, pool=pool, faults=Faults("reject", timeout=0.6), chunk_size=1)
        assert np.all(np.isneginf(box.values(POINTS[:3])))
        np.testing.assert_array_equal(box.values(POINTS[10:18]), RIGHT[10:18])
        assert box.use.retried == box.use.num_failed == 3, "with one worker left the seventh waits for 0.6 s"
        fn.over.set()


def test_time_without_workers_is_not_the_time_of_a_point(scripted, monkeypatch):
    workers = [2]
    monkeypatch.setattr(foreign, "_GLANCE", 0.0)
    monkeypatch.setattr(foreign, "size_of", lambda pool: workers[0])

    def preempted():  # the cluster takes its workers away, and begins the point anew when it has some
        workers[0] = 0
        time.sleep(1.0)
        workers[0] = 1

    fn = scripted(**{f"_{BAD}": [preempted]})
    with ThreadPoolExecutor(2) as pool:
        box = BlackBox(fn, 2, pool=pool, faults=Faults("reject", timeout=0.35), chunk_size=1)
        np.testing.assert_array_equal(box.values(POINTS), RIGHT)
    assert box.use.retried == 0 and not box.use.failed


class QueueEach:
    """As Dask: a task goes to the worker with the fewest at once, and waits there."""

    def __init__(self, num):
        self.workers = [ThreadPoolExecutor(1) for _ in range(num)]
        self.num_waiting, self._client = [0] * num, self

    def nthreads(self):
        return {number: 1 for number in range(len(self.workers))}

    def submit(self, fn, /, *args):
        number = int(np.argmin(self.num_waiting))
        self.num_waiting[number] += 1
        future = self.workers[number].submit(fn, *args)
        future.add_done_callback(lambda _: self._done(number))
        return future

    def _done(self, number):
        self.num_waiting[number] -= 1


@pytest.mark.parametrize("seconds", [0.05, 0.0])
def test_no_task_waits_behind_a_slow_one_where_workers_have_queues_unless_they_are_quick(
    seconds, scripted, monkeypatch
):
    monkeypatch.setattr(foreign, "QUICK", 0.02)
    fn = scripted(_1=[1.5], **{f"_{row}": [seconds] for row in (0, 2, 3, 4, 5)})
    pool = QueueEach(2)
    box = BlackBox(fn, 2, pool=pool, chunk_size=1)
    seen, judge = [], box._dealer.note
    monkeypatch.setattr(box._dealer, "note", lambda answer: (seen.append(answer.seconds), judge(answer)))
    np.testing.assert_array_equal(box.values(POINTS[:6]), RIGHT[:6])
    assert seen[-1] > 1.0 or seconds == 0.0
    box.values(POINTS[6:])
    assert (box.engine.room(0) == 4) == (box.engine._typical < 0.02)
    for worker in pool.workers:
        worker.shutdown()


class Breaking(ThreadPoolExecutor):
    """Breaks when four tasks are in flight, of which three have answers."""

    def __init__(self):
        super().__init__(2)
        self.held = []

    def submit(self, fn, /, *args):
        future = Future()
        if len(args[3]) == 0:  # the greeting
            future.set_result(fn(*args))
            return future
        self.held.append((future, fn, args))
        if len(self.held) == 4:
            self.held[0][0].set_exception(BrokenExecutor("a worker died"))
            for future, fn, args in self.held[1:]:
                future.set_result(fn(*args))
        return self.held[-1][0]


def test_answers_that_come_beside_the_end_of_a_pool_are_kept(tmp_path):
    with Breaking() as pool:
        box = BlackBox(density, 2, pool=pool, store=tmp_path, chunk_size=1)
        with pytest.raises(RuntimeError, match="the pool broke.*nothing that was paid is lost"):
            box.values(POINTS)
        box.close()
    assert {bytes(record["x"].tobytes()) for record in read_points(tmp_path).records} == {
        x.tobytes() for x in POINTS[1:4]
    }


class Prompt(ThreadPoolExecutor):
    """Has every answer as soon as it is asked, so that the two tasks in flight always come back together."""

    def submit(self, fn, /, *args):
        future = Future()
        future.set_result(fn(*args))
        return future


def _fails_at_first(x):
    if np.array_equal(x, POINTS[0]):
        raise LookupError("no table for this point")
    return density(x)


def test_answers_that_come_together_with_the_last_error_are_kept_and_not_waited_for(tmp_path):
    """They have left the engine: who waits for them there waits for ever."""
    box = BlackBox(_fails_at_first, 2, pool=Prompt(1), store=tmp_path, chunk_size=1)
    ended = []

    def ask():
        with pytest.raises(Exception, match="no table for this point"):
            box.values(POINTS[:6])
        ended.append(True)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(20.0)
    assert ended, "waits for answers that it has had"
    box.close()
    paid = {bytes(record["x"].tobytes()) for record in read_points(tmp_path).records}
    assert paid >= {x.tobytes() for x in POINTS[1:3]}


class Stillborn(ThreadPoolExecutor):
    """Its workers end before they have begun, as those that cannot find the function."""

    num_made = 0

    def __init__(self):
        super().__init__(1)
        Stillborn.num_made += 1

    def submit(self, fn, /, *args):
        future = Future()
        future.set_exception(BrokenExecutor("terminated abruptly"))
        return future


@pytest.mark.parametrize("is_made", [False, True])
def test_a_pool_that_breaks_before_its_first_point_is_told_with_the_usual_reason(is_made):
    Stillborn.num_made = 0
    pool = Stillborn if is_made else Stillborn()
    box = BlackBox(density, 2, pool=pool, faults=Faults("reject"))
    with pytest.raises(RuntimeError, match="broke before it evaluated a point .*written in a notebook"):
        box.values(POINTS)
    assert Stillborn.num_made == (3 if is_made else 1) and box.use.points == 0


def test_a_function_of_a_notebook_is_refused_by_own_processes_at_once(monkeypatch):
    main = types.ModuleType("__main__")
    main.typed = lambda x: 0.0
    main.typed.__module__, main.typed.__qualname__ = "__main__", "typed"
    monkeypatch.setitem(sys.modules, "__main__", main)
    with pytest.raises(DensityError, match="typed cannot be found by another process: .*in a notebook"):
        BlackBox(main.typed, 2, pool=2)
    main.__file__ = "script.py"
    BlackBox(main.typed, 2, pool=2)


class JobEach:
    """As submitit: every task is a process of its own, and its future must be asked."""

    num_workers = 3

    def __init__(self):
        self.num_jobs = 0

    def submit(self, fn, /, *args):
        work._held.clear()
        self.num_jobs += 1
        future = Future()
        future.set_result(fn(*args))
        return Asked(future)


class Asked:
    def __init__(self, future):
        self.done, self.result = future.done, future.result


def test_where_each_task_is_a_job_of_its_own_none_is_sent_twice():
    pool = JobEach()
    box = BlackBox(density, 2, pool=pool, chunk_size=1)
    np.testing.assert_array_equal(box.values(POINTS), RIGHT)
    assert pool.num_jobs == 1 + len(POINTS) and box.num_workers == 3


class MapOnly:
    """The least that a pool can be; notes which tasks carried functions."""

    size = 3

    def __init__(self):
        self.shipped = []

    def map(self, function, tasks):
        self.shipped += [task[1] is not None for task in tasks]
        return [function(task) for task in tasks]


def test_with_map_alone_the_function_travels_to_few_and_to_workers_that_lack_it():
    pool = MapOnly()
    box = BlackBox(density, 2, pool=pool, chunk_size=1)
    for _ in range(3):
        np.testing.assert_array_equal(box.values(POINTS), RIGHT)
    assert sum(pool.shipped) == 2 * pool.size and len(pool.shipped) == 3 * len(POINTS)
    work._held.clear()
    np.testing.assert_array_equal(box.values(POINTS), RIGHT)
    assert sum(pool.shipped) == 2 * pool.size + len(POINTS) and box.use.points == 4 * len(POINTS)


def test_a_time_for_each_point_is_refused_where_nothing_comes_back_before_the_end():
    with pytest.raises(SettingsError, match="hands back each point when it is done; one with .map alone"):
        BlackBox(density, 2, pool=MapOnly(), faults=Faults(timeout=1.0)).values(POINTS)


def test_a_class_of_pools_makes_one():
    box = BlackBox(density, 2, pool=ThreadPoolExecutor)
    np.testing.assert_array_equal(box.values(POINTS), RIGHT)
    box.close()


def test_no_two_tasks_look_alike():
    """Dask takes tasks with equal arguments for one: a second try would be the first one's answer."""
    seen = []

    class Noting(ThreadPoolExecutor):
        def submit(self, fn, /, token, shipped, *rest):
            seen.append((token, rest[0], rest[1].tobytes(), *rest[2:]))
            return super().submit(fn, token, shipped, *rest)

    with Noting(2) as pool:
        box = BlackBox(density, 2, pool=pool, chunk_size=1)
        for _ in range(2):
            box.values(POINTS[:4])
    assert len(set(seen)) == len(seen) == 1 + 2 * 4
