"""Ramachandran histograms, their KL and its floor, marginals: against NumPy by hand, weighted and at 180 degrees."""

import math

import numpy as np
import pytest

from tempering.lab.metrics import MetricError
from tempering.lab.metrics.energy import energy_tvd
from tempering.lab.metrics.marginals import (
    dihedral_histogram,
    marginal_histogram,
    marginal_tvds,
    normalised_weights,
    ramachandran_histogram,
    ramachandran_kl,
    wrapped,
)

BIN = (2 * math.pi / 64) ** 2


def _angles(num: int, seed: int, shift: float = 0.0) -> np.ndarray:
    """phi and psi like those of alanine dipeptide: two basins of different weight, one of which crosses ±180."""
    rng = np.random.default_rng(seed)
    is_first = rng.random(num) < 0.7
    centres = np.where(is_first[:, None], [[-1.3 + shift, 2.9]], [[-2.6, -0.4]])
    return (centres + rng.normal(size=(num, 2)) * [[0.25, 0.5]] + math.pi) % (2 * math.pi) - math.pi


ANGLES, REFERENCE = _angles(3_000, 0, shift=0.2), _angles(4_000, 1)


def _by_hand(angles: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """One sample after the other."""
    density = np.zeros((64, 64))
    for (phi, psi), weight in zip(angles, weights, strict=True):
        density[int((phi + math.pi) / (2 * math.pi) * 64), int((psi + math.pi) / (2 * math.pi) * 64)] += weight
    return density / weights.sum() / BIN


def test_histograms_are_those_by_hand():
    weights = np.exp(ANGLES[:, 0])
    for given in (None, np.log(weights) + 5.0):  # a constant factor changes nothing
        expected = _by_hand(ANGLES, np.ones(len(ANGLES)) if given is None else weights)
        found = ramachandran_histogram(ANGLES, log_weights=given)
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-14)
        assert abs(found.sum() * BIN - 1.0) < 1e-12
    # The saboteurs: phi and psi swapped, and weights ignored.
    assert np.max(np.abs(ramachandran_histogram(ANGLES[:, ::-1]) - _by_hand(ANGLES, np.ones(len(ANGLES))))) > 0.1
    assert np.max(np.abs(ramachandran_histogram(ANGLES) - _by_hand(ANGLES, weights))) > 0.02


def test_kl_is_the_papers():
    p, q = (_by_hand(part, np.ones(len(part))) for part in (ANGLES, REFERENCE))
    expected = np.sum(q * np.log((q + 1e-10) / (p + 1e-10))) * BIN
    assert ramachandran_kl(ANGLES, REFERENCE) == pytest.approx(expected, rel=1e-10)
    assert abs(ramachandran_kl(REFERENCE, REFERENCE)) < 1e-12
    # The saboteur: densities per bin instead of per square radian, which move eps.
    assert abs(np.sum(q * BIN * np.log((q * BIN + 1e-10) / (p * BIN + 1e-10))) / expected - 1) > 0.05


def test_kl_sees_a_mode_that_is_missing():
    """The saboteur is the other direction, which sees modes that are too many."""
    one_mode = REFERENCE[np.abs(REFERENCE[:, 1] + 0.4) > 1.6]
    assert 0.6 < len(one_mode) / len(REFERENCE) < 0.8
    assert ramachandran_kl(one_mode, REFERENCE) > 5.0 > 1.0 > ramachandran_kl(REFERENCE, one_mode)


def test_angles_are_one_at_180_degrees():
    shifted = ANGLES + 2 * math.pi * np.random.default_rng(2).integers(-1, 2, ANGLES.shape)
    np.testing.assert_allclose(ramachandran_histogram(shifted), ramachandran_histogram(ANGLES), atol=0.02)
    assert ramachandran_kl(shifted, REFERENCE) == pytest.approx(ramachandran_kl(ANGLES, REFERENCE), rel=1e-3)
    # The saboteur: left unwrapped, two thirds of each angle are outside.
    inside = np.abs(shifted).max(axis=1) <= math.pi
    assert inside.mean() < 0.5
    edges = [-math.pi, math.pi, np.nextafter(-math.pi, -4), 3 * math.pi, 0.0]
    np.testing.assert_allclose(wrapped(edges), [-math.pi, -math.pi, -math.pi, -math.pi, 0.0], atol=1e-14)
    assert np.all(wrapped(edges) < math.pi)
    with pytest.raises(MetricError, match="radians, not degrees"):
        wrapped([-80.0, 140.0])


def test_weights_are_multiplicities():
    counts = np.random.default_rng(3).integers(0, 4, len(ANGLES))
    with np.errstate(divide="ignore"):
        log_weights = np.log(counts)
    repeated = np.repeat(ANGLES, counts, axis=0)
    assert ramachandran_kl(ANGLES, REFERENCE, log_weights=log_weights) == pytest.approx(
        ramachandran_kl(repeated, REFERENCE), rel=1e-9
    )
    weighted, plain = (
        dihedral_histogram(part[:, 1], REFERENCE[:, 1], log_weights=given).tvd
        for part, given in ((ANGLES, log_weights), (repeated, None))
    )
    assert weighted == pytest.approx(plain, rel=1e-9)
    assert abs(dihedral_histogram(ANGLES[:, 1], REFERENCE[:, 1]).tvd - plain) > 1e-4  # the saboteur: ignored


def test_lost_draws_are_error():
    lost = ANGLES.copy()
    lost[::3, 0] = np.nan
    assert ramachandran_histogram(lost).sum() * BIN == pytest.approx(2 / 3, abs=1e-3)
    assert ramachandran_kl(lost, REFERENCE) > ramachandran_kl(ANGLES, REFERENCE) + 0.3
    assert dihedral_histogram(lost[:, 0], REFERENCE[:, 0]).share_outside == pytest.approx(1 / 3, abs=1e-3)


def test_exact_samples_are_at_the_floor_and_others_above():
    exact, shifted = _angles(2_000, 5), _angles(2_000, 6, shift=0.5)
    floors = {num: ramachandran_kl(_angles(4_000, 7)[:num], REFERENCE) for num in (100, 1_000, 2_000, 4_000)}
    # Between sets of this size floors scatter by 5 %.
    assert 0.7 < ramachandran_kl(exact, REFERENCE) / floors[2_000] < 1.3
    assert ramachandran_kl(shifted, REFERENCE) > 1.5 * floors[2_000]
    # One of another size is too high or too low.
    assert floors[100] > 2 * floors[1_000] > 4 * floors[4_000]
    assert ramachandran_kl(exact, REFERENCE, num_bins=16) < 0.2 * floors[2_000]


def test_marginals_are_the_energy_metric_with_weights():
    rng = np.random.default_rng(8)
    values, reference = rng.gamma(3.0, size=2_000), rng.gamma(3.3, size=3_000)
    values[:5] = np.inf
    assert marginal_histogram(values, reference).tvd == pytest.approx(energy_tvd(values, reference), abs=1e-12)
    # Importance weights turn one gamma distribution into the other.
    values = values[5:]
    exact = rng.gamma(3.3, size=len(values))
    weighted = marginal_histogram(values, reference, log_weights=0.3 * np.log(values), num_bins=30).tvd
    assert weighted < 1.5 * marginal_histogram(exact, reference, num_bins=30).tvd
    assert marginal_histogram(values, reference, num_bins=30).tvd > 1.5 * weighted  # the saboteur: weights ignored
    columns = marginal_tvds(np.stack([values, 10 * values], axis=1), np.stack([reference, reference], axis=1))
    assert columns[0] == marginal_histogram(values, reference).tvd
    assert columns[1] > 0.8  # ångström against nm


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ramachandran_histogram(ANGLES[:, 0]), r"shape \(3000,\)"),
        (lambda: ramachandran_histogram(np.ones((4, 3))), "give phi and psi"),
        (lambda: ramachandran_histogram(ANGLES, num_bins=0), "at least 1"),
        (lambda: ramachandran_kl(ANGLES, np.full((4, 2), np.nan)), "not finite"),
        (lambda: ramachandran_kl(ANGLES, REFERENCE, log_weights=np.zeros(5)), r"need \(3000,\)"),
        (lambda: normalised_weights(np.array([0.0, np.nan]), 2), "NaN"),
        (lambda: normalised_weights(np.full(2, -np.inf), 2), "all -inf"),
        (lambda: marginal_tvds(np.ones((3, 2)), np.ones((3, 4))), "must agree"),
    ],
)
def test_refusals(call, words):
    with pytest.raises(MetricError, match=words):
        call()
