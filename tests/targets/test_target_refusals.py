"""Bad input to targets is refused where it enters, with a message that says what is allowed; and targets by name."""

import numpy as np
import pytest

from tempering.errors import SettingsError
from tempering.registry import TARGETS, make_target
from tempering.targets import (
    ExactTarget,
    Gaussian,
    GaussianMixture,
    ManyWell,
    Target,
    anisotropic_gaussian,
)

MEANS = [[0.0, 0.0], [1.0, 1.0]]

REFUSED = {
    "mean of two axes": (lambda: Gaussian([[0.0]], [[1.0]]), "shape"),
    "no dimensions": (lambda: Gaussian([], np.zeros((0, 0))), "shape"),
    "mean not finite": (lambda: Gaussian([np.nan], [[1.0]]), "finite"),
    "covariance of another shape": (lambda: Gaussian([0.0, 0.0], [[1.0]]), r"\(2, 2\)"),
    "covariance not symmetric": (lambda: Gaussian([0.0, 0.0], [[1.0, 0.5], [0.0, 1.0]]), "symmetric"),
    "covariance indefinite": (lambda: Gaussian([0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]]), "positive definite"),
    "covariance singular": (lambda: Gaussian([0.0, 0.0], [[0.0, 0.0], [0.0, 1.0]]), "positive definite"),
    "covariance not finite": (lambda: Gaussian([0.0], [[np.inf]]), "finite"),
    "constant not finite": (lambda: Gaussian([0.0], [[1.0]], np.inf), "finite"),
    "flat means": (lambda: GaussianMixture([0.0, 1.0], 1.0), "component, dim"),
    "no width": (lambda: GaussianMixture(MEANS), "either"),
    "two widths": (lambda: GaussianMixture(MEANS, 1.0, covariances=[np.eye(2)] * 2), "not both"),
    "too many stds": (lambda: GaussianMixture(MEANS, [1.0, 2.0, 3.0]), "one per component"),
    "negative std": (lambda: GaussianMixture(MEANS, [1.0, -1.0]), "positive"),
    "too few covariances": (lambda: GaussianMixture(MEANS, covariances=[np.eye(2)]), r"\(2, 2, 2\)"),
    "one bad covariance": (lambda: GaussianMixture(MEANS, covariances=[np.eye(2), -np.eye(2)]), r"covariances\[1\]"),
    "too few weights": (lambda: GaussianMixture(MEANS, 1.0, [1.0]), "one per component"),
    "negative weight": (lambda: GaussianMixture(MEANS, 1.0, [1.5, -0.5]), "positive"),
    "weight zero": (lambda: GaussianMixture(MEANS, 1.0, [1.0, 0.0]), "positive"),
    "weight nan": (lambda: GaussianMixture(MEANS, 1.0, [1.0, np.nan]), "finite"),
    "odd dim": (lambda: ManyWell(3), "even"),
    "dim zero": (lambda: ManyWell(0), "at least 2"),
    "seed negative": (lambda: anisotropic_gaussian(2, -1), "seed"),
    "gaussian of no dimension": (lambda: anisotropic_gaussian(0), "at least 1"),
    "unknown target": (lambda: make_target("mog41"), "dw4, gaussian, lj, many_well, mog40"),
    "unknown setting": (lambda: make_target("many_well", dimension=4), "dim"),
    "setting where there is none": (lambda: make_target("mog40", dim=2), "none"),
    "bad setting by name": (lambda: make_target("many_well", dim=5), "even"),
}


@pytest.mark.parametrize(("make", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_refusals(make, message):
    with pytest.raises(SettingsError, match=message):
        make()


@pytest.mark.parametrize("name", TARGETS)
def test_every_name_makes_a_target_and_all_but_particles_an_exact_one(name):
    assert isinstance(make_target(name), Target if name in ("aldp", "aldp_internal", "dw4", "lj") else ExactTarget)


def test_settings_arrive():
    assert make_target("many_well", dim=8).dim == 8
    first, same, other = (make_target("gaussian", dim=4, seed=seed) for seed in (1, 1, 2))
    assert first.dim == 4 and np.array_equal(first.mean(), same.mean()) and not np.allclose(first.mean(), other.mean())


def test_the_named_gaussian_is_anisotropic_and_off_centre():
    gaussian = make_target("gaussian", dim=6, seed=0)
    stds = np.sqrt(np.linalg.eigvalsh(np.asarray(gaussian.covariance(), np.float64)))
    np.testing.assert_allclose(stds[[0, -1]], [0.5, 2.5], rtol=1e-4)
    assert np.linalg.norm(gaussian.mean()) > 1 and gaussian.log_z() == 1.5
