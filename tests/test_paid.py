"""What was paid for stays of use: weights of all draws decide the verdict, and a folder holds them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.exact_sampler import LOCATION, STD, TARGET, linear_denoiser, sampler_of
from support.random_checks import assert_mean, must_fail
from support.tiny import quick_compilation
from support.unchecked import unchecked
from tempering.atlas.mixture import mixture_of
from tempering.atlas.optima import Optima, Shape
from tempering.buffer import Buffer, from_states
from tempering.kernels import ChainState
from tempering.methods.pooling import balanced, share_of_modes, together
from tempering.sampler.diagnosis.verdict import UNKNOWABLE
from tempering.sampler.load import load_sampler
from tempering.sampler.paid import FIT, Paid
from tempering.targets.base import Target
from tempering.weights.weigh import Weighted


@pytest.fixture(scope="module", autouse=True)
def compiled_quickly():
    with quick_compilation(), unchecked():
        yield


def weighted_of(log_weights) -> Weighted:
    points = jnp.zeros((len(log_weights), 2))
    states = ChainState(points, jnp.zeros(len(log_weights)), points)
    return Weighted(states, jnp.asarray(log_weights, jnp.float32), 0)


class Rare(Target):
    """The Gaussian of the exact sampler, and 8,000 times as high beyond 2.5 standard deviations of one coordinate."""

    dim: int = 3

    def log_density(self, x):
        return TARGET.inner.log_density(x) + jnp.where(x[0] > LOCATION[0] + 2.5 * STD[0], 9.0, 0.0)


def final(sampler):
    return next(finding for finding in sampler.findings if finding.name == "final weights")


def test_later_draws_withdraw_a_verdict():
    # The fit says that 0.9 of 2,000 draws count; of 2,000 new ones about 12 carry all the weight.
    sampler = sampler_of(linear_denoiser(), target=Rare())
    assert final(sampler).status == "good"
    sampler.sample_weighted(200, seed=0)
    assert final(sampler).status == "good", "fewer draws than the fit's do not overrule it"
    sampler.sample_weighted(2000, seed=1)
    found = final(sampler)
    assert found.status == "wrong" and "2,200 draws" in found.measured and "2,000 alone 0.900" in found.measured
    assert not sampler.diagnose().is_trustworthy and sampler.facts()["weighed"]["num"] == 2200
    # What the fit recorded stays as it was.
    assert sampler.ess_fraction == 0.9


def test_draws_that_agree_leave_the_verdict_as_it_is():
    sampler = sampler_of(linear_denoiser())
    sampler.sample_exact(3000, seed=1)
    sampler.sample_even(500, seed=1)
    assert final(sampler).status == "good"


def test_weights_of_the_fit_and_of_later_draws_count_together():
    paid = Paid()
    assert paid.weighed() is None
    paid.note(FIT, weighted_of(np.zeros(100)))
    assert paid.weighed().ess_fraction == pytest.approx(1.0)
    paid.note_seed(1, weighted_of(np.append(np.zeros(99), 6.0)), is_quasi_random=False)
    weights = np.exp(np.append(np.zeros(199), 6.0))
    both = paid.weighed()
    assert both.num == 200 and both.ess_fraction == pytest.approx(
        weights.sum() ** 2 / (weights**2).sum() / 200, rel=1e-4
    )
    assert both.log_z == pytest.approx(np.log(weights.mean()), rel=1e-5)
    # The same seed makes the same draws: the longer set counts, once.
    paid.note_seed(1, weighted_of(np.append(np.zeros(49), 9.0)), is_quasi_random=False)
    assert paid.weighed() == both
    paid.note_seed(1, weighted_of(np.zeros(300)), is_quasi_random=False)
    assert paid.weighed().num == 400 and paid.weighed().ess_fraction == pytest.approx(1.0)
    # Quasi-random draws are not independent: they count for the effective share, and not for log Z.
    paid.note_seed(1, weighted_of(np.full(64, 3.0)), is_quasi_random=True)
    assert paid.weighed().num == 464 and paid.weighed().log_z == pytest.approx(0.0, abs=1e-6)
    assert paid.weighed().ess_fraction < 0.9


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr("tempering.sampler.paid.MOST_WEIGHTS", 250)
    monkeypatch.setattr("tempering.sampler.paid.MOST_NUMBERS", 4 * 150)
    paid = Paid()
    for seed in range(4):
        paid.note_seed(seed, weighted_of(np.zeros(100)), is_quasi_random=False)
    assert paid.weighed().num == 250 and list(paid.draws) == ["seed-0"]


def test_a_folder_holds_what_was_paid_for(tmp_path):
    sampler = sampler_of(linear_denoiser())
    sampler.sample_weighted(50, seed=3)
    sampler.paid.level = sampler.paid.draws["seed-3"]
    sampler.paid.witnesses = (sampler.paid.level.take(jnp.arange(5)),)
    sampler.paid.optima = optima = Optima(3)
    optima.add(Shape.at(LOCATION, 1.0, np.zeros(3), -np.diag(STD**-2.0)))
    again = load_sampler(sampler.save(tmp_path), TARGET)
    assert again.facts() == sampler.facts()
    for found, wanted in zip(jax.tree.leaves(again.paid.level), jax.tree.leaves(sampler.paid.level), strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert again.paid.witnesses[0].size == 5 and list(again.paid.draws) == ["seed-3"]
    np.testing.assert_array_equal(again.paid.optima.covariance, optima.covariance)
    np.testing.assert_array_equal(again.paid.weights["seed-3"], sampler.paid.weights["seed-3"])
    (tmp_path / "samples.npz").unlink()
    bare = load_sampler(tmp_path, TARGET)
    assert bare.paid.level is None and np.isfinite(bare.sample_weighted(3)[1]).all()


def test_every_verdict_ends_with_what_no_check_can_know():
    verdict = sampler_of(linear_denoiser()).diagnose()
    assert str(verdict).splitlines()[-1] == UNKNOWABLE and "no trace" in UNKNOWABLE
    assert all(finding.measured != UNKNOWABLE for finding in verdict.findings)


# Pooling: a model that lacks one of two modes, draws at the other, samples of the first.

SHARE, LOG_Z = 0.3, 0.7
CENTRES, WIDTHS = np.array([[0.0, 0.0], [6.0, -5.0]]), np.array([1.0, 0.5])


def log_normal(x, which: int) -> np.ndarray:
    away = (np.asarray(x, np.float64) - CENTRES[which]) / WIDTHS[which]
    return -0.5 * np.sum(away**2, axis=1) - np.log(2.0 * np.pi) - 2.0 * np.log(WIDTHS[which])


def buffer_at(x) -> Buffer:
    parts = [np.log(share) + log_normal(x, which) for which, share in enumerate((1.0 - SHARE, SHARE))]
    log_density = LOG_Z + np.logaddexp(*parts)
    points = jnp.asarray(x, jnp.float32)
    return from_states(ChainState(points, jnp.asarray(log_density, jnp.float32), jnp.zeros_like(points)), "weighted")


def check_pool(buffer: Buffer) -> None:
    """Weights say that the second mode has its share."""
    weight, hits = np.asarray(buffer.weight, np.float64), np.asarray(buffer.position)[:, 0] > 3.0
    assert_mean(len(weight) * weight * (hits - SHARE), 0.0, name="w (in the second mode - its weight)")


def test_a_mode_that_the_model_lacks_has_its_weight():
    rng = np.random.default_rng(0)
    modes = mixture_of(np.ones(1), CENTRES[1:], np.eye(2)[None] * WIDTHS[1] ** 2, 8.0, 1.2)
    x = np.concatenate([rng.normal(size=(3000, 2)), np.asarray(modes.sample(jax.random.key(0), 1000))])
    draws = buffer_at(x)
    pool = balanced(draws, log_normal(x, 0), 1000, modes)
    weights = np.exp(np.asarray(pool.buffer.log_weight, np.float64) - LOG_Z)
    assert_mean(weights, 1.0, name="w / Z")
    check_pool(pool.buffer)
    assert np.mean(pool.of_modes[3000:]) > 0.99 and np.mean(pool.of_modes[:3000]) < 0.01
    # Samples of the first mode alone share its part, and no more.
    level = buffer_at(rng.normal(size=(5000, 2)))
    of_modes = share_of_modes(level, log_normal(level.position, 0), 1000, 4000, modes)
    both = together(jax.random.key(1), pool, level, of_modes)
    assert both.size == 9000
    hits = np.asarray(both.position)[:, 0] > 3.0
    assert np.asarray(both.weight)[hits].sum() == pytest.approx(np.asarray(pool.buffer.weight)[-1000:].sum(), abs=1e-3)
    # The saboteurs: weights by the model alone, and samples pooled as if they were of the whole.
    must_fail(check_pool, balanced(draws, log_normal(x, 0), 0, None).buffer)
    alone = pool._replace(of_modes=np.zeros(4000))
    wrong = together(jax.random.key(1), alone, level, np.zeros(5000))
    assert np.asarray(wrong.weight)[np.asarray(wrong.position)[:, 0] > 3.0].sum() < 0.5 * SHARE


def test_draws_of_no_use_count_as_draws():
    x = np.random.default_rng(0).normal(size=(400, 2))
    draws = buffer_at(x)
    half = jnp.where(jnp.arange(400) % 2 == 0, -jnp.inf, 0.0)
    half_used = Buffer(draws.position, draws.log_density, draws.log_density_grad, draws.origin, half)
    pool = balanced(half_used, log_normal(x, 0), 0, None)
    weights = np.asarray(pool.buffer.log_weight)
    assert np.all(np.isneginf(weights[::2])) and np.all(np.isfinite(weights[1::2]))
    clean = together(jax.random.key(0), pool, None, np.zeros(0))
    assert clean.size == 400 and np.all(np.isfinite(np.asarray(clean.log_density)))
