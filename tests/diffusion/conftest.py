"""What the tests of the diffusion room share: an exact Gaussian in correlated coordinates, and its flow."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from support.oracle import GaussianDenoiser
from tempering.diffusion import NoiseLevels, Prior


class ExactFlow(NamedTuple):
    """A tempered Gaussian, the prior at sigma_max, and the exact law of what its flow carries to sigma_min.

    The flow is linear, so that even a prior that is not quite the noised density (it is diagonal) is carried to a
    Gaussian that is known.
    """

    denoise: GaussianDenoiser
    prior: Prior
    levels: NoiseLevels
    transport: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray

    def log_prob(self, x) -> np.ndarray:
        """The exact log density at sigma_min, in float64."""
        return multivariate_normal.logpdf(np.asarray(x, np.float64), self.mean, self.covariance)


def exact_flow(covariance, *, temperature=1.7, sigma_min=0.05, sigma_max=12.0) -> ExactFlow:
    mean = np.array([2.0, -5.0])
    denoise = GaussianDenoiser(mean, covariance, temperature)
    variance = np.diag(denoise.covariance_at(sigma_max))
    prior = Prior.diagonal(jnp.asarray(mean, jnp.float32), jnp.asarray(np.sqrt(variance), jnp.float32))
    numbers = (jnp.asarray(n, jnp.float32) for n in (sigma_min, sigma_max))
    transport = denoise.flow_map(sigma_max, sigma_min)
    carried = transport @ np.diag(variance) @ transport.T
    return ExactFlow(denoise, prior, NoiseLevels(*numbers), transport, mean, carried)


@pytest.fixture(scope="session")
def diagonal():
    """Unlike scales along the axes: the prior is exact, and so is T C + sigma_min^2 I at the end."""
    return exact_flow([[0.4, 0.0], [0.0, 3.0]])


@pytest.fixture(scope="session")
def correlated():
    """Coordinates that are not independent: every product of matrices shows."""
    return exact_flow([[1.0, 0.9], [0.9, 2.0]])
