"""Ladders of any size, and weights that are zero, huge or undefined: what is right or degenerate gives numbers."""

import math

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import strategies as st

from tempering.parallel_tempering.ladder import temperatures_of
from tempering.settings import Ladder
from tempering.weights.pareto import log_z_with_tail, pareto_k
from tempering.weights.resampling import ess_fraction, indices_by_weight, truncate, truncate_to_ess


@hypothesis.given(hottest=st.floats(1.001, 1e8), num=st.integers(2, 60))
def test_ladders_fall_from_the_hottest_to_one(hottest, num):
    found = np.asarray(temperatures_of(Ladder(hottest=hottest, num_levels=num), dim=3))
    assert len(found) == num and found[0] == pytest.approx(hottest) and found[-1] == 1.0
    assert np.all(np.diff(found) < 0)


weights = st.lists(
    st.one_of(st.floats(-1e5, 1e5, width=32, allow_subnormal=False), st.just(-math.inf), st.just(0.0)),
    min_size=40,
    max_size=40,
).map(lambda values: np.array(values, np.float32))


@hypothesis.given(weights, st.integers(0, 2**32 - 1))
def test_degenerate_weights_give_numbers_and_usable_indices(log_weights, seed):
    given = jnp.asarray(log_weights)
    is_positive = log_weights > -np.inf
    share = float(ess_fraction(given))
    assert (share == 0.0) == (not is_positive.any()) and 0.0 <= share <= 1.0
    for cut in (truncate(given, 0.9), truncate_to_ess(given, 0.5)):
        assert not np.isnan(np.asarray(cut)).any() and np.all(np.asarray(cut) <= log_weights)
    if is_positive.any():
        for scheme in ("multinomial", "systematic"):
            assert is_positive[np.asarray(indices_by_weight(jax.random.key(seed), given, 40, scheme))].all()
        log_z, error = log_z_with_tail(log_weights)
        assert math.isfinite(log_z) and error >= 0.0


@hypothesis.given(weights, st.sampled_from([np.nan, np.inf]), st.integers(0, 39))
def test_undefined_weights_are_never_taken_for_good_ones(log_weights, value, place):
    log_weights[place] = value
    assert not math.isfinite(pareto_k(log_weights))
    log_z, error = log_z_with_tail(log_weights)
    assert not (math.isfinite(log_z) and math.isfinite(error))
