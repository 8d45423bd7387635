"""Weighing model samples: what counts as usable, what is counted, what it costs, and what comes out."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from support.counting import counting_target
from support.random_checks import assert_mean, must_fail
from tempering.buffer import ORIGINS
from tempering.errors import BudgetError, DensityError
from tempering.runs.ledger import Ledger
from tempering.settings import Resampling
from tempering.targets import Gaussian, Target
from tempering.weights.weigh import corrected, evened, keep_usable, weigh

BETA = jnp.asarray(0.5)


class Odd(Target):
    """log p = -x, except where the first coordinate says otherwise."""

    dim: int = eqx.field(static=True, default=2)

    def log_density(self, x):
        value = -jnp.sum(x)
        value = jnp.where(x[0] == 1.0, -jnp.inf, value)
        value = jnp.where(x[0] == 2.0, jnp.nan, value)
        value = jnp.where(x[0] == 3.0, jnp.inf, value)
        # Finite at 4, where its gradient is not; the inner `where` keeps that gradient from all other points.
        return value + jnp.sqrt(jnp.where(x[0] == 4.0, x[0] - 4.0, 1.0)) - 1.0


NORMAL, OUTSIDE, NAN, INFINITE, NO_GRADIENT = 0.0, 1.0, 2.0, 3.0, 4.0
KINDS = [NORMAL, OUTSIDE, NAN, INFINITE, NO_GRADIENT, NORMAL, NORMAL, OUTSIDE]
LOG_Q = [0.25, 0.0, 0.0, 0.0, 0.0, np.nan, -np.inf, np.nan]


@pytest.fixture(scope="module")
def odd():
    ledger = Ledger()
    x = jnp.asarray([[kind, 3.0] for kind in KINDS])
    return weigh(Odd(), x, jnp.asarray(LOG_Q), BETA, ledger=ledger, stage="importance_weights"), ledger


def test_only_a_finite_sample_has_a_weight(odd):
    weighted, _ = odd
    expected = np.full(8, -np.inf)
    expected[0] = 0.5 * -3.0 - 0.25
    np.testing.assert_allclose(weighted.log_weights, expected)


def test_what_should_not_happen_is_counted(odd):
    """Being outside the support is legal; NaN, +inf, no gradient and a log q that is not finite are not."""
    weighted, _ = odd
    assert weighted.num_nonfinite == 6
    assert np.isneginf(weighted.states.log_density[1]) and np.isnan(weighted.states.log_density[2])


def test_every_point_is_entered_once(odd):
    _, ledger = odd
    assert ledger.points == {"importance_weights": 8} and ledger.value_only == {}
    with pytest.raises(BudgetError, match="needs 3 evaluations"):
        weigh(Odd(), jnp.zeros((3, 2)), jnp.zeros(3), BETA, ledger=Ledger(budget=2), stage="final_weights")


@pytest.mark.parametrize("num", [1, 7, 10_001])
def test_the_ledger_is_what_the_target_received(num):
    target, counter = counting_target(Gaussian([0.0, 1.0], np.eye(2)))
    ledger = Ledger()
    weighted = weigh(target, jnp.ones((num, 2)), jnp.zeros(num), BETA, ledger=ledger, stage="sampling")
    assert counter.wait(weighted.log_weights) == num == ledger.points["sampling"]
    assert counter.value_only == 0


@pytest.fixture(scope="module")
def tempered_gaussian():
    """Draws from a wider Gaussian, weighed by a normalised one at beta = 0.5, whose log Z is known."""
    mean, covariance = np.array([2.0, -5.0]), np.array([[1.0, 0.9], [0.9, 2.0]])
    target = Gaussian(mean, covariance)
    proposal = stats.multivariate_normal(mean + 0.3, 3.0 * covariance)
    x = proposal.rvs(size=20_000, random_state=np.random.default_rng(5))
    log_q = jnp.asarray(proposal.logpdf(x), jnp.float32)
    weighted = weigh(target, jnp.asarray(x, jnp.float32), log_q, BETA, ledger=Ledger(), stage="final_weights")
    # integral of N(x; m, C)^beta = beta^(-d/2) |2 pi C|^((1 - beta)/2), d = 2
    log_z = -np.log(0.5) + 0.25 * np.linalg.slogdet(2 * np.pi * covariance)[1]
    return weighted, log_z, mean, covariance


def test_log_z_of_a_tempered_gaussian(tempered_gaussian):
    weighted, log_z, _, _ = tempered_gaussian
    weights = np.exp(np.asarray(weighted.log_weights, np.float64) - log_z)
    assert_mean(weights, 1.0, key="rng 5")
    must_fail(assert_mean, weights * np.exp(0.05), 1.0)
    estimate, error = weighted.log_z
    assert estimate == pytest.approx(log_z, abs=5 * error) and error < 0.01
    assert weighted.ess_fraction == pytest.approx(np.sum(weights) ** 2 / np.sum(weights**2) / 20_000, rel=1e-4)


@pytest.mark.parametrize("scheme", ["multinomial", "systematic"])
def test_resampling_moves_samples_to_the_level(tempered_gaussian, scheme):
    weighted, _, mean, covariance = tempered_gaussian
    resampled, ess = corrected(jax.random.key(0), weighted, Resampling(quantile=1.0, scheme=scheme))
    assert resampled.size == 20_000 and ess == pytest.approx(weighted.ess_fraction)
    assert set(np.asarray(resampled.origin)) == {ORIGINS.index("importance_resampled")}
    # A resampled set is worth the ESS of the weights, less what the draw itself adds.
    worth = 1 / (1 / (ess * 20_000) + 1 / 20_000)
    square = (np.asarray(resampled.position, np.float64) - mean) ** 2
    assert_mean(resampled.position, mean, ess=worth, key=jax.random.key(0))
    assert_mean(square, np.diag(covariance) / 0.5, ess=worth, key=jax.random.key(0))
    must_fail(assert_mean, (np.asarray(weighted.states.position, np.float64) - mean) ** 2, np.diag(covariance) / 0.5)
    exact = stats.multivariate_normal(mean, covariance).logpdf(np.asarray(resampled.position, np.float64))
    np.testing.assert_allclose(resampled.log_density, exact, rtol=1e-4, atol=1e-3)


def test_weights_are_kept_where_nothing_is_resampled(tempered_gaussian):
    weighted, _, mean, covariance = tempered_gaussian
    kept, ess = corrected(jax.random.key(0), weighted, Resampling(quantile=1.0, is_resampled=False))
    assert ess == pytest.approx(weighted.ess_fraction)
    assert set(np.asarray(kept.origin)) == {ORIGINS.index("weighted")}
    np.testing.assert_array_equal(kept.position, weighted.states.position)
    np.testing.assert_array_equal(kept.log_weight, weighted.log_weights)
    square = (np.asarray(kept.position, np.float64) - mean) ** 2
    share = 20_000 * np.asarray(kept.weight, np.float64)[:, None]
    assert_mean(share * square, np.diag(covariance) / 0.5, key="rng 5")
    must_fail(assert_mean, square, np.diag(covariance) / 0.5)


def test_no_quantile_cuts_to_an_effective_share(tempered_gaussian, monkeypatch):
    weighted, *_ = tempered_gaussian
    resampling = Resampling(quantile=None, is_resampled=False)
    enough, ess = corrected(jax.random.key(0), weighted, resampling)
    assert ess == pytest.approx(weighted.ess_fraction)
    np.testing.assert_array_equal(enough.log_weight, weighted.log_weights)
    monkeypatch.setattr("tempering.settings.models._LEAST_SHARE", 0.95)
    cut, ess = corrected(jax.random.key(0), weighted, resampling)
    assert 0.95 <= ess < 0.951 and weighted.ess_fraction < 0.9
    assert np.all(np.asarray(cut.log_weight) <= np.asarray(weighted.log_weights))


@pytest.mark.parametrize(
    ("num", "asked", "share"),
    [(20_000, 700, 0.2), (2_000, 700, 0.35), (1_000, 700, 0.5), (1_000, 0, 0.2), (500, 10_000, 0.5)],
)
def test_few_samples_are_cut_until_enough_count(num, asked, share):
    resampling = Resampling(quantile=None, min_effective=asked, is_resampled=False)
    target, positions = Gaussian(jnp.zeros(2), jnp.eye(2)), 3.0 * jax.random.normal(jax.random.key(1), (num, 2))
    log_q = 4.0 * jax.random.normal(jax.random.key(2), (num,))
    weighted = weigh(target, positions, log_q, jnp.ones(()), ledger=Ledger(), stage="sampling")
    _, ess = corrected(jax.random.key(0), weighted, resampling)
    assert weighted.ess_fraction < 0.1 and ess == pytest.approx(share, rel=1e-3)


def test_evened_samples_have_the_same_distribution(tempered_gaussian):
    weighted, _, mean, covariance = tempered_gaussian
    kept, ess = corrected(jax.random.key(0), weighted, Resampling(quantile=1.0, is_resampled=False))
    even = evened(jax.random.key(1), kept, "systematic")
    assert np.all(even.log_weight == 0) and even.size == kept.size
    worth = 1 / (1 / (ess * 20_000) + 1 / 20_000)
    expected = np.diag(covariance) / 0.5
    assert_mean((np.asarray(even.position, np.float64) - mean) ** 2, expected, ess=worth, key=jax.random.key(1))
    must_fail(assert_mean, (np.asarray(kept.position, np.float64) - mean) ** 2, expected, ess=worth)
    assert evened(jax.random.key(1), even, "systematic") is even


def test_truncation_raises_the_effective_size(tempered_gaussian):
    weighted, *_ = tempered_gaussian
    _, ess = corrected(jax.random.key(0), weighted, Resampling(quantile=0.8))
    assert weighted.ess_fraction < ess <= 1.0


def test_unusable_samples_never_come_out(odd):
    weighted, _ = odd
    for scheme in ("multinomial", "systematic"):
        resampled, _ = corrected(jax.random.key(0), weighted, Resampling(scheme=scheme))
        np.testing.assert_array_equal(resampled.position, np.tile([0.0, 3.0], (8, 1)))
    kept = keep_usable(jax.random.key(0), weighted)
    assert np.all(np.isfinite(kept.log_density)) and np.all(np.isfinite(kept.log_density_grad))
    # Kept with its weight, a sample without one is a copy of a usable one: 0 x NaN would spoil every mean.
    in_place, _ = corrected(jax.random.key(0), weighted, Resampling(is_resampled=False))
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
    assert weighted.ess_fraction == 0.0
    with pytest.raises(DensityError, match="none of the 3 samples.*1 NaN"):
        corrected(jax.random.key(0), weighted, Resampling())
    with pytest.raises(DensityError, match="none of the 3 samples"):
        keep_usable(jax.random.key(0), weighted)
