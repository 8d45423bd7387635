"""log Z: estimates pooled by precision, and estimated determinants checked against exact ones."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.oracle import GaussianDenoiser
from support.tiny import quick_compilation, tiny_ptsd
from support.tiny_fits import fit
from tempering.diffusion import DiffusionModel
from tempering.diffusion.noise import NoiseLevels, Prior
from tempering.methods import learning
from tempering.methods.learning import _unchecked, checked_log_z
from tempering.runs.ledger import Ledger
from tempering.settings import Sampling
from tempering.targets import anisotropic_gaussian
from tempering.weights.log_z import pooled_log_z, recalibrated_log_z
from tempering.weights.weigh import Weighted, weigh


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
    monkeypatch.setattr(learning, "pooled_log_z", lambda pairs: given.extend(pairs) or pooled_log_z(given))
    monkeypatch.setattr(learning, "_LARGEST_CHECKED", largest_checked)
    monkeypatch.setattr(Weighted, "pareto_k", property(lambda _: tail))
    settings = tiny_ptsd()
    sampling = dataclasses.replace(settings.sampling, divergence="hutchinson", num_probes=2)
    with quick_compilation():
        sampler = fit(settings=dataclasses.replace(settings, sampling=sampling))
    own, last = (sampler.checks["log_z_final"], sampler.checks["log_z_final_error"]), sampler.levels[-1]
    is_pooled = tail < 0.5 and largest_checked > 1
    assert given == ([own, (last.log_z, last.log_z_error)] if is_pooled else [own])
    assert (sampler.log_z, sampler.log_z_error) == pooled_log_z(given)


def test_determinants_that_nobody_checked_are_said():
    probes = Sampling(divergence="automatic")
    assert "129 dimensions" in _unchecked(probes, 129)[0]
    assert _unchecked(probes, 128) == _unchecked(Sampling(divergence="exact"), 129) == ()
