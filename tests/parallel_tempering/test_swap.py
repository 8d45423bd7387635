"""Swaps: permutations of a ladder, accepted by the rule, and the product of the tempered densities is left as it is."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.random_checks import assert_fraction, must_fail
from support.tempered import check_tempered, tempered_draws
from tempering.parallel_tempering.swap import even_odd, sweep
from tempering.targets.base import evaluate_many

SCHEMES = {"even_odd": even_odd, "sweep": sweep}
KEY = jax.random.key(40)
NUM_LADDERS = 20_000
BETAS = (0.25, 0.4, 0.65, 1.0)


@pytest.fixture(scope="module")
def exact_ladders(gaussian):
    """Exact draws of every level with their untempered log densities, of axes (level, ladder)."""
    keys = jax.random.split(KEY, len(BETAS))
    positions = jnp.stack(
        [tempered_draws(gaussian, key, NUM_LADDERS, beta) for key, beta in zip(keys, BETAS, strict=True)]
    )
    log_density = jnp.stack([evaluate_many(gaussian, level)[0] for level in positions])
    return positions, log_density


@partial(jax.jit, static_argnames="name")
def _swap_all(name, keys, log_density, betas, round_index):
    """One swap round of every ladder; log densities and permutations of axes (level, ladder)."""
    swap = jax.vmap(SCHEMES[name], in_axes=(0, 1, None, None), out_axes=(1, 0, 0))
    return swap(keys, log_density, betas, round_index)


def _swapped(name, positions, log_density, round_index: int, betas=BETAS) -> np.ndarray:
    keys = jax.random.split(jax.random.fold_in(KEY, round_index), NUM_LADDERS)
    permutation, _, is_swapped = _swap_all(name, keys, log_density, jnp.asarray(betas), jnp.asarray(round_index))
    assert 0.05 < np.mean(is_swapped) < 0.95
    return np.take_along_axis(np.asarray(positions), np.asarray(permutation)[..., None], axis=0)


def _check_levels(gaussian, positions) -> None:
    for level, beta in enumerate(BETAS):
        check_tempered(gaussian, beta, positions[level], KEY)


@pytest.mark.parametrize("round_index", [0, 1])
@pytest.mark.parametrize("name", SCHEMES.keys())
def test_swaps_leave_every_level_invariant(name, round_index, gaussian, exact_ladders):
    _check_levels(gaussian, _swapped(name, *exact_ladders, round_index))


@pytest.mark.parametrize("name", SCHEMES.keys())
def test_a_swap_without_the_beta_difference_is_rejected(name, gaussian, exact_ladders):
    # Fooled: the difference of the betas it sees is 1 for every pair.
    must_fail(_check_levels, gaussian, _swapped(name, *exact_ladders, 0, betas=np.arange(4, dtype=np.float32)))


@pytest.mark.parametrize("name", SCHEMES.keys())
def test_a_swap_of_the_wrong_sign_is_rejected(name, gaussian, exact_ladders):
    positions, log_density = exact_ladders
    must_fail(_check_levels, gaussian, _swapped(name, positions, -log_density, 0))


@pytest.mark.parametrize(
    ("hot", "cold", "expected"), [(-3.0, -1.0, np.exp(-1.5)), (-1.0, -3.0, 1.0), (-2.0, -2.0, 1.0)]
)
@pytest.mark.parametrize("name", SCHEMES.keys())
def test_acceptance_by_hand(name, hot, cold, expected):
    # (1 - 1/4) (l_hot - l_cold): the colder chain is offered a state of less density in the first case only.
    log_density = jnp.asarray([[hot], [cold]]) + jnp.zeros((2, 4_000))
    keys = jax.random.split(KEY, 4_000)
    _, _, is_swapped = _swap_all(name, keys, log_density, jnp.asarray([0.25, 1.0]), jnp.asarray(0))
    assert_fraction(np.asarray(is_swapped), expected, name="swap rate", key=KEY)


def test_a_replica_may_travel_down_the_whole_ladder_in_one_sweep_only():
    # The hottest chain holds by far the highest density, so that every swap it meets is accepted.
    log_density, betas = jnp.asarray([100.0, -100.0, -90.0, -80.0]), jnp.asarray(BETAS)
    assert sweep(KEY, log_density, betas, jnp.asarray(0))[0].tolist() == [1, 2, 3, 0]
    assert even_odd(KEY, log_density, betas, jnp.asarray(0))[0].tolist()[:2] == [1, 0]


def _by_hand(name: str, uniform, log_density, betas, round_index: int):
    """Python loops over pairs, hot to cold."""
    order = list(range(len(betas)))
    tried, made = [], []
    for pair in range(len(betas) - 1):
        # Two levels have nothing to alternate with.
        tried.append(name == "sweep" or len(betas) == 2 or pair % 2 == round_index % 2)
        hot, cold = order[pair], order[pair + 1]
        log_ratio = (betas[pair + 1] - betas[pair]) * (log_density[hot] - log_density[cold])
        made.append(bool(tried[-1] and np.log(uniform[pair]) < log_ratio))
        if made[-1]:
            order[pair], order[pair + 1] = cold, hot
    return order, tried, made


@st.composite
def ladders(draw):
    num_levels = draw(st.sampled_from([1, 2, 5]))  # each is compiled once
    temperatures = np.cumprod(draw(st.lists(st.floats(1.05, 5.0), min_size=num_levels, max_size=num_levels)))
    # Coarse values: no ratio lies so near a uniform number that rounding decides.
    levels = draw(st.lists(st.integers(-40, 40) | st.just(10_000), min_size=num_levels, max_size=num_levels))
    betas = np.sort(1.0 / temperatures) / np.max(1.0 / temperatures)
    return betas.astype(np.float32), np.asarray(levels, np.float32) / 4.0


@partial(jax.jit, static_argnames="name")
def _swap_with_uniforms(name, key, log_density, betas, round_index):
    uniform = jax.random.uniform(key, (len(betas) - 1,))
    return *SCHEMES[name](key, log_density, betas, round_index), uniform


@given(ladder=ladders(), round_index=st.integers(0, 5), seed=st.integers(0, 99))
@pytest.mark.parametrize("name", SCHEMES.keys())
def test_schemes_agree_with_loops_over_pairs(name, ladder, round_index, seed):
    betas, log_density = ladder
    permutation, is_tried, is_swapped, uniform = _swap_with_uniforms(
        name, jax.random.key(seed), jnp.asarray(log_density), jnp.asarray(betas), jnp.asarray(round_index)
    )
    order, tried, made = _by_hand(name, np.asarray(uniform), log_density, betas, round_index)
    assert permutation.tolist() == order
    assert sorted(permutation.tolist()) == list(range(len(betas)))
    assert is_tried.tolist() == tried
    assert is_swapped.tolist() == made
