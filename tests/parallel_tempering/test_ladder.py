"""Ladders: hottest first, ending at 1 exactly, as long as the dimension asks for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tempering.errors import SettingsError
from tempering.parallel_tempering.ladder import betas_of, default_num_levels, temperatures_of
from tempering.settings import Ladder


@given(
    hottest=st.floats(1.01, 1e6),
    dim=st.integers(1, 200),
    num_levels=st.none() | st.integers(2, 30),
    spacing=st.sampled_from(["geometric", "linear"]),
)
def test_ladders_fall_from_the_hottest_to_one(hottest, dim, num_levels, spacing):
    temperatures = temperatures_of(Ladder(hottest=hottest, num_levels=num_levels, spacing=spacing), dim=dim)
    assert temperatures[0] == pytest.approx(hottest)
    assert temperatures[-1] == 1.0
    assert all(hot > cold for hot, cold in zip(temperatures, temperatures[1:], strict=False))
    assert len(temperatures) == (num_levels or default_num_levels(hottest, dim))
    # What the settings build, they also accept by hand.
    Ladder(temperatures=temperatures)
    steps = np.log(temperatures) if spacing == "geometric" else np.asarray(temperatures)
    np.testing.assert_allclose(np.diff(steps), np.mean(np.diff(steps)), rtol=1e-6)


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
