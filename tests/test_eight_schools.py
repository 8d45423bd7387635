"""The example in NumPyro, PyMC and Stan is one density, in each of the three the same to the last constant."""

import json
import math
import os
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from tempering.lab.own_models import own_config

EXAMPLES = Path(__file__).parent.parent / "examples" / "eight_schools"


def _by_hand(mu: float, log_tau: float, trans: np.ndarray) -> float:
    """Log joint density in the coordinates mu, log tau, theta_trans, with the Jacobian of the logarithm."""
    data = json.loads((EXAMPLES / "eight_schools.json").read_text())
    y, sigma, tau = np.array(data["y"]), np.array(data["sigma"]), math.exp(log_tau)
    normal = lambda x, mean, sd: -0.5 * ((x - mean) / sd) ** 2 - np.log(sd) - 0.5 * math.log(2 * math.pi)  # noqa: E731
    prior = normal(mu, 0, 5) + math.log(2 / (math.pi * 5)) - math.log1p((tau / 5) ** 2) + np.sum(normal(trans, 0, 1))
    return float(prior + np.sum(normal(y, mu + tau * trans, sigma)) + log_tau)


TRANS = np.linspace(-1.0, 0.9, 8)
POINT = jnp.asarray([1.5, 0.4, *TRANS], jnp.float32)  # mu, tau, theta_trans: the order of names
RIGHT = _by_hand(1.5, 0.4, TRANS)


def _check(target):
    shapes = {name: value.shape for name, value in target.structure.restore(np.ones((1, 10), np.float32)).items()}
    assert shapes == {"mu": (1,), "tau": (1,), "theta": (1, 8), "theta_trans": (1, 8)}
    assert float(target.log_density(POINT)) == pytest.approx(RIGHT, rel=1e-5)
    assert float(target.log_density(POINT.at[0].set(2.0))) != pytest.approx(RIGHT, rel=1e-5)


def test_in_numpyro():
    _check(own_config(f"{EXAMPLES / 'numpyro_model.py'}:model", changes=[])[1])


def test_in_pymc():
    pytest.importorskip("pymc", reason="PyMC is not installed: pip install 'tempering[pymc]'")
    _check(own_config(f"{EXAMPLES / 'pymc_model.py'}:model", changes=[])[1])


def test_in_stan():
    pytest.importorskip("bridgestan", reason="BridgeStan is not installed: pip install 'tempering[stan]'")
    if not os.environ.get("BRIDGESTAN"):
        pytest.skip("no model can be compiled: BRIDGESTAN does not name BridgeStan's sources")
    _check(tp.from_stan(EXAMPLES / "eight_schools.stan", EXAMPLES / "eight_schools.json"))
