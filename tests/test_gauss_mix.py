"""The example of a mixture of normals: its density is the one that it says, and has two mirror images."""

import math
import runpy
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from tempering.lab.own_models import own_config

EXAMPLE = Path(__file__).parent.parent / "examples" / "gauss_mix" / "numpyro_model.py"
# mu, sigma, theta: the order of names; sigma and theta by their unbounded coordinates.
MU, SIGMA, THETA = np.array([-0.8, 1.4]), np.array([0.5, 1.1]), 0.4


def _point(mu, sigma, theta):
    return jnp.asarray([*mu, *np.log(sigma), math.log(theta / (1.0 - theta))], jnp.float32)


def _by_hand(y: np.ndarray) -> float:
    prior = np.sum(stats.norm.logpdf(MU, 0, 2)) + np.sum(stats.halfnorm.logpdf(SIGMA, 0, 2))
    prior += stats.beta.logpdf(THETA, 5, 5) + np.sum(np.log(SIGMA)) + math.log(THETA * (1 - THETA))
    parts = THETA * stats.norm.pdf(y, MU[0], SIGMA[0]) + (1 - THETA) * stats.norm.pdf(y, MU[1], SIGMA[1])
    return float(prior + np.sum(np.log(parts)))


@jax.numpy_rank_promotion("allow")  # NumPyro's mixtures promote ranks
def test_the_density_is_the_mixtures():
    target = own_config(f"{EXAMPLE}:model", changes=[])[1]
    y = runpy.run_path(str(EXAMPLE))["data"]["y"]
    shapes = {name: value.shape for name, value in target.structure.restore(np.ones((1, 5), np.float32)).items()}
    assert shapes == {"mu": (1, 2), "sigma": (1, 2), "theta": (1,)}
    inner = _point(MU, SIGMA, THETA)
    density = jax.jit(target.log_density)
    value = float(density(inner))
    assert value == pytest.approx(_by_hand(y), rel=1e-5)
    mirrored = _point(MU[::-1], SIGMA[::-1], 1.0 - THETA)
    assert float(density(mirrored)) == pytest.approx(value, rel=1e-6)
    assert float(density(inner.at[0].set(0.0))) != pytest.approx(value, rel=1e-4)
