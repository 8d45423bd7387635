"""Fits with a prior: the evidence is that of the closed form, draws are the posterior's, and evaluations are counted.

Small budgets, small networks and short training: what is checked holds by the weights, whatever the network is worth.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

import tempering as tp
from support.random_checks import assert_mean, must_fail
from support.tiny import quick_compilation, tiny_ptsd
from support.unchecked import unchecked
from tempering.methods.ptsd import ONE_LEVEL
from tempering.settings import Exploration

SMALL = {
    "network.width": 32,
    "network.depth": 2,
    "network.coordinate_width": 4,
    "training.num_steps": 300,
    "training.num_finetune_steps": 200,
    "training.batch_size": 128,
    "sampling.num_steps": 16,
}


@pytest.fixture(scope="module", autouse=True)
def as_users_run_it():
    with unchecked(), quick_compilation():
        yield


# A mean of five measurements with known error, and a share of successes: both conjugate.
DATA, ERROR = np.array([1.1, 0.4, 1.9, 1.3, 0.8]), 0.5
SUCCESSES, FAILURES = 7, 2
PRIOR = {"mean": tp.Normal(0.0, 2.0), "share": tp.Beta(0.5, 0.5)}


def log_likelihood(params):
    """As a user would write it: normalised in the data."""
    mean, share = params["mean"], params["share"]
    gauss = -0.5 * jnp.sum(((DATA.astype(np.float32) - mean) / ERROR) ** 2)
    gauss -= DATA.size * math.log(ERROR * math.sqrt(2.0 * math.pi))
    return gauss + SUCCESSES * jnp.log(share) + FAILURES * jnp.log1p(-share)


def exact_evidence() -> float:
    """Of the data of the mean, a normal with covariance ERROR^2 + 4 everywhere; and of the successes, in order."""
    covariance = ERROR**2 * np.eye(DATA.size) + 4.0
    gauss = -0.5 * DATA @ np.linalg.solve(covariance, DATA) - 0.5 * np.linalg.slogdet(2.0 * np.pi * covariance)[1]
    return gauss + special.betaln(0.5 + SUCCESSES, 0.5 + FAILURES) - special.betaln(0.5, 0.5)


def check_evidence(sampler: tp.Sampler, expected: float) -> None:
    error = sampler.log_z_error
    message = f"log Z {sampler.log_z:.4f}, expected {expected:.4f}, standard error {error:.4f}"
    assert abs(sampler.log_z - expected) < 5.0 * error < 0.25, message


def check_posterior(sampler: tp.Sampler) -> None:
    """The evidence, and weighted draws, are those of the closed form."""
    check_evidence(sampler, exact_evidence())
    # The saboteur: an evidence with a flat prior over the mean.
    must_fail(check_evidence, sampler, exact_evidence() + math.log(2.0 * math.sqrt(2.0 * math.pi)))
    draws, log_weights = sampler.sample_weighted(2000, seed=1)
    assert np.all((draws["share"] > 0) & (draws["share"] < 1))
    weights = np.exp(log_weights.astype(np.float64) - exact_evidence())
    precision = DATA.size / ERROR**2 + 0.25
    mean = DATA.sum() / ERROR**2 / precision
    share = (0.5 + SUCCESSES) / (1.0 + SUCCESSES + FAILURES)
    assert_mean(weights * (draws["mean"] - mean), 0.0, name="w (mean - its expectation)", key=1)
    assert_mean(weights * (draws["share"] - share), 0.0, name="w (share - its expectation)", key=1)
    must_fail(assert_mean, weights * (draws["mean"] - DATA.mean() - 0.1), 0.0)


@pytest.mark.slow
def test_the_evidence_and_the_posterior_are_those_of_the_closed_form_by_levels():
    sampler = tp.fit(
        log_likelihood, prior=PRIOR, seed=0, budget=6000, ladder=(8.0, 2.0, 1.0), settings=SMALL, progress=False
    )
    check_posterior(sampler)
    assert sampler.evaluations <= 6000


def test_the_evidence_and_the_posterior_are_those_of_the_closed_form():
    """The road of a default fit: searches, a reference and its referee's chains, all with a prior to carry along."""
    sampler = tp.fit(log_likelihood, prior=PRIOR, seed=0, budget=8000, settings=SMALL, progress=False)
    assert sampler.method == ONE_LEVEL and len(sampler.modes) == 1
    check_posterior(sampler)
    must_fail(check_evidence, sampler, exact_evidence() + 0.25)
    assert sampler.ledger.points["reference"] > 0 and sampler.evaluations <= 8000


def test_a_likelihood_on_numpy_arrays_takes_a_prior_and_is_counted():
    seen = []

    def on_arrays(x):
        seen.append(len(x))
        assert np.all((x > 0) & (x < 1)), "asked outside the prior"
        return -8.0 * np.sum((x - 0.3) ** 2, axis=1)

    target = tp.from_callable(on_arrays, dim=2, batched=True)
    settings = tiny_ptsd(exploration=Exploration(kernel="random_walk"))
    sampler = tp.fit(target, prior=tp.Uniform(0.0, 1.0), settings=settings, progress=False)
    assert sum(seen) == sampler.evaluations
    assert sampler.sample(4).shape == (4, 2)


class Bump(eqx.Module):
    """A likelihood about (1, 1) that may give NaN in a part of the prior; the two share one compilation."""

    last_finite: jax.Array = eqx.field(default_factory=lambda: jnp.asarray(np.inf, jnp.float32))

    def __call__(self, x):
        return jnp.where(x[0] > self.last_finite, jnp.nan, -8.0 * jnp.sum((x - 1.0) ** 2))


@pytest.mark.slow
def test_prior_and_cube_are_one_problem():
    """The same prior by its name and as a transform: the same density in normal coordinates, so the same fit."""
    options = {"dim": 2, "settings": tiny_ptsd(), "progress": False}
    log_bump = Bump()
    named = tp.fit(log_bump, prior=tp.Uniform(-1.0, 3.0), **options)
    cube = tp.fit(log_bump, prior_transform=lambda u: 4.0 * u - 1.0, **options)
    assert named.log_z == pytest.approx(cube.log_z, abs=0.05)
    np.testing.assert_allclose(np.mean(named.sample(500)), np.mean(cube.sample(500)), atol=0.05)
    bounded = tp.fit(log_bump, support=tp.interval(-1.0, 3.0), **options)
    assert bounded.log_z == pytest.approx(named.log_z + 2.0 * math.log(4.0), abs=0.01)


def test_a_likelihood_that_is_nan_on_a_part_of_the_prior_is_counted_and_told():
    """A half of the prior gives NaN: the fit ends in a sampler whose account and findings say so."""
    broken = Bump(jnp.asarray(1.0, jnp.float32))
    sampler = tp.fit(broken, dim=2, prior=tp.Uniform(-1.0, 3.0), settings=tiny_ptsd(), progress=False)
    assert sum(record.num_nonfinite for record in sampler.levels) > 0
    (finding,) = [each for each in sampler.findings if each.name == "usable values"]
    assert finding.status != "good" and "NaN" in finding.meaning
