"""A prior transform's cube ends at 1 in single precision: mass beyond is told, and elsewhere nothing is."""

import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import ndtri
from scipy import stats

from tempering.adapters import as_target
from tempering.kernels import ChainState
from tempering.methods.finish import _mass_at_end
from tempering.priors.cube import cube_chart
from tempering.runs.records import Checks
from tempering.sampler.diagnosis.others import _cube
from tempering.targets.base import evaluate_many
from tempering.targets.posterior import Posterior
from tempering.transforms.triangular import Composed, Triangular
from tempering.weights.weigh import Weighted

WIDTH = 0.5


def weighted_at(centre: float, num: int = 20_000) -> tuple:
    """Draws of the exact posterior of a standard normal prior and a normal likelihood about `centre`, weighted by the
    posterior that the transform makes; log Z of these weights less the exact one; and the chart.
    """
    chart, _ = cube_chart(ndtri, 1)
    posterior = Posterior(as_target(lambda x: jnp.sum(-0.5 * ((x - centre) / WIDTH) ** 2), 1), chart)
    variance = WIDTH**2 / (1.0 + WIDTH**2)
    mean, std = variance * centre / WIDTH**2, np.sqrt(variance)
    z = np.random.default_rng(3).normal(mean, 1.5 * std, num).astype(np.float32)[:, None]
    log_q = stats.norm.logpdf(z[:, 0], mean, 1.5 * std)
    log_p, gradient = evaluate_many(posterior, jnp.asarray(z))
    log_weights = jnp.asarray(log_p - log_q, jnp.float32)
    exact = stats.norm.logpdf(centre, 0.0, np.hypot(1.0, WIDTH)) + np.log(WIDTH * np.sqrt(2.0 * np.pi))
    log_z = np.log(np.mean(np.exp(np.asarray(log_weights, np.float64))))
    return Weighted(ChainState(jnp.asarray(z), log_p, gradient), log_weights, 0), log_z - exact, chart


@pytest.mark.parametrize("centre", [0.0, 5.0, -9.0])
def test_nothing_is_said_where_the_transform_tells_points_apart(centre):
    weighted, off, chart = weighted_at(centre)
    assert abs(off) < 0.02
    (found,) = _cube(Checks(cube_end=_mass_at_end(chart, weighted)))
    assert found.status == "good"


@pytest.mark.parametrize("centre", [6.0, 7.0])
def test_mass_beyond_the_end_is_told_because_log_z_is_wrong(centre):
    weighted, off, chart = weighted_at(centre)
    assert abs(off) > 0.03
    (found,) = _cube(Checks(cube_end=_mass_at_end(chart, weighted)))
    assert found.status == "doubtful" and "`prior=`" in found.advice


def test_learned_coordinates_are_followed_to_the_cube():
    weighted, _, chart = weighted_at(7.0)
    assert _mass_at_end(Composed(chart, Triangular.identity(1)), weighted) == _mass_at_end(chart, weighted) > 0.5
    assert _mass_at_end(None, weighted) is None and _cube(Checks()) == []
