"""Importance weights: effective size, truncation, log Z and resampling, down to weights that hardly are any."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from support.random_checks import assert_mean, must_fail
from tempering.weights.resampling import (
    ess_fraction,
    indices_by_weight,
    log_z_estimate,
    normalised,
    truncate,
    truncate_to_ess,
)

NUM = 6
ESS = jax.jit(ess_fraction)
TRUNCATE = jax.jit(truncate, static_argnums=1)
TRUNCATE_TO_ESS = jax.jit(truncate_to_ess, static_argnums=1)
# Few sizes, so that few programs are compiled; weights from "none at all" to "too large for exp".
NUMBERS = partial(st.floats, width=32, allow_subnormal=False)  # XLA flushes subnormals to zero
LOG_WEIGHTS = st.lists(
    st.one_of(st.just(-np.inf), NUMBERS(-1e5, 1e5), NUMBERS(-3.0, 3.0)), min_size=NUM, max_size=NUM
).map(lambda values: jnp.asarray(values, jnp.float32))


def test_ess_of_known_weights():
    assert ess_fraction(jnp.zeros(50)) == pytest.approx(1.0, abs=1e-6)
    assert ess_fraction(jnp.full(50, -jnp.inf).at[7].set(3.0)) == pytest.approx(1 / 50)
    assert ess_fraction(jnp.full(50, -jnp.inf)) == 0.0
    # (1 + 2 + 3)^2 / (3 (1 + 4 + 9))
    assert ess_fraction(jnp.log(jnp.array([1.0, 2.0, 3.0]))) == pytest.approx(36 / 42, rel=1e-5)


def test_ess_does_not_see_a_common_factor():
    """Energies of 1e5 are common; the difference of two logsumexps of that size would be off by a per cent."""
    log_weights = jnp.asarray(np.random.default_rng(0).integers(-4, 5, size=200), jnp.float32)
    expected = float(ess_fraction(log_weights))
    for shift in (-1e5, 1e5):
        assert ess_fraction(log_weights + shift) == pytest.approx(expected, rel=1e-5)
    naive = np.exp(2 * jax.nn.logsumexp(log_weights + 1e5) - jax.nn.logsumexp(2 * (log_weights + 1e5))) / 200
    assert abs(naive / expected - 1) > 1e-3


@given(LOG_WEIGHTS)
def test_ess_is_a_fraction(log_weights):
    ess = float(ESS(log_weights))
    assert ess == 0.0 if np.all(np.isneginf(log_weights)) else 1 / NUM - 1e-5 <= ess <= 1.0


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


MEAN_P, STD_P, MEAN_Q, STD_Q, LOG_Z = 1.0, 1.0, 0.6, 1.3, 2.5


@pytest.fixture(scope="module")
def gaussian_weights():
    """400 repetitions of 500 draws from N(0.6, 1.3^2), weighed by e^2.5 N(1, 1)."""
    x = np.random.default_rng(3).normal(MEAN_Q, STD_Q, size=(400, 500))
    return x, LOG_Z + stats.norm(MEAN_P, STD_P).logpdf(x) - stats.norm(MEAN_Q, STD_Q).logpdf(x)


def test_log_z_and_its_error(gaussian_weights):
    _, log_weights = gaussian_weights
    estimates, errors = jax.jit(jax.vmap(log_z_estimate))(jnp.asarray(log_weights, jnp.float32))
    # Z itself is unbiased; log Z is to the order 1 / n. The stated error is the spread of the estimates.
    assert_mean(np.exp(np.asarray(estimates, np.float64) - LOG_Z), 1.0, key="rng 3")
    scores = (np.asarray(estimates, np.float64) - LOG_Z) / np.asarray(errors)
    assert_mean(scores**2, 1.0, key="rng 3")
    must_fail(assert_mean, np.exp(np.asarray(estimates, np.float64) - LOG_Z - 0.05), 1.0)
    must_fail(assert_mean, scores**2 / 500, 1.0)  # without the square root of n


def test_log_z_without_any_weight():
    log_z, error = log_z_estimate(jnp.full(5, -jnp.inf))
    assert np.isneginf(log_z) and np.isnan(error)
    log_z, error = log_z_estimate(jnp.full(5, 1.5))
    assert log_z == pytest.approx(1.5) and error == pytest.approx(0.0, abs=1e-5)


SKEWED = np.array([0.0, 5.0, 0.0, 1.0, 0.5, 3.0, 0.0, 0.01, 0.49, 0.0])
with np.errstate(divide="ignore"):
    LOG_SKEWED = jnp.asarray(np.log(SKEWED) + 700.0, jnp.float32)  # exp would overflow


def check_counts(indices, probabilities, num):
    """Chi-square of the counts of independent draws, at the level of every other assertion of the suite."""
    counts = np.bincount(np.asarray(indices).ravel(), minlength=probabilities.size)
    is_possible = probabilities > 0
    assert np.all(counts[~is_possible] == 0), "a particle without weight was drawn"
    expected = num * probabilities[is_possible]
    statistic = np.sum((counts[is_possible] - expected) ** 2 / expected)
    assert stats.chi2.sf(statistic, is_possible.sum() - 1) > 5.7e-7


def test_multinomial_counts():
    indices = indices_by_weight(jax.random.key(0), LOG_SKEWED, 20_000, "multinomial")
    check_counts(indices, SKEWED / SKEWED.sum(), 20_000)
    must_fail(check_counts, indices, np.sqrt(SKEWED) / np.sqrt(SKEWED).sum(), 20_000)
    must_fail(check_counts, indices[indices != 7], (SKEWED != 0.01) * SKEWED / SKEWED.sum() * 1.1, 20_000)
    # Independent: neighbours are alike no more often than chance has it.
    share = SKEWED / SKEWED.sum()
    assert_mean((indices[::2] == indices[1::2]).astype(float), np.sum(share**2), key=jax.random.key(0))
    must_fail(assert_mean, (jnp.sort(indices)[::2] == jnp.sort(indices)[1::2]).astype(float), np.sum(share**2))


def test_systematic_counts_are_within_one_of_their_expectation():
    num, keys = 137, jax.random.split(jax.random.key(1), 3000)
    indices = np.asarray(jax.jit(jax.vmap(lambda key: indices_by_weight(key, LOG_SKEWED, num, "systematic")))(keys))
    share = SKEWED / SKEWED.sum()
    counts = np.stack([np.sum(indices == particle, axis=1) for particle in range(SKEWED.size)], axis=1)
    assert np.all(np.abs(counts - num * share[None]) < 1 + 1e-3)
    assert np.all(counts[:, SKEWED == 0] == 0)
    varies = (num * share) % 1 > 1e-3
    assert_mean(counts[:, varies], num * share[varies], key=keys[0])
    must_fail(assert_mean, np.floor(counts[:, varies] * 0.99), num * share[varies])
    # In random order: the first place is as good as any.
    first = (indices[:, 0] == 1).astype(float)
    assert_mean(first, share[1], key=keys[0])
    must_fail(assert_mean, (np.sort(indices, axis=1)[:, 0] == 1).astype(float), share[1])


def test_multinomial_counts_are_not_systematic():
    """The saboteur of the bound above: independent draws stray further than one."""
    indices = np.asarray(indices_by_weight(jax.random.key(2), LOG_SKEWED, 1000, "multinomial"))
    counts = np.bincount(indices, minlength=SKEWED.size)
    assert np.any(np.abs(counts - 1000 * SKEWED / SKEWED.sum()) > 1)


SCHEMES = ("multinomial", "systematic")
RESAMPLE = {scheme: jax.jit(partial(indices_by_weight, num=9, scheme=scheme)) for scheme in SCHEMES}


@pytest.mark.parametrize("scheme", SCHEMES)
@given(LOG_WEIGHTS.filter(lambda weights: np.any(np.asarray(weights) > -np.inf)), st.integers(0, 2**31 - 1))
def test_only_particles_with_weight_are_drawn(scheme, log_weights, seed):
    indices = np.asarray(RESAMPLE[scheme](jax.random.key(seed), log_weights))
    assert indices.shape == (9,) and np.all((indices >= 0) & (indices < NUM))
    assert np.all(np.asarray(log_weights)[indices] > -np.inf)


def test_rounding_gives_no_weight_to_the_weightless(monkeypatch):
    """Prefix sums round each on its own, so that among thousands of zeros some own an ulp: exactly there we draw."""
    rng = np.random.default_rng(0)
    log_weights = jnp.asarray(np.where(rng.random(5000) < 0.5, -np.inf, rng.normal(size=5000)), jnp.float32)
    weightless = np.isneginf(np.asarray(log_weights))
    cumulative = jnp.cumsum(normalised(log_weights))
    cumulative = cumulative / cumulative[-1]
    owners = 1 + np.flatnonzero((np.diff(np.asarray(cumulative)) > 0) & weightless[1:])
    positions = cumulative[jnp.concatenate([jnp.asarray(owners - 1, jnp.int32), jnp.array([4999])])]
    monkeypatch.setattr(jax.random, "uniform", lambda key, shape: positions)
    indices = np.asarray(indices_by_weight(jax.random.key(0), log_weights, positions.shape[0], "multinomial"))
    assert not np.any(weightless[indices])
    plain = np.asarray(jnp.searchsorted(cumulative, positions, side="right"))
    assert np.all(weightless[plain[:-1]]) and plain[-1] == 5000, "the trap is not set"
