"""What the tests of targets share: the table of targets, and everything evaluated once for each of them."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tempering.targets import Gaussian, GaussianMixture, ManyWell, Target, anisotropic_gaussian, evaluate, mog40

NUM_SAMPLES = 50_000


def _lopsided_mixture() -> GaussianMixture:
    """Three full covariances, unequal weights, off-centre, log Z not 0: a sign or a transpose shows."""
    covariances = [[[1.0, 0.6], [0.6, 0.8]], [[0.3, -0.2], [-0.2, 0.9]], [[2.0, 0.0], [0.0, 0.2]]]
    return GaussianMixture(
        [[1.0, 2.0], [-3.0, 0.5], [2.5, -2.0]], weights=[2.0, 1.0, 5.0], covariances=covariances, log_constant=-0.7
    )


TARGETS_IN_2D = {
    "gaussian": lambda: Gaussian([0.7, -1.1], [[1.5, 0.9], [0.9, 1.0]], log_constant=2.25),
    "mixture": _lopsided_mixture,
    "mixture of stds": lambda: GaussianMixture([[1.0, 0.0], [-1.0, 2.0]], [0.5, 1.2], [0.3, 0.7]),
    "many-well-2": lambda: ManyWell(2),
}
ALL_TARGETS = TARGETS_IN_2D | {
    "gaussian-1": lambda: anisotropic_gaussian(dim=1, seed=3),
    "gaussian-5": lambda: anisotropic_gaussian(dim=5, seed=1),
    "mog40": mog40,
    "many-well-6": lambda: ManyWell(6),
    "many-well-32": ManyWell,
}


class Evaluated(NamedTuple):
    """Points with what the target says of them."""

    points: np.ndarray
    log_densities: np.ndarray
    grads: np.ndarray
    indicators: np.ndarray

    def virials(self) -> np.ndarray:
        """x . grad log p at every point; its mean over exact samples is -dim, by integration by parts."""
        return np.sum(np.asarray(self.points, np.float64) * np.asarray(self.grads, np.float64), axis=1)


@eqx.filter_jit
def _judge(target: Target, points: jax.Array) -> Evaluated:
    log_densities, grads = jax.vmap(lambda x: evaluate(target, x))(points)
    return Evaluated(points, log_densities, grads, jax.vmap(target.region_indicators)(points))


@pytest.fixture(scope="session", params=ALL_TARGETS.values(), ids=ALL_TARGETS.keys())
def target(request):
    return request.param()


@pytest.fixture(scope="session", params=TARGETS_IN_2D.values(), ids=TARGETS_IN_2D.keys())
def target_in_2d(request):
    return request.param()


@pytest.fixture(scope="session")
def judge():
    """A function of (target, points) that evaluates everything at every point."""

    def judge_points(target: Target, points) -> Evaluated:
        return Evaluated(*(np.asarray(value) for value in _judge(target, jnp.asarray(points))))

    return judge_points


@pytest.fixture(scope="session")
def drawn(target, judge):
    """Exact samples of the target, evaluated."""
    sampled = eqx.filter_jit(lambda target, key: target.sample(key, NUM_SAMPLES))
    return judge(target, sampled(target, jax.random.key(11)))
