"""Sequential Monte Carlo along the diffusion path against products of Gaussians, where everything has a closed form."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.oracle import GaussianDenoiser
from support.random_checks import assert_mean, must_fail
from tempering.diffusion import DiffusionModel, NoiseLevels, Prior, sigma_grid
from tempering.errors import SettingsError
from tempering.guidance import Guided, extrapolation_weights
from tempering.path_resampling import Product, draw_path
from tempering.settings import Sampling

HOT, COLD, NEXT = 3.0, 2.0, 1.5
MEAN, COVARIANCE = np.array([-3.0, 1.0]), np.array([[4.0, 1.5], [1.5, 1.0]])
OTHER_MEAN, OTHER_COVARIANCE = np.array([-2.0, 3.0]), np.array([[9.0, -2.0], [-2.0, 6.0]])
LEVELS = NoiseLevels(*(jnp.asarray(n) for n in (0.03, 40.0, -1.2, 1.2, 7.0)), "log_uniform")
SIGMAS = sigma_grid(LEVELS, 120)
KEY = jax.random.key(0)


def model_of(mean, covariance, temperature) -> DiffusionModel:
    """An exact model with its exact prior at sigma_max."""
    denoise = GaussianDenoiser(mean, covariance, temperature)
    scale = np.linalg.cholesky(denoise.covariance_at(float(SIGMAS[0])))
    return DiffusionModel(denoise, Prior(jnp.asarray(mean, jnp.float32), jnp.asarray(scale, jnp.float32)), LEVELS)


def tempered() -> Product:
    """Two levels of one Gaussian; the exponents are linear in 1/T, so the product is the next level itself."""
    weights = extrapolation_weights(jnp.asarray(NEXT), jnp.asarray([COLD, HOT]), "inverse_T")
    return Product(tuple(model_of(MEAN, COVARIANCE, t) for t in (COLD, HOT)), weights)


def unlike() -> Product:
    """Gaussians that share neither mean nor axes."""
    return Product(
        (model_of(MEAN, COVARIANCE, 1.0), model_of(OTHER_MEAN, OTHER_COVARIANCE, 1.0)), jnp.asarray([1.4, -0.4])
    )


def closed_form(product: Product, sigma: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Mean, covariance and log integral of the product at sigma, in float64."""
    precision, shift, constant = np.zeros((2, 2)), np.zeros(2), 0.0
    for exponent, model in zip(np.asarray(product.exponents, np.float64), product.models, strict=True):
        covariance, mean = model.denoise.covariance_at(sigma), np.asarray(model.denoise.mean, np.float64)
        inverse = np.linalg.inv(covariance)
        precision, shift = precision + exponent * inverse, shift + exponent * inverse @ mean
        constant -= 0.5 * exponent * (mean @ inverse @ mean + np.log(np.linalg.det(2 * np.pi * covariance)))
    covariance = np.linalg.inv(precision)
    log_integral = constant + 0.5 * shift @ covariance @ shift + 0.5 * np.log(np.linalg.det(2 * np.pi * covariance))
    return covariance @ shift, covariance, log_integral


def start_of(product: Product) -> Prior:
    """Off the centre of the product at sigma_max: the first weights have to tell."""
    mean, covariance, _ = closed_form(product, float(SIGMAS[0]))
    scale = np.linalg.cholesky(covariance)
    return Prior(jnp.asarray(mean + 4.0, jnp.float32), jnp.asarray(scale, jnp.float32))


def moments(product: Product, x) -> np.ndarray:
    """Mean and second moments of the points in units where all six should be 0, 0, 1, 1, 0 and 1."""
    mean, covariance, _ = closed_form(product, float(SIGMAS[-1]))
    white = np.linalg.solve(np.linalg.cholesky(covariance), (np.asarray(x, np.float64) - mean).T).T
    first, second = white.T
    return np.stack([first, second, first**2, second**2, first * second, np.ones_like(first)], axis=-1)


EXPECTED = np.array([0.0, 0.0, 1.0, 1.0, 0.0, 1.0])
NUM = 20_000


def check_weighted(product: Product, particles, sign: float = 1.0) -> None:
    """Without resampling particles are independent, and weights over the exact integral are unbiased."""
    log_weights = sign * np.asarray(particles.log_weights, np.float64) - closed_form(product, float(SIGMAS[-1]))[2]
    assert_mean(np.exp(log_weights)[:, None] * moments(product, particles.x), EXPECTED, key=KEY)


@pytest.mark.parametrize("make", [tempered, unlike])
@pytest.mark.parametrize("noise_share", [0.0, 1.0])
def test_weights_are_exact_with_any_share_of_noise(make, noise_share):
    product = make()
    found = draw_path(KEY, NUM, product, start_of(product), SIGMAS, min_ess=0.0, noise_share=noise_share)
    assert int(found.num_resamplings) == 0
    check_weighted(product, found)
    must_fail(check_weighted, product, found, sign=-1.0)
    must_fail(check_weighted, product, found, sign=0.0)


NUM_RUNS, NUM_EACH = 40, 500


def runs_of(product: Product, min_ess: float):
    """Independent runs side by side: particles of one run are not independent of each other."""
    start = start_of(product)
    run = lambda key: draw_path(key, NUM_EACH, product, start, SIGMAS, min_ess=min_ess)  # noqa: E731
    return jax.lax.map(run, jax.random.split(KEY, NUM_RUNS))


def estimates(product: Product, runs) -> np.ndarray:
    """Of the moments times the normaliser over its exact value, one row a run: unbiased at any number of particles."""
    exact = closed_form(product, float(SIGMAS[-1]))[2]
    rows = []
    for x, log_weights, log_normaliser in zip(runs.x, runs.log_weights, runs.log_normaliser, strict=True):
        weights = np.exp(np.asarray(log_weights, np.float64))
        rows.append(np.exp(float(log_normaliser) - exact) * (weights / weights.sum()) @ moments(product, x))
    return np.stack(rows)


@pytest.mark.slow
@pytest.mark.parametrize("make", [tempered, unlike])
def test_resampled_particles_have_the_products_moments(make):
    """Plain guidance, the flow without weights, is biased: for `tempered` its variance is 4/3, not 3/2."""
    product = make()
    runs = runs_of(product, min_ess=1.0)
    assert np.all(np.asarray(runs.num_resamplings) >= SIGMAS.shape[0] // 2)  # nearly every step
    assert np.all(np.asarray(runs.ess_fractions) <= 1.0)
    assert_mean(estimates(product, runs), EXPECTED, key=KEY)
    plain = draw_path(KEY, NUM, product, start_of(product), SIGMAS, min_ess=0.0, noise_share=0.0)
    must_fail(assert_mean, moments(product, plain.x)[:, :5], EXPECTED[:5])


@pytest.mark.slow
def test_the_opposite_weights_are_rejected():
    """A rate of the wrong sign: resampling then goes the wrong way."""

    class Flipped(Product):
        def denoise(self, x, sigma):
            denoised, rate = super().denoise(x, sigma)
            return denoised, -rate

    product = tempered()
    flipped = Flipped(product.models, product.exponents)
    must_fail(assert_mean, estimates(product, runs_of(flipped, min_ess=1.0)), EXPECTED)


def test_the_product_of_tempered_gaussians_is_the_next_level():
    mean, covariance, _ = closed_form(tempered(), 0.0)
    np.testing.assert_allclose(mean, MEAN, rtol=1e-5)
    np.testing.assert_allclose(covariance, NEXT * COVARIANCE, rtol=1e-5)


def test_the_denoiser_is_guidance_and_the_rate_that_of_two_models():
    product, x, sigma = unlike(), jnp.asarray([0.5, -2.0]), jnp.asarray(0.7)
    cold, hot = (model.denoise for model in product.models)
    denoised, rate = product.denoise(x, sigma)
    np.testing.assert_allclose(denoised, Guided((cold, hot), product.exponents)(x, sigma), rtol=1e-6)
    expected = -0.4 * 1.4 * jnp.sum((cold(x, sigma) - hot(x, sigma)) ** 2) / sigma**2
    np.testing.assert_allclose(rate, expected, rtol=1e-4)


def test_log_proposal_makes_the_final_weights_those_of_the_normalised_product():
    """log w = log p - log_proposal is the particle's own weight when p is the product: its mean is the integral's."""
    product = unlike()
    found = draw_path(KEY, 500, product, start_of(product), SIGMAS, min_ess=0.5)
    sampling = Sampling(num_steps=60, divergence="exact", chunk_size=500)
    log_density = product.log_density(KEY, found.x, sampling)
    _, covariance, log_integral = closed_form(product, float(SIGMAS[-1]))
    white = moments(product, found.x)
    by_hand = -0.5 * (white[:, 2] + white[:, 3]) - 0.5 * np.log(np.linalg.det(2 * np.pi * covariance)) + log_integral
    np.testing.assert_allclose(log_density, by_hand, atol=0.05)
    log_weights = np.asarray(log_density - found.log_proposal(log_density), np.float64)
    assert np.log(np.mean(np.exp(log_weights))) == pytest.approx(float(found.log_normaliser), abs=1e-3)


def test_exponents_must_sum_to_one():
    models = tempered().models
    with pytest.raises(SettingsError, match="sum of 1"):
        Product(models, jnp.asarray([1.5, -0.4]))
    with pytest.raises(SettingsError, match="one for each"):
        Product(models, jnp.asarray([1.0]))


def test_the_same_key_gives_the_same_particles():
    product = tempered()
    first, second = (draw_path(KEY, 500, product, start_of(product), SIGMAS, min_ess=0.5) for _ in range(2))
    assert bool(eqx.tree_equal(first, second))
