"""Refinement: exact samples stay exact at both levels, wrong ones move to the truth, and the cost is the stated one."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from support.counting import counting_target
from support.random_checks import assert_mean, assert_same_distribution_ks, must_fail
from support.tiny import quick_compilation
from tempering.buffer import ORIGINS, Buffer, from_states
from tempering.kernels import HMC, MALA, ChainState
from tempering.refinement import join, planned_evaluations, refine
from tempering.runs.ledger import Ledger
from tempering.settings import Refinement
from tempering.targets import Gaussian
from tempering.targets.base import evaluate_many
from tempering.weights.ess import ess_fraction

TARGET = Gaussian([2.0, -5.0], [[1.0, 0.9], [0.9, 2.0]])
BETAS = jnp.array([0.4, 1.0])
STEP_SIZE = jnp.array([0.8, 0.3])
SIZE = 3000
EVERY = Refinement(num_steps=10, adapt_fraction=0.5)
SEVERAL = Refinement(num_steps=11, num_states=3, adapt_fraction=0.1)
SUBSET = Refinement(num_steps=7, num_chains=1000, thin=3, adapt_fraction=0.0)


@pytest.fixture(scope="module", autouse=True)
def compiled_quickly():
    with quick_compilation():
        yield


def buffer_at(beta, seed, size=SIZE, shift=0.0) -> Buffer:
    """Exact samples of the level, or all of them moved by `shift`, with what the target says where they now are."""
    x = TARGET.sample(jax.random.key(seed), size)
    x = TARGET.location[None] + (x - TARGET.location[None]) / np.sqrt(beta) + shift
    return from_states(ChainState(x, *evaluate_many(TARGET, x)), "importance_resampled")


def refined(hot, cold, refinement, *, betas=BETAS, target=TARGET, kernel=None, ledger=None, **kwargs):
    return refine(
        jax.random.key(7),
        target,
        kernel or MALA(),
        hot,
        cold,
        betas,
        STEP_SIZE,
        refinement,
        swap_interval=5,
        swap_scheme="even_odd",
        target_acceptance=0.574,
        resampling_scheme="systematic",
        ledger=ledger or Ledger(),
        **kwargs,
    )


def check_levels(hot, cold):
    """Both coordinates and one slanted direction, at both levels, against the exact marginals."""
    slant = np.array([0.8, -0.6])
    covariance = np.asarray(TARGET.covariance(), np.float64)
    for buffer, beta in ((hot, 0.4), (cold, 1.0)):
        points = np.asarray(buffer.position, np.float64)
        for direction in (np.array([1.0, 0.0]), np.array([0.0, 1.0]), slant):
            law = stats.norm(direction @ np.asarray(TARGET.mean()), np.sqrt(direction @ covariance @ direction / beta))
            assert_same_distribution_ks(points @ direction, law.cdf, key=jax.random.key(7))


def check_rows(buffer):
    """Positions, densities and gradients of a row belong together."""
    log_density, gradient = evaluate_many(TARGET, buffer.position)
    np.testing.assert_allclose(buffer.log_density, log_density, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(buffer.log_density_grad, gradient, rtol=1e-4, atol=1e-4)


@pytest.fixture(scope="module")
def exact():
    return buffer_at(0.4, 0), buffer_at(1.0, 1)


@pytest.fixture(scope="module")
def after(exact):
    return refined(*exact, EVERY)


def test_exact_samples_stay_exact(exact, after):
    hot, cold, step_size, tally = after
    check_levels(hot, cold)
    check_rows(hot)
    check_rows(cold)
    # They really moved, by steps and by swaps.
    assert np.mean(np.any(cold.position != exact[1].position, axis=1)) > 0.99
    assert np.all((tally.acceptance_rate > 0.3) & (tally.acceptance_rate < 1.0))
    assert 0.05 < tally.swap_rate[0] < 1.0
    assert step_size.shape == (2,) and np.all(step_size > 0)


def test_swapped_betas_are_rejected(exact):
    hot, cold, *_ = refined(*exact, EVERY, betas=BETAS[::-1])
    must_fail(check_levels, hot, cold)


def test_swapped_buffers_are_rejected(exact, after):
    must_fail(check_levels, *exact[::-1])
    must_fail(check_levels, *after[:2][::-1])


def test_a_single_swap_round_is_used(exact):
    """A refinement as long as one swap interval: that one round has to try the pair."""
    _, _, _, tally = refined(*exact, Refinement(num_steps=5))
    assert tally.swaps_tried[0] == SIZE and tally.swaps_made[0] > 0


def test_biased_samples_move_towards_the_truth(exact):
    shift = 1.5
    biased = buffer_at(1.0, 1, shift=shift)
    _, after_few, *_ = refined(exact[0], biased, EVERY)
    # Ten steps, five of them frozen, and two rounds of swaps with right samples: well under half of the bias is left.
    left = np.mean(after_few.position, axis=0) - np.asarray(TARGET.mean())
    assert np.all(np.abs(left) < 0.5 * shift) and np.all(left > -0.1)
    must_fail(assert_mean, biased.position, TARGET.mean())
    # A long one ends at the truth.
    _, after_many, *_ = refined(exact[0], biased, Refinement(num_steps=150, adapt_fraction=0.2))
    assert_mean(after_many.position, TARGET.mean(), key=jax.random.key(7))


def test_every_sample_is_refined(after):
    hot, cold, *_ = after
    for buffer in (hot, cold):
        assert buffer.size == SIZE
        assert set(np.asarray(buffer.origin)) == {ORIGINS.index("refined")}


def test_several_states_of_every_chain_are_kept(exact):
    """Eleven steps, one of them adapting: states after the fifth, eighth and eleventh step."""
    assert (SEVERAL.num_adapting, SEVERAL.interval, SEVERAL.num_made) == (1, 3, 11)
    hot, cold, *_ = refined(*exact, SEVERAL)
    assert hot.size == SIZE and cold.size == 3 * SIZE
    check_rows(hot)
    check_rows(cold)
    states = [cold.take(rows) for rows in jnp.arange(3 * SIZE).reshape(3, SIZE)]
    for one in states:
        check_levels(hot, one)
    assert np.mean(np.any(states[0].position != states[1].position, axis=1)) > 0.9
    must_fail(check_levels, states[2], hot)


@pytest.mark.slow
def test_a_subset_joins_the_buffer(exact):
    """1000 chains, 7 steps, every third kept: 2 states of each join, and they are right."""
    hot, cold, *_ = refined(*exact, SUBSET)
    assert hot.size == cold.size == SIZE + 2000
    for buffer in (hot, cold):
        check_rows(buffer)
        is_new = np.asarray(buffer.origin) == ORIGINS.index("refined")
        assert is_new.sum() == 2000
    # The cold buffer keeps all it had, in place; then come the new states, the last of every chain at the end.
    np.testing.assert_array_equal(cold.position[:SIZE], exact[1].position)
    assert not np.any(is_new[:SIZE])
    last = cold.take(jnp.arange(SIZE + 1000, SIZE + 2000))
    check_levels(exact[0], last)
    must_fail(check_levels, last, last)
    # A hot buffer that has grown before is cut back to the cold one's size.
    hot_again, cold_again, *_ = refined(cold, exact[1], SUBSET)
    assert hot_again.size == cold_again.size == SIZE + 2000


def weighted_at(beta, seed, size=SIZE) -> Buffer:
    """Samples of a hotter level, moved aside, with the weights that make them right at `beta`."""
    own = 0.6 * beta
    shift = jnp.array([0.4, -0.3])
    buffer = buffer_at(own, seed, size, shift=shift[None])
    log_q = own * evaluate_many(TARGET, buffer.position - shift[None])[0]
    weighted = eqx.tree_at(lambda tree: tree.log_weight, buffer, beta * buffer.log_density - log_q)
    return eqx.tree_at(lambda tree: tree.origin, weighted, jnp.full((size,), ORIGINS.index("weighted")))


def check_weighted_levels(hot, cold):
    """Weighted means and covariances at both levels."""
    covariance = np.asarray(TARGET.covariance(), np.float64)
    for buffer, beta in ((hot, 0.4), (cold, 1.0)):
        centred = np.asarray(buffer.position, np.float64) - np.asarray(TARGET.mean())
        products = centred[:, (0, 0, 1)] * centred[:, (0, 1, 1)] - covariance[(0, 0, 1), (0, 1, 1)] / beta
        deviations = np.concatenate([centred, products], axis=1)
        weight = np.asarray(buffer.weight, np.float64)[:, None] * buffer.size
        # A start and the two states kept of its chain count once, as if the chain had not moved at all.
        assert_mean(weight * deviations, 0.0, ess=buffer.size / 3, key=jax.random.key(7))


def with_even_weights(buffer):
    return eqx.tree_at(lambda tree: tree.log_weight, buffer, jnp.zeros_like(buffer.log_weight))


@pytest.fixture(scope="module")
def weighted():
    return weighted_at(0.4, 4), weighted_at(1.0, 5)


@pytest.fixture(scope="module")
def joined(weighted):
    return refined(*weighted, SUBSET)


def test_a_subset_joins_a_weighted_buffer(weighted, joined):
    """What was there keeps its weights; what joins is even, in proportion to the effective numbers of both."""
    for before, after in zip(weighted, joined[:2], strict=True):
        is_new = np.asarray(after.origin) == ORIGINS.index("refined")
        assert after.size == SIZE + 2000 and is_new.sum() == 2000
        assert sorted(np.asarray(after.log_weight)[~is_new]) == sorted(np.asarray(before.log_weight))
        assert len(set(np.asarray(after.log_weight)[is_new])) == 1
        effective = SIZE * float(ess_fraction(before.log_weight))
        assert 0.3 * SIZE < effective < 0.9 * SIZE  # the weights are worth keeping
        np.testing.assert_allclose(np.asarray(after.weight)[is_new].sum(), 2000 / (2000 + effective), rtol=1e-4)
        check_rows(after)


def test_the_joined_samples_are_right(weighted, joined):
    hot, cold, *_ = joined
    check_weighted_levels(hot, cold)
    must_fail(check_weighted_levels, with_even_weights(hot), cold)
    must_fail(check_weighted_levels, hot, with_even_weights(cold))
    # A hot buffer that has grown before is cut, and still right.
    again, *_ = refined(hot, weighted[1], SUBSET)
    assert again.size == hot.size
    check_weighted_levels(again, cold)


@pytest.mark.parametrize("betas", [(0.4, 0.4), (1.0, 1.0)], ids=["cold too hot", "hot too cold"])
def test_joined_states_of_the_wrong_temperature_are_rejected(weighted, betas):
    hot, cold, *_ = refined(*weighted, SUBSET, betas=jnp.array(betas))
    must_fail(check_weighted_levels, hot, cold)


def test_starts_that_ignore_the_weights_are_rejected(weighted):
    """After one step the states are near where they began, so that the starts have to be right."""
    one = Refinement(num_steps=1, num_chains=2000, thin=1, adapt_fraction=0.0)

    def states_from(hot, cold):
        pair = refined(hot, cold, one)[:2]
        return [buffer.take(jnp.flatnonzero(buffer.origin == ORIGINS.index("refined"))) for buffer in pair]

    check_weighted_levels(*states_from(*weighted))
    must_fail(check_weighted_levels, *states_from(*map(with_even_weights, weighted)))


@pytest.mark.parametrize("level", [0.0, -1234.56, 3e5])
def test_even_weights_stay_even_to_the_bit(exact, level):
    hot, cold = exact
    even = eqx.tree_at(lambda tree: tree.log_weight, hot, jnp.full((SIZE,), level))
    assert set(np.asarray(join(even, cold.take(jnp.arange(77))).log_weight)) == {np.float32(level)}


def test_samples_without_weight_stay_without(weighted):
    none = eqx.tree_at(lambda tree: tree.log_weight, weighted[0], weighted[0].log_weight.at[10:].set(-jnp.inf))
    after = join(none, weighted[1].take(jnp.arange(50)))
    assert np.all(np.isneginf(after.log_weight[10:SIZE])) and np.all(np.isfinite(after.log_weight[SIZE:]))


@pytest.fixture(scope="module")
def counted():
    target, counter = counting_target(TARGET)
    return target, counter, buffer_at(0.4, 2, size=60), buffer_at(1.0, 3, size=60)


@pytest.mark.parametrize(
    ("refinement", "kernel"),
    [
        (EVERY, MALA()),
        (Refinement(num_steps=3, adapt_fraction=0.0), MALA()),
        (SEVERAL, MALA()),
        (Refinement(num_steps=11, num_chains=50, thin=5, adapt_fraction=0.0), HMC(num_leapfrog=3)),
    ],
    ids=["every sample", "no adaptation", "several states", "subset"],
)
def test_the_plan_is_the_ledger_is_the_count(counted, refinement, kernel):
    target, counter, hot, cold = counted
    counter.reset()
    ledger = Ledger()
    result = refined(hot, cold, refinement, target=target, kernel=kernel, ledger=ledger)
    received = counter.wait(eqx.filter(result, eqx.is_array))
    assert planned_evaluations(refinement, 60, kernel) == ledger.points["refinement"] == received
    assert counter.value_only == 0 and ledger.value_only == {}


def test_the_plan_by_hand():
    assert planned_evaluations(Refinement(num_steps=0), 2000, MALA()) == 0
    assert planned_evaluations(Refinement(num_steps=5), 2000, MALA()) == 2 * 2000 * 5
    # 11 steps of which 5 adapt; 3 kept states 2 apart use all of the other 6.
    subset = Refinement(num_steps=11, num_chains=50, thin=2, adapt_fraction=0.5)
    assert planned_evaluations(subset, 2000, HMC(num_leapfrog=4)) == 2 * 50 * 11 * 4


def test_progress_is_told(exact):
    told = []
    refined(*exact, EVERY, on_block=lambda done, state: told.append(done))
    assert told[-1] == 10 and told == sorted(told)
