"""PTSD from one end to the other on a Gaussian: are weighted draws and log Z those of the target?"""

import jax
import numpy as np
import pytest

from support.random_checks import assert_mean, must_fail
from support.tiny import PAIRS, RESAMPLED, exactly, quick_compilation, separate
from tempering.methods.registry import METHODS
from tempering.settings import (
    Exploration,
    Initial,
    Ladder,
    Noise,
    PTSDSettings,
    Refinement,
    Training,
)
from tempering.targets import Gaussian


@pytest.fixture(scope="module", autouse=True)
def compiled_quickly():
    with quick_compilation():
        yield


def check_weighted(draws, log_weights, log_z, log_z_error, target) -> None:
    weights = np.exp(np.asarray(log_weights, np.float64) - np.max(log_weights))
    ess = weights.sum() ** 2 / np.sum(weights**2)
    # Resampled in proportion to the weights, the draws are the target's, with as many as `ess` of them independent.
    rng = np.random.default_rng(0)
    chosen = np.asarray(draws, np.float64)[rng.choice(len(draws), len(draws), p=weights / weights.sum())]
    mean, covariance = np.asarray(target.mean(), np.float64), np.asarray(target.covariance(), np.float64)
    assert ess > 200
    assert_mean(chosen, mean, ess=ess / 2, name="weighted mean")
    centred = chosen - mean
    products = np.stack([centred[:, 0] ** 2, centred[:, 1] ** 2, centred[:, 0] * centred[:, 1]], axis=1)
    expected = np.array([covariance[0, 0], covariance[1, 1], covariance[0, 1]])
    assert_mean(products, expected, ess=ess / 2, name="weighted covariance")
    assert abs(log_z - target.log_z()) < 5 * log_z_error < 0.02, f"log Z {log_z} ± {log_z_error}"


def test_ptsd_finds_a_gaussian_and_its_normaliser():
    target = Gaussian([3.0, -1.0], [[1.0, 0.6], [0.6, 2.0]], log_constant=2.5)
    settings = PTSDSettings(
        buffer_size=500,
        num_final_draws=2000,
        is_sized_by_budget=False,
        ladder=Ladder(hottest=6.0, num_levels=4, spacing="geometric"),
        initial=Initial(num_chains=500, num_steps=30, burn_in=28, thin=2, scale=2.0),
        exploration=Exploration(kernel="mala"),
        noise=Noise(),
        network=separate(width=16, depth=2),
        training=Training(num_steps=400, num_finetune_steps=200, batch_size=128, check_every=100),
        sampling=exactly(num_steps=40, chunk_size=500),
        guidance=PAIRS,
        resampling=RESAMPLED,
        refinement=Refinement(num_steps=3),
    )
    sampler = METHODS["ptsd"].fit(target, jax.random.key(0), settings)
    draws, log_weights = sampler.sample_weighted(5000, seed=1)
    check_weighted(draws, log_weights, sampler.log_z, sampler.log_z_error, target)
    # The saboteurs: a normaliser off by 2 %, draws off by a fifth of a standard deviation, weights of another density.
    must_fail(check_weighted, draws, log_weights, sampler.log_z + 0.02, sampler.log_z_error, target)
    must_fail(check_weighted, draws + 0.2, log_weights, sampler.log_z, sampler.log_z_error, target)
    must_fail(check_weighted, draws, log_weights + 0.3 * draws[:, 0], sampler.log_z, sampler.log_z_error, target)
