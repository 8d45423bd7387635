"""The reference made of modes: is it normalised, drawn as its density says, improved by draws, and judged rightly?"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

from support.random_checks import assert_mean, must_fail
from tempering.adapters import as_target
from tempering.adapters.prior import posterior_of
from tempering.atlas.adapt import Drawn, adapted, draw_more, first_guess, log_weights_of
from tempering.atlas.judge import judge
from tempering.atlas.mixture import drawn_of, joined, log_densities, log_densities_of_parts, mixture_of
from tempering.atlas.optima import Optima, Shape
from tempering.atlas.prior import with_prior
from tempering.atlas.referee import Walked, rank_p_value
from tempering.kernels import kernel_of
from tempering.parallel_tempering.initial import normal_start
from tempering.priors import Normal
from tempering.runs.ledger import Ledger
from tempering.settings import Exploration
from tempering.weights.log_z import log_z_with_tail

COVARIANCES = np.array([[[1.0, 0.6], [0.6, 2.0]], [[0.3, -0.1], [-0.1, 0.2]]])
MEANS = np.array([[0.0, 0.0], [4.0, -3.0]])


def some_mixture(nu=5.0):
    return mixture_of(np.array([0.7, 0.3]), MEANS, COVARIANCES, nu)


def optima_of(means, covariances, log_density=0.0) -> Optima:
    optima = Optima(means.shape[1])
    for mean, covariance in zip(means, covariances, strict=True):
        optima.add(Shape.at(mean, log_density, np.zeros(len(mean)), -np.linalg.inv(covariance)))
    return optima


def test_the_density_is_that_of_scipy():
    points = np.random.default_rng(0).normal(size=(50, 2)) * 3
    expected = np.log(
        0.7 * stats.multivariate_t(MEANS[0], COVARIANCES[0], df=5).pdf(points)
        + 0.3 * stats.multivariate_t(MEANS[1], COVARIANCES[1], df=5).pdf(points)
    )
    found = jax.jit(jax.vmap(some_mixture().log_density))(jnp.asarray(points, jnp.float32))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_draws_are_of_the_density():
    # E_q[f / q] over draws of q is the integral of f, here of a normal density.
    mixture = some_mixture()
    draws = mixture.sample(jax.random.key(0), 20_000)
    log_ratio = jax.jit(jax.vmap(lambda x: stats_normal(x) - mixture.log_density(x)))(draws)
    assert_mean(np.exp(np.asarray(log_ratio, np.float64)), 1.0, name="normal over mixture", key=0)


def test_the_host_draws_of_the_same_density():
    mixture = some_mixture()
    draws = drawn_of(jax.random.key(0), mixture, 20_000)
    log_ratio = np.asarray(jax.jit(jax.vmap(stats_normal))(draws), np.float64) - log_densities(mixture, draws)
    assert_mean(np.exp(log_ratio), 1.0, name="normal over mixture, by the host", key=0)
    narrow = drawn_of(jax.random.key(1), some_mixture(nu=1e6), 20_000)  # the saboteur: without the heavy tails
    wrong = np.asarray(jax.jit(jax.vmap(stats_normal))(narrow), np.float64) - log_densities(mixture, narrow)
    must_fail(assert_mean, np.exp(wrong), 1.0, name="normal over mixture, by the host", key=0)


@pytest.mark.parametrize("most", [0.0, 1e12])
def test_densities_of_the_host_are_those_of_the_program(monkeypatch, most):
    monkeypatch.setattr("tempering.atlas.mixture._MOST_ON_HOST", most)
    mixture, points = some_mixture(), np.random.default_rng(0).normal(size=(300, 2)).astype(np.float32) * 4
    expected = jax.jit(jax.vmap(mixture.log_density))(points)
    np.testing.assert_allclose(log_densities(mixture, points), expected, rtol=1e-4, atol=1e-4)
    parts = jax.jit(jax.vmap(mixture.log_parts))(points)
    np.testing.assert_allclose(log_densities_of_parts(mixture, points), parts, rtol=1e-4, atol=1e-4)


def test_a_point_that_is_not_finite_has_no_density():
    points = np.array([[0.0, 0.0], [np.nan, 0.0], [np.inf, 0.0], [3e38, -3e38]], np.float32)
    found = log_densities(some_mixture(), points)
    assert np.isfinite(found[0]) and not np.any(np.isfinite(found[1:3])) and found[3] < -100


def stats_normal(x):
    return -0.5 * jnp.sum((x - 1.0) ** 2) / 4.0 - jnp.log(2.0 * jnp.pi * 4.0)


def test_mixtures_of_several_rounds_are_one():
    first, second = some_mixture(5.0), some_mixture(30.0)
    both = joined([first, second], [100, 300])
    x = np.array([0.5, -0.5], np.float32)
    parts = jax.jit(lambda x: [mixture.log_density(x) for mixture in (first, second, both)])(x)
    expected = np.logaddexp(np.log(0.25) + parts[0], np.log(0.75) + parts[1])
    np.testing.assert_allclose(parts[2], expected, rtol=1e-5)


def test_draws_mend_what_curvature_gets_wrong():
    # A mode three times as wide as the curvature at its top says, and a log Z to be found.
    def log_density(x):
        return 2.0 + jax.nn.logsumexp(jnp.array([-0.5 * jnp.sum(x**2) / 9.0, -2.0 - 0.5 * jnp.sum(x**2) / 0.09]))

    curvature = np.asarray(jax.jit(jax.hessian(log_density))(jnp.zeros(2)), np.float64)
    optima = optima_of(np.zeros((1, 2)), np.linalg.inv(-curvature)[None])
    drawn = adapted(jax.random.key(1), as_target(log_density, 2), optima, 1500, 4, Ledger())
    assert drawn.shares[-1] > 2.0 * drawn.shares[0] and drawn.shares[-1] > 0.6
    log_weights = drawn.log_weights()
    log_z = np.log(np.mean(np.exp(log_weights)))
    exact = 2.0 + np.log(2.0 * np.pi * (9.0 + np.exp(-2.0) * 0.09))
    assert abs(log_z - exact) < 0.05


def test_ranks_of_the_same_distribution_are_even_and_of_another_are_not():
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(4000, 2)) * 2.0
    weights = np.exp(-0.5 * np.sum(draws**2, axis=1) * (1 - 0.25))
    assert rank_p_value(rng.normal(size=(48, 2)), draws, weights) > 0.01
    assert rank_p_value(rng.normal(size=(48, 2)) + 1.0, draws, weights) < 1e-3
    assert rank_p_value(rng.normal(size=(48, 2)) * 2.5, draws, weights) < 1e-2


def judged(log_density, optima, seed=0):
    target, ledger = as_target(log_density, optima.dim), Ledger()
    drawn = Drawn([first_guess(optima)])
    draw_more(jax.random.key(seed), target, drawn, 2000, ledger)
    kernel = kernel_of(Exploration(), optima.dim)
    own = (kernel, optima, drawn, normal_start(optima.dim, 1.0), 32, 48, ledger)
    return judge(jax.random.key(seed + 1), target, *own), ledger


def test_the_referee_passes_a_reference_that_covers():
    judgement, ledger = judged(lambda x: -0.5 * jnp.sum(x**2), optima_of(np.zeros((1, 3)), np.eye(3)[None]))
    assert judgement.is_good, judgement
    assert ledger.points["reference"] == 2000 + 2 * 32 * (1 + 48 * kernel_of(Exploration(), 3).evaluations_per_step)


@pytest.mark.parametrize(("num_arriving", "most", "hidden"), [(8, 4, 0.0), (8, 1, 0.5), (8, 2, 0.5), (6, 4, 0.125)])
def test_chains_on_their_way_walk_on_and_those_in_a_missing_mode_stay(monkeypatch, num_arriving, most, hidden):
    """Chains from far outside, of which so many eighths arrive with the third stretch; and as many from draws."""
    calls = []

    def walk(key, target, kernel, positions, *_):
        calls.append(np.asarray(positions))
        num_far = {1: 32, 2: 0, 3: 32}.get(len(calls), 32 - 4 * num_arriving)
        place = np.zeros((4, 32, 2))
        place[:, :num_far] = 30.0
        return Walked(place, np.zeros((4, 32)))

    monkeypatch.setattr("tempering.atlas.judge.walk", walk)
    monkeypatch.setattr("tempering.atlas.judge._MOST_STRETCHES", most)
    judgement, _ = judged(lambda x: -0.5 * jnp.sum(x**2), optima_of(np.zeros((1, 2)), np.eye(2)[None]))
    assert judgement.hidden_share == hidden
    assert all(np.all(positions == 30.0) for positions in calls[2:3]), "they go on from where they are"


def test_the_referee_sees_a_mode_that_the_reference_lacks():
    # Chains from N(0, 1), spread out, fall into the second mode, where the reference has nothing.
    def two(x):
        return jnp.logaddexp(-0.5 * jnp.sum((x - 4.0) ** 2), -0.5 * jnp.sum((x + 4.0) ** 2))

    judgement, _ = judged(two, optima_of(np.full((1, 2), 4.0), np.eye(2)[None]))
    assert not judgement.covers and judgement.hidden_share > 0.05
    assert judgement.share > 0.5, "its own weights cannot see that"


def test_the_referee_sees_a_funnel_that_is_taken_for_its_neck():
    def funnel(x):
        return -0.5 * (x[0] / 3.0) ** 2 - jnp.sum(0.5 * x[1:] ** 2 * jnp.exp(-x[0]) + 0.5 * x[0])

    narrow = np.diag([9.0, *[np.exp(-9.0)] * 3])[None]
    judgement, _ = judged(funnel, optima_of(np.array([[-9.0, 0.0, 0.0, 0.0]]), narrow, -20.0))
    assert not judgement.covers, judgement


@pytest.mark.slow
def test_log_z_of_draws_that_the_reference_learned_from_is_as_right_as_it_says():
    """All rounds are kept, and each later one was fitted to those before: their weights must know of all rounds."""
    nu, dim, num_seeds = 6.0, 10, 40
    target = as_target(lambda x: -0.5 * (nu + dim) * jnp.log1p(jnp.sum(x**2) / nu), dim)
    exact = 0.5 * dim * np.log(nu * np.pi) + gammaln(0.5 * nu) - gammaln(0.5 * (nu + dim))
    means, covariances = np.zeros((1, dim)), nu / (nu + dim) * np.eye(dim)[None]
    off, scores, of_the_last = [], [], []
    for seed in range(num_seeds):
        drawn = adapted(jax.random.key(seed), target, optima_of(means, covariances), 300, 4, Ledger())
        draw_more(jax.random.key(1000 + seed), target, drawn, 600, Ledger())
        log_z, error = log_z_with_tail(drawn.log_weights())
        off.append(np.exp(log_z - exact))
        scores.append((log_z - exact) / error)
        alone = log_weights_of(drawn.log_density, drawn.gradient, log_densities(drawn.mixtures[-1], drawn.position))
        of_the_last.append(np.exp(log_z_with_tail(alone)[0] - exact))
    assert_mean(off, 1.0, name="Z of reused draws", key="0 to 39")
    assert 0.3 < np.mean(np.square(scores)) < 2.0
    # The saboteur weighs all of them as if they were draws of the latest mixture.
    must_fail(assert_mean, of_the_last, 1.0, name="Z by the wrong denominator")


def cusp(x):
    return -2.0 * jnp.sum((x - 1.0) ** 2 + 1e-12) ** 0.25


@pytest.mark.slow
def test_a_first_guess_of_another_size_is_given_more_rounds(monkeypatch):
    """At a cusp second derivatives show a width of next to nothing. The saboteur adds nothing where draws are heavy."""
    dim = 6
    optima = optima_of(np.ones((1, dim)), 4e-9 * np.eye(dim)[None])

    def arrives():
        drawn = adapted(jax.random.key(0), as_target(cusp, dim), optima, 1000, 4, Ledger())
        assert drawn.shares[-1] > 0.4, drawn.shares

    arrives()
    monkeypatch.setattr("tempering.atlas.adapt.with_patches", lambda target, optima, *_: optima)
    must_fail(arrives)


def banana(x):
    """Normal along a parabola, ten times as long as wide: its ends hold a tenth of the mass."""
    across = x[1] + 0.03 * (x[0] ** 2 - 100.0)
    return -0.5 * (x[0] / 10.0) ** 2 - 0.5 * across**2 - jnp.log(20.0 * jnp.pi)


def test_the_ends_of_a_curved_valley_are_reached(monkeypatch):
    """The saboteur adds nothing where draws are heavy."""
    covariance = np.array([[[100.0, 0.0], [0.0, 1.0]]])

    def reaches_both_ends():
        target, optima = as_target(banana, 2), optima_of(np.array([[0.0, 3.0]]), covariance, -np.log(20.0 * np.pi))
        drawn = adapted(jax.random.key(0), target, optima, 700, 4, Ledger())
        weights = np.exp(drawn.log_weights())
        first = drawn.position[:, 0].astype(np.float64)
        spread = np.sqrt(weights @ first**2 / np.sum(weights))
        assert abs(drawn.log_z) < 0.03 and abs(spread - 10.0) < 0.5, (drawn.log_z, spread)

    reaches_both_ends()
    monkeypatch.setattr("tempering.atlas.adapt.with_patches", lambda target, optima, *_: optima)
    must_fail(reaches_both_ends)


def test_a_component_for_the_prior_covers_what_lies_between_the_modes():
    """A fifth of the mass is the prior itself, about a mode that is a hundredth as wide and does not show it."""
    width = 0.01

    def log_likelihood(x):
        return jnp.logaddexp(jnp.log(0.2), jnp.log(0.8) - 2 * jnp.log(width) - 0.5 * jnp.sum((x / width) ** 2 - x**2))

    target = posterior_of(as_target(log_likelihood, 2), None, None, Normal(0.0, 1.0), None)
    height = float(np.log(0.8 / (2 * np.pi * width**2)))
    optimum = optima_of(np.zeros((1, 2)), width**2 * np.eye(2)[None], height)

    def covers(components) -> None:
        drawn = Drawn([first_guess(components)])
        draw_more(jax.random.key(0), target, drawn, 2000, Ledger())
        assert drawn.shares[0] > 0.5 and abs(drawn.log_z) < 0.05, (drawn.shares, drawn.log_z)

    covers(with_prior(target, optimum))
    must_fail(covers, optimum)
