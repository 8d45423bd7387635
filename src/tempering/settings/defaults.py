"""What settings leave open, chosen from the density: one set for all, but for the network that knows particles.

Consumes settings with groups that are None; produces settings with every group given.
"""

import dataclasses
from typing import Any, TypeVar

from tempering.settings.baselines import BaselineSettings
from tempering.settings.methods import MethodSettings
from tempering.settings.models import Network, Noise, Sampling, Training

__all__ = ["LARGEST_EXACT", "resolved"]

Settings = TypeVar("Settings", bound=MethodSettings | BaselineSettings)

LARGEST_EXACT = 64
"""Dimensions up to which the finished sampler's densities are exact: probes' noise would bias log Z."""
_WIDE = 16
"""Dimensions above which networks are wider, or transformers in place of an EGNN."""
_DRAW_BYTES = 2e9
_FLOATS_PER_TANGENT, _FLOATS_PROBED = 133, 2000
"""For a pair of particles in the default transformer: of each column of an exact Jacobian, or of four probes of it."""
_BOND = 0.1
"""nm, about a bond's length: radial features resolve 0.3 to 10 of them."""


def resolved(
    settings: Settings,
    dim: int,
    num_particles: int = 0,
    spatial_dim: int = 3,
    atoms: tuple[int, ...] = (),
    bonds: tuple[tuple[int, int], ...] = (),
) -> Settings:
    """The settings with every group given.

    Args:
        dim: of the coordinates that a method works in.
        num_particles, spatial_dim: of a density of particles; 0 for any other.
        atoms, bonds: of a molecule in nm, which has a network that knows who its atoms are (`settings.Network`).
    """
    if isinstance(settings, BaselineSettings):
        return settings  # nothing is left open in them but the number of steps, which the budget sets
    network = settings.network or _network(dim, num_particles, spatial_dim, atoms, bonds)
    noise = Noise() if num_particles == 0 else Noise(prior="isotropic", is_isotropic=True)
    return dataclasses.replace(
        settings,
        network=network,
        noise=settings.noise or noise,
        training=settings.training or _training(network),
        sampling=settings.sampling or _sampling(network, dim),
    )


def _network(dim: int, num_particles: int, spatial_dim: int, atoms: tuple, bonds: tuple) -> Network:
    if num_particles == 0:
        return Network(width=128 if dim <= _WIDE else 256)
    particles: dict[str, Any] = {"num_particles": num_particles, "spatial_dim": spatial_dim, "coordinate_width": 0}
    if atoms:
        particles |= {"atoms": atoms, "bonds": bonds, "unit": _BOND, "is_chiral": len(bonds) > 0}
    elif dim <= _WIDE:
        return Network("egnn", width=32, depth=3, **particles)
    return Network("particle_transformer", width=128, depth=4, **particles)


def _training(network: Network) -> Training:
    if network.kind == "egnn":
        return Training(learning_rate=5e-3, num_steps=6000, num_finetune_steps=1500)
    return Training(learning_rate=1e-3) if network.kind == "particle_transformer" else Training()


def _sampling(network: Network, dim: int) -> Sampling:
    if not network.is_of_particles:
        return Sampling()
    # A pair too close, which the flow leaves now and then, is fixed by kicks (docs/log.md).
    churned: dict[str, Any] = {"raw_solver": "churn", "raw_num_steps": 200, "churn": 80.0}
    if network.kind == "egnn":
        # A quarter fewer steps, and the weights of DW-4 are worth the same. Twice as many for draws that nobody weighs
        # halve the bias of their energies (docs/log.md).
        return Sampling(num_steps=24, **{**churned, "raw_num_steps": 400})
    return Sampling(chunk_size=_chunk_size(network.num_particles, dim), **churned)


def _chunk_size(num_particles: int, dim: int) -> int:
    """Draws at a time whose densities take no more than `_DRAW_BYTES`."""
    floats = _FLOATS_PER_TANGENT * dim if dim <= LARGEST_EXACT else _FLOATS_PROBED
    return int(min(2000, max(10, _DRAW_BYTES // (4 * floats * num_particles**2))))
