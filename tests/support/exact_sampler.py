"""A finished sampler that needs no fit: an untrained network whose preconditioning alone is the exact denoiser."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from support.counting import counting_target
from tempering.diffusion import Denoiser, DiffusionModel, NoiseLevels, Prior
from tempering.diffusion.networks import make_network
from tempering.runs.ledger import Ledger
from tempering.runs.records import Checks, LevelRecord
from tempering.sampler import Sampler
from tempering.settings import Network, Sampling
from tempering.targets import Gaussian

__all__ = [
    "COUNTER",
    "LOCATION",
    "LOG_Z",
    "NETWORK",
    "SIGMA_MIN",
    "STD",
    "TARGET",
    "linear_denoiser",
    "moved_denoiser",
    "sampler_of",
]

NETWORK = Network(width=8, depth=2, coordinate_width=4)
SAMPLING = Sampling(num_steps=64, chunk_size=500)
LOCATION, STD, LOG_Z = np.array([2.0, -5.0, 0.5]), np.array([0.5, 3.0, 1.2]), 1.25
SIGMA_MIN, SIGMA_MAX = 0.02, 20.0
TARGET, COUNTER = counting_target(Gaussian(LOCATION, np.diag(STD**2), log_constant=LOG_Z))


def sampler_of(denoiser, **changes) -> Sampler:
    """The sampler of `denoiser`, with facts as a fit leaves them but for `changes`."""
    location, std = (jnp.asarray(value, jnp.float32) for value in (LOCATION, STD))
    numbers = (jnp.asarray(n, jnp.float32) for n in (SIGMA_MIN, SIGMA_MAX))
    prior = Prior.diagonal(location, jnp.sqrt(SIGMA_MAX**2 + std**2))
    model = DiffusionModel(denoiser, prior, NoiseLevels(*numbers))
    levels = [LevelRecord(0, 2.0), LevelRecord(1, 1.0, ess_fraction=0.9, evaluations={"refinement": 1000})]
    facts = {
        "model": model,
        "target": TARGET,
        "method": "PTSD",
        "network": NETWORK,
        "sampling": SAMPLING,
        "levels": levels,
        "ledger": Ledger(budget=5000, points={"initial_pt": 1000, "refinement": 1000}),
        "log_z": 1.3,
        "log_z_error": 0.01,
        "ess_fraction": 0.9,
        "pareto_k": 0.25,
        "checks": Checks(pilot_temperature=2.0, pilot_rhat=1.9, pilot_is_mixed=False, num_final_draws=2000),
    }
    return Sampler(**(facts | changes))


def linear_denoiser() -> Denoiser:
    """An untrained residual network: the exact denoiser of the target, by preconditioning alone."""
    network = eqx.filter_jit(make_network)(jax.random.key(0), 3, NETWORK)
    return Denoiser(network, jnp.asarray(LOCATION, jnp.float32), jnp.asarray(STD, jnp.float32), jnp.zeros(()))


def moved_denoiser() -> Denoiser:
    """All weights away from zero, as after training, so that a lost array would show."""
    rng, denoiser = np.random.default_rng(0), linear_denoiser()
    moved = jax.tree.map(
        lambda leaf: jnp.asarray(np.asarray(leaf) + 0.1 * rng.normal(size=leaf.shape), leaf.dtype),
        eqx.filter(denoiser.network, eqx.is_inexact_array),
    )
    return eqx.tree_at(lambda d: d.network, denoiser, eqx.combine(moved, denoiser.network))
