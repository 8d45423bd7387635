"""EDM's stochastic sampler: path weights that are unbiased for wrong denoisers, Heun as its limit, errors forgotten."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from support.oracle import GaussianDenoiser
from support.random_checks import assert_mean, must_fail
from support.tiny import quick_compilation
from tempering.diffusion import DiffusionModel, NoiseLevels, Prior, churn, sigma_grid
from tempering.diffusion.churn import Kicks, churned, kick_sizes
from tempering.diffusion.solve import Method, is_exact, method_of
from tempering.settings import Sampling

MEAN = np.array([1.0, -2.0, 0.5])
COVARIANCE = np.array([[0.5, 0.3, -0.1], [0.3, 0.9, 0.2], [-0.1, 0.2, 0.2]])
LOG_Z = 1.3  # of the target, so that a weight is not simply 1
SIGMA_MIN, SIGMA_MAX = 0.1, 8.0
LEVELS = NoiseLevels(*(jnp.asarray(n, jnp.float32) for n in (SIGMA_MIN, SIGMA_MAX)))
ALL = Kicks(churn=1e3, high=None)  # as large as they get, everywhere


@pytest.fixture(scope="module", autouse=True)
def compiled_quickly():
    with quick_compilation():
        yield


def prior_of(denoise):
    """The exact noised density at sigma_max."""
    return Prior(denoise.mean, jnp.asarray(np.linalg.cholesky(denoise.covariance_at(SIGMA_MAX)), jnp.float32))


class Bent(eqx.Module):
    """A denoiser with an error that is nobody's gradient: its Jacobian is not symmetric."""

    oracle: GaussianDenoiser
    size: float

    def __call__(self, x_noisy, sigma):
        """One point."""
        error = jnp.sin(jnp.roll(x_noisy, 1)) * sigma / (1.0 + sigma)
        return self.oracle(x_noisy, sigma) + self.size * error


ORACLE = GaussianDenoiser(MEAN, COVARIANCE)
# Wider than the target and turned, and off its centre: weights are bounded, and far from equal.
WRONG = GaussianDenoiser(MEAN + [0.3, 0.2, -0.2], 1.4 * COVARIANCE[:, ::-1][::-1] + 0.4 * np.eye(3))


def paths(denoise, prior, kicks, *, num, num_steps, divergence="exact", seed=0):
    """End points, log densities of starts, and changes of log q. Compiled anew, so that saboteurs are seen."""
    sigmas = sigma_grid(LEVELS, num_steps)

    @jax.jit
    def run(keys):
        def one(key):
            key_prior, key_path = jax.random.split(key)
            start = prior.sample(key_prior)
            x, change = churned(denoise, start, sigmas, key_path, kicks, divergence=divergence, num_probes=1)
            return x, prior.log_prob(start), change

        return jax.vmap(one)(keys)

    return (np.asarray(part, np.float64) for part in run(jax.random.split(jax.random.key(seed), num)))


def log_target(x):
    """Not normalised: log Z is LOG_Z."""
    return multivariate_normal.logpdf(x, MEAN, ORACLE.covariance_at(SIGMA_MIN)) + LOG_Z


def check_z(log_weights):
    assert_mean(np.exp(log_weights - LOG_Z), 1.0, name="Z / exact", key=jax.random.key(0))


def ess_of(log_weights):
    weights = np.exp(log_weights - np.max(log_weights))
    return np.sum(weights) ** 2 / np.sum(weights**2) / weights.size


@pytest.mark.parametrize(
    ("denoise", "kicks"), [(Bent(WRONG, 0.3), ALL), (WRONG, Kicks(4.0, 4.0))], ids=["bent", "gaussian"]
)
def test_weights_are_unbiased_for_a_wrong_denoiser(denoise, kicks, monkeypatch):
    size = {"num": 20_000, "num_steps": 12}
    x, log_prior, change = paths(denoise, prior_of(WRONG), kicks, **size)
    log_weights = log_target(x) - log_prior - change
    assert 0.05 < ess_of(log_weights) < 0.9
    check_z(log_weights)
    monkeypatch.setattr(churn, "_log_kick_ratio", lambda *args: jnp.zeros(()))
    same_x, _, determinants = paths(denoise, prior_of(WRONG), kicks, **size)
    np.testing.assert_allclose(same_x, x, rtol=1e-3, atol=1e-3)
    must_fail(check_z, log_target(x) - log_prior - determinants)  # no kicks
    must_fail(check_z, log_target(x) - log_prior - (change - determinants))  # no determinants


def test_the_ratio_of_a_kick_is_that_of_two_gaussians():
    noise, pull, share = np.array([0.4, -1.1, 0.7]), np.array([0.2, 0.5, -0.6]), 0.45
    jacobian = np.array([[0.6, 0.4, 0.0], [0.1, 0.3, 0.2], [0.0, 0.2, 0.9]])

    def expected(covariance):
        forwards = multivariate_normal.logpdf(noise, np.zeros(3), np.eye(3))
        return forwards - multivariate_normal.logpdf(-noise - pull, np.zeros(3), covariance)

    def ratio(jacobian, mean_eigenvalue):
        numbers = (jnp.asarray(n, jnp.float32) for n in (noise, pull, share))
        matrix = None if jacobian is None else jnp.asarray(jacobian, jnp.float32)
        return churn._log_kick_ratio(*numbers, matrix, jnp.asarray(mean_eigenvalue, jnp.float32))

    full = 0.55 * np.eye(3) + 0.45 * (jacobian + jacobian.T) / 2
    np.testing.assert_allclose(ratio(jacobian, 0.6), expected(full), rtol=1e-5)
    np.testing.assert_allclose(ratio(None, 0.6), expected((1 - 0.4 * 0.45) * np.eye(3)), rtol=1e-5)
    # Estimates beyond what a denoiser can have, and a Jacobian that makes no covariance: still normalised.
    np.testing.assert_allclose(ratio(None, 7.0), expected(np.eye(3)), rtol=1e-5)
    np.testing.assert_allclose(ratio(-5.0 * np.eye(3), -5.0), expected(0.55 * np.eye(3)), rtol=1e-5)


@pytest.mark.parametrize("divergence", ["exact", "hutchinson"])
def test_without_kicks_it_is_heun(divergence):
    model, key = DiffusionModel(Bent(WRONG, 0.3), prior_of(WRONG), LEVELS), jax.random.key(3)
    heun, still = (
        Sampling(solver=solver, num_steps=12, divergence=divergence, churn=0.0) for solver in ("heun", "churn")
    )
    expected = model.draw(key, 40, heun, with_density=True)
    for ours, theirs in zip(model.draw(key, 40, still, with_density=True), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_the_oracle_has_nearly_equal_weights_and_more_steps_more_so():
    """At a given S_churn. At a given gamma no number of steps makes them shorter: each first goes back up."""
    variances = []
    for num_steps in (10, 20, 40):
        x, log_prior, change = paths(ORACLE, prior_of(ORACLE), Kicks(4.0, None), num=2000, num_steps=num_steps)
        log_weights = log_target(x) - log_prior - change
        variances.append(np.var(log_weights))
    # Kicks are exact for a Gaussian; what is left is Heun's error, of second order.
    assert variances[0] > 8 * variances[1] > 64 * variances[2], variances
    assert ess_of(log_weights) > 0.99
    assert abs(np.mean(log_weights) - LOG_Z) < 0.01


@pytest.mark.slow
def test_a_mean_eigenvalue_serves_where_a_fixed_variance_does_not(monkeypatch):
    """With probes B has one variance. It must follow the denoiser: either end of its range costs the weights."""
    ratio = churn._log_kick_ratio

    def ess(mean_of):
        scalar = lambda *args: ratio(*args[:3], None, mean_of(args[4]))  # noqa: E731
        monkeypatch.setattr(churn, "_log_kick_ratio", scalar)
        x, log_prior, change = paths(ORACLE, prior_of(ORACLE), ALL, num=2000, num_steps=40)
        return ess_of(log_target(x) - log_prior - change)

    followed, lowest, highest = ess(lambda mean: mean), ess(jnp.zeros_like), ess(jnp.ones_like)
    assert followed > 0.5
    assert lowest < 0.1 and highest < 0.1


class Misled(eqx.Module):
    """A denoiser that is wrong at high noise and right below."""

    oracle: GaussianDenoiser

    def __call__(self, x_noisy, sigma):
        """One point."""
        return self.oracle(x_noisy, sigma) + jnp.where(sigma > 1.5, 2.0, 0.0)


def test_kicks_forget_errors_that_the_flow_keeps():
    narrow = GaussianDenoiser(MEAN, 0.1 * COVARIANCE)
    biases = []
    for kicks in (Kicks(0.0, None), ALL):
        x, _, change = paths(Misled(narrow), prior_of(narrow), kicks, num=4000, num_steps=80, divergence="none")
        biases.append(np.mean(x, axis=0) - MEAN)
        assert np.all(change == 0.0)
    assert np.all(np.abs(biases[1]) < 0.2 * np.abs(biases[0])), biases
    assert np.all(np.abs(biases[0]) > 0.1), biases  # the flow is off by 25 standard errors and more


def test_sizes_of_kicks():
    sigmas = jnp.array([8.0, 7.0, 4.0, 2.0, 1.0, 0.5])
    raised, sizes = kick_sizes(sigmas, Kicks(churn=1.5, high=7.0))
    np.testing.assert_allclose(raised, [8.0, 8.0, 5.2, 2.6, 1.3], rtol=1e-6)  # the second stops at the first node
    np.testing.assert_allclose(sizes, np.sqrt(np.square([8.0, 8.0, 5.2, 2.6, 1.3]) - sigmas[:-1] ** 2), rtol=1e-5)
    raised, _ = kick_sizes(sigmas, ALL)
    np.testing.assert_allclose(raised, [8.0, 8.0, *(np.sqrt(2) * sigmas[2:-1])], rtol=1e-6)


@pytest.mark.slow
def test_a_draw_depends_on_nothing_but_its_key():
    model, key = DiffusionModel(ORACLE, prior_of(ORACLE), LEVELS), jax.random.key(5)
    whole = Sampling(solver="churn", num_steps=12)
    x, log_q = model.draw(key, 40, whole, with_density=True)
    parts = model.draw(key, 40, Sampling(solver="churn", num_steps=12, chunk_size=16), with_density=True)
    np.testing.assert_allclose(parts[0], x, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(parts[1], log_q, rtol=1e-4, atol=1e-4)
    alone, nothing = model.draw(key, 40, whole, with_density=False)
    np.testing.assert_allclose(alone, x, rtol=1e-5, atol=1e-5)
    unkicked, _ = model.draw(key, 40, Sampling(num_steps=12), with_density=False)
    assert np.max(np.abs(unkicked - x)) > 0.1
    assert np.all(np.isfinite(log_q)) and np.all(np.isnan(nothing))


def test_given_points_have_the_density_of_the_flow():
    model, points = DiffusionModel(ORACLE, prior_of(ORACLE), LEVELS), jnp.asarray(MEAN + np.eye(3), jnp.float32)
    samplings = [Sampling(solver=solver, num_steps=12) for solver in ("churn", "heun")]
    np.testing.assert_array_equal(*(model.log_prob(jax.random.key(0), points, sampling) for sampling in samplings))


def test_the_settings_name_the_kicks():
    sampling = Sampling(solver="churn", num_steps=200, num_probes=1, churn=80.0, churn_max=5.0)
    expected = Method("churn", "exact", 1, Kicks(80.0, 5.0))
    assert method_of(sampling, with_density=True, dim=3) == expected
    assert is_exact(sampling, 3)
    assert method_of(Sampling(churn=3.0), with_density=True, dim=3).kicks is None  # of no other solver's program
