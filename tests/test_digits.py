"""Large log densities lose their digits in single precision: the verdict says so where log Z may be wrong by it."""

import numpy as np
import pytest

from tempering.sampler.diagnosis.others import _digits


def log_z_rounded(offset: float, num: int = 20_000) -> float:
    """How far log Z is off for exact draws of a normal distribution, its log density plus `offset` in float32."""
    draws = np.random.default_rng(5).normal(size=num)
    log_q = -0.5 * draws**2
    rounded = np.float32(log_q + offset).astype(np.float64)
    return float(np.log(np.mean(np.exp(rounded - offset - log_q))))


@pytest.mark.parametrize("offset", [-37.25, -84_115.0, 700_000.1])
def test_nothing_is_said_of_values_that_keep_their_digits(offset):
    assert abs(log_z_rounded(offset)) < 0.05
    assert _digits(offset) == [] and _digits(None) == []


@pytest.mark.parametrize("offset", [-10_000_000.4, 12_345_678.6, -1e8 - 3.0])
def test_steps_that_move_log_z_leave_a_doubt(offset):
    assert abs(log_z_rounded(offset)) > 0.05
    (found,) = _digits(offset)
    assert found.status == "doubtful" and "subtract a constant" in found.advice and "steps of" in found.measured
