"""The network of DDS and CMCD: a control u(k, x) that is given the gradient of the target (PISGRADNet).

Consumes the index of a step, a point and a gradient there; produces a vector. Unbatched. What it sees of time does not
depend on the point, so that a batch of trajectories shares it.
"""

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering.diffusion.networks.linear import Linear
from tempering.types import Array, Float, Int, Key

__all__ = ["Control"]

_NUM_FREQUENCIES = 64
_SLOWEST, _FASTEST = 0.1, 100.0
"""Frequencies of the features of k, the raw index of the step (Zhang and Chen, 2022)."""
_LARGEST_STATE, _LARGEST_GRADIENT = 1e4, 100.0
"""Every component is clipped: one wild gradient would otherwise throw a trajectory away."""
_SMALL = 1e-8
"""Of the last weights at the start: the control is then `bias` times the gradient."""


class Control(eqx.Module):
    """u(k, x) = clip(f(x, tau), 1e4) + g(tau) * clip(gradient, 100), with tau learned features of the step k.

    Args:
        bias: what g starts as, in every coordinate: 1 in DDS, 0 in CMCD.
    """

    phase: Float[Array, " frequency"]
    times: tuple[Linear, ...]
    states: tuple[Linear, ...]
    gradients: tuple[Linear, ...]

    def __init__(self, key: Key, dim: int, width: int, bias: Literal[0, 1]):
        keys = jax.random.split(key, 9)
        self.phase = jax.random.normal(keys[0], (_NUM_FREQUENCIES,))
        self.times = (Linear(2 * _NUM_FREQUENCIES, width, key=keys[1]), Linear(width, width, key=keys[2]))
        hidden = (Linear(dim + width, width, key=keys[3]), Linear(width, width, key=keys[4]))
        self.states = (*hidden, _nearly(Linear(width, dim, key=keys[5]), 0.0))
        hidden = (Linear(width, width, key=keys[6]), Linear(width, width, key=keys[7]))
        self.gradients = (*hidden, _nearly(Linear(width, dim, key=keys[8]), float(bias)))

    def __call__(
        self, k: Int[Array, ""], x: Float[Array, " dim"], gradient: Float[Array, " dim"]
    ) -> Float[Array, " dim"]:
        """The control at one point. It is not differentiated by the gradient that it is given."""
        angles = np.linspace(_SLOWEST, _FASTEST, _NUM_FREQUENCIES, dtype=np.float32) * k.astype(jnp.float32)
        angles = angles + self.phase
        time = _chain(self.times, jnp.concatenate([jnp.sin(angles), jnp.cos(angles)]))
        state = _chain(self.states, jnp.concatenate([x, time]))
        factor = _chain(self.gradients, time)
        given = jnp.clip(jax.lax.stop_gradient(gradient), -_LARGEST_GRADIENT, _LARGEST_GRADIENT)
        return jnp.clip(state, -_LARGEST_STATE, _LARGEST_STATE) + factor * given


def _chain(layers: tuple[Linear, ...], values: Float[Array, " size_in"]) -> Float[Array, " size_out"]:
    for layer in layers[:-1]:
        values = jax.nn.gelu(layer(values))
    return layers[-1](values)


def _nearly(layer: Linear, constant: float) -> Linear:
    """The layer with weights of 1e-8 and one bias."""
    new = (jnp.full_like(layer.weight, _SMALL), jnp.full_like(layer.bias, constant))
    return eqx.tree_at(lambda one: (one.weight, one.bias), layer, new)
