"""What the tests of the weights room share: samples of every kind, and draws whose log Z is known."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from support.weights import INFINITE, NAN, NO_GRADIENT, NORMAL, OUTSIDE, Odd
from tempering.runs.ledger import Ledger
from tempering.targets import Gaussian
from tempering.weights.weigh import weigh

BETA = jnp.asarray(0.5)
KINDS = [NORMAL, OUTSIDE, NAN, INFINITE, NO_GRADIENT, NORMAL, NORMAL, OUTSIDE]
LOG_Q = [0.25, 0.0, 0.0, 0.0, 0.0, np.nan, -np.inf, np.nan]


@pytest.fixture(scope="module")
def odd():
    """Eight samples, of which only the first is usable, and the ledger."""
    ledger = Ledger()
    x = jnp.asarray([[kind, 3.0] for kind in KINDS])
    return weigh(Odd(), x, jnp.asarray(LOG_Q), BETA, ledger=ledger, stage="importance_weights"), ledger


@pytest.fixture(scope="module")
def tempered_gaussian():
    """Draws from a wider Gaussian, weighed by a normalised one at beta = 0.5, whose log Z is known."""
    mean, covariance = np.array([2.0, -5.0]), np.array([[1.0, 0.9], [0.9, 2.0]])
    target = Gaussian(mean, covariance)
    proposal = stats.multivariate_normal(mean + 0.3, 3.0 * covariance)
    x = proposal.rvs(size=20_000, random_state=np.random.default_rng(5))
    log_q = jnp.asarray(proposal.logpdf(x), jnp.float32)
    weighted = weigh(target, jnp.asarray(x, jnp.float32), log_q, BETA, ledger=Ledger(), stage="final_weights")
    # integral of N(x; m, C)^beta = beta^(-d/2) |2 pi C|^((1 - beta)/2), d = 2
    log_z = -np.log(0.5) + 0.25 * np.linalg.slogdet(2 * np.pi * covariance)[1]
    return weighted, log_z, mean, covariance
