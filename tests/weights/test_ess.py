"""Effective sizes, down to weights that hardly are any, and the effective share that a model promises."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given

from support.random_checks import must_fail
from support.weights import LOG_WEIGHTS, NUM
from tempering.weights.ess import effective_size, ess_fraction, foretold_share, normalised, predicted_ess_fraction

ESS = jax.jit(ess_fraction)


def test_ess_of_known_weights():
    assert ess_fraction(jnp.zeros(50)) == pytest.approx(1.0, abs=1e-6)
    assert ess_fraction(jnp.full(50, -jnp.inf).at[7].set(3.0)) == pytest.approx(1 / 50)
    assert ess_fraction(jnp.full(50, -jnp.inf)) == 0.0
    # (1 + 2 + 3)^2 / (3 (1 + 4 + 9))
    assert ess_fraction(jnp.log(jnp.array([1.0, 2.0, 3.0]))) == pytest.approx(36 / 42, rel=1e-5)


def test_ess_does_not_see_a_common_factor():
    """Energies of 1e5 are common; the difference of two logsumexps of that size would be off by a per cent."""
    log_weights = jnp.asarray(np.random.default_rng(0).integers(-4, 5, size=200), jnp.float32)
    expected = float(ess_fraction(log_weights))
    for shift in (-1e5, 1e5):
        assert ess_fraction(log_weights + shift) == pytest.approx(expected, rel=1e-5)
    naive = np.exp(2 * jax.nn.logsumexp(log_weights + 1e5) - jax.nn.logsumexp(2 * (log_weights + 1e5))) / 200
    assert abs(naive / expected - 1) > 1e-3


@given(LOG_WEIGHTS)
def test_ess_is_a_fraction(log_weights):
    ess = float(ESS(log_weights))
    assert ess == 0.0 if np.all(np.isneginf(log_weights)) else 1 / NUM - 1e-5 <= ess <= 1.0


def test_the_effective_size_is_the_fraction_of_all():
    log_weights = jnp.asarray(np.random.default_rng(0).normal(size=300), jnp.float32)
    assert effective_size(normalised(log_weights)) == pytest.approx(300 * float(ess_fraction(log_weights)), rel=1e-5)
    assert effective_size(np.full(7, 1 / 7)) == pytest.approx(7.0)
    assert effective_size(np.array([0.0, 1.0])) == 1.0


def check_promise(log_ratios, log_weights, expected) -> None:
    """Of 20,000 samples, to two per cent."""
    assert float(predicted_ess_fraction(log_ratios, log_weights)) == pytest.approx(expected, rel=0.02)


def test_samples_of_the_target_tell_the_effective_share_of_the_model():
    """p = N(0, 1) and q = N(0, 1.5^2): E_q[(p / q)^2] = s^2 / sqrt(2 s^2 - 1), whose inverse is the share."""
    std, num = 1.5, 20_000
    expected = np.sqrt(2 * std**2 - 1) / std**2
    rng = np.random.default_rng(1)
    even = jnp.full(num, -np.log(num))
    x = jnp.asarray(rng.normal(size=num), jnp.float32)
    log_ratios = -0.5 * x**2 * (1 - std**-2) + 3.0  # up to a constant
    check_promise(log_ratios, even, expected)
    # Samples of N(0, 1.2^2) that are weighted to p say the same, and without their weights they do not.
    wide = 1.2 * x
    log_weights = jnp.log(normalised(-0.5 * wide**2 * (1 - 1.2**-2)))
    log_ratios = -0.5 * wide**2 * (1 - std**-2)
    check_promise(log_ratios, log_weights, expected)
    must_fail(check_promise, log_ratios, even, expected)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_ratio_that_is_not_finite_promises_nothing(value):
    even = jnp.full(4, -np.log(4.0))
    assert float(predicted_ess_fraction(jnp.zeros(4), even)) == pytest.approx(1.0)
    assert float(predicted_ess_fraction(jnp.zeros(4).at[2].set(value), even)) == 0.0


@pytest.mark.parametrize("far", [60.0, np.inf, np.nan], ids=["far", "never drawn", "no number"])
def test_one_sample_that_a_model_never_draws_does_not_hide_how_well_it_draws_the_others(far):
    log_ratios = np.random.default_rng(4).normal(0.0, 0.3, 500)
    even = foretold_share(log_ratios, 0.01)
    assert even == pytest.approx(np.exp(-(0.3**2)), rel=0.05)
    one, many = log_ratios.copy(), log_ratios.copy()
    one[123], many[100:110] = far, far
    assert foretold_share(one) < 1e-6, "this one decides the share of all"
    assert foretold_share(one, 0.01) == pytest.approx(even, rel=0.02)
    assert foretold_share(many, 0.01) < 1e-6, "two samples in a hundred are a mode that the model lacks"
