"""Ladders: hottest first, ending at 1 exactly, as long as the dimension asks for."""

from unittest.mock import patch

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.random_checks import must_fail
from tempering.errors import SettingsError
from tempering.parallel_tempering import ladder
from tempering.parallel_tempering.ladder import betas_of, default_num_levels, next_temperature, temperatures_of
from tempering.settings import Ladder


def keeping(share: float):
    """Another share than the library's, for as long as the context lasts."""
    return patch.object(ladder, "KEPT_SHARE", share)


@given(
    hottest=st.floats(1.01, 1e6),
    dim=st.integers(1, 200),
    num_levels=st.none() | st.integers(2, 30),
)
def test_ladders_fall_from_the_hottest_to_one(hottest, dim, num_levels):
    temperatures = temperatures_of(Ladder(hottest=hottest, num_levels=num_levels, spacing="geometric"), dim=dim)
    assert temperatures[0] == pytest.approx(hottest)
    assert temperatures[-1] == 1.0
    assert all(hot > cold for hot, cold in zip(temperatures, temperatures[1:], strict=False))
    assert len(temperatures) == (num_levels or default_num_levels(hottest, dim))
    # What the settings build, they also accept by hand.
    Ladder(temperatures=temperatures)
    steps = np.diff(np.log(temperatures))
    np.testing.assert_allclose(steps, np.mean(steps), rtol=1e-6)


def test_the_default_length_is_about_that_of_the_benchmarks():
    assert default_num_levels(100.0, 2) == 5  # MoG-40
    assert default_num_levels(10.0, 32) == 7  # Many-Well-32, where the paper takes six
    # At least three levels: one must remain to be extrapolated to.
    assert default_num_levels(1.5, 2) == 3


@given(hottest=st.floats(1.01, 1e4), dim=st.integers(2, 200))
def test_the_default_step_is_bounded(hottest, dim):
    ratio = hottest ** (1.0 / (default_num_levels(hottest, dim) - 1))
    assert ratio <= (1.0 + 2.2 / np.sqrt(dim / 2.0)) * (1.0 + 1e-9)


def test_given_temperatures_and_the_settings_hottest_win():
    assert temperatures_of(Ladder(temperatures=(7.0, 2.0, 1.0), hottest=50.0), dim=3, hottest=80.0) == (7.0, 2.0, 1.0)
    assert temperatures_of(Ladder(hottest=50.0), dim=3, hottest=80.0)[0] == 50.0
    assert temperatures_of(Ladder(), dim=3, hottest=80.0)[0] == 80.0


def test_no_hottest_temperature_is_refused():
    with pytest.raises(SettingsError, match=r"ladder\.hottest = None.*pilot.*ladder\.temperatures"):
        temperatures_of(Ladder(), dim=3)


def test_betas_are_inverse_and_end_at_one():
    np.testing.assert_allclose(betas_of((8.0, 2.0, 1.0)), [0.125, 0.5, 1.0])


# Adaptive ladders.


def share_left(ratio: float, dim: int) -> float:
    """Of a Gaussian's samples at T, reweighted to T / ratio: (sqrt(2 r - 1) / r)^dim."""
    return (np.sqrt(2.0 * ratio - 1.0) / ratio) ** dim


def energies_at(temperature: float, dim: int, stretch: float = 1.0):
    """Log densities and weights of N(3, 4)^(1/T) in `dim` dimensions, from draws that are `stretch` times as wide."""
    square = stretch**2 * np.random.default_rng(dim).chisquare(dim, 50_000)
    log_weight = -0.5 * square * (1.0 - stretch**-2)
    weight = np.exp(log_weight - log_weight.max())
    as_array = lambda values: jnp.asarray(values, jnp.float32)  # noqa: E731
    return as_array(-0.5 * temperature * square + 7.0), as_array(weight / weight.sum())


def check_next(log_density, weight, temperature: float, dim: int, min_ess: float, asked: float | None = None) -> None:
    """The step that was found leaves `min_ess` by the closed form; `asked` is another share to ask for: a saboteur."""
    with keeping(asked or min_ess):
        ratio = temperature / next_temperature(log_density, weight, temperature)
    assert share_left(ratio, dim) == pytest.approx(min_ess, rel=0.03), f"a step of {ratio}"


@pytest.mark.parametrize("stretch", [1.0, 1.15])
@pytest.mark.parametrize(("dim", "min_ess"), [(1, 0.6), (2, 0.3), (10, 0.5)])
def test_the_next_temperature_leaves_the_share_asked_for(dim, min_ess, stretch):
    temperature = 5000.0
    log_density, weight = energies_at(temperature, dim, stretch)
    check_next(log_density, weight, temperature, dim, min_ess)
    # The saboteurs: another share, energies that are tempered already, and weights that are forgotten.
    must_fail(check_next, log_density, weight, temperature, dim, min_ess, asked=min_ess + 0.05)
    must_fail(check_next, 0.9 * log_density, weight, temperature, dim, min_ess)
    if stretch != 1.0:
        must_fail(check_next, log_density, jnp.full_like(weight, 1 / weight.size), temperature, dim, min_ess)


def test_the_next_temperature_is_one_where_that_can_be_reached():
    log_density, weight = energies_at(1.5, 2)
    assert next_temperature(log_density, weight, 1.5) == 1.0
    with keeping(0.99):
        assert 1.0 < next_temperature(log_density, weight, 1.5) < 1.5
        # Samples that all have the same density say nothing against it.
        assert next_temperature(jnp.zeros((30,)), jnp.full((30,), 1 / 30), 1e6) == 1.0


def test_samples_without_weight_have_no_say():
    log_density, weight = energies_at(50.0, 2)
    expected = next_temperature(log_density, weight, 50.0)
    beyond = jnp.concatenate([log_density, jnp.asarray([1e6, -jnp.inf])])
    assert next_temperature(beyond, jnp.concatenate([weight, jnp.zeros((2,))]), 50.0) == expected


@given(hottest=st.floats(1.01, 1e5), dim=st.integers(1, 128), min_ess=st.floats(0.05, 0.95))
def test_an_adaptive_ladder_is_planned_as_a_harmonic_density_needs_it(hottest, dim, min_ess):
    with keeping(min_ess):
        temperatures = temperatures_of(Ladder(hottest=hottest, spacing="adaptive"), dim=dim)
    assert temperatures[0] == pytest.approx(hottest) and temperatures[-1] == 1.0
    num_steps = len(temperatures) - 1
    assert share_left(hottest ** (1.0 / num_steps), dim) >= min_ess * (1 - 1e-6) or num_steps == 2
    # One step fewer would be too few, or longer than the longest step.
    longer = hottest ** (1.0 / max(1, num_steps - 1))
    assert num_steps == 2 or longer >= 100.0 or share_left(longer, dim) <= min_ess * (1 + 1e-6)
