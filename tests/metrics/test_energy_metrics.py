"""Histogram and quantile distances between energies: exact identities, and what the paper's variant does not see."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import wasserstein_distance

from tempering.lab.metrics import MetricError, energy_tvd, energy_wasserstein_1, energy_wasserstein_2, paper_energy_tvd

REFERENCE = np.random.default_rng(1).gamma(3.0, 2.0, size=1000)
BAD = [np.nan, np.inf, -np.inf, 1e9, -1e9]

energies = st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=12)


def test_equal_energies_have_no_tvd():
    shuffled = np.random.default_rng(0).permutation(REFERENCE)
    assert energy_tvd(shuffled, REFERENCE) == paper_energy_tvd(shuffled, REFERENCE) == 0.0
    assert energy_tvd(np.repeat(REFERENCE, 3), REFERENCE) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("bad", BAD)
def test_all_mass_outside_is_one(bad):
    assert energy_tvd(np.full(10, bad), REFERENCE) == 1.0
    with pytest.raises(MetricError, match="0/0"):
        paper_energy_tvd(np.full(10, bad), REFERENCE)


@pytest.mark.parametrize("bad", BAD)
def test_the_share_outside_is_the_error_and_the_paper_does_not_see_it(bad):
    samples = np.concatenate([REFERENCE, np.full(250, bad)])
    assert energy_tvd(samples, REFERENCE) == pytest.approx(0.2)
    assert paper_energy_tvd(samples, REFERENCE) == pytest.approx(0.0, abs=1e-12)


def test_disjoint_bins_are_one_and_half_is_half():
    reference = np.array([0.0, 1.0, 2.0, 3.0])
    assert energy_tvd([0.2, 0.3], reference, num_bins=4) == pytest.approx(0.75)
    assert energy_tvd([0.0, 1.0], reference, num_bins=2) == pytest.approx(0.5)
    assert energy_tvd([3.0, 0.0], reference, num_bins=2) == pytest.approx(0.0)


def test_tvd_of_two_uniforms():
    """Uniform on [0, 1] against uniform on [0, 1/2]: half the mass is misplaced."""
    grid = (np.arange(10_000) + 0.5) / 10_000
    assert energy_tvd(grid / 2, grid) == pytest.approx(0.5, abs=1e-3)


def test_tvd_refuses_what_it_cannot_judge():
    for samples, reference in (
        ([], REFERENCE),
        (REFERENCE, []),
        (REFERENCE, [0.0, np.nan]),
        (REFERENCE[:, None], REFERENCE),
    ):
        with pytest.raises(MetricError):
            energy_tvd(samples, reference)
    with pytest.raises(MetricError, match="num_bins"):
        energy_tvd(REFERENCE, REFERENCE, num_bins=0)


def test_shift_and_stretch_have_closed_forms():
    shuffled = np.random.default_rng(0).permutation(REFERENCE)
    for distance in (energy_wasserstein_1, energy_wasserstein_2):
        assert distance(shuffled - 2.5, REFERENCE) == pytest.approx(2.5)
        assert distance(shuffled, REFERENCE) == pytest.approx(0.0, abs=1e-12)
    assert energy_wasserstein_1(3 * REFERENCE, REFERENCE) == pytest.approx(2 * REFERENCE.mean())
    assert energy_wasserstein_2(3 * REFERENCE, REFERENCE) == pytest.approx(2 * np.sqrt(np.mean(REFERENCE**2)))


@given(energies, energies)
def test_unequal_sizes_agree_with_equal_ones_by_repetition(x, y):
    many_x, many_y = np.sort(np.repeat(x, len(y))), np.sort(np.repeat(y, len(x)))
    assert energy_wasserstein_1(x, y) == pytest.approx(np.mean(np.abs(many_x - many_y)), abs=1e-9)
    assert energy_wasserstein_2(x, y) == pytest.approx(np.sqrt(np.mean((many_x - many_y) ** 2)), abs=1e-9)
    assert energy_wasserstein_1(x, y) == pytest.approx(wasserstein_distance(x, y), abs=1e-9)
    assert energy_wasserstein_1(x, y) <= energy_wasserstein_2(x, y) + 1e-9


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_distances_between_energies_refuse_nonfinite_ones(bad):
    for distance in (energy_wasserstein_1, energy_wasserstein_2):
        with pytest.raises(MetricError, match="1 of the 2 rows of energies"):
            distance([0.0, bad], REFERENCE)
