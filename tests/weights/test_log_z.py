"""log Z: errors that hold for heavy tails, pooling by precision, and determinants checked against exact ones."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from support.oracle import GaussianDenoiser
from support.random_checks import assert_mean, must_fail
from support.tiny import quick_compilation, tiny_ptsd
from support.tiny_fits import fit
from tempering.diffusion import DiffusionModel
from tempering.diffusion.noise import NoiseLevels, Prior
from tempering.methods import finish
from tempering.methods.finish import checked_log_z, determinants
from tempering.runs.ledger import Ledger
from tempering.settings import Sampling
from tempering.targets import anisotropic_gaussian
from tempering.weights.log_z import log_z_with_tail, pooled_log_z, recalibrated_log_z
from tempering.weights.weigh import Weighted, weigh


def log_normal(rng, std: float, size) -> np.ndarray:
    """Log weights of mean weight 1 whose logarithms are normal, as those of a model that errs in many dimensions."""
    return std * rng.normal(size=size) - std**2 / 2


def plain_error(log_weights) -> float:
    weights = np.exp(log_weights - np.max(log_weights))
    return float(np.std(weights) / np.mean(weights) / np.sqrt(len(weights)))


def check_coverage(log_z, errors) -> None:
    """Of estimates of 0, at least 95 in a hundred lie within three standard errors: 99 do, of the plain ones 80."""
    share = np.mean(np.abs(log_z) < 3 * errors)
    assert share > 0.95, f"{share:.3f} within three standard errors"


def test_errors_of_heavy_tails_cover_the_truth():
    log_weights = log_normal(np.random.default_rng(1), 3.0, (300, 800))
    found = np.array([log_z_with_tail(row) for row in log_weights])
    check_coverage(*found.T)
    must_fail(check_coverage, found[:, 0], np.array([plain_error(row) for row in log_weights]))


def test_errors_of_light_tails_are_the_plain_ones():
    log_weights = log_normal(np.random.default_rng(2), 0.5, (100, 2000)) + 1e3
    found = np.array([log_z_with_tail(row) for row in log_weights])
    assert_mean(np.exp(found[:, 0] - 1e3), 1.0)
    must_fail(assert_mean, np.exp(found[:, 0] - 1e3), 1.01)
    ratio = found[:, 1] / np.array([plain_error(row) for row in log_weights])
    assert np.all(ratio >= 1.0 - 1e-12) and np.mean(ratio) < 1.05


def test_the_error_is_the_spread_of_the_estimates():
    """400 repetitions of 500 draws from N(0.6, 1.3^2), weighed by e^2.5 N(1, 1): weights without a tail."""
    x = np.random.default_rng(3).normal(0.6, 1.3, size=(400, 500))
    log_weights = 2.5 + stats.norm(1.0, 1.0).logpdf(x) - stats.norm(0.6, 1.3).logpdf(x)
    estimates, errors = np.array([log_z_with_tail(row) for row in log_weights]).T
    # Z itself is unbiased; log Z is to the order 1 / n.
    assert_mean(np.exp(estimates - 2.5), 1.0, key="rng 3")
    must_fail(assert_mean, np.exp(estimates - 2.55), 1.0)
    scores = (estimates - 2.5) / errors
    assert_mean(scores**2, 1.0, key="rng 3")
    must_fail(assert_mean, scores**2 / 500, 1.0)  # without the square root of n


def test_log_z_of_hardly_any_weights():
    assert log_z_with_tail(np.full(30, 1.5)) == pytest.approx((1.5, 0.0))
    log_z, error = log_z_with_tail(np.full(30, -np.inf))
    assert log_z == -np.inf and np.isnan(error)
    few = np.log([1.0, 3.0])
    assert log_z_with_tail(few) == pytest.approx((np.log(2.0), 0.5 / np.sqrt(2)))
    assert log_z_with_tail(log_normal(np.random.default_rng(3), 10.0, 1000))[1] > 1.0


def test_pooling_is_by_precision():
    assert pooled_log_z([(1.0, 0.1), (4.0, 0.2)]) == pytest.approx((1.6, 0.1 / np.sqrt(1.25)))
    assert pooled_log_z([(1.0, 0.1), (None, None), (3.0, np.nan), (-np.inf, 0.1)]) == pytest.approx((1.0, 0.1))
    assert pooled_log_z([(1.0, 0.0), (4.0, 0.2)]) == (1.0, 0.0)
    assert np.all(np.isnan(pooled_log_z([])))


def test_a_shift_common_to_all_weights_is_taken_back_exactly():
    log_weights = np.random.default_rng(0).normal(700.0, 1.0, 50)  # exp of these overflows a float32
    log_z, error = recalibrated_log_z((3.0, 0.1), log_weights, log_weights - 0.25)
    assert (log_z, error) == pytest.approx((2.75, 0.1))


def test_weights_of_nothing_say_nothing():
    nothing = np.full(5, -np.inf)
    assert np.all(np.isnan(recalibrated_log_z((3.0, 0.1), nothing, nothing)))
    assert np.all(np.isnan(recalibrated_log_z((3.0, 0.1), np.empty(0), np.empty(0))))


def recalibrated_scores(num_trials: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """z of log Z with and without the check, in trials whose densities are off by noise and a common shift."""
    rng, scores = np.random.default_rng(1), []
    for _ in range(num_trials):
        exact = rng.normal(0.0, 0.5, 2000) - 0.125  # mean weight 1: log Z is 0
        estimated = exact + rng.normal(0.1, 0.2, 2000)
        weights = np.exp(estimated)
        plain = np.log(np.mean(weights)), np.std(weights) / np.mean(weights) / np.sqrt(2000)
        checked = recalibrated_log_z(plain, estimated[:200], exact[:200])
        scores.append((checked[0] / checked[1], plain[0] / plain[1]))
    return tuple(np.array(scores).T)


def test_the_error_covers_the_exact_value_and_without_the_check_it_does_not():
    checked, plain = recalibrated_scores()
    assert np.mean(np.abs(checked) < 3) > 0.98 and 0.7 < np.std(checked) < 1.3
    assert np.mean(np.abs(plain) < 3) < 0.1


def gaussian_model(dim: int = 20) -> tuple:
    target = anisotropic_gaussian(dim, seed=2)
    denoiser = GaussianDenoiser(target.mean(), target.covariance())
    levels = NoiseLevels(*(jnp.asarray(n) for n in (0.02, 12.0)))
    prior = Prior(target.mean(), jnp.linalg.cholesky(jnp.asarray(denoiser.covariance_at(12.0), jnp.float32)))
    return target, DiffusionModel(denoiser, prior, levels)


@pytest.mark.parametrize("is_quasi_random", [False, True])
def test_some_draws_again_are_the_same_draws(is_quasi_random):
    _, model = gaussian_model(3)
    sampling = Sampling(num_steps=4, divergence="exact", chunk_size=64)
    key = jax.random.key(5)
    everything, _ = model.draw(key, 150, sampling, with_density=True, is_quasi_random=is_quasi_random)
    first, _ = model.draw(key, 150, sampling, with_density=True, is_quasi_random=is_quasi_random, rows=jnp.arange(40))
    np.testing.assert_allclose(first, everything[:40], rtol=1e-5)
    rows = jnp.asarray(np.random.default_rng(0).integers(0, 150, 90))  # in any order, more than once, two chunks
    some, _ = model.draw(key, 150, sampling, with_density=True, is_quasi_random=is_quasi_random, rows=rows)
    np.testing.assert_allclose(some, everything[rows], rtol=1e-5)
    fewer, _ = model.draw(key, 40, sampling, with_density=True, is_quasi_random=True)
    assert not np.allclose(fewer, first), "forty of their own are others, where they cover space evenly"


@pytest.mark.parametrize("is_quasi_random", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_coarse_solver_with_probes_ends_at_the_exact_log_z(is_quasi_random):
    """Ten steps leave the series for the determinant short of converged, and probes bias the mean weight upwards."""
    target, model = gaussian_model()
    sampling = Sampling(num_steps=10, divergence="hutchinson", num_probes=8)
    key = jax.random.key(3)
    draws, log_q = model.draw(key, 1000, sampling, with_density=True, is_quasi_random=is_quasi_random)
    weighted = weigh(target, draws, log_q, jnp.ones(()), ledger=Ledger(), stage="final_weights")
    log_z, error = checked_log_z(key, model, sampling, weighted, is_quasi_random=is_quasi_random)
    plain, plain_error = weighted.log_z
    assert abs(log_z - target.log_z()) < 3 * error
    assert abs(plain - target.log_z()) > 4 * plain_error, "without the check it would be wrong"


@pytest.mark.parametrize(("tail", "largest_checked"), [(0.2, 128), (0.6, 128), (0.2, 1)])
def test_the_last_level_counts_where_its_determinants_were_checked_and_its_weights_have_a_variance(
    tail, largest_checked, monkeypatch
):
    """A fit in two dimensions with probes, told that its weights have this tail and up to where it may check."""
    given: list = []
    monkeypatch.setattr(finish, "pooled_log_z", lambda pairs: given.extend(pairs) or pooled_log_z(given))
    monkeypatch.setattr(finish, "_LARGEST_CHECKED", largest_checked)
    monkeypatch.setattr(Weighted, "pareto_k", property(lambda _: tail))
    settings = tiny_ptsd()
    sampling = dataclasses.replace(settings.sampling, divergence="hutchinson", num_probes=2)
    with quick_compilation():
        sampler = fit(settings=dataclasses.replace(settings, sampling=sampling))
    own, last = (sampler.checks.log_z_final, sampler.checks.log_z_final_error), sampler.levels[-1]
    assert sampler.checks.determinants == ("checked" if largest_checked > 1 else "unchecked")
    is_pooled = tail < 0.5 and largest_checked > 1
    assert given == ([own, (last.log_z, last.log_z_error)] if is_pooled else [own])
    assert (sampler.log_z, sampler.log_z_error) == pooled_log_z(given)


def test_how_determinants_are_known_is_recorded():
    probes = Sampling(divergence="automatic")
    assert determinants(probes, 129) == "unchecked" and determinants(probes, 128) == "checked"
    assert determinants(Sampling(divergence="exact"), 129) == "exact"
