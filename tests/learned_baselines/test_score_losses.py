"""The losses of iDEM and BNEM on a Gaussian, where the noised score and density are known."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.random_checks import assert_mean, must_fail
from tempering.baselines.bnem import BNEM
from tempering.baselines.estimator import variance
from tempering.baselines.idem import IDEM
from tempering.baselines.noised import NoisedState, Replay
from tempering.settings import BNEMSettings, IDEMSettings
from tempering.targets.densities.gaussian import Gaussian

MEAN, WIDTH, LOG_Z = np.array([0.4, -0.7]), 1.2, 0.3
CLEAN = np.array([1.1, 0.2])
"""The one point of the buffer."""
TARGET = Gaussian(MEAN, WIDTH**2 * np.eye(2), log_constant=LOG_Z)
NOISE = {"sigma_min": 0.01, "sigma_max": 1.0, "batch_size": 300}


class Score(eqx.Module):
    """A factor times the exact noised score."""

    factor: float

    def __call__(self, x, t):
        return self.factor * (jnp.asarray(MEAN, jnp.float32) - x) / (WIDTH**2 + variance(t, IDEMSettings(**NOISE)))


class Energy(eqx.Module):
    """The exact noised log density, and a little more."""

    more: float

    def __call__(self, x, t):
        total = WIDTH**2 + variance(t, IDEMSettings(**NOISE))
        squared = jnp.sum((x - jnp.asarray(MEAN, jnp.float32)) ** 2) / total
        return (-0.5 * squared - jnp.log(2 * jnp.pi * total) + LOG_Z + self.more)[None]


def losses(method, settings, network, teacher=None, num=40):
    """Of many batches."""
    replay = Replay.of(jnp.asarray(CLEAN, jnp.float32)[None], 1)
    state = NoisedState(network, teacher, None, replay, jnp.zeros((), jnp.int32))
    x = jnp.broadcast_to(replay.points, (settings.batch_size, 2))
    one = lambda key: method.loss(network, key, x, state, TARGET, settings)  # noqa: E731
    return jax.jit(lambda keys: jax.lax.map(one, keys))(jax.random.split(jax.random.key(3), num))


def mean_square_of_scores(is_weighted: bool) -> float:
    """Of the noised score at CLEAN + sqrt(h) noise, over dimensions and t, with the loss's weight: by quadrature."""
    t = (np.arange(4000) + 0.5) / 4000
    h = np.asarray(variance(jnp.asarray(t, jnp.float32), IDEMSettings(**NOISE)), np.float64)
    values = np.mean(((CLEAN - MEAN) ** 2)[None] + h[:, None], axis=1) / (WIDTH**2 + h) ** 2
    return float(np.mean(values * (h + 1e-3 if is_weighted else 1.0)))


@pytest.mark.slow
@pytest.mark.parametrize("is_weighted", [True, False])
def test_the_loss_of_idem_is_that_of_quadrature(is_weighted):
    settings = IDEMSettings(**NOISE, num_mc=400, is_weighted=is_weighted, max_score=100.0)
    # Half the score leaves a quarter of its square; the spread of estimates is what the right score leaves.
    found = losses(IDEM(), settings, Score(0.5)) - losses(IDEM(), settings, Score(1.0))
    # 12,000 rows know the mean to 1 %, and 400 points bias an estimate by less.
    expected = 0.25 * mean_square_of_scores(is_weighted)
    assert float(jnp.mean(found)) == pytest.approx(expected, rel=0.05)
    assert float(jnp.mean(found)) != pytest.approx(0.25 * mean_square_of_scores(not is_weighted), rel=0.3)


@pytest.mark.slow
def test_scores_are_clipped_before_they_are_learned():
    settings = IDEMSettings(**NOISE, num_mc=400, is_weighted=False, max_score=0.01)
    assert_mean(losses(IDEM(), settings, Score(0.0)), 0.01**2 / 2, name="square of clipped scores")
    loose = settings.with_changes({"max_score": 100.0})
    must_fail(assert_mean, losses(IDEM(), loose, Score(0.0)), 0.01**2 / 2)


@pytest.mark.slow
@pytest.mark.parametrize(("num_bootstrap_after", "num_terms"), [(None, 1.0), (0, 2.0)])
def test_the_loss_of_bnem_counts_the_noised_points_and_the_clean_one(num_bootstrap_after, num_terms):
    """An energy that is off by 0.5 costs 0.25 a term: at t, at u where estimates are bootstrapped, and at t = 0."""
    settings = BNEMSettings(**NOISE, num_mc=400, num_bootstrap=200, num_bootstrap_after=num_bootstrap_after)
    exact, off = (losses(BNEM(), settings, Energy(more), Energy(0.0), num=20) for more in (0.0, 0.5))
    assert float(jnp.mean(exact)) < 0.01, "what remains is the spread of an estimate"
    assert float(jnp.mean(off - exact)) == pytest.approx(0.25 * (num_terms + settings.clean_weight), rel=0.03)
    # The saboteurs: no term at zero noise; a teacher that is off as well.
    without = settings.with_changes({"clean_weight": 0.0})
    missing, still = (losses(BNEM(), without, Energy(more), Energy(0.0), num=20) for more in (0.0, 0.5))
    gap = still - missing
    assert float(jnp.mean(gap)) == pytest.approx(0.25 * num_terms, rel=0.03)
    if num_bootstrap_after == 0:
        misled = losses(BNEM(), settings, Energy(0.0), Energy(3.0), num=20)
        assert float(jnp.mean(misled)) > 10 * float(jnp.mean(exact))
