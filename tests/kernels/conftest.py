"""What the tests of kernels share: a target whose tempered draws are exact, and the table of kernels."""

import pytest

from tempering.kernels import HMC, MALA
from tempering.targets import Gaussian, anisotropic_gaussian

KERNELS = {"mala": MALA(), "hmc": HMC(num_leapfrog=3)}


@pytest.fixture(scope="session")
def gaussian() -> Gaussian:
    """Three coordinates, correlated, off-centre, of standard deviations 0.5 to 2.5, and log Z not 0."""
    return anisotropic_gaussian(dim=3, seed=1)


@pytest.fixture(params=KERNELS.values(), ids=KERNELS.keys())
def kernel(request):
    return request.param
