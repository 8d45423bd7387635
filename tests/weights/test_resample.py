"""Drawing by weight: counts of indices, and the buffers of a level."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from support.random_checks import assert_mean, must_fail
from support.weights import LOG_WEIGHTS, NAN, NORMAL, NUM, OUTSIDE, Odd
from tempering.buffer import ORIGINS
from tempering.errors import DensityError
from tempering.runs.ledger import Ledger
from tempering.settings import Resampling
from tempering.weights.ess import normalised
from tempering.weights.resample import evened, indices_by_weight, keep_usable, resampled, systematic_indices
from tempering.weights.weigh import weigh

BETA = jnp.asarray(0.5)

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


@pytest.mark.parametrize("offset", [0.0, 0.3, 0.5, 1.0 - 2.0**-53])
def test_even_steps_on_the_host_give_every_particle_its_share(offset):
    indices = systematic_indices(np.asarray(LOG_SKEWED), 137, offset)
    assert np.all(np.diff(indices) >= 0)
    counts = np.bincount(indices, minlength=SKEWED.size)
    assert np.all(np.abs(counts - 137 * SKEWED / SKEWED.sum()) < 1 + 1e-3) and np.all(counts[SKEWED == 0] == 0)


@pytest.mark.parametrize("scheme", ["multinomial", "systematic"])
def test_resampling_moves_samples_to_the_level(tempered_gaussian, scheme):
    weighted, _, mean, covariance = tempered_gaussian
    found, ess = (
        resampled(jax.random.key(0), weighted, Resampling(is_resampled=True, scheme=scheme)),
        weighted.ess_fraction,
    )
    assert found.size == 20_000
    assert set(np.asarray(found.origin)) == {ORIGINS.index("importance_resampled")}
    # A resampled set is worth the ESS of the weights, less what the draw itself adds.
    worth = 1 / (1 / (ess * 20_000) + 1 / 20_000)
    square = (np.asarray(found.position, np.float64) - mean) ** 2
    assert_mean(found.position, mean, ess=worth, key=jax.random.key(0))
    assert_mean(square, np.diag(covariance) / 0.5, ess=worth, key=jax.random.key(0))
    must_fail(assert_mean, (np.asarray(weighted.states.position, np.float64) - mean) ** 2, np.diag(covariance) / 0.5)
    exact = stats.multivariate_normal(mean, covariance).logpdf(np.asarray(found.position, np.float64))
    np.testing.assert_allclose(found.log_density, exact, rtol=1e-4, atol=1e-3)


def test_weights_are_kept_where_nothing_is_resampled(tempered_gaussian):
    weighted, _, mean, covariance = tempered_gaussian
    kept = resampled(jax.random.key(0), weighted, Resampling(is_resampled=False))
    assert set(np.asarray(kept.origin)) == {ORIGINS.index("weighted")}
    np.testing.assert_array_equal(kept.position, weighted.states.position)
    np.testing.assert_array_equal(kept.log_weight, weighted.log_weights)
    square = (np.asarray(kept.position, np.float64) - mean) ** 2
    share = 20_000 * np.asarray(kept.weight, np.float64)[:, None]
    assert_mean(share * square, np.diag(covariance) / 0.5, key="rng 5")
    must_fail(assert_mean, square, np.diag(covariance) / 0.5)


def test_evened_samples_have_the_same_distribution(tempered_gaussian):
    weighted, _, mean, covariance = tempered_gaussian
    kept, ess = resampled(jax.random.key(0), weighted, Resampling(is_resampled=False)), weighted.ess_fraction
    even = evened(jax.random.key(1), kept, "systematic")
    assert np.all(even.log_weight == 0) and even.size == kept.size
    worth = 1 / (1 / (ess * 20_000) + 1 / 20_000)
    expected = np.diag(covariance) / 0.5
    assert_mean((np.asarray(even.position, np.float64) - mean) ** 2, expected, ess=worth, key=jax.random.key(1))
    must_fail(assert_mean, (np.asarray(kept.position, np.float64) - mean) ** 2, expected, ess=worth)
    assert evened(jax.random.key(1), even, "systematic") is even


def test_unusable_samples_never_come_out(odd):
    weighted, _ = odd
    for scheme in ("multinomial", "systematic"):
        found = resampled(jax.random.key(0), weighted, Resampling(scheme=scheme))
        np.testing.assert_array_equal(found.position, np.tile([0.0, 3.0], (8, 1)))
    kept = keep_usable(jax.random.key(0), weighted)
    assert np.all(np.isfinite(kept.log_density)) and np.all(np.isfinite(kept.log_density_grad))
    # Kept with its weight, a sample without one is a copy of a usable one: 0 x NaN would spoil every mean.
    in_place = resampled(jax.random.key(0), weighted, Resampling(is_resampled=False))
    np.testing.assert_array_equal(in_place.position, np.tile([0.0, 3.0], (8, 1)))
    np.testing.assert_allclose(in_place.weight, [1.0] + [0.0] * 7)


def test_keep_usable_keeps_the_usable_where_they_are():
    x = jnp.asarray([[NORMAL, float(i)] for i in range(6)]).at[2, 0].set(OUTSIDE).at[4, 0].set(NAN)
    weighted = weigh(Odd(), x, jnp.zeros(6), BETA, ledger=Ledger(), stage="importance_weights")
    kept = keep_usable(jax.random.key(3), weighted)
    np.testing.assert_array_equal(kept.position[jnp.array([0, 1, 3, 5]), 1], [0.0, 1.0, 3.0, 5.0])
    assert set(np.asarray(kept.position[jnp.array([2, 4]), 1])) <= {0.0, 1.0, 3.0, 5.0}
    assert set(np.asarray(kept.origin)) == {ORIGINS.index("generated")}


def test_no_usable_sample_at_all_is_refused():
    x = jnp.asarray([[OUTSIDE, 0.0], [NAN, 0.0], [OUTSIDE, 1.0]])
    weighted = weigh(Odd(), x, jnp.zeros(3), BETA, ledger=Ledger(), stage="importance_weights")
    with pytest.raises(DensityError, match="none of the 3 samples.*1 NaN"):
        resampled(jax.random.key(0), weighted, Resampling())
    with pytest.raises(DensityError, match="none of the 3 samples"):
        keep_usable(jax.random.key(0), weighted)
