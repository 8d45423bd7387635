"""Truncated weights: at a quantile, to an effective share, and as the settings say."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.weights import LOG_WEIGHTS, NAN, OUTSIDE, Odd
from tempering.errors import DensityError
from tempering.runs.ledger import Ledger
from tempering.settings import Resampling
from tempering.targets import Gaussian
from tempering.weights.ess import ess_fraction
from tempering.weights.truncate import truncate, truncate_to_ess, truncated
from tempering.weights.weigh import weigh

ESS = jax.jit(ess_fraction)
TRUNCATE = jax.jit(truncate, static_argnums=1)
TRUNCATE_TO_ESS = jax.jit(truncate_to_ess, static_argnums=1)


@given(LOG_WEIGHTS, st.sampled_from([0.5, 0.99, 1.0]))
def test_truncation_of_any_weights(log_weights, quantile):
    cut = np.asarray(TRUNCATE(log_weights, quantile))
    before = np.asarray(log_weights)
    assert not np.any(np.isnan(cut)) and np.all(cut <= before)
    # Zero stays zero, and nothing positive is lost: a cut at zero would leave no particle at all.
    np.testing.assert_array_equal(np.isneginf(cut), np.isneginf(before))
    changed = cut < before
    assert np.unique(cut[changed]).size <= 1 and set(cut[changed]) <= set(before)
    if quantile == 1.0:
        np.testing.assert_array_equal(cut, before)


def test_truncation_cuts_to_the_quantile():
    log_weights = jnp.asarray(np.random.default_rng(0).permutation(101), jnp.float32)
    cut = truncate(log_weights, 0.9)
    np.testing.assert_array_equal(cut, np.minimum(log_weights, 90.0))
    # More zeros than the quantile leaves room for: the survivors are made equal.
    few = jnp.full(1000, -jnp.inf).at[jnp.array([3, 500, 900])].set(jnp.array([1.0, 5.0, 9.0]))
    np.testing.assert_array_equal(truncate(few, 0.99)[jnp.array([3, 500, 900])], [1.0, 1.0, 1.0])


@given(LOG_WEIGHTS, st.sampled_from([0.2, 0.5, 0.9]))
def test_truncation_to_an_effective_share_of_any_weights(log_weights, least):
    before, cut = np.asarray(log_weights), np.asarray(TRUNCATE_TO_ESS(log_weights, least))
    assert not np.any(np.isnan(cut)) and np.all(cut <= before)
    np.testing.assert_array_equal(np.isneginf(cut), np.isneginf(before))
    assert np.unique(cut[cut < before]).size <= 1, "all that are cut are cut to one height"
    share_of_positive = np.mean(before > -np.inf)
    # With too few positive weights they become equal, which is the most there is.
    assert float(ESS(jnp.asarray(cut))) >= min(least, share_of_positive) - 1e-4
    if float(ESS(log_weights)) >= least:
        np.testing.assert_array_equal(cut, before)


@pytest.mark.parametrize("shift", [0.0, 1e4])
def test_truncation_to_an_effective_share_cuts_no_more_than_it_must(shift):
    rng = np.random.default_rng(1)
    log_weights = jnp.asarray(np.where(rng.random(2000) < 0.1, -np.inf, 3.0 * rng.normal(size=2000)), jnp.float32)
    log_weights = log_weights + shift
    assert ess_fraction(log_weights) < 0.05
    cut = truncate_to_ess(log_weights, 0.4)
    assert 0.4 <= float(ess_fraction(cut)) < 0.402
    # The saboteur: a cut a little higher misses the share.
    assert ess_fraction(jnp.minimum(log_weights, jnp.max(cut) + 0.05)) < 0.4
    np.testing.assert_array_equal(truncate_to_ess(log_weights, 1e-4), log_weights)
    assert np.all(np.isneginf(truncate_to_ess(jnp.full(5, -jnp.inf), 0.3)))


@pytest.mark.parametrize("smallest", [-1e3, -1e20, -3e38, -jnp.inf])
def test_however_small_the_smallest_weight_the_cut_leaves_what_was_asked(smallest):
    # A draw of two atoms in one place has a log weight of -1e20 and less.
    log_weights = 5.0 * jax.random.normal(jax.random.key(0), (1000,))
    log_weights = log_weights.at[:3].set(smallest)
    cut = truncate_to_ess(log_weights, 0.2)
    assert float(ess_fraction(log_weights)) < 0.05
    assert float(ess_fraction(cut)) == pytest.approx(0.2, rel=1e-3)
    assert float(jnp.mean(cut < log_weights)) < 0.2


def test_the_settings_say_how(tempered_gaussian):
    weighted, *_ = tempered_gaussian
    at_quantile = truncated(weighted, Resampling(quantile=0.8))
    np.testing.assert_array_equal(at_quantile.log_weights, truncate(weighted.log_weights, 0.8))
    assert weighted.ess_fraction < at_quantile.ess_fraction <= 1.0
    assert at_quantile.states is weighted.states and at_quantile.num_nonfinite == weighted.num_nonfinite
    whole = truncated(weighted, Resampling(quantile=1.0))
    np.testing.assert_array_equal(whole.log_weights, weighted.log_weights)


def test_no_quantile_cuts_to_an_effective_share(tempered_gaussian):
    weighted, *_ = tempered_gaussian
    enough = truncated(weighted, Resampling(quantile=None, min_effective=0))  # its share is larger than is asked for
    np.testing.assert_array_equal(enough.log_weights, weighted.log_weights)
    least = truncate_to_ess(weighted.log_weights, 0.95)
    assert 0.95 <= ess_fraction(least) < 0.951 and 0.2 < weighted.ess_fraction < 0.9
    assert np.all(np.asarray(least) <= np.asarray(weighted.log_weights))


@pytest.mark.parametrize(
    ("num", "asked", "share"),
    [(20_000, 700, 0.2), (2_000, 700, 0.35), (1_000, 700, 0.5), (1_000, 0, 0.2), (500, 10_000, 0.5)],
)
def test_few_samples_are_cut_until_enough_count(num, asked, share):
    resampling = Resampling(quantile=None, min_effective=asked, is_resampled=False)
    target, positions = Gaussian(jnp.zeros(2), jnp.eye(2)), 3.0 * jax.random.normal(jax.random.key(1), (num, 2))
    log_q = 4.0 * jax.random.normal(jax.random.key(2), (num,))
    weighted = weigh(target, positions, log_q, jnp.ones(()), ledger=Ledger(), stage="sampling")
    ess = truncated(weighted, resampling).ess_fraction
    assert weighted.ess_fraction < 0.1 and ess == pytest.approx(share, rel=1e-3)
    # What is asked for is a floor: a larger share is left as it is.
    even = jnp.zeros((num,))
    np.testing.assert_array_equal(truncate_to_ess(even, resampling.least_share(num)), even)


def test_a_cut_makes_no_sample_of_what_is_none(tempered_gaussian):
    """A draw in a wall, 1e20 nats below the best, must not count as much as the best, however few count."""
    weighted, *_ = tempered_gaussian
    num = weighted.log_weights.shape[0]
    walled = jnp.where(jnp.arange(num) < int(0.9 * num), -1e20, weighted.log_weights)
    weighted = eqx.tree_at(lambda tree: tree.log_weights, weighted, walled)
    cut = truncated(weighted, Resampling(quantile=None)).log_weights
    assert np.all(np.isneginf(cut[: int(0.9 * num)])) and np.all(np.asarray(cut[int(0.9 * num) :]) > -60.0)
    must_not = truncate_to_ess(walled, 0.2)  # what the cut alone would do
    assert np.all(np.asarray(must_not) < -1e7)


def test_what_was_counted_is_not_forgotten(odd):
    weighted, _ = odd
    assert truncated(weighted, Resampling()).num_nonfinite == 6


@pytest.mark.parametrize("quantile", [None, 0.9])
def test_no_usable_sample_at_all_is_refused(quantile):
    x = jnp.asarray([[OUTSIDE, 0.0], [NAN, 0.0], [OUTSIDE, 1.0]])
    weighted = weigh(Odd(), x, jnp.zeros(3), jnp.asarray(0.5), ledger=Ledger(), stage="importance_weights")
    assert weighted.ess_fraction == 0.0
    with pytest.raises(DensityError, match="none of the 3 samples.*1 NaN"):
        truncated(weighted, Resampling(quantile=quantile))
