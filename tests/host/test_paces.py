"""Chains that do not wait for each other: the same bits as in step, each point once, and less waiting."""

import importlib
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.host_functions import count_as_quick, density
from tempering.adapters import black_box, pace
from tempering.adapters.callback import from_callable
from tempering.atlas.climb import climb, placed
from tempering.errors import DensityError
from tempering.kernels import HMC, RandomWalk
from tempering.parallel_tempering import Rules, betas_of, run, start
from tempering.parallel_tempering.pilot.relax import climb as relaxed
from tempering.runs.ledger import Ledger

running = importlib.import_module("tempering.parallel_tempering.run")  # the package has a function of that name

KEY, DIM, WORKERS = jax.random.key(11), 3, 4
_SHORT = 0.01
FAILING = [False]
"""Not part of a density's data: a store sees the same density whether it fails or not."""


@pytest.fixture(autouse=True)
def programs_that_count_as_quick(monkeypatch):
    """As runs of a program may take as long as points of these tests, all would be run as ever."""
    count_as_quick(monkeypatch)
    monkeypatch.setattr(black_box, "_WORTH_AHEAD", 0.1 * _SHORT)


class Uneven:
    """A density whose points take some time, one in eight of them six times as long; it notes what it was asked."""

    def __init__(self, gradient: bool = False, fails: bool = False, seconds: float = _SHORT):
        self.gradient, self.seconds = gradient, seconds
        FAILING[:] = [fails]
        self.calls: list[bytes] = []
        self._lock = threading.Lock()

    def __call__(self, x):
        with self._lock:
            self.calls.append(x.tobytes())
        share = abs(float(x[0]) * 1e4) % 1.0
        time.sleep(self.seconds * (6.0 if share < 0.125 else 1.0))
        if FAILING[0] and 0.3 < share < 0.33:
            raise LookupError("no table for this point")
        value = float(-0.5 * np.sum((x - 0.7) ** 2 / (1.0 + np.arange(DIM))))
        return (value, -(x - 0.7) / (1.0 + np.arange(DIM))) if self.gradient else value


def _target(density, **options):
    gradient = "returned" if density.gradient else "none"
    target = from_callable(density, DIM, gradient=gradient, pool=ThreadPoolExecutor(WORKERS), **options)
    target.box.values(np.full((2, DIM), 9.0))  # how long a point takes is known from here on
    density.calls.clear()
    return target


def _chains(target, kernel, *, levels=(4.0, 1.0), num_chains=9, interval=3, num_draws=4, thin=2):
    positions = jax.random.normal(KEY, (len(levels), num_chains, DIM)) + 0.2
    betas = betas_of(levels)
    rules = Rules.of(kernel.optimal_acceptance, interval, 2, "even_odd")
    state, _ = start(KEY, target, kernel, positions, betas, Ledger(), "initial_pt")
    lengths = {"burn_in": 4, "num_draws": num_draws, "thin": thin, "block": num_draws}
    return run(KEY, target, kernel, state, betas, rules, **lengths, ledger=Ledger(), stage="initial_pt")


def _in_step(monkeypatch):
    for module in (pace, running):
        monkeypatch.setattr(module, "may_run_ahead", lambda target: False)


def _assert_same_bits(one, other):
    for left, right in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert np.asarray(left).tobytes() == np.asarray(right).tobytes()


def _runs_of(box, monkeypatch):
    """How often a program was run again, counted from now on."""
    counted, plain = [], box._run
    monkeypatch.setattr(box, "_run", lambda *args: counted.append(1) or plain(*args))
    return counted


@pytest.mark.parametrize(
    ("kernel", "gradient", "levels", "interval"),
    [
        pytest.param(RandomWalk(), False, (4.0, 1.0), 3, marks=pytest.mark.slow),
        (RandomWalk(), False, (4.0, 2.0, 1.0), 1),
        (HMC(num_leapfrog=2), True, (4.0, 1.0), 2),  # pyright: ignore[reportCallIssue]
    ],
)
def test_chains_at_their_own_pace_have_the_bits_of_chains_in_step(kernel, gradient, levels, interval, monkeypatch):
    ahead, in_step = Uneven(gradient), Uneven(gradient, seconds=0.0)
    target = _target(ahead)
    counted = _runs_of(target.box, monkeypatch)
    free = _chains(target, kernel, levels=levels, interval=interval, num_chains=6)
    assert len(counted) > 4, "chains should have gone ahead of each other"
    _in_step(monkeypatch)
    _assert_same_bits(free, _chains(_target(in_step), kernel, levels=levels, interval=interval, num_chains=6))
    assert Counter(ahead.calls) == Counter(in_step.calls), "no point is asked for in vain, and none twice"


def test_chains_do_wait_for_those_that_they_exchange_places_with(monkeypatch):
    """Without the waiting some go on from where they should not be: points are in vain, or answer for others."""
    plain, sabotaged = Uneven(), Uneven()
    right = _chains(_target(plain), RandomWalk(), levels=(4.0, 2.0, 1.0), interval=1)
    own = pace.at_own_pace
    monkeypatch.setattr(running, "at_own_pace", lambda *args, mixed, **rest: own(*args, **rest))
    for _ in range(4):  # who runs ahead is a matter of time: once is enough
        sabotaged.calls.clear()
        wrong = _chains(_target(sabotaged), RandomWalk(), levels=(4.0, 2.0, 1.0), interval=1)
        if len(sabotaged.calls) > len(plain.calls):
            return
        _assert_same_bits(right, wrong)
    pytest.fail("points should have been in vain")


def test_searches_that_nobody_looks_at_in_between_have_the_bits_of_searches_in_step(monkeypatch):
    starts = np.random.default_rng(3).normal(size=(24, DIM))
    ahead, in_step = Uneven(gradient=True), Uneven(gradient=True, seconds=0.0)
    searches = placed(starts, np.ones(24))
    target = _target(ahead)
    counted = _runs_of(target.box, monkeypatch)
    free = pace.at_own_pace(climb, (target, searches, 6), target=target, num_rows=24, num_visits=6)
    assert len(counted) > 2
    _assert_same_bits(free, climb(_target(in_step), searches, 6))
    assert Counter(ahead.calls) == Counter(in_step.calls)


@pytest.mark.slow
def test_a_climb_out_of_walls_goes_at_its_own_pace_too(monkeypatch):
    positions = jax.random.normal(KEY, (4, DIM))
    ahead, in_step = Uneven(gradient=True, seconds=0.002), Uneven(gradient=True, seconds=0.0)
    target = _target(ahead)
    target.box._dealer._typical = 10.0  # whatever a run of the program costs here
    free = relaxed(target, positions, Ledger(), "initial_pt")
    _in_step(monkeypatch)
    _assert_same_bits(free, relaxed(_target(in_step), positions, Ledger(), "initial_pt"))
    assert Counter(ahead.calls) == Counter(in_step.calls)


def test_points_that_fail_are_rejected_alike(monkeypatch):
    ahead, in_step = Uneven(), Uneven(fails=True, seconds=0.0)
    targets = [_target(density, on_failure="reject") for density in (ahead, in_step)]
    free = _chains(targets[0], RandomWalk())
    _in_step(monkeypatch)
    _assert_same_bits(free, _chains(targets[1], RandomWalk()))
    uses = [target.box.use for target in targets]
    assert uses[0].failed["raised"] == uses[1].failed["raised"] > 0


def test_a_point_that_fails_ends_the_run_with_its_error_and_what_is_paid_is_kept(tmp_path):
    density = Uneven(fails=True)
    target = _target(density, store=tmp_path)
    with pytest.raises(LookupError, match="no table for this point"):
        with pace_errors(target):
            _chains(target, RandomWalk())
    assert target.box._paces is None
    target.close()
    FAILING[0] = False
    paid = set(density.calls)
    density.calls.clear()
    again = _target(density, store=tmp_path)
    _chains(again, RandomWalk())
    failed = paid & set(density.calls)
    assert len(failed) <= 1, "only the point that failed is asked for again"
    assert again.box.use.replayed >= len(paid) - 1
    again.close()


def pace_errors(target):
    """As `tp.fit` evaluates: the callable's own exceptions come through."""
    from tempering.adapters import reporting

    return reporting(target)


def test_a_store_answers_for_chains_at_their_own_pace(tmp_path, monkeypatch):
    first, second = Uneven(), Uneven()
    one = _target(first, store=tmp_path)
    right = _chains(one, RandomWalk())
    one.close()
    two = from_callable(first, DIM, pool=ThreadPoolExecutor(WORKERS), store=tmp_path)
    two.box._dealer._typical = 10.0
    first.calls.clear()
    _assert_same_bits(right, _chains(two, RandomWalk()))
    assert not first.calls and two.box.use.replayed > 0 and not second.calls
    two.close()


@pytest.mark.parametrize(
    "options",
    [{"batched": True}, {"gradient": "finite"}, {"pool": 1}, {"pool": 0}],
    ids=["vectorised", "differences", "one worker", "this process"],
)
def test_others_stay_in_step(options):
    target = from_callable(density, DIM, **{"pool": ThreadPoolExecutor(2), **options})
    target.box._dealer._typical = 10.0
    assert not target.box.may_run_ahead()
    plain = from_callable(density, DIM, pool=ThreadPoolExecutor(2))
    assert not plain.box.may_run_ahead(), "nothing is known of its time"
    plain.box._dealer._typical = 10.0
    assert plain.box.may_run_ahead()
    with pace_errors(plain):
        assert plain.box.may_run_ahead()
        with ThreadPoolExecutor(1) as other, ExitStack() as visit:
            other.submit(visit.enter_context, pace_errors(plain)).result()
            assert not plain.box.may_run_ahead(), "programs of two threads could not be told apart"
            other.submit(visit.close).result()
        assert plain.box.may_run_ahead()


def test_a_program_that_visits_in_another_way_is_run_as_ever():
    density = Uneven(seconds=0.0)
    target = _target(density)
    target.box._dealer._typical = 10.0
    x = jnp.asarray(np.random.default_rng(0).normal(size=(5, DIM)), jnp.float32)
    values = jax.jit(jax.vmap(target.log_density))
    for num_rows, num_visits in ((5, 3), (4, 2)):
        found = pace.at_own_pace(values, (x,), target=target, num_rows=num_rows, num_visits=num_visits)
        np.testing.assert_array_equal(found, values(x))


def test_errors_of_shape_come_through():
    broken = from_callable(lambda x: np.zeros(2), DIM, pool=ThreadPoolExecutor(2))
    broken.box._dealer._typical = 10.0
    searches = placed(np.ones((4, DIM)), np.ones(4))
    with pytest.raises(DensityError, match="it must be a value of shape"):
        pace.at_own_pace(climb, (broken, searches, 3), target=broken, num_rows=4, num_visits=3)
