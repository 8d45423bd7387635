"""Temperature guidance: the paper's weights, its exact bias on a Gaussian, and the weights that remove the bias."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from support.oracle import GaussianDenoiser, OracleNetwork, quadrature_denoiser
from support.random_checks import assert_mean, must_fail
from tempering.diffusion import Denoiser, DiffusionModel, NoiseLevels, Prior
from tempering.diffusion.networks import make_network
from tempering.diffusion.precondition import temperature_input
from tempering.guidance.extrapolate import Guided, extrapolation_weights
from tempering.lab.extrapolation import Rescaled, Taylor
from tempering.settings import Network, Sampling
from tempering.targets import GaussianMixture

MEAN, VARIANCE = -3.0, 4.0
HOT, COLD, NEXT = 3.0, 2.0, 1.5
SIGMA_MIN, SIGMA_MAX = 0.01, 100.0
BIASED = 2.0 * 2**0.75 * 3**-0.25


def test_weights_by_hand():
    """(1 + w, -w) with w = (T1 - T) / (T2 - T1) in the paper's coordinate, and the same with log T."""
    arguments = jnp.asarray(1.5), jnp.asarray([2.0, 4.0])  # T; T1 (cold), T2 (hot)
    for coordinate, w in (("T", 0.5 / 2.0), ("log_T", np.log(4 / 3) / np.log(2.0))):
        np.testing.assert_allclose(extrapolation_weights(*arguments, coordinate), [1 + w, -w], rtol=1e-5)


def between(cold, hot, coordinate, temperature=NEXT) -> Guided:
    """The paper's guidance between models of T = COLD and T = HOT."""
    return Guided((cold, hot), extrapolation_weights(jnp.asarray(temperature), jnp.asarray([COLD, HOT]), coordinate))


@pytest.mark.parametrize("coordinate", ["T", "log_T"])
def test_extrapolation_is_linear_in_its_coordinate(coordinate):
    f = {"T": lambda t: t, "log_T": np.log}[coordinate]
    x, sigma = jnp.array([1.0, 2.0]), jnp.asarray(0.5)

    def affine(temperature):
        return lambda x, sigma: x * (2.0 + 3.0 * float(f(temperature))) - sigma

    guided = between(affine(COLD), affine(HOT), coordinate)
    np.testing.assert_allclose(guided(x, sigma), affine(NEXT)(x, sigma), rtol=1e-5)
    # At the models' own temperatures it is the model itself.
    for temperature in (COLD, HOT):
        guided = between(affine(COLD), affine(HOT), coordinate, temperature)
        np.testing.assert_allclose(guided(x, sigma), affine(temperature)(x, sigma), rtol=1e-5)


def model_of(cold_temperature=COLD, hot_temperature=HOT, coordinate="T"):
    """The guided Gaussian in 1-D; the prior is that of the next level, noised."""
    cold, hot = (GaussianDenoiser([MEAN], [[VARIANCE]], t) for t in (cold_temperature, hot_temperature))
    prior = Prior.diagonal(jnp.array([MEAN]), jnp.sqrt(jnp.array([SIGMA_MAX**2 + NEXT * VARIANCE])))
    numbers = (jnp.asarray(n) for n in (SIGMA_MIN, SIGMA_MAX))
    return DiffusionModel(between(cold, hot, coordinate), prior, NoiseLevels(*numbers))


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


COORDINATES = {"T": lambda t: t, "log_T": np.log}


@pytest.mark.parametrize("coordinate", COORDINATES)
def test_two_nodes_are_the_papers_guidance_and_three_follow_a_parabola(coordinate):
    f, nodes = COORDINATES[coordinate], np.array([COLD, HOT, 5.0], np.float32)
    two = extrapolation_weights(jnp.asarray(NEXT), jnp.asarray(nodes[:2]), coordinate)
    weight = (f(COLD) - f(NEXT)) / (f(HOT) - f(COLD))
    np.testing.assert_allclose(two, [1 + weight, -weight], rtol=1e-5)
    three = np.asarray(extrapolation_weights(jnp.asarray(NEXT), jnp.asarray(nodes), coordinate), np.float64)
    parabola = lambda t: 1.0 - 2.0 * f(t) + 0.7 * f(t) ** 2  # noqa: E731
    assert three @ parabola(nodes) == pytest.approx(parabola(NEXT), rel=1e-4)
    assert abs(np.asarray(two) @ parabola(nodes[:2]) - parabola(NEXT)) > 1e-2


def test_three_nodes_of_a_geometric_ladder():
    weights = extrapolation_weights(jnp.asarray(2.0), jnp.array([4.0, 8.0, 16.0]), "log_T")
    np.testing.assert_allclose(weights, [3.0, -3.0, 1.0], rtol=1e-5)


def test_second_order_is_closer_for_a_mixture():
    """By quadrature; first and second order from the same levels of a geometric ladder, linear in log T."""
    target = GaussianMixture([[-2.0], [3.0]], weights=[2.0, 1.0], covariances=[[[1.0]], [[0.4]]])
    ratio = 1.25
    levels = [quadrature_denoiser(target, ratio**k, low=[-14.0], high=[14.0], num=700) for k in range(1, 5)]
    wanted, models = levels[0], tuple(levels[1:])
    nodes = jnp.asarray([ratio**k for k in range(2, 5)])
    places = [(x, sigma) for x in np.linspace(-5.0, 6.0, 23) for sigma in (0.3, 1.0, 2.5)]
    points, sigmas = (jnp.asarray(column, jnp.float32) for column in zip(*places, strict=True))

    def error(denoise):
        differ = jax.jit(jax.vmap(lambda x, sigma: denoise(x[None], sigma)[0] - wanted(x[None], sigma)[0]))
        return float(jnp.sqrt(jnp.mean(differ(points, sigmas) ** 2)))

    first, second = (
        error(Guided(models[:num], extrapolation_weights(jnp.asarray(ratio), nodes[:num], "log_T"))) for num in (2, 3)
    )
    assert second < 0.6 * first < 0.6 * error(models[0])
    # The saboteur: coldest last.
    assert error(Guided(models[::-1], extrapolation_weights(jnp.asarray(ratio), nodes, "log_T"))) > first


def gaussian_denoiser(temperature, location=(-2.0, 4.0), sigma_data=(1.5, 3.0)) -> Denoiser:
    """A conditioned network that is exact at every temperature, with scales that are not those of the Gaussian."""
    location, sigma_data = jnp.asarray(location), jnp.asarray(sigma_data)
    network = OracleNetwork(GaussianDenoiser([1.0, 5.0], ANISOTROPIC), location, sigma_data)
    return Denoiser(network, location, sigma_data, temperature_input(1 / temperature))


ANISOTROPIC = np.array([[2.0, 0.8], [0.8, 0.5]])
POINT = jnp.array([3.0, 2.0])


@pytest.mark.parametrize("coordinate", COORDINATES)
@pytest.mark.parametrize("sigma", [0.3, 2.0])
def test_a_taylor_step_of_a_gaussian_is_its_tangent(coordinate, sigma):
    """D(T1) + (f(T) - f(T1)) / f'(T1) dD/dT, with dD/dT = sigma^2 (T C + sigma^2)^-1 C (T C + sigma^2)^-1 (x - m)."""
    f, slope = COORDINATES[coordinate], {"T": 1.0, "log_T": 1 / COLD}[coordinate]
    exact = GaussianDenoiser([1.0, 5.0], ANISOTROPIC, COLD)
    inverse = np.linalg.inv(exact.covariance_at(sigma))
    tangent = sigma**2 * inverse @ ANISOTROPIC @ inverse @ (np.asarray(POINT) - np.array([1.0, 5.0]))
    expected = np.asarray(exact(POINT, jnp.asarray(sigma))) + (f(NEXT) - f(COLD)) / slope * tangent
    step = Taylor.towards(gaussian_denoiser(COLD), jnp.asarray(1 / COLD), jnp.asarray(1 / NEXT), coordinate)

    def check(step):
        np.testing.assert_allclose(step(POINT, jnp.asarray(sigma)), expected, rtol=2e-4, atol=2e-4)

    check(step)
    must_fail(check, eqx.tree_at(lambda tree: tree.step, step, jnp.asarray(f(NEXT) - f(COLD))))  # the units forgotten
    must_fail(check, gaussian_denoiser(COLD))


def test_taylors_derivative_is_that_of_finite_differences():
    """For a network as it is trained, whose only way to the temperature is its input."""
    settings, rng = Network(width=8, depth=2, is_shared=True), np.random.default_rng(1)
    network = eqx.filter_jit(make_network)(jax.random.key(0), 2, settings)
    network = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf) + 0.3 * rng.normal(size=leaf.shape)), network)
    model = Denoiser(network, jnp.array([1.0, -2.0]), jnp.array([2.0, 0.7]), temperature_input(0.4))
    at = eqx.filter_jit(
        lambda c_temperature: eqx.tree_at(lambda tree: tree.c_temperature, model, c_temperature)(
            POINT, jnp.asarray(0.8)
        )
    )
    here, width, step = model.c_temperature, 0.05, 0.3
    slope = (np.asarray(at(here + width)) - np.asarray(at(here - width))) / (2 * width)
    taylor = eqx.filter_jit(Taylor(model, jnp.asarray(step)))(POINT, jnp.asarray(0.8))
    assert np.max(np.abs(step * slope)) > 0.01
    np.testing.assert_allclose(taylor, np.asarray(at(here)) + step * slope, atol=2e-3 * np.max(np.abs(slope)))


def test_a_rescaled_score_is_right_only_without_noise():
    cold, exact = (GaussianDenoiser([1.0, 5.0], ANISOTROPIC, t) for t in (COLD, NEXT))
    rescaled = Rescaled(cold, jnp.asarray(COLD / NEXT))

    def error(model, sigma):
        """Of the score times the standard deviation of noise, (D - x) / sigma."""
        return float(jnp.max(jnp.abs(model(POINT, jnp.asarray(sigma)) - exact(POINT, jnp.asarray(sigma))))) / sigma

    assert error(rescaled, 0.02) < 0.02 * error(cold, 0.02)
    assert error(rescaled, 20.0) > error(cold, 20.0)  # all of it is noise there, and noise has no temperature
