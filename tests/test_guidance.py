"""Temperature guidance: the paper's weights, its exact bias on a Gaussian, and the weights that remove the bias."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from support.oracle import GaussianDenoiser
from support.random_checks import assert_mean, must_fail
from tempering.diffusion import DiffusionModel, NoiseLevels, Prior
from tempering.guidance import Guided, guidance_weight
from tempering.settings import Sampling

MEAN, VARIANCE = -3.0, 4.0
HOT, COLD, NEXT = 3.0, 2.0, 1.5
SIGMA_MIN, SIGMA_MAX = 0.01, 100.0
BIASED = 2.0 * 2**0.75 * 3**-0.25


def test_weights_by_hand():
    """(T1 - T) / (T2 - T1) in the paper's coordinate, and the same with log T and 1/T."""
    arguments = jnp.asarray(1.5), jnp.asarray(2.0), jnp.asarray(4.0)  # T, T1 (cold), T2 (hot)
    assert guidance_weight(*arguments, "T") == pytest.approx(0.5 / 2.0)
    assert guidance_weight(*arguments, "log_T") == pytest.approx(np.log(4 / 3) / np.log(2.0), rel=1e-5)
    # 1/T: (1/2 - 2/3) / (1/4 - 1/2)
    assert guidance_weight(*arguments, "inverse_T") == pytest.approx((1 / 6) / (1 / 4), rel=1e-5)


@pytest.mark.parametrize("coordinate", ["T", "log_T", "inverse_T"])
def test_extrapolation_is_linear_in_its_coordinate(coordinate):
    f = {"T": lambda t: t, "log_T": np.log, "inverse_T": lambda t: 1 / t}[coordinate]
    x, sigma = jnp.array([1.0, 2.0]), jnp.asarray(0.5)

    def affine(temperature):
        return lambda x, sigma: x * (2.0 + 3.0 * float(f(temperature))) - sigma

    weight = guidance_weight(jnp.asarray(NEXT), jnp.asarray(COLD), jnp.asarray(HOT), coordinate)
    guided = Guided(affine(COLD), affine(HOT), weight)
    np.testing.assert_allclose(guided(x, sigma), affine(NEXT)(x, sigma), rtol=1e-5)
    # At the models' own temperatures it is the model itself.
    for temperature in (COLD, HOT):
        own = guidance_weight(jnp.asarray(temperature), jnp.asarray(COLD), jnp.asarray(HOT), coordinate)
        guided = Guided(affine(COLD), affine(HOT), own)
        np.testing.assert_allclose(guided(x, sigma), affine(temperature)(x, sigma), rtol=1e-5)


def model_of(cold_temperature=COLD, hot_temperature=HOT, coordinate="T"):
    """The guided Gaussian in 1-D; the prior is that of the next level, noised."""
    cold, hot = (GaussianDenoiser([MEAN], [[VARIANCE]], t) for t in (cold_temperature, hot_temperature))
    weight = guidance_weight(jnp.asarray(NEXT), jnp.asarray(COLD), jnp.asarray(HOT), coordinate)
    prior = Prior.diagonal(jnp.array([MEAN]), jnp.sqrt(jnp.array([SIGMA_MAX**2 + NEXT * VARIANCE])))
    numbers = (jnp.asarray(n) for n in (SIGMA_MIN, SIGMA_MAX, -1.2, 1.2, 7.0))
    return DiffusionModel(Guided(cold, hot, weight), prior, NoiseLevels(*numbers, "log_uniform"))


NUM, SAMPLING = 20_000, Sampling(num_steps=150, chunk_size=20_000)


def ratio_to_exact(draws) -> np.ndarray:
    """(x - m)^2 over the exact variance T V + sigma_min^2."""
    return (np.asarray(draws, np.float64)[:, 0] - MEAN) ** 2 / (NEXT * VARIANCE)


@pytest.fixture(scope="module")
def drawn():
    return model_of().draw(jax.random.key(0), NUM, SAMPLING, with_density=True)


def spread_of(draws) -> float:
    """The exact standard deviation of the flow, which is linear: its slope, from any two draws, times the prior's."""
    prior = model_of().prior
    keys = jax.vmap(lambda key: jax.random.split(key)[0])(jax.random.split(jax.random.key(0), NUM))
    starts = np.asarray(jax.vmap(prior.sample)(keys), np.float64)[:, 0] - MEAN
    ends = np.asarray(draws, np.float64)[:, 0] - MEAN
    return float(starts @ ends / (starts @ starts)) * float(jnp.diag(prior.scale)[0])


def check_bias(draws):
    assert spread_of(draws) == pytest.approx(BIASED, abs=2e-3)


def test_guidance_alone_is_biased_by_what_the_integral_says(drawn):
    """Deterministic. d log s / d sigma = (1 - a) / sigma, a = 3/2 a_cold - 1/2 a_hot the slope of the guided denoiser.

    The integral is (V T1^(1 + w) T2^-w)^(1/2) = 2 * 2^(3/4) * 3^(-1/4): 2.556, where sqrt(1.5 * 4) = 2.449 is right.
    """
    log_sigma = np.linspace(np.log(SIGMA_MAX), np.log(SIGMA_MIN), 200_001)
    slope_cold, slope_hot = (t * VARIANCE / (t * VARIANCE + np.exp(2 * log_sigma)) for t in (COLD, HOT))
    log_shrinkage = np.trapezoid(1 - (1.5 * slope_cold - 0.5 * slope_hot), log_sigma)
    by_quadrature = np.sqrt(SIGMA_MAX**2 + NEXT * VARIANCE) * np.exp(log_shrinkage)
    assert by_quadrature == pytest.approx(BIASED, abs=1e-3) and BIASED == pytest.approx(2.556, abs=5e-4)
    check_bias(drawn[0])


def test_importance_weights_remove_the_bias(drawn):
    draws, log_q = drawn
    target = stats.norm(MEAN, np.sqrt(NEXT * VARIANCE))
    weights = np.exp(target.logpdf(np.asarray(draws, np.float64)[:, 0]) - np.asarray(log_q, np.float64))
    key = jax.random.key(0)
    assert_mean(weights, 1.0, name="normalised weights", key=key)
    assert_mean(weights * ratio_to_exact(draws), 1.0, name="weighted variance", key=key)
    must_fail(assert_mean, ratio_to_exact(draws), 1.0)  # unweighted
    must_fail(assert_mean, ratio_to_exact(draws) / weights, 1.0)  # the wrong sign
    std = np.sqrt(np.sum(weights * (np.asarray(draws)[:, 0] - MEAN) ** 2) / weights.sum())
    assert abs(std - 2.449) < (BIASED - 2.449) / 3


def test_swapped_models_are_rejected():
    swapped = model_of(cold_temperature=HOT, hot_temperature=COLD)
    draws, _ = swapped.draw(jax.random.key(0), NUM, SAMPLING, with_density=True)
    must_fail(check_bias, draws)


def test_linear_in_log_temperature_is_exact_for_a_gaussian():
    """T1^(1 + w) T2^-w is T itself when w is taken in log T: the bias is one of the coordinate, not of guidance."""
    draws, log_q = model_of(coordinate="log_T").draw(jax.random.key(0), NUM, SAMPLING, with_density=True)
    assert spread_of(draws) == pytest.approx(np.sqrt(NEXT * VARIANCE), abs=2e-3)
    expected = stats.norm(MEAN, np.sqrt(NEXT * VARIANCE + SIGMA_MIN**2)).logpdf(np.asarray(draws)[:, 0])
    np.testing.assert_allclose(log_q, expected, atol=2e-2)
