"""Log-space helpers: right where the plain formula overflows, and legal answers for degenerate input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.random_checks import must_fail
from tempering.numerics import compensated_add, log_mean_exp, where_finite
from tempering.targets.base import Target, evaluate


@given(st.lists(st.floats(-200.0, 200.0, width=32), min_size=8, max_size=8), st.sampled_from([0.0, 5_000.0, -5_000.0]))
def test_log_mean_exp_against_float64(values, shift):
    values = np.asarray(values, np.float32) + np.float32(shift)
    peak = np.max(values.astype(np.float64))
    expected = peak + np.log(np.mean(np.exp(values.astype(np.float64) - peak)))
    np.testing.assert_allclose(log_mean_exp(jnp.asarray(values)), expected, rtol=1e-5, atol=1e-4)


def test_log_mean_exp_of_no_weight_at_all():
    assert float(log_mean_exp(jnp.full(3, -jnp.inf))) == -np.inf
    np.testing.assert_allclose(log_mean_exp(jnp.asarray([0.0, -jnp.inf])), -np.log(2.0), rtol=1e-6)
    assert np.isnan(float(log_mean_exp(jnp.asarray([0.0, jnp.nan]))))


@jax.jit
def _sums(terms: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Plain and compensated float32 sums, in a compiled loop as the solver has it."""

    def body(carry, term):
        plain, total, compensation = carry
        return (plain + term, *compensated_add(total, compensation, term)), None

    zero = jnp.zeros(())
    (plain, total, _), _ = jax.lax.scan(body, (zero, zero, zero), terms)
    return plain, total


def test_compensated_sums_lose_nothing_to_the_compiler():
    # Thousands of small terms on a total of hundreds. A compiler that reassociates would make the two sums equal.
    rng = np.random.default_rng(3)
    terms = (0.05 + 0.02 * rng.normal(size=20_000)).astype(np.float32)
    exact = np.sum(terms.astype(np.float64))
    plain, compensated = (abs(float(total) - exact) for total in _sums(jnp.asarray(terms)))
    assert compensated <= np.spacing(np.float32(exact))
    assert plain > 10.0 * np.spacing(np.float32(exact))


def test_compensated_add_keeps_what_rounding_drops():
    total, compensation = compensated_add(jnp.asarray(1.0), jnp.asarray(0.0), jnp.asarray(1e-8))
    assert float(total) == 1.0 and float(compensation) == pytest.approx(-1e-8, rel=1e-6)


def test_where_finite_replaces_only_what_is_not():
    values = jnp.asarray([1.0, jnp.nan, jnp.inf, -jnp.inf, -2.0])
    np.testing.assert_array_equal(where_finite(values, 7.0), [1.0, 7.0, 7.0, 7.0, -2.0])
    assert where_finite(values.astype(jnp.bfloat16), 7.0).dtype == jnp.bfloat16


class _Form(Target):
    """A quadratic form, as a user writes it."""

    dim: int = 3

    def log_density(self, x):
        return -0.5 * jnp.sum(x * (jnp.diag(jnp.arange(1.0, 4.0)) @ x))


def _program(evaluated) -> str:
    return str(jax.make_jaxpr(evaluated)(jnp.ones(3)))


def _is_exact(program: str) -> None:
    assert program.count("precision=(Precision.HIGHEST, Precision.HIGHEST)") == program.count("= dot_general[") >= 2


def test_products_of_a_density_are_exact_on_any_device():
    """GPUs round factors to ten bits unless told otherwise; the saboteur is the density outside `evaluate`."""
    _is_exact(_program(lambda x: evaluate(_Form(), x)))
    must_fail(_is_exact, _program(jax.value_and_grad(_Form().log_density)))


def test_a_precision_that_the_user_chose_is_kept():
    with jax.default_matmul_precision("high"):
        must_fail(_is_exact, _program(lambda x: evaluate(_Form(), x)))
