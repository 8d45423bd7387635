"""The networks of iDEM and BNEM: scores and energies of a point at a time t. Unbatched.

Vectors have an MLP on sines of every coordinate. Particles have the library's EGNN: scores turn with a configuration,
energies do not change, and both follow a relabelling of particles that are alike. It knows the atoms and bonds of a
molecule.
"""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering.baselines.estimator import variance
from tempering.diffusion.networks.egnn import EGNN
from tempering.diffusion.networks.linear import Linear
from tempering.settings import Network
from tempering.settings.score_baselines import ScoreSettings
from tempering.targets.base import Target
from tempering.types import Array, Float, Key

__all__ = ["Energy", "ParticleEnergies", "ParticleScore", "VectorScore", "energy_network", "score_network"]

_NUM_SINES = 64
_COORDINATE_SCALE = 25.0
_SLOWEST = 1e4
"""Sines, and as many cosines, of 25 times a coordinate and of t, at frequencies from 1 down to 1e-4."""
_SOFT = 1e-6
"""Added in squares to norms, which have no derivative at 0."""
_TIME_SPAN = 2.5
"""What the EGNN's features of noise resolve: t from 0 to 1 becomes 0 to 2.5."""


def _sines(x: Float[Array, " n"]) -> Float[Array, " feature"]:
    frequencies = np.geomspace(1.0, 1.0 / _SLOWEST, _NUM_SINES, dtype=np.float32)
    angles = x[:, None] * frequencies[None]
    return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=1).reshape(-1)


class VectorScore(eqx.Module):
    """iDEM's network: sines of every coordinate and of t, an entry, residual layers h + gelu(W h + b), an exit."""

    entry: Linear
    layers: tuple[Linear, ...]
    exit: Linear
    dim: int = eqx.field(static=True)

    def __init__(self, key: Key, dim: int, settings: ScoreSettings):
        self.dim = dim
        key_entry, key_exit, *keys = jax.random.split(key, 2 + settings.depth)
        self.entry = Linear(2 * _NUM_SINES * (dim + 1), settings.width, key=key_entry)
        self.layers = tuple(Linear(settings.width, settings.width, key=one) for one in keys)
        self.exit = Linear(settings.width, dim, key=key_exit)

    def __call__(self, x: Float[Array, " dim"], t: Float[Array, ""]) -> Float[Array, " dim"]:
        """The score at one point."""
        hidden = jax.nn.gelu(self.entry(_sines(jnp.concatenate([_COORDINATE_SCALE * x, t[None]]))))
        for layer in self.layers:
            hidden = hidden + jax.nn.gelu(layer(hidden))
        return self.exit(hidden)


class _Particles(eqx.Module):
    """An EGNN on coordinates over sqrt(1 + h(t)): distances stay of order one at every noise."""

    network: EGNN
    settings: ScoreSettings = eqx.field(static=True)

    def __init__(self, key: Key, target: Target, settings: ScoreSettings):
        geometry = target.geometry
        assert geometry is not None
        num, axes = geometry.num_particles, geometry.spatial_dim
        own = Network("egnn", settings.width, settings.depth, 0, False, num_particles=num, spatial_dim=axes)
        own = dataclasses.replace(own, atoms=target.atom_kinds, bonds=target.bonds)
        self.network = EGNN(key, geometry, own)
        self.settings = settings

    @property
    def dim(self) -> int:
        """Of a point."""
        return self.network.geometry.dim

    def __call__(
        self, x: Float[Array, " dim"], t: Float[Array, ""]
    ) -> tuple[Float[Array, "particle width"], Float[Array, "particle xyz"]]:
        shrunk = x * jax.lax.rsqrt(1.0 + variance(t, self.settings))
        return self.network.states_and_moves(shrunk, _TIME_SPAN * t, jnp.zeros_like(t))


class ParticleScore(eqx.Module):
    """How far an EGNN moves the particles is their score; 0 before training."""

    particles: _Particles

    def __init__(self, key: Key, target: Target, settings: ScoreSettings):
        self.particles = _Particles(key, target, settings)

    @property
    def dim(self) -> int:
        """Of a point."""
        return self.particles.dim

    def __call__(self, x: Float[Array, " dim"], t: Float[Array, ""]) -> Float[Array, " dim"]:
        """The score of one configuration."""
        _, moves = self.particles(x, t)
        return self.particles.network.geometry.restrict(moves.reshape(-1))


class Energy(eqx.Module):
    """NEM's network: log p_t = -|f| + sum f + c, with f the network of iDEM, as one part."""

    network: VectorScore
    constant: Float[Array, ""]

    def __init__(self, key: Key, dim: int, settings: ScoreSettings):
        self.network, self.constant = VectorScore(key, dim, settings), jnp.zeros(())

    @property
    def dim(self) -> int:
        """Of a point."""
        return self.network.dim

    def __call__(self, x: Float[Array, " dim"], t: Float[Array, ""]) -> Float[Array, " part"]:
        """log p_t of one point, up to a constant."""
        f = self.network(x, t)
        return (jnp.sum(f) - jnp.sqrt(jnp.sum(f * f) + _SOFT**2) + self.constant)[None]


class ParticleEnergies(eqx.Module):
    """log p_t in parts, -|v_i| + h_i of every particle, with v_i its move and h_i read from its state."""

    particles: _Particles
    read: Linear
    is_factorised: bool = eqx.field(static=True)

    def __init__(self, key: Key, target: Target, settings: ScoreSettings, is_factorised: bool):
        key_network, key_read = jax.random.split(key)
        self.particles = _Particles(key_network, target, settings)
        self.read, self.is_factorised = Linear(settings.width, 1, key=key_read), is_factorised

    @property
    def dim(self) -> int:
        """Of a point."""
        return self.particles.dim

    def __call__(self, x: Float[Array, " dim"], t: Float[Array, ""]) -> Float[Array, " part"]:
        """One part a particle, or their sum as the only part."""
        states, moves = self.particles(x, t)
        parts = jax.vmap(self.read)(states)[:, 0] - jnp.sqrt(jnp.sum(moves**2, axis=1) + _SOFT**2)
        return parts if self.is_factorised else jnp.sum(parts)[None]


def score_network(key: Key, target: Target, settings: ScoreSettings) -> Any:
    """A score (x, t) -> (dim,), freshly initialised."""
    if target.geometry is not None:
        return ParticleScore(key, target, settings)
    return VectorScore(key, target.dim, settings)


def energy_network(key: Key, target: Target, settings: ScoreSettings, is_factorised: bool) -> Any:
    """A log density in parts (x, t) -> (part,), freshly initialised."""
    if target.geometry is not None:
        return ParticleEnergies(key, target, settings, is_factorised)
    return Energy(key, target.dim, settings)
