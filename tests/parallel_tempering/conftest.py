"""What the tests of parallel tempering share: one target and one shape, so that they share their compilation."""

import jax
import pytest

from support.counting import counting_target
from tempering.kernels import MALA
from tempering.parallel_tempering import betas_of, start
from tempering.runs.ledger import Ledger
from tempering.targets import anisotropic_gaussian

TEMPERATURES = (9.0, 3.0, 1.0)
NUM_CHAINS = 100


@pytest.fixture(scope="session")
def gaussian():
    """Two coordinates, correlated, off-centre."""
    return anisotropic_gaussian(dim=2, seed=2)


@pytest.fixture(scope="session")
def counted(gaussian):
    """The same density, counted on the host, and its counter."""
    return counting_target(gaussian)


@pytest.fixture(scope="session")
def target(counted):
    return counted[0]


@pytest.fixture(scope="session")
def betas():
    return betas_of(TEMPERATURES)


@pytest.fixture(scope="session")
def started(gaussian, target, betas):
    """A state at exact draws of T = 1, every level from points of its own."""
    positions = gaussian.sample(jax.random.key(30), len(TEMPERATURES) * NUM_CHAINS)
    positions = positions.reshape((len(TEMPERATURES), NUM_CHAINS, gaussian.dim))
    state, _ = start(jax.random.key(31), target, MALA(), positions, betas, Ledger(), "initial_pt")
    return state
