"""The run: cutting it into calls changes nothing, chains do not depend on each other, adaptation ends where it says."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.random_checks import must_fail
from tempering.errors import BudgetError
from tempering.kernels import MALA
from tempering.parallel_tempering import Rules, advance, betas_of, collect, evenly, run, start
from tempering.parallel_tempering.run import _pieces, _step, block_size
from tempering.runs.ledger import Ledger
from tempering.targets import Gaussian, Target, anisotropic_gaussian

KEY = jax.random.key(60)
KERNEL = MALA()


def _advance(target, state, betas, rules, num_steps: int, num_draws: int = 1):
    return advance(KEY, target, KERNEL, state, betas, rules, num_steps, num_draws)


def _assert_equal(one, other) -> None:
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


@pytest.fixture(scope="module")
def rules():
    """Swaps every other step; step sizes adapt for the first eight."""
    return Rules.of(KERNEL.optimal_acceptance, 2, 8, "even_odd")


def test_cutting_a_run_into_calls_changes_nothing(target, started, betas, rules):
    whole = _advance(target, started, betas, rules, 20)
    cut = started
    for num_steps in (1, 6, 0, 4, 9):
        cut = _advance(target, cut, betas, rules, num_steps)
    _assert_equal(whole, cut)
    assert int(whole.step) == int(whole.tally.num_steps) == 20


def test_advancing_is_stepping(target, started, betas, rules):
    """Against single steps, compiled apart from the loop: equal but for rounding."""
    step = eqx.filter_jit(_step)
    expected = started
    for _ in range(6):
        expected = step(KEY, target, KERNEL, expected, betas, rules)
    for num_draws in (1, 3):
        found = _advance(target, started, betas, rules, 6, num_draws)
        assert int(found.step) == int(expected.step) == 6
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-4, atol=1e-4)


def test_collecting_is_advancing_and_looking(target, started, betas, rules):
    last, draws = collect(KEY, target, KERNEL, started, betas, rules, evenly(4, 5))
    state = started
    for draw in range(5):
        state = _advance(target, state, betas, rules, 4, 5)  # the same program: equal to the bit
        _assert_equal(state.chain, jax.tree.map(lambda leaf, draw=draw: leaf[draw], draws))
    _assert_equal(state, last)


def test_run_burns_in_then_keeps(target, started, betas, rules):
    seen = []
    state, draws = run(
        KEY,
        target,
        KERNEL,
        started,
        betas,
        rules,
        burn_in=7,
        num_draws=50,
        thin=2,
        ledger=Ledger(),
        stage="initial_pt",
        on_block=lambda done, state: seen.append((done, int(state.step))),
    )
    assert draws.position.shape == (3, 50, 100, 2)
    # Progress tells the steps of the whole run, and the tally covers the kept part only.
    assert [done for done, _ in seen] == [step for _, step in seen]
    assert seen[-1][0] == int(state.step) == 107
    assert int(state.tally.num_steps) == 100
    burnt = _advance(target, started, betas, rules, 7, 5)
    _, expected = collect(KEY, target, KERNEL, burnt, betas, rules, evenly(2, 5))
    first = jax.tree.map(lambda leaf: jnp.swapaxes(leaf[:, :5], 0, 1), draws)
    _assert_equal(first, expected)


@pytest.mark.parametrize("total", [1, 7, 10, 30, 97, 100, 1000])
def test_blocks_cover_a_run_exactly(total):
    size = block_size(total)
    assert total % size == 0 and size <= max(1, total // 10)
    for piece in (1, 3, size, total, 2 * total):
        pieces = _pieces(total, piece)
        assert sum(num for _, num in pieces) == total
        assert [done for done, _ in pieces] == np.cumsum([0] + [num for _, num in pieces])[:-1].tolist()
    assert _pieces(0, 1) == []


def test_blocks_of_ones_own_change_nothing(target, started, betas, rules):
    lengths = {"burn_in": 3, "num_draws": 6, "thin": 2, "stage": "initial_pt"}
    usual = run(KEY, target, KERNEL, started, betas, rules, ledger=Ledger(), **lengths)
    in_pairs = run(KEY, target, KERNEL, started, betas, rules, ledger=Ledger(), block=2, **lengths)
    _assert_equal(usual, in_pairs)
    with pytest.raises(ValueError, match="6 draws are not made in blocks of 4"):
        run(KEY, target, KERNEL, started, betas, rules, ledger=Ledger(), block=4, **lengths)


def test_a_chain_does_not_depend_on_how_many_run_beside_it(target, started, betas):
    frozen = Rules.of(KERNEL.optimal_acceptance, 2, 0, "even_odd")
    few = eqx.tree_at(
        lambda state: (state.chain, state.replicas),
        started,
        jax.tree.map(lambda leaf: leaf[:, :40], (started.chain, started.replicas)),
    )
    many, few = (_advance(target, state, betas, frozen, 20) for state in (started, few))
    # Not bit for bit: how the compiler vectorises a product depends on the batch.
    np.testing.assert_allclose(many.chain.position[:, :40], few.chain.position, rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(many.replicas.index[:, :40], few.replicas.index)


def test_step_sizes_freeze_at_adapt_until(target, started, betas, rules):
    before, at, after = (_advance(target, started, betas, rules, num).step_sizes for num in (7, 8, 20))
    assert np.all(np.asarray(before.log_step_size) != np.asarray(at.log_step_size))
    _assert_equal(at, after)
    assert int(after.num_updates) == 8


def test_swap_counts_and_parity(target, started, betas, rules):
    # Ten swap rounds in twenty steps: five for the even pair, five for the odd one, each in a hundred chains.
    tally = _advance(target, started, betas, rules, 20).tally
    assert tally.swaps_tried.tolist() == [500.0, 500.0]
    assert np.all((tally.swaps_made > 0) & (tally.swaps_made < tally.swaps_tried))
    # The first round tries the hottest pair.
    assert _advance(target, started, betas, rules, 2).tally.swaps_tried.tolist() == [100.0, 0.0]


def test_every_replica_stays_in_its_ladder(target, started, betas, rules):
    index = np.asarray(_advance(target, started, betas, rules, 20).replicas.index)
    np.testing.assert_array_equal(np.sort(index, axis=0), np.tile(np.arange(3)[:, None], (1, 100)))
    assert np.any(index != np.arange(3)[:, None])


def _check_adapted(target, state, betas, target_acceptance: float) -> None:
    """Burn in, then measure over 60 steps: sampling and adaptation leave an error of about 0.015, never above 0.035."""
    state = _advance(target, state, betas, Rules.of(target_acceptance, 2, 100, "even_odd"), 100)
    before = state.tally.acceptance
    state = _advance(target, state, betas, Rules.of(target_acceptance, 2, 100, "even_odd"), 60)
    rate = np.asarray(state.tally.acceptance - before) / 60.0
    assert np.all(np.abs(rate - target_acceptance) < 0.06), f"acceptance {rate}, wanted {target_acceptance}"


@pytest.mark.parametrize("target_acceptance", [0.4, 0.574, 0.8])
@pytest.mark.parametrize("factor", [1e-3, 1.0, 1e2])
def test_adaptation_reaches_the_target_acceptance_at_every_temperature(
    target, started, betas, target_acceptance, factor
):
    off = eqx.tree_at(lambda state: state.step_sizes.log_step_size, started, replace_fn=lambda x: x + np.log(factor))
    _check_adapted(target, off, betas, target_acceptance)


def test_without_adaptation_the_acceptance_would_be_off(target, started, betas):
    # A state whose step counter has passed `adapt_until` is frozen.
    off = eqx.tree_at(lambda state: state.step_sizes.log_step_size, started, replace_fn=lambda x: x + np.log(10.0))
    frozen = eqx.tree_at(lambda state: state.step, off, jnp.asarray(1000, jnp.int32))
    must_fail(_check_adapted, target, frozen, betas, 0.574)


class _Traced(Target):
    """Notes in a list that its log density is being traced."""

    inner: Gaussian
    dim: int = eqx.field(static=True)
    traces: list = eqx.field(static=True)

    def log_density(self, x):
        self.traces.append(x.shape)
        return self.inner.log_density(x)


class _HashableList(list):
    __hash__ = object.__hash__


@pytest.mark.slow
def test_five_ladders_and_lengths_compile_once():
    traces = _HashableList()
    counts = []
    for index, hottest in enumerate((2.0, 3.0, 9.0, 50.0, 1000.0)):
        target = _Traced(anisotropic_gaussian(dim=2, seed=index), 2, traces)
        betas = betas_of((hottest, hottest**0.5, 1.0))
        positions = target.inner.sample(jax.random.key(index), 30).reshape((3, 10, 2))
        state, _ = start(KEY, target, KERNEL, positions, betas, Ledger(), "initial_pt")
        rules = Rules.of(0.5 + 0.05 * index, 1 + index, 3 * index, "even_odd")
        lengths = {"burn_in": 10 + index, "num_draws": 20, "thin": 1 + index}
        run(KEY, target, KERNEL, state, betas, rules, **lengths, ledger=Ledger(), stage="initial_pt")
        counts.append(len(traces))
    assert counts[0] > 0
    assert counts == [counts[0]] * 5


class _Forgetful(Ledger):
    """A ledger that does not write down a stage's first evaluations."""

    def spend(self, stage, num_points, *, with_gradient=True):
        first = stage not in self.points
        super().spend(stage, 0 if first else num_points, with_gradient=with_gradient)


def _check_ledger(counted, started, betas, ledger: Ledger, burn_in: int, num_draws: int, thin: int) -> None:
    """The ledger holds the points that reached the host, no more and no fewer."""
    target, counter = counted
    counter.reset()
    lengths = {"burn_in": burn_in, "num_draws": num_draws, "thin": thin}
    rules = Rules.of(0.574, 3, burn_in, "even_odd")
    result = run(KEY, target, KERNEL, started, betas, rules, **lengths, ledger=ledger, stage="refinement")
    num_points = counter.wait(result)
    assert num_points == 3 * 100 * (burn_in + num_draws * thin)
    assert ledger.total == ledger.points["refinement"] == num_points, f"{ledger.total} written, {num_points} made"
    assert counter.value_only == 0 and ledger.value_only == {}


@pytest.mark.parametrize(("burn_in", "num_draws", "thin"), [(0, 50, 1), (1, 55, 2), (23, 50, 3)])
def test_the_ledger_is_what_was_evaluated(counted, started, betas, burn_in, num_draws, thin):
    _check_ledger(counted, started, betas, Ledger(), burn_in, num_draws, thin)


def test_a_forgetful_ledger_would_show(counted, started, betas):
    must_fail(_check_ledger, counted, started, betas, _Forgetful(), 1, 50, 1)


def test_a_run_never_exceeds_its_budget(counted, started, betas, rules):
    target, counter = counted
    counter.reset()
    ledger = Ledger(budget=3 * 100 * 20)
    lengths = {"burn_in": 0, "num_draws": 50, "thin": 1, "stage": "initial_pt"}
    with pytest.raises(BudgetError, match=r"initial_pt.*1,500 evaluations.*6,000 of the budget of 6,000"):
        run(KEY, target, KERNEL, started, betas, rules, **lengths, ledger=ledger, on_block=lambda *_: counter.wait(_))
    assert counter.total == ledger.total == 6_000
